/* SPDX-License-Identifier: MIT */
/* Bursts: messages that are collected, and then written to the ring together. */
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

/*
 * The consumer looks at the first head only, so all the rest is copied before. In scalar
 * words for the reason that shmipc_copy() gives.
 */
void shmipc_burst_copy(struct shmipc_burst *burst)
{
	const uint64_t *from = (const uint64_t *)burst->stage;
	uint64_t *to = (uint64_t *)burst->to->slot;
	size_t words = (size_t)(burst->next - burst->stage) / sizeof(*from);

#pragma GCC unroll 4
	for (size_t i = 1; i < words; i++) {
		uint64_t word = from[i];

		__asm__("" : "+r"(word));
		to[i] = word;
	}
	/* Release: pairs with the acquire in shmipc_cursor_ready(). */
	__atomic_store_n(to, *from, __ATOMIC_RELEASE);
	shmipc_cursor_advance(burst->to, burst->limit - burst->room);
	burst->to = NULL;
}
