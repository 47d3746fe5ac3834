/* SPDX-License-Identifier: MIT */
/*
 * The waiting policy of every polling loop: spin briefly, then yield, then sleep.
 *
 * More threads than cores is the normal case, so a loop that finds nothing pauses
 * once per empty poll for about a microsecond, gives the core away for about a
 * hundred, and is only then allowed to sleep: a futex wake across cores costs tens
 * of microseconds, a yield to nobody well under one.
 *
 * Yields are counted, not timed, because peers that share the core use it in between, up
 * to some 200 us each turn. But where a program that never waits shares it, each yield
 * gives away a whole time slice, and two hundred of them a second: a thread that sleeps
 * gets the core back when it is woken, so then it sleeps after WAIT_CROWDED_NS.
 *
 *	struct wait w = WAIT_INIT;
 *	while (!poll(queue))
 *		if (wait_step(&w))
 *			futex_wait(word, value, timeout_ns);
 *	wait_reset(&w);
 */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

#define WAIT_SPINS 40 /* pauses of 25-45 ns: 1-2 us */
#define WAIT_YIELDS 200 /* 0.4-0.5 us each to nobody: about 100 us */
#define WAIT_CROWDED_NS (2 * NSEC_PER_MSEC) /* a slice is 3 ms or more, a peer's turn 0.2 ms */

struct wait {
	uint32_t empty; /* empty polls since the last reset */
	uint64_t yielding_ns; /* since when */
};

#define WAIT_INIT ((struct wait){0})

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
		if (w->empty++ == WAIT_SPINS)
			w->yielding_ns = clock_ns();
		sched_yield();
		if (clock_ns() - w->yielding_ns > WAIT_CROWDED_NS)
			w->empty = WAIT_SPINS + WAIT_YIELDS;
		return false;
	}
	return true;
}

#endif
