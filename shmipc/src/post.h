/* SPDX-License-Identifier: MIT */
/*
 * One-way messages: posts of a client, and pushes of the server. They pass through the rings, in
 * order with requests and responses, with an id that no call has. No answer proves that they were
 * read, so the reader counts them. The reader publishes the count once for each series of
 * successive one-way messages in a burst. A post or a push reads the count only if there is no room
 * left by the last known count.
 */
#ifndef SHMIPC_POST_H
#define SHMIPC_POST_H

#include <errno.h>

#include "layout.h"

static inline bool is_one_way(const unsigned char *slot)
{
	return CELLRING_ID(cellring_head(slot)) == SHMIPC_ONE_WAY;
}

/* Returns how many posts the server has consumed since posts_look(), by its unchecked count. */
static inline uint32_t posts_news(const struct shmipc_client *c)
{
	/* Acquire: pairs with the release in shmipc_priv_server_consumed(): the cells were read. */
	uint32_t consumed = __atomic_load_n(&c->place->posts, __ATOMIC_ACQUIRE);

	return consumed - ((uint32_t)c->posts - c->posts_open);
}

/*
 * Frees the room of consumed posts. Returns 0, or -EPROTO if the server's count is impossible.
 */
static inline int posts_look(struct shmipc_client *c)
{
	uint32_t n = posts_news(c);

	if (n > c->posts_open)
		return -EPROTO;
	c->posts_open -= n;
	c->open_max += n;
	return 0;
}

/* Consumes the next message, a push with this head: calls c->push. Returns 1 or -EPROTO. */
static inline int push_take(struct shmipc_client *c, uint64_t head)
{
	uint32_t len = CELLRING_LENGTH(head);

	if (!c->push_max || len > c->resp_size)
		return -EPROTO;
	if (c->push)
		c->push(c->push_arg, cellring_payload(c->resp.slot), len);
	c->pushes++;
	cellring_next(&c->resp);
	if (c->resp.slot == c->resp.ready || !is_one_way(c->resp.slot))
		/* Release: pairs with the acquire in has_push_room(). */
		__atomic_store_n(&c->place->pushes, (uint32_t)c->pushes, __ATOMIC_RELEASE);
	return 1;
}

#endif
