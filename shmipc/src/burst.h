/* SPDX-License-Identifier: MIT */
/* Bursts: messages that are collected, and then written to the ring together. */
#ifndef SHMIPC_BURST_H
#define SHMIPC_BURST_H

#include "base/burst.h"
#include "layout.h"

/* How many messages travel together when so many are in flight. */
static inline uint32_t burst_limit(uint32_t in_flight)
{
	return in_flight >= 2 * SHMIPC_BURST ? SHMIPC_BURST :
	       in_flight < SHMIPC_FEW        ? 1 :
					       in_flight / 2;
}

/* An empty one, with no ring. */
static inline void burst_close(struct shmipc_burst *b)
{
	b->to = NULL;
	b->next = b->stage;
}

/*
 * Are the next messages to this ring, so many, a burst? Its room is the ring's at least.
 * No burst passes the end of the ring.
 */
static inline bool burst_open(struct shmipc_burst *b, struct shmipc_cursor *to, uint32_t limit)
{
	uint32_t count, left;

	burst_close(b);
	shmipc_cursor_wrap(to);
	if (to->stride > SHMIPC_STAGED)
		return false;
	left = (uint32_t)((size_t)(to->end - to->slot) / to->stride);
	count = limit < left ? limit : left;
	if (count <= 1)
		return false;
	b->to = to;
	b->full = b->stage + (size_t)count * to->stride;
	b->last = to->end - (size_t)count * to->stride;
	b->head = SHMIPC_HEAD(to->lap, limit, count);
	b->stride = to->stride;
	b->limit = limit;
	return true;
}

/* Copies what is collected to the ring; behind it there may be no room for as much. */
ALWAYS_INLINE void burst_write(struct shmipc_burst *b, uint64_t head, size_t bytes)
{
	struct shmipc_slot *first = (struct shmipc_slot *)b->stage;

	first->head |= head;
	/* Pairs with the acquire in shmipc_cursor_look(). */
	burst_copy(b->to->slot, first, bytes);
	b->to->slot += bytes;
	b->next = b->stage;
}

static inline void burst_write_full(struct shmipc_burst *b)
{
	burst_write(b, b->head, (size_t)(b->full - b->stage));
}

static inline void burst_write_part(struct shmipc_burst *b)
{
	size_t bytes = (size_t)(b->next - b->stage);

	burst_write(b, SHMIPC_HEAD(b->to->lap, b->limit, (uint32_t)bytes / b->stride), bytes);
}

#endif
