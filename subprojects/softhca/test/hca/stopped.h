/* SPDX-License-Identifier: MIT */
/*
 * A clock that the test may stop, for a program that is linked with the HCA. Only one file of a
 * program may include this header.
 */
#ifndef SOFTHCA_TEST_STOPPED_H
#define SOFTHCA_TEST_STOPPED_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t stopped_ns; /* the time that the clock shows, also to the HCA; 0: the real time */

int clock_gettime(clockid_t id, struct timespec *ts)
{
	uint64_t ns =
		__atomic_load_n(&stopped_ns, __ATOMIC_RELAXED); /* also for the HCA's thread */

	if (!ns)
		return (int)syscall(SYS_clock_gettime, id, ts);
	*ts = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
	return 0;
}

#endif
