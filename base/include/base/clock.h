/* SPDX-License-Identifier: MIT */
/* Monotonic time in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000ull
#define NSEC_PER_MSEC 1000000ull
#define NSEC_PER_USEC 1000ull

static inline uint64_t clock_of(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

/* Returns the time of CLOCK_MONOTONIC. A call lasts about 30 ns (vDSO). */
static inline uint64_t clock_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

/* Converts a time or a duration in nanoseconds to the C library's type. */
static inline struct timespec clock_timespec(uint64_t ns)
{
	return (struct timespec){(time_t)(ns / NSEC_PER_SEC), (long)(ns % NSEC_PER_SEC)};
}

/* Sleeps for this time, or until a signal comes. */
static inline void clock_nap(uint64_t ns)
{
	struct timespec nap = clock_timespec(ns);

	nanosleep(&nap, NULL);
}

/* The CPU time that all threads of the process have used, in user space and in the kernel. */
static inline uint64_t clock_cpu_ns(void)
{
	return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

#endif
