/* SPDX-License-Identifier: MIT */
/*
 * A poll budget that follows the load: a daemon whose loop is shorter than the network's
 * round trip finds hardly any completion per loop, and every request travels alone. The
 * controller keeps loop time / round trip (rho) near one by polling up to u times more
 * before the loop goes on, unless a completion comes first.
 *
 * It identifies itself first: WARMUP loops with u = 0, as many with u = ADAPTIVE_PROBE;
 * from the difference come the sizes of its steps, from the round trip the largest u.
 * Every ADAPTIVE_AGAIN loops it does so again, and then goes on from the u that it had.
 */
#ifndef BENCHKV_ADAPTIVE_H
#define BENCHKV_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#define ADAPTIVE_PROBE 8
#define ADAPTIVE_WARMUP 4096 /* loops of each half */
#define ADAPTIVE_AGAIN (1u << 20) /* loops between identifications */

/* Observations of a daemon in one loop. */
struct adaptive_loop {
	uint32_t cqes; /* completions, not messages: the b of this loop; 0: it was empty */
	double loop_us;
	double rtt_us; /* mean of the calls that ended in it; 0: none did, the last one stands */
};

/* Why u was set. */
enum adaptive_why {
	ADAPTIVE_LEFT, /* it was not */
	ADAPTIVE_SHORT, /* loops are short */
	ADAPTIVE_EMPTY, /* loops are empty */
	ADAPTIVE_LONG, /* loops are long, and few are empty */
	ADAPTIVE_COLLAPSED,
	ADAPTIVE_FIRST, /* half of the identification begins */
	ADAPTIVE_SECOND,
	ADAPTIVE_IDENTIFIED,
};

struct adaptive {
	uint32_t u; /* polls more than one */
	uint32_t u_max, step_up, step_down;
	/* Filtered: completions, empty loops, loop time, round trip. */
	double b_ema, e_ema, loop_ema_us, rtt_ema_us;
	double rtt_us; /* the last one that was measured */
	uint32_t low_count, high_count, hold_count;
	/* Identification. */
	uint32_t phase_loops; /* that are left of this half, or until the next time */
	uint32_t half; /* 0: with u = 0; 1: with u = ADAPTIVE_PROBE; 2: done */
	uint32_t u_before;
	uint64_t sum_cqes, sum_empty; /* of this half */
	double b0, e0, r0, b1, e1; /* means of the halves; r0 in us */
	double db_du, de_du; /* what follows: completions, and empty loops, per poll */
	enum adaptive_why why; /* the last time; for whoever has reset it */
};

void adaptive_init(struct adaptive *a);

/* After `polls` polls that brought `cqes` completions: poll again before going on? */
static inline bool adaptive_poll_again(const struct adaptive *a, uint32_t polls, uint32_t cqes)
{
	return !cqes && polls <= a->u;
}

/* Loop time over round trip, both filtered: what the controller keeps near one. */
double adaptive_rho(const struct adaptive *a);

/* The gains, steps and the largest u that follow from the means of the halves. */
void adaptive_identify(struct adaptive *a);

/* The end of a loop: changes u, perhaps. */
void adaptive_step(struct adaptive *a, const struct adaptive_loop *seen);

#endif
