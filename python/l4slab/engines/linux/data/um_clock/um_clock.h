/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A page that every process shares with the kernel, below that of its vDSO. From it a process reads the clock in virtual
 * time without a system call, which is a change of process in User Mode Linux. A reading takes UM_CLOCK_NS of this time,
 * as one by a system call does; the kernel adds the readings up when it is entered next. Every UM_CLOCK_READS is a
 * system call, so that timers expire while a program waits by reading the clock.
 *
 * System calls take no time, so a program that waits by making them would wait for ever. A process that has made UM_CALLS
 * of them without sleeping does that: from then on until it sleeps, each takes UM_CALL_NS, as one that fails always does.
 */
#ifndef UM_CLOCK_H
#define UM_CLOCK_H

#define UM_CLOCK_NS 256		/* TIMER_MULTIPLIER of arch/um */
#define UM_CLOCK_READS 64
#define UM_CALLS 65536
#define UM_CALL_NS 1000

struct um_clock {
	unsigned long long now;		/* of the clock source, ns */
	unsigned long long reads;	/* not yet added up; the processes count them */
	long long monotonic, realtime;	/* what these clocks have more, ns */
	unsigned long long is_valid;
};

#endif
