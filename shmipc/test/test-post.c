/* SPDX-License-Identifier: MIT */
/* One-way messages of shmipc, and counts of them that another process has forged. */
#include "rpc.h"
#include "support/rpcpost.h"
#include "layout.h"

static struct shmipc_attr post_attr(uint32_t depth, uint32_t size, uint32_t pushes)
{
	return (struct shmipc_attr){.size = sizeof(struct shmipc_attr),
		.max_clients = 2,
		.depth = depth,
		.req_size = size,
		.resp_size = size,
		.pushes = pushes};
}

/* A client refuses impossible counts of its consumed posts. */
TEST(forged_counts_of_posts)
{
	static const uint32_t forged[] = {3, UINT32_MAX, 1u << 31};
	struct post_pair p;

	for (uint32_t i = 0; i < 2 * ARRAY_SIZE(forged); i++) {
		post_begin(&p, 4, 24, 1);
		CHECK_EQ(post_one(&p, false), 0);
		CHECK_EQ(post_one(&p, false), 0);
		p.c->place->posts = forged[i / 2];
		if (i % 2) {
			CHECK_EQ(shmipc_client_posts(p.c), 2);
		} else {
			CHECK_EQ(post_one(&p, true), 0);
			CHECK_EQ(post_one(&p, true), 0);
		}
		CHECK_EQ(post_one(&p, false), -EPROTO);
		CHECK_EQ(post_one(&p, true), -EPROTO);
		CHECK_EQ(shmipc_client_poll(p.c, post_on_response, &p), -EPROTO);
		CHECK_EQ(shmipc_client_posts(p.c), 2);
		post_end(&p);
	}
}

static void push_until_full(struct post_pair *p)
{
	CHECK_EQ(post_one(p, false), 0);
	CHECK_EQ(shmipc_client_posts(p->c), 1);
	CHECK_EQ(post_receive(p, 1), 1);
	CHECK(post_push(p) && post_push(p));
	CHECK(!post_push(p));
}

/*
 * A server does not push to a client whose count is impossible. For the next client in the place
 * the count begins at 0.
 */
TEST(forged_counts_of_pushes)
{
	static const uint32_t forged[] = {5, UINT32_MAX, 1u << 31};
	AT_END(post_end) struct post_pair p;

	post_begin(&p, 4, 24, 2);
	for (uint32_t i = 0; i < ARRAY_SIZE(forged); i++) {
		push_until_full(&p);
		CHECK_EQ(shmipc_client_poll(p.c, post_on_response, &p), 2);
		CHECK_EQ(p.c->place->pushes, 2);
		CHECK(post_push(&p) && post_push(&p));
		p.c->place->pushes = forged[i];
		for (int k = 0; k < 100; k++)
			CHECK(!post_push(&p));
		shmipc_client_disconnect(p.c);
		CHECK_EQ(shmipc_server_poll(p.s), 0);
		CHECK_EQ(shmipc_client_connect(test_name, NULL, &p.c), 0);
		CHECK_EQ(shmipc_server_poll(p.s), 0);
	}
	push_until_full(&p); /* the next client's count begins at 0 */
}

/* Room that a refused call has found cannot be used after the end of the server. */
TEST(room_ends_with_the_server)
{
	struct post_pair p;

	post_begin(&p, 4, 24, 0);
	while (!post_one(&p, false))
		;
	CHECK_EQ(post_receive(&p, 4), 4);
	CHECK_EQ(post_one(&p, true), -EAGAIN);
	shmipc_server_destroy(p.s);
	while (!shmipc_client_poll(p.c, post_on_response, &p))
		;
	CHECK_EQ(shmipc_client_wait(p.c, SHMIPC_FOREVER), -EPIPE);
	CHECK_EQ(post_one(&p, false), -EPIPE);
	CHECK_EQ(post_one(&p, true), -EPIPE);
	shmipc_client_disconnect(p.c);
}

/* Writes the next message of a ring, as a hostile process would. */
static void forge(struct cellring_cursor *ring, uint32_t length)
{
	cellring_put(ring, SHMIPC_ONE_WAY, NULL, 0);
	((struct cellring_message *)(void *)ring->begin)->head |= CELLRING_MESSAGE(0, length);
}

TEST(forged_one_way_messages)
{
	struct post_pair p;

	for (uint32_t i = 0; i < 2; i++) {
		post_begin(&p, 4, 24, i);
		/* In round 0 no push is allowed, in round 1 the push is too long. */
		forge(&p.s->peers[0].resp, i ? 25 : 24);
		CHECK_EQ(shmipc_client_poll(p.c, post_on_response, &p), -EPROTO);
		forge(&p.c->req, 25);
		CHECK_EQ(shmipc_server_poll(p.s), 1);
		CHECK_EQ(post_receive(&p, 1), 0);
		CHECK_EQ(server_stats_of(p.s).bad_requests, 1);
		CHECK_EQ(server_stats_of(p.s).posts, 0);
		post_end(&p);
	}
}
