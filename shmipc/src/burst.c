/* SPDX-License-Identifier: MIT */
/* Bursts: messages that are collected, and then written to the ring together. */
#include "base/burst.h"
#include "layout.h"

void shmipc_burst_begin(struct shmipc_burst *burst, struct shmipc_cursor *to, uint32_t limit)
{
	size_t left = (size_t)(to->end - to->slot);

	if (to->stride > SHMIPC_STAGED)
		return;
	limit = limit < SHMIPC_BURST ? limit : SHMIPC_BURST; /* the server's comes from a client */
	if (unlikely(limit * to->stride > left)) /* no burst passes the end of the ring */
		limit = (uint32_t)(left / to->stride);
	if (limit == 1)
		return;
	burst->to = to;
	burst->next = burst->stage;
	burst->full = burst->stage + limit * to->stride;
}

void shmipc_burst_copy(struct shmipc_burst *burst)
{
	size_t bytes = (size_t)(burst->next - burst->stage);

	/* Pairs with the acquire in shmipc_cursor_ready(). */
	burst_copy(burst->to->slot, burst->stage, bytes);
	shmipc_cursor_advance(burst->to, bytes);
	burst->to = NULL;
}
