/* SPDX-License-Identifier: MIT */
/*
 * The waiting policy of every polling loop: spin briefly, then yield, then sleep.
 *
 * More threads than cores is the normal case, so a loop that finds nothing pauses
 * once per empty poll for about a microsecond, gives the core away for about a
 * hundred, and is only then allowed to sleep: a futex wake across cores costs tens
 * of microseconds, a yield to nobody well under one.
 *
 *	struct wait w = WAIT_INIT;
 *	while (!poll_something())
 *		if (wait_step(&w))
 *			sleep_until_told();
 *	wait_reset(&w);
 */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define WAIT_SPINS 40 /* pauses of 25-45 ns: 1-2 us */
#define WAIT_YIELDS 200 /* 0.4-0.5 us each to nobody: about 100 us */

struct wait {
	uint32_t empty; /* empty polls since the last reset */
};

#define WAIT_INIT { 0 }

static inline void wait_reset(struct wait *w)
{
	w->empty = 0;
}

/* After an empty poll. True when the caller should sleep instead of polling on. */
static inline bool wait_step(struct wait *w)
{
	if (likely(w->empty < WAIT_SPINS)) {
		w->empty++;
		cpu_relax();
		return false;
	}
	if (w->empty < WAIT_SPINS + WAIT_YIELDS) {
		w->empty++;
		sched_yield();
		return false;
	}
	return true;
}

#endif
