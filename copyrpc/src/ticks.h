/* SPDX-License-Identifier: MIT */
/*
 * A CPU counter that tells, with a few instructions and without a call, whether the clock has to
 * be read again: when ticks_era() has changed. An era takes between some ten microseconds and a few
 * milliseconds on every machine. If the counter jumps, the clock is read once more than necessary.
 */
#ifndef COPYRPC_TICKS_H
#define COPYRPC_TICKS_H

#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#define TICKS_SHIFT 20 /* 0.2 to 1 ms at 1 to 5 GHz */
#elif defined(__aarch64__)
#define TICKS_SHIFT 14 /* 16 us to 16 ms at 1 GHz to 1 MHz */
#else
#define TICKS_SHIFT 20 /* of nanoseconds: 1 ms */
#endif

/* At most UINT32_MAX, in 64 bits, so that other values are none of its own. */
static inline uint64_t ticks_era(void)
{
#if defined(__x86_64__)
	uint64_t low, high; /* the upper halves become 0 */

	__asm__ volatile("rdtsc\n\tshrd %2, %%edx, %%eax"
			 : "=a"(low), "=d"(high)
			 : "i"(TICKS_SHIFT)
			 : "cc");
	return low;
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return (uint32_t)(t >> TICKS_SHIFT);
#else
	return (uint32_t)(clock_ns() >> TICKS_SHIFT);
#endif
}

#endif
