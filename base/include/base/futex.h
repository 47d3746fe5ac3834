/* SPDX-License-Identifier: MIT */
/* Process-shared futexes: words in memory that several processes map. */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/*
 * Sleeps while *word == val, at most timeout_ns nanoseconds. Returns 0 after a wake-up, which may
 * be spurious, -EAGAIN if *word != val, -ETIMEDOUT or -EINTR.
 */
static inline int futex_wait(const uint32_t *word, uint32_t val, uint64_t timeout_ns)
{
	struct timespec ts = clock_timespec(timeout_ns);

	if (syscall(SYS_futex, word, FUTEX_WAIT, val, &ts, NULL, 0) == 0)
		return 0;
	return -errno;
}

/* Wakes at most n sleepers. Returns the number of those woken, or -errno. */
static inline int futex_wake(const uint32_t *word, int n)
{
	long r = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);

	return r < 0 ? -errno : (int)r;
}

#endif
