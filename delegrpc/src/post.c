/* SPDX-License-Identifier: MIT */
/*
 * A client's posts in flight. A post is consumed when its position is below the server's tail: the
 * server has then received the post, and its slot can be reserved again. A client reads the tail
 * for this only if it has no free id, if it waits for room, or in delegrpc_client_posts().
 *
 * The ids that posts occupy form a list, from the oldest post to the newest one. The ids of staged
 * posts are at its end.
 */
#include "client.h"

/* Returns the number of calls and posts that have been accepted. */
static uint64_t accepted_of(const struct client *c)
{
	return c->hot.sent + c->posted + c->hot.staged;
}

void posts_ask(struct client *c)
{
	c->asked = c->hot.posts != 0;
	c->asked_at = accepted_of(c);
}

bool posts_asked(const struct client *c)
{
	return c->asked && c->asked_at == accepted_of(c);
}

/* Returns true if posts were published and the oldest of them has been consumed. Reads the tail. */
static bool oldest_is_consumed(struct client *c)
{
	/*
	 * Acquire: pairs with the store in delegrpc_server_advance_tail(). The server has read the
	 * slots below the tail. Staged posts have no position to compare with the tail.
	 */
	c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
	return c->hot.posts > c->hot.staged_posts &&
	       (int64_t)(c->tail - c->hot.calls[c->first_post].token) > 0;
}

bool posts_take_back(struct client *c)
{
	struct delegrpc_client *client = &c->hot;
	uint32_t before = client->posts;

	while (oldest_is_consumed(c)) {
		uint32_t id = c->first_post;

		c->first_post = client->calls[id].next;
		client->calls[id].next = client->free_id;
		client->free_id = id;
		client->posts--;
	}
	return client->posts != before;
}

bool posts_room(struct client *c)
{
	if (!posts_asked(c) || !oldest_is_consumed(c))
		return false;
	c->asked = false;
	return true;
}

void posts_sent(struct client *c, uint64_t pos)
{
	struct delegrpc_client *client = &c->hot;
	uint32_t id = c->unsent_post;

	for (uint32_t n = client->staged_posts; n; n--) {
		client->calls[id].token += pos;
		id = client->calls[id].next;
	}
	c->posted += client->staged_posts;
	client->staged_posts = 0;
}

void posts_add(struct client *c)
{
	struct delegrpc_client *client = &c->hot;
	uint32_t id = client->free_id;

	client->free_id = client->calls[id].next;
	client->calls[id].token = client->staged;
	client->calls[id].next = DELEGRPC_ID_NONE;
	if (client->posts++)
		client->calls[c->last_post].next = id;
	else
		c->first_post = id;
	c->last_post = id;
	if (!client->staged_posts++)
		c->unsent_post = id;
}
