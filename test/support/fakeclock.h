/* SPDX-License-Identifier: MIT */
/*
 * A clock that a test sets, for code of static libraries that the test is linked with:
 *
 *	link_args: ['-Wl,--wrap=clock_gettime', '-Wl,--wrap=sched_yield']
 *
 * The test sets the time (fake.ns) and its advance at each reading (fake.step_ns).
 * Only one file of a program may include this header.
 */
#ifndef SUPPORT_FAKECLOCK_H
#define SUPPORT_FAKECLOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "base/clock.h"

static struct {
	uint64_t ns; /* the present time, a second at first */
	uint64_t step_ns; /* added at each reading */
	uint64_t looks, yields; /* readings of the clock, calls of sched_yield() */
} fake = {.ns = NSEC_PER_SEC};

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_sched_yield(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	fake.looks++;
	fake.ns += fake.step_ns;
	*ts = (struct timespec){(time_t)(fake.ns / NSEC_PER_SEC), (long)(fake.ns % NSEC_PER_SEC)};
	return 0;
}

int __wrap_sched_yield(void)
{
	fake.yields++;
	return 0;
}

#endif
