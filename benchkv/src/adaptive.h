/* SPDX-License-Identifier: MIT */
/*
 * A poll budget that follows the load. A daemon whose loop is shorter than the network's
 * round trip finds hardly any completion per loop, and each message leaves in a WRITE of its
 * own. The controller keeps rho = loop time / round trip near one: after the first poll a daemon
 * polls up to u more times, until a completion arrives.
 *
 * The controller first identifies the system: it runs ADAPTIVE_WARMUP loops with u = 0, and as many
 * with u = ADAPTIVE_PROBE. The difference in completions per loop determines the sizes of its
 * steps, and the round trip determines the largest u. The controller repeats this ADAPTIVE_AGAIN
 * loops after it has ended, and then continues with the u that it had before, or with the largest u
 * if that is less.
 */
#ifndef BENCHKV_ADAPTIVE_H
#define BENCHKV_ADAPTIVE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "decision.h"

#define ADAPTIVE_PROBE 8
#define ADAPTIVE_WARMUP 4096 /* loops of each half */
#define ADAPTIVE_AGAIN (1u << 20) /* loops between identifications */

static inline uint32_t clamp(double x, double low, double high)
{
	return (uint32_t)(x < low ? low : x > high ? high : round(x));
}

/* Observations of a daemon in one loop. */
struct adaptive_loop {
	uint32_t cqes; /* completions (not messages) of this loop; 0: the loop was empty */
	double loop_us;
	double rtt_us; /* mean round trip of the calls that ended; 0: none, use the last value */
};

struct adaptive {
	uint32_t u; /* polls after the first one */
	uint32_t u_max, step_up, step_down;
	/* Moving averages: completions, share of empty loops, loop time, round trip. */
	double b_ema, e_ema, loop_ema_us, rtt_ema_us;
	double rtt_us; /* the last round trip that was measured */
	uint32_t low_count, high_count, hold_count;
	/* Identification. */
	uint32_t phase_loops; /* loops left in this half, or until the next identification */
	uint32_t half; /* 0: with u = 0; 1: with u = ADAPTIVE_PROBE; 2: done */
	uint32_t u_before;
	uint64_t sum_cqes, sum_empty; /* of this half */
	/* Means of half 0 and half 1: completions, share of empty loops; r0: round trip in us. */
	double b0, e0, r0, b1, e1;
	double db_du, de_du; /* change of completions and of empty loops per additional poll */
	enum decision_reason why; /* of the last change of u; control_loop_end() resets it */
};

void adaptive_init(struct adaptive *a);

/* True: the daemon must poll again, after @polls polls with @cqes completions. */
static inline bool adaptive_poll_again(const struct adaptive *a, uint32_t polls, uint32_t cqes)
{
	return !cqes && polls <= a->u;
}

/* The filtered loop time divided by the filtered round trip. The controller keeps it near one. */
double adaptive_rho(const struct adaptive *a);

/* Computes the gains, the steps and the largest u from the means of the halves. */
void adaptive_identify(struct adaptive *a);

/* Must be called at the end of each loop. Changes u if necessary. */
void adaptive_step(struct adaptive *a, const struct adaptive_loop *seen);

#endif
