/* SPDX-License-Identifier: MIT */
/* Posts, see post.h. */
#include "post.h"

int flux_post(struct flux_node *node, uint32_t to, const void *payload, uint32_t len)
{
	return flux_priv_send(node, to, payload, len, 1, 0);
}

uint32_t flux_posts(struct flux_node *node, uint32_t to)
{
	struct flux_out *o;

	if (to >= node->nodes)
		return 0;
	o = &node->out[to];
	if (has_left(o->peer)) /* if this load misses the store, a later wait sees it */
		return 0;
	posts_look(o);
	posts_ask(node, to);
	return o->posts_open;
}

/*
 * Counts a consumed post. Publishes the count, unless the next message of the burst is a post, too.
 */
void flux_priv_consumed(struct flux_node *node, struct flux_in *in)
{
	const struct cellring_cursor *at = &in->req;

	in->posts++;
	if (at->slot != at->ready && CELLRING_ID(cellring_head(at->slot)) == FLUX_ONE_WAY)
		return;
	/* Release: pairs with the acquire in posts_news(), after the payload was read. */
	__atomic_store_n(in->consumed, (uint32_t)in->posts, __ATOMIC_RELEASE);
	/* The next flush checks whether the sender sleeps, as after a burst. */
	flux_priv_mark_unfenced(node, in->from);
	node->unfenced++;
	node->vain = 0;
}
