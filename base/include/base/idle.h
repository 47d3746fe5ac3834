/* SPDX-License-Identifier: MIT */
/*
 * How many polls in vain until the next look at the clock, for who has promised to see
 * something (that the other side has died) within a time.
 *
 * A look at the clock takes as long as a poll in vain, so a loop that polls all the time
 * makes one every IDLE_POLLS polls. Who polls seldom looks each time.
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
#define IDLE_SELDOM_NS NSEC_PER_MSEC /* since the last look: polls are 60 us or more apart */

static inline int32_t idle_polls(uint64_t *looked_ns, uint64_t now)
{
	uint64_t since = now - *looked_ns;

	*looked_ns = now;
	return since > IDLE_SELDOM_NS ? 1 : IDLE_POLLS;
}

#endif
