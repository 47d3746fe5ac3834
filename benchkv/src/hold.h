/* SPDX-License-Identifier: MIT */
/*
 * Holds replies to a rank's own clients for a moment. Clients that get their replies together make
 * their next requests together, and these share WRITEs. Held replies are sent when their number is
 * the number of ranks, when the oldest has waited for the hold time, or when no call is outstanding
 * (no more replies would come).
 *
 * The hold time is fixed or adaptive. An adaptive one is the average time in which as many replies
 * as ranks arrive, limited to 0.5 to 100 us; and replies are not held if as many replies as ranks
 * have arrived in the same loop. The authors of the delegation backend published this control.
 */
#ifndef BENCHKV_HOLD_H
#define BENCHKV_HOLD_H

#include <stdbool.h>
#include <stdint.h>

#define HOLD_MIN_NS 500.0
#define HOLD_MAX_NS 100000.0
#define HOLD_ALPHA 0.125 /* weight of a new arrival rate */

struct hold {
	bool adaptive;
	double ns; /* the hold time; if it is adaptive, hold_arrived() changes it */
	uint32_t full; /* number of replies that are released immediately: the number of ranks */
	double rate; /* arrivals per ns, filtered; 0: not known yet */
	uint64_t last_ns; /* time of the last arrivals */
	bool healthy; /* the last replies were as many as ranks, and arrived at once */
};

/* Must be called when @n > 0 replies have arrived in one loop. */
static inline void hold_arrived(struct hold *h, uint32_t n, uint64_t now_ns)
{
	double sample = now_ns > h->last_ns ? n / (double)(now_ns - h->last_ns) : 0;

	h->healthy = n >= h->full;
	if (h->adaptive && h->last_ns && sample > 0) {
		h->rate = h->rate > 0 ? (1 - HOLD_ALPHA) * h->rate + HOLD_ALPHA * sample : sample;
		h->ns = h->full / h->rate;
		h->ns = h->ns < HOLD_MIN_NS ? HOLD_MIN_NS :
			h->ns > HOLD_MAX_NS ? HOLD_MAX_NS :
					      h->ns;
	}
	h->last_ns = now_ns;
}

/* True: the @held replies, the oldest of which was held at @since_ns, must be sent now. */
static inline bool hold_release(const struct hold *h, uint32_t held, uint64_t since_ns,
	uint64_t now_ns, uint32_t outstanding)
{
	return held >= h->full || !outstanding || (double)(now_ns - since_ns) >= h->ns ||
	       (h->adaptive && h->healthy);
}

#endif
