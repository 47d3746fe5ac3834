/* SPDX-License-Identifier: MIT */
/* Posts and pushes, see post.h. */
#include <errno.h>

#include "post.h"

/* ---- posts: the client ---- */

int shmipc_client_post(struct shmipc_client *c, const void *req, uint32_t len)
{
	uint32_t open = shmipc_client_pending(c);

	if (len > c->req_size)
		return -EMSGSIZE;
	if (open >= c->open_max) {
		int err = shmipc_priv_client_refused(c);

		if (err != -EAGAIN || c->asked != SHMIPC_ASKED_ROOM)
			return err;
	}
	open += c->posts_open;
	c->open_max--;
	c->posts_open++;
	c->posts++;
	c->asked = SHMIPC_ASKED_NOT;
	shmipc_priv_client_put(c, open, SHMIPC_ONE_WAY, req, len);
	return 0;
}

/* ---- posts: the server ---- */

void shmipc_priv_server_consumed(struct shmipc_server *s)
{
	const struct shmipc_visit *visit = &s->visits[s->visit];
	struct shmipc_peer *peer = visit->peer;

	s->posts++;
	peer->posts++;
	if (peer->req.slot != visit->until && is_one_way(peer->req.slot))
		return; /* the count is published after the last of successive posts */
	/* Release, after the payload was read: pairs with the acquire in posts_news(). */
	__atomic_store_n(&peer->place->posts, peer->posts, __ATOMIC_RELEASE);
	shmipc_priv_server_published(s, peer); /* the client may wait for room */
}

/* ---- pushes: the server ---- */

/* The client's count is not trusted: an impossible value means that there is no room. */
static bool has_push_room(const struct shmipc_server *s, struct shmipc_peer *peer)
{
	if (peer->pushes - peer->pushes_seen < s->push_max)
		return true;
	/* Acquire: pairs with the release in push_take(): the cells have been read. */
	peer->pushes_seen = __atomic_load_n(&peer->place->pushes, __ATOMIC_ACQUIRE);
	return peer->pushes - peer->pushes_seen < s->push_max;
}

int shmipc_server_push(struct shmipc_server *s, uint32_t index, const void *msg, uint32_t len)
{
	struct shmipc_peer *peer;

	if (index >= s->max_clients || !s->push_max)
		return -EINVAL;
	peer = &s->peers[index];
	if (peer->handle == UINT64_MAX)
		return -EPIPE;
	if (len > s->resp_size)
		return -EMSGSIZE;
	if (!has_push_room(s, peer)) {
		s->refused_pushes++;
		shmipc_priv_server_publish(s); /* the client consumes only published messages */
		return -EAGAIN;
	}
	peer->pushes++;
	s->pushes++;
	shmipc_priv_server_put(s, peer, SHMIPC_ONE_WAY, msg, len);
	return 0;
}

/* ---- pushes: the client ---- */

void shmipc_client_pushes(struct shmipc_client *c, shmipc_push_fn *fn, void *arg)
{
	c->push = fn;
	c->push_arg = arg;
}
