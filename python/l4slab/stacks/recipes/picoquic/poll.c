// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * picoquic's loop knows in microseconds when it has to send next, but tells poll() whole milliseconds: below one it polls
 * without waiting, and reads the clock until the time has come. In virtual time that takes for ever. Here such a poll
 * waits for its sockets as long as a machine would poll in vain a few dozen times.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <time.h>

#define WAIT_NS 20000

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec wait = { timeout_ms / 1000, timeout_ms % 1000 * 1000000 };
	static __thread int is_exact;

	if (!timeout_ms) {
		/* Else the kernel takes 50 us more. */
		if (!is_exact)
			is_exact = !prctl(PR_SET_TIMERSLACK, 1);
		wait.tv_nsec = WAIT_NS;
	}
	return ppoll(fds, n, timeout_ms < 0 ? NULL : &wait, NULL);
}

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout_ms, size_t size)
{
	(void)size;
	return poll(fds, n, timeout_ms);
}
