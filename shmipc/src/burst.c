/* SPDX-License-Identifier: MIT */
/* Bursts: messages that are collected, and then written to the ring together. */
#include "base/burst.h"
#include "layout.h"

void shmipc_burst_begin(struct shmipc_burst *burst, struct shmipc_cursor *to, uint32_t limit)
{
	if (to->stride > SHMIPC_STAGED)
		limit = 1;
	limit = limit < SHMIPC_BURST ? limit : SHMIPC_BURST; /* the server's comes from a client */
	limit = limit < to->room ? limit : to->room; /* no burst passes the end of the ring */
	if (limit == 1)
		return;
	burst->to = to;
	burst->next = burst->stage;
	burst->limit = limit;
	burst->room = limit;
}

void shmipc_burst_copy(struct shmipc_burst *burst)
{
	/* Pairs with the acquire in shmipc_cursor_ready(). */
	burst_copy(burst->to->slot, burst->stage, (size_t)(burst->next - burst->stage));
	shmipc_cursor_advance(burst->to, burst->limit - burst->room);
	burst->to = NULL;
}
