/* SPDX-License-Identifier: MIT */
/*
 * A CPU counter that limits how often the clock is read: only when ticks_era() has changed.
 * ticks_era() takes a few instructions and no function call. An era lasts between ten microseconds
 * and some milliseconds on every machine. If the counter jumps, the clock is read once more than
 * necessary.
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
#define TICKS_SHIFT 20 /* the counter is in nanoseconds: 1 ms */
#endif

/* Returns at most UINT32_MAX, so that larger 64-bit values can mean that there is no era. */
static inline uint64_t ticks_era(void)
{
#if defined(__x86_64__)
	uint64_t low, high; /* rdtsc sets the upper halves to 0 */

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
