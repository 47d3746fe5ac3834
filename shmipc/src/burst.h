/* SPDX-License-Identifier: MIT */
/* Bursts: messages that are collected, and then written to the ring together. */
#ifndef SHMIPC_BURST_H
#define SHMIPC_BURST_H

#include "base/burst.h"
#include "layout.h"

/* An empty one, with no ring. */
static inline void burst_close(struct shmipc_burst *b)
{
	b->to = NULL;
	b->next = b->stage;
}

/* Are the next messages to this ring, so many, a burst? */
static inline bool burst_open(struct shmipc_burst *b, struct shmipc_cursor *to, uint32_t limit)
{
	burst_close(b);
	limit = limit < to->most ? limit : to->most;
	if (limit <= 1)
		return false;
	b->to = to;
	b->full = b->stage + (size_t)limit * to->stride;
	b->head = SHMIPC_HEAD(to->lap, limit, limit);
	b->stride = to->stride;
	b->limit = limit;
	b->lap = to->lap;
	return true;
}

/* Copies what is collected to its cell. */
ALWAYS_INLINE void burst_write(struct shmipc_burst *b, uint64_t head, size_t bytes)
{
	struct shmipc_slot *first = (struct shmipc_slot *)b->stage;

	first->head |= head;
	/* Pairs with the acquire in shmipc_cursor_look(). */
	burst_copy(b->to->slot, first, bytes);
	shmipc_cursor_step(b->to, shmipc_cell_after(b->to, b->to->slot));
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
