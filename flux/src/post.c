/* SPDX-License-Identifier: MIT */
/* Posts, see post.h. */
#include "post.h"

#include <errno.h>

#include "base/compiler.h"

int flux_post(struct flux_node *node, uint32_t to, const void *payload, uint32_t len)
{
	struct flux_out *o;
	int alone = 0;
	uint32_t id;

	if (len > node->payload_size)
		return -EMSGSIZE;
	if (to >= node->nodes)
		return -EINVAL;
	o = &node->out[to];
	if (!o->burst || flux_priv_out_full(o)) {
		alone = flux_priv_call_begin(node, o);
		if (alone < 0)
			return alone;
	}
	id = o->ids[o->ids_head++ & o->ids_mask];
	o->ids_max--;
	if (o->posts_open)
		o->tokens[o->post_last] = id;
	else
		o->post_first = id;
	o->post_last = id;
	o->posts_open++;
	o->posts++;
	if (alone)
		flux_priv_put(node, &o->req, to, FLUX_ONE_WAY, payload, len);
	else
		flux_priv_burst_add(node, o->burst, FLUX_ONE_WAY, payload, len);
	return 0;
}

uint32_t flux_posts(struct flux_node *node, uint32_t to)
{
	struct flux_out *o;

	if (to >= node->nodes)
		return 0;
	o = &node->out[to];
	/*
	 * Pairs with the store in flux_leave(). If this load misses the store, a later wait sees
	 * it.
	 */
	if (__atomic_load_n(&o->peer->left, __ATOMIC_RELAXED))
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
