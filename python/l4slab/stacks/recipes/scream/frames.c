// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Tells l4slab of the frames of scream_bw_test_tx and scream_bw_test_rx, whose code stays as it is. A line per frame has the
 * number of the call, the RTP timestamp, ns of the realtime clock, and bytes of media. The sender writes it when the frame has left, with the
 * time of its capture, which is the RTP timestamp; the receiver when the last packet has come. What the programs write themselves is dropped.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HEADER 12

static FILE *lines;
static const char *call;
static long long begun;

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

__attribute__((constructor)) static void begin(void)
{
	call = getenv("SCREAM_CALL");
	lines = fdopen(dup(STDOUT_FILENO), "w");
	setvbuf(lines, NULL, _IOLBF, 0);
	freopen("/dev/null", "w", stdout);
	/* The clock of RTP timestamps begins a millisecond before the program. */
	begun = now() - 1000000;
	if (getenv("SCREAM_SENDS"))
		fprintf(lines, "%s 0 %lld 0\n", call, now());
}

struct packet {
	int is_last;
	uint16_t number;
	uint32_t stamp;
};

static int parsed(const unsigned char *buf, long size, struct packet *packet)
{
	if (size <= HEADER || buf[0] != 0x80 || buf[1] == 0x7f)
		return 0;
	packet->is_last = buf[1] >> 7;
	memcpy(&packet->number, buf + 2, 2);
	memcpy(&packet->stamp, buf + 4, 4);
	packet->number = ntohs(packet->number);
	packet->stamp = ntohl(packet->stamp);
	return 1;
}

ssize_t sendto(int fd, const void *buf, size_t size, int flags, const struct sockaddr *to, socklen_t length)
{
	static ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
	static long bytes;
	struct packet packet;

	if (!next)
		next = dlsym(RTLD_NEXT, "sendto");
	if (getenv("SCREAM_SENDS") && parsed(buf, size, &packet)) {
		bytes += size - HEADER;
		if (packet.is_last) {
			fprintf(lines, "%s %u %lld %ld\n", call, packet.stamp, begun + packet.stamp * 100000LL / 9, bytes);
			bytes = 0;
		}
	}
	return next(fd, buf, size, flags, to, length);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
	static ssize_t (*next)(int, struct msghdr *, int);
	static uint16_t expected;
	static uint32_t stamp;
	static long bytes;
	static int is_whole;
	struct packet packet;

	if (!next)
		next = dlsym(RTLD_NEXT, "recvmsg");
	ssize_t size = next(fd, message, flags);
	if (!parsed(message->msg_iov[0].iov_base, size, &packet))
		return size;
	if (packet.stamp != stamp || !bytes) {
		is_whole = 1;
		bytes = 0;
	}
	is_whole &= packet.number == expected;
	expected = packet.number + 1;
	stamp = packet.stamp;
	bytes += size - HEADER;
	if (packet.is_last) {
		if (is_whole)
			fprintf(lines, "%s %u %lld %ld\n", call, stamp, now(), bytes);
		bytes = 0;
	}
	return size;
}
