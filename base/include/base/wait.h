/* SPDX-License-Identifier: MIT */
/*
 * A waiting policy for polling loops: spin briefly, then yield, then sleep.
 *
 * Usually there are more threads than cores. A loop that finds nothing therefore first spins for
 * about a microsecond, with one pause instruction after each empty poll. Then it yields the core
 * after each empty poll, for about a hundred microseconds, and only then may sleep: a futex wake
 * across cores costs tens of microseconds; a yield costs less than one microsecond if no other
 * thread is runnable.
 *
 * Yields are counted: other waiting threads on the same core may run for about 200 us between two
 * yields, so a time limit of 100 us would end after one yield. There is a second, longer limit,
 * WAIT_CROWDED_NS since the first yield: if a program that never waits shares the core, each yield
 * takes a whole time slice, and two hundred yields take a second, whereas a thread that sleeps gets
 * the core back as soon as it is woken.
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
#define WAIT_YIELDS 200 /* 0.4-0.5 us each on an idle core: about 100 us */
#define WAIT_CROWDED_NS (2 * NSEC_PER_MSEC) /* less than a time slice, which is >= 3 ms */

struct wait {
	uint32_t empty; /* empty polls since the last reset, up to WAIT_SPINS + WAIT_YIELDS */
	uint64_t yielding_ns; /* time of the first yield */
};

#define WAIT_INIT ((struct wait){0})

static inline void wait_reset(struct wait *w)
{
	w->empty = 0;
}

/*
 * Must be called after an empty poll. Returns true if the caller should sleep instead of polling.
 */
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
