// SPDX-License-Identifier: MIT OR Apache-2.0
/* The vDSO: the clock of the page in um_clock.h, else a system call, which User Mode Linux traps. */
#define DISABLE_BRANCH_PROFILING
#include <vdso/gettime.h>
#include <linux/time.h>
#include <asm/unistd.h>
#include "um_clock.h"

#define SECOND 1000000000ull

/* A page below that of the code, which is one page. */
static inline volatile struct um_clock *shared(void)
{
	unsigned long here;

	asm("lea 0(%%rip), %0" : "=r" (here));
	return (volatile struct um_clock *)((here & ~4095ul) - 4096);
}

static inline long call(long number, long first, long second)
{
	long ret;

	asm volatile("syscall" : "=a" (ret) : "0" (number), "D" (first), "S" (second) : "rcx", "r11", "memory");
	return ret;
}

/* ns of the clock; 0: by a system call. */
static inline unsigned long long reading(int is_realtime)
{
	volatile struct um_clock *clock = shared();
	unsigned long long reads = clock->reads + 1;

	if (!clock->is_valid || reads >= UM_CLOCK_READS)
		return 0;
	clock->reads = reads;
	return clock->now + reads * UM_CLOCK_NS + (is_realtime ? clock->realtime : clock->monotonic);
}

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *ts)
{
	unsigned long long ns = 0;

	if (clock == CLOCK_MONOTONIC || clock == CLOCK_REALTIME)
		ns = reading(clock == CLOCK_REALTIME);
	if (!ns)
		return call(__NR_clock_gettime, clock, (long)ts);
	ts->tv_sec = ns / SECOND;
	ts->tv_nsec = ns % SECOND;
	return 0;
}
int clock_gettime(clockid_t, struct __kernel_timespec *) __attribute__((weak, alias("__vdso_clock_gettime")));

int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	unsigned long long ns = tv && !tz ? reading(1) : 0;

	if (!ns)
		return call(__NR_gettimeofday, (long)tv, (long)tz);
	tv->tv_sec = ns / SECOND;
	tv->tv_usec = ns % SECOND / 1000;
	return 0;
}
int gettimeofday(struct __kernel_old_timeval *, struct timezone *) __attribute__((weak, alias("__vdso_gettimeofday")));

__kernel_old_time_t __vdso_time(__kernel_old_time_t *t)
{
	return call(__NR_time, (long)t, 0);
}
__kernel_old_time_t time(__kernel_old_time_t *t) __attribute__((weak, alias("__vdso_time")));
