/* SPDX-License-Identifier: MIT */
/*
 * Posts: messages without a response. They pass through the ring of the calls, in order with the
 * calls, with an id that no call has. No answer proves that a post was read, so the receiver counts
 * the posts. It publishes the count once for each series of successive posts in a burst. The sender
 * reads the count only when it has no room left or waits for room, and in flux_posts().
 */
#ifndef FLUX_POST_H
#define FLUX_POST_H

#include <assert.h>

#include "network.h"

/* Returns how many posts the peer has consumed since the last posts_look(). */
static inline uint32_t posts_news(const struct flux_out *o)
{
	/* Acquire: pairs with the release in flux_priv_consumed(): the cells were read. */
	uint32_t consumed = __atomic_load_n(o->consumed, __ATOMIC_ACQUIRE);

	return consumed - ((uint32_t)o->posts - o->posts_open);
}

/* Frees the ids of the posts that the peer has consumed. Returns their number. */
static inline uint32_t posts_look(struct flux_out *o)
{
	uint32_t n = posts_news(o);

	assert(n <= o->posts_open);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t id = o->post_first;

		o->post_first = (uint32_t)o->tokens[id];
		o->ids[o->ids_tail++ & o->ids_mask] = id;
	}
	o->ids_max += n;
	o->posts_open -= n;
	return n;
}

/* Makes one later wait end when this peer has consumed posts. */
static inline void posts_ask(struct flux_node *node, uint32_t peer)
{
	if (node->out[peer].posts_open)
		node->room_asked[peer / 64] |= 1ull << peer % 64;
}

#endif
