/* SPDX-License-Identifier: MIT */
/*
 * A CPU counter that tells, with a few instructions and without a call, whether the clock has to
 * be read again. TICKS_LOOK counts take between some ten microseconds and a few milliseconds on
 * every machine. If the counter jumps, the clock is read once more than necessary.
 */
#ifndef COPYRPC_TICKS_H
#define COPYRPC_TICKS_H

#include <stdint.h>

#include "base/clock.h"

#if defined(__x86_64__)
#define TICKS_LOOK (1u << 20) /* 0.2 to 1 ms at 1 to 5 GHz */
#elif defined(__aarch64__)
#define TICKS_LOOK (1u << 14) /* 16 us to 16 ms at 1 GHz to 1 MHz */
#else
#define TICKS_LOOK (1u << 20) /* of nanoseconds: 1 ms */
#endif

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return clock_ns();
#endif
}

#endif
