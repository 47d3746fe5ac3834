/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: one-way messages. A program first includes the layer's test/rpc.h,
 * and defines post_attr().
 */
#ifndef SUPPORT_RPCPOST_H
#define SUPPORT_RPCPOST_H

#include <errno.h>
#include <stdbool.h>

#include "support/fdtest.h"
#include "support/rpcnew.h"

#define POST_MAX 1024 /* bytes of the longest message */

/* Returns the attributes of a region for two clients with messages of @size bytes. */
static struct rpc_attr post_attr(uint32_t depth, uint32_t size, uint32_t pushes);

/* A message is a number, repeated. */
static inline uint32_t post_fill(unsigned char *buf, uint32_t size, uint32_t n)
{
	uint32_t len = 4 + n % (size - 3);

	memcpy(buf, &n, 4);
	memset(buf + 4, (int)(n & 0xff), len - 4);
	return len;
}

static inline uint32_t post_check(const void *msg, uint32_t size, uint32_t len)
{
	const unsigned char *buf = msg;
	uint32_t n;

	memcpy(&n, buf, 4);
	CHECK_EQ(len, 4 + n % (size - 3));
	for (uint32_t i = 4; i < len; i++)
		CHECK_EQ(buf[i], n & 0xff);
	return n;
}

struct post_pair {
	struct rpc_server *s;
	struct rpc_client *c;
	uint32_t depth, size, pushes;
	uint64_t rng;
	uint32_t made, received, got, pushed; /* messages of both directions, numbered from 0 */
	struct rpc_req held[64];
	uint32_t n_held;
};

static inline void post_begin(struct post_pair *p, uint32_t depth, uint32_t size, uint32_t pushes)
{
	struct rpc_attr attr = post_attr(depth, size, pushes);

	*p = (struct post_pair){.depth = depth, .size = size, .pushes = pushes, .rng = 1};
	p->s = server_with(&attr);
	p->c = client_new();
	CHECK_EQ(RPC(server_poll)(p->s), 0);
}

static inline void post_end(struct post_pair *p)
{
	RPC(client_disconnect)(p->c);
	RPC(server_destroy)(p->s);
}

static inline int post_one(struct post_pair *p, bool call)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->made);
	int err =
		call ? RPC(client_call)(p->c, buf, len, p->made) : RPC(client_post)(p->c, buf, len);

	p->made += err == 0;
	return err;
}

/* Receives at most max messages, in the order in which they were made. Returns the posts. */
static inline uint32_t post_receive(struct post_pair *p, uint32_t max)
{
	uint32_t posts = 0, n = 0;
	struct rpc_req r;

	while (n < max && RPC(server_poll)(p->s) > 0)
		for (; n < max && rpc_recv(p->s, &r); n++) {
			CHECK_EQ(post_check(r.payload, p->size, r.len), p->received);
			p->received++;
			if (r.id == RPC_CONSTANT(POST)) {
				posts++;
				CHECK_EQ(RPC(server_reply)(p->s, r.client, r.id, "", 0), -EINVAL);
			} else {
				p->held[p->n_held++] = r;
			}
		}
	rpc_taken(p->s);
	return posts;
}

/* Pushes and answers are numbered together, because they come in the order in which they were sent. */
static inline bool post_push(struct post_pair *p)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->pushed);
	int err = RPC(server_push)(p->s, RPC(client_index)(p->c), buf, len);

	CHECK(err == 0 || err == -EAGAIN);
	p->pushed += err == 0;
	return !err;
}

static inline void post_answer(struct post_pair *p, uint32_t i)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->pushed++);

	CHECK_EQ(RPC(server_reply)(p->s, p->held[i].client, p->held[i].id, buf, len), 0);
	p->held[i] = p->held[--p->n_held];
}

static inline void post_on_push(void *arg, const void *msg, uint32_t len)
{
	struct post_pair *p = arg;

	CHECK_EQ(post_check(msg, p->size, len), p->got);
	p->got++;
}

static inline void post_on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	if (resp)
		post_on_push(arg, resp, len);
}

/* Posts and calls keep their order, as pushes and replies do, over many laps of all rings. */
TEST(one_way_messages_keep_the_order)
{
	static const struct {
		uint32_t depth, size, pushes;
	} shapes[] = {{1, 8, 1}, {4, 40, 3}, {8, 24, 20}, {32, 56, 5}, {64, 24, 64}, {16, 900, 2}};

	for (uint32_t k = 0; k < ARRAY_SIZE(shapes); k++) {
		AT_END(post_end) struct post_pair p;

		post_begin(&p, shapes[k].depth, shapes[k].size, shapes[k].pushes);
		RPC(client_pushes)(p.c, post_on_push, &p);
		while (p.made < 5000) {
			uint32_t n = (uint32_t)(test_rand(&p.rng) % (2 * p.depth));

			while (n-- && !post_one(&p, test_rand(&p.rng) % 3 == 0))
				;
			if (test_rand(&p.rng) % 4 == 0)
				RPC(client_flush)(p.c);
			post_receive(&p, (uint32_t)(test_rand(&p.rng) % 70));
			for (n = (uint32_t)(test_rand(&p.rng) % 20); n--;) {
				if (p.n_held && test_rand(&p.rng) % 2)
					post_answer(&p, (uint32_t)(test_rand(&p.rng) % p.n_held));
				else
					post_push(&p);
			}
			CHECK(RPC(client_poll)(p.c, post_on_response, &p) >= 0);
			CHECK(RPC(client_posts)(p.c) + RPC(client_pending)(p.c) <= p.depth);
		}
		RPC(client_flush)(p.c);
		while (p.received < p.made)
			post_receive(&p, p.made);
		while (p.n_held)
			post_answer(&p, 0);
		RPC(server_flush)(p.s);
		while (RPC(client_poll)(p.c, post_on_response, &p) > 0)
			;
		CHECK_EQ(p.got, p.pushed);
		CHECK_EQ(RPC(client_posts)(p.c), 0);
	}
}

/* Posts count against the depth until they are consumed; a client can wait for the room. */
TEST(posts_wait_for_room)
{
	AT_END(post_end) struct post_pair p;

	post_begin(&p, 8, 24, 0);
	CHECK_EQ(RPC(client_wait)(p.c, UINT64_MAX), 0); /* nothing to wait for */
	CHECK_EQ(RPC(client_post)(p.c, "", p.size + 1), -EMSGSIZE);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 8; i++)
			CHECK_EQ(post_one(&p, i == 3), 0);
		CHECK_EQ(post_one(&p, false), -EAGAIN);
		CHECK_EQ(post_one(&p, true), -EAGAIN);
		CHECK_EQ(RPC(client_wait)(p.c, 0), 0);
		CHECK_EQ(post_receive(&p, 64), 7);
		CHECK_EQ(RPC(client_wait)(p.c, UINT64_MAX), 1);
		CHECK_EQ(RPC(client_wait)(p.c, 0), 0); /* the room was reported once */
		CHECK_EQ(post_one(&p, round % 2), 0); /* a call finds the room, too */
		CHECK_EQ(RPC(client_posts)(p.c), round % 2 ? 0 : 1);
		RPC(client_flush)(p.c);
		CHECK_EQ(post_receive(&p, 64), round % 2 ? 0 : 1);
		while (p.n_held)
			post_answer(&p, 0);
		RPC(server_flush)(p.s);
		while (RPC(client_pending)(p.c))
			CHECK(RPC(client_poll)(p.c, post_on_response, &p) >= 0);
		CHECK_EQ(RPC(client_posts)(p.c), 0);
		CHECK_EQ(RPC(client_wait)(p.c, UINT64_MAX), 0);
	}
	CHECK_EQ(server_stats_of(p.s).requests, 150);
	CHECK_EQ(server_stats_of(p.s).posts, 750);
	CHECK_EQ(server_stats_of(p.s).replies, 150);
}

/* The descriptor of a client that waits for room, or for a push, is woken, and only then. */
TEST(one_way_messages_wake)
{
	AT_END(post_end) struct post_pair p;

	post_begin(&p, 4, 24, 4);
	CHECK(RPC(client_fd)(p.c) >= 0);
	while (!post_one(&p, false))
		;
	CHECK_EQ(RPC(client_arm)(p.c), 0);
	CHECK(fdtest_sleeps(RPC(client_fd)(p.c)));
	CHECK_EQ(post_receive(&p, 64), 4);
	RPC(server_flush)(p.s);
	CHECK(fdtest_readable(RPC(client_fd)(p.c)));
	CHECK_EQ(RPC(client_arm)(p.c), 1);
	CHECK_EQ(RPC(client_posts)(p.c), 0);
	RPC(client_pushes)(p.c, post_on_push, &p);
	CHECK_EQ(RPC(client_wait)(p.c, 1000), 0); /* waits, with nothing pending */
	CHECK_EQ(RPC(client_arm)(p.c), 0);
	CHECK(fdtest_sleeps(RPC(client_fd)(p.c)));
	CHECK(post_push(&p));
	RPC(server_flush)(p.s);
	CHECK(fdtest_readable(RPC(client_fd)(p.c)));
	CHECK_EQ(RPC(client_wait)(p.c, UINT64_MAX), 1);
	CHECK_EQ(RPC(client_poll)(p.c, post_on_response, &p), 1);
	CHECK_EQ(p.got, 1);
}

/*
 * A client that does not read gets no more pushes than it has room for, and does not delay others.
 */
TEST(pushes_are_bounded)
{
	struct post_pair p;
	CLIENT *other;
	uint32_t index;

	post_begin(&p, 4, 24, 3);
	CHECK_EQ(RPC(client_connect)(test_name, NULL, &other), 0);
	index = RPC(client_index)(other);
	CHECK_EQ(RPC(server_poll)(p.s), 0);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(post_push(&p), i < 3);
	for (uint32_t i = 0; i < 500; i++) { /* without a function they are dropped */
		CHECK_EQ(RPC(server_push)(p.s, index, NULL, 0), 0);
		RPC(server_flush)(p.s);
		CHECK_EQ(RPC(client_poll)(other, post_on_response, NULL), 1);
	}
	for (uint32_t i = 0; i < 4; i++) /* responses have room of their own */
		CHECK_EQ(post_one(&p, true), 0);
	RPC(client_flush)(p.c);
	CHECK_EQ(post_receive(&p, 4), 0);
	while (p.n_held)
		post_answer(&p, 0);
	RPC(server_flush)(p.s);
	RPC(client_pushes)(p.c, post_on_push, &p);
	while (RPC(client_poll)(p.c, post_on_response, &p) > 0)
		;
	CHECK_EQ(p.got, 7);
	CHECK(post_push(&p));
	CHECK_EQ(RPC(server_push)(p.s, index, "", p.size + 1), -EMSGSIZE);
	CHECK_EQ(RPC(server_push)(p.s, 1000000, "", 1), -EINVAL);
	RPC(client_disconnect)(other);
	other = NULL;
	for (int i = 0; i < 10; i++)
		RPC(server_poll)(p.s);
	CHECK_EQ(RPC(server_push)(p.s, index, "", 1), -EPIPE);
	CHECK_EQ(server_stats_of(p.s).pushes, 504);
	CHECK_EQ(server_stats_of(p.s).refused_pushes, 2);
	post_end(&p);
	post_begin(&p, 4, 24, 0);
	CHECK_EQ(RPC(server_push)(p.s, 0, "", 1), -EINVAL);
	post_end(&p);
}

/* A client learns how many posts its dead server may have lost; the next server starts anew. */
TEST(posts_outlive_no_server)
{
	AT_END(post_end) struct post_pair p;
	struct rpc_attr attr = post_attr(8, 24, 2);
	int r;

	post_begin(&p, 8, 24, 2);
	RPC(client_pushes)(p.c, post_on_push, &p);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(post_one(&p, i == 1), 0);
	RPC(client_flush)(p.c);
	CHECK_EQ(post_receive(&p, 5), 4);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(post_one(&p, i == 1), 0);
	RPC(server_destroy)(p.s);
	while ((r = RPC(client_poll)(p.c, post_on_response, &p)) == 0)
		;
	CHECK_EQ(r, -EPIPE);
	RPC(client_others)(p.c, post_on_response, &p);
	CHECK_EQ(RPC(client_call_wait)(p.c, NULL, 0, NULL, 0, 0, NULL), -EPIPE);
	CHECK_EQ(post_one(&p, false), -EPIPE);
	CHECK_EQ(RPC(client_posts)(p.c), 2);
	CHECK_EQ(post_one(&p, false), -EPIPE);
	CHECK_EQ(post_one(&p, true), -EPIPE);
	CHECK(RPC(client_wait)(p.c, UINT64_MAX) < 0);
	CHECK_EQ(RPC(client_abort)(p.c, post_on_response, &p), 2);
	CHECK_EQ(RPC(client_posts)(p.c), 2);
	CHECK_EQ(RPC(server_create)(test_name, &attr, &p.s), 0);
	CHECK_EQ(RPC(client_reconnect)(p.c, UINT64_MAX), 0);
	CHECK_EQ(RPC(client_posts)(p.c), 0);
	CHECK_EQ(RPC(server_poll)(p.s), 0);
	p.received = p.made;
	CHECK_EQ(post_one(&p, false), 0);
	RPC(client_flush)(p.c);
	CHECK_EQ(post_receive(&p, 1), 1);
	CHECK(post_push(&p)); /* to the function that was set before */
	RPC(server_flush)(p.s);
	CHECK_EQ(RPC(client_poll)(p.c, post_on_response, &p), 1);
	CHECK_EQ(p.got, 1);
}

#endif
