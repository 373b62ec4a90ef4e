/* Random numbers by L4SLAB_SEED, where it is set, so that two runs of one description draw the same. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t getrandom(void *to, size_t size, unsigned int flags)
{
	static uint64_t drawn;
	const char *seed = getenv("L4SLAB_SEED");

	if (!seed)
		return syscall(SYS_getrandom, to, size, flags);
	for (size_t at = 0; at < size; at += 8) {
		/* SplitMix64 */
		uint64_t z = strtoull(seed, NULL, 10) + 0x9e3779b97f4a7c15 * __atomic_add_fetch(&drawn, 1, __ATOMIC_RELAXED);

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		z ^= z >> 31;
		memcpy((char *)to + at, &z, size - at < 8 ? size - at : 8);
	}
	return size;
}

int getentropy(void *to, size_t size)
{
	return getrandom(to, size, 0) == (ssize_t)size ? 0 : -1;
}
