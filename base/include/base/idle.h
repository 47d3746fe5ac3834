/* SPDX-License-Identifier: MIT */
/*
 * Computes the number of empty polls until the clock is read again, in a loop that must notice an
 * event (such as the death of a peer) within a certain time.
 *
 * Reading the clock takes as long as an empty poll, so a loop that polls continuously reads it
 * every IDLE_POLLS polls. If more than IDLE_SELDOM_NS has passed since the last reading, the loop
 * polls seldom, and reads the clock at the next poll.
 *
 *	if (--idle_left > 0)
 *		return;
 *	now = clock_ns();
 *	idle_left = idle_polls(&looked_ns, now);
 */
#ifndef BASE_IDLE_H
#define BASE_IDLE_H

#include "base/clock.h"

#define IDLE_POLLS 16
#define IDLE_SELDOM_NS NSEC_PER_MSEC /* 16 polls of more than 62.5 us each take longer */

static inline int32_t idle_polls(uint64_t *looked_ns, uint64_t now)
{
	uint64_t since = now - *looked_ns;

	*looked_ns = now;
	return since > IDLE_SELDOM_NS ? 1 : IDLE_POLLS;
}

#endif
