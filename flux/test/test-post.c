/* SPDX-License-Identifier: MIT */
/* Posts: messages without a response. */
#include <errno.h>

#include "common.h"
#include "support/fdtest.h"

static int post(struct flux_node *n, uint32_t to, uint64_t value)
{
	return flux_post(n, to, &value, sizeof(value));
}

/* Two nodes, and the numbers of the messages from the first to the second. */
struct pair {
	struct flux *f;
	struct flux_node *a, *b;
	uint64_t rng, made, received, tokens[512];
	uint32_t calls, ended, n_held;
};

static void pair_begin(struct pair *p, uint32_t max_inflight)
{
	*p = (struct pair){.f = make(3, 0, max_inflight), .rng = max_inflight};
	p->a = flux_get_node(p->f, 0);
	p->b = flux_get_node(p->f, 1);
}

static int pair_send(struct pair *p, bool is_call)
{
	int err = is_call ? call(p->a, 1, p->made, p->made) : post(p->a, 1, p->made);

	p->made += !err;
	p->calls += !err && is_call;
	return err;
}

/* Checks that a message is the next one, and keeps it if it is a call. */
static void pair_take(struct pair *p, uint64_t token, uint64_t value)
{
	CHECK_EQ(value, p->received);
	p->received++;
	if (token == FLUX_POST)
		CHECK_EQ(flux_reply(p->b, token, "", 0), -EINVAL);
	else
		p->tokens[p->n_held++] = token;
}

/* Receives at most max messages. Returns their number. */
static uint32_t pair_receive(struct pair *p, uint32_t max)
{
	uint64_t token = 0, value = 0;
	uint32_t from = 9, n = 0;

	for (; n < max && recv_one(p->b, &from, &token, &value); n++) {
		CHECK_EQ(from, 0);
		pair_take(p, token, value);
	}
	return n;
}

static void pair_serve(void *arg, const struct flux_req *req, const void *payload)
{
	CHECK(req->from == 0 && req->len == sizeof(uint64_t));
	pair_take(arg, req->token, *(const uint64_t *)payload);
}

static void pair_answer(struct pair *p)
{
	uint32_t i = (uint32_t)(test_rand(&p->rng) % p->n_held);

	CHECK_EQ(flux_reply(p->b, p->tokens[i], "12345678", 8), 0);
	p->tokens[i] = p->tokens[--p->n_held];
}

static void pair_ended(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct pair *p = arg;

	CHECK(payload && len == 8 && token < p->made);
	p->ended++;
}

static void pair_turn(struct pair *p, uint32_t depth)
{
	uint32_t n = (uint32_t)(test_rand(&p->rng) % (2 * depth + 1));
	uint32_t some = (uint32_t)(test_rand(&p->rng) % 40);

	while (n-- && !pair_send(p, test_rand(&p->rng) % 3 == 0))
		;
	if (test_rand(&p->rng) % 4 == 0)
		flux_flush(p->a);
	if (test_rand(&p->rng) % 2)
		pair_receive(p, some);
	else
		flux_serve(p->b, pair_serve, p, some);
	while (p->n_held && test_rand(&p->rng) % 8)
		pair_answer(p);
	CHECK(flux_poll(p->a, pair_ended, p) >= 0);
	CHECK_EQ(flux_pending(p->a), p->calls - p->ended);
	/* flux_posts() frees the ids of consumed posts; otherwise the next call or post does. */
	if (test_rand(&p->rng) % 4 == 0)
		CHECK(flux_posts(p->a, 1) + flux_pending(p->a) <= depth);
}

/* Posts and calls keep their order, over many laps of the rings, one by one and in bursts. */
TEST(posts_and_calls_keep_the_order)
{
	static const uint32_t depths[] = {1, 2, 7, 8, 33, 256};
	struct flux_stats st;

	for (size_t i = 0; i < ARRAY_SIZE(depths); i++) {
		struct pair p;

		pair_begin(&p, depths[i]);
		while (p.made < 20000)
			pair_turn(&p, depths[i]);
		flux_flush(p.a);
		while (p.received < p.made)
			pair_receive(&p, UINT32_MAX);
		while (p.n_held)
			pair_answer(&p);
		flux_flush(p.b);
		while (p.ended < p.calls)
			flux_poll(p.a, pair_ended, &p);
		CHECK_EQ(flux_posts(p.a, 1), 0);
		st = stats_of(p.a);
		CHECK(st.calls == p.calls && st.posts == p.made - p.calls &&
			st.responses == p.calls);
		st = stats_of(p.b);
		CHECK(st.requests == p.calls && st.received_posts == p.made - p.calls);
		CHECK(st.replies == p.calls && !st.posts && !st.calls);
		flux_destroy(p.f);
	}
}

/* Calls and posts that the response function makes, while ids of consumed posts can be taken. */
static void pair_ended_and_again(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct pair *p = arg;

	pair_ended(p, token, payload, len);
	for (int i = 0; i < 3; i++)
		pair_send(p, i == 1);
}

TEST(response_functions_take_room)
{
	struct pair p;

	pair_begin(&p, 16);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; !pair_send(&p, i % 4 == 3); i++)
			;
		flux_flush(p.a);
		pair_receive(&p, UINT32_MAX);
		while (p.n_held)
			pair_answer(&p);
		flux_flush(p.b);
		CHECK(flux_poll(p.a, pair_ended_and_again, &p) > 0);
		CHECK_EQ(flux_pending(p.a), p.calls - p.ended);
		CHECK(flux_pending(p.a) <= 16);
	}
	while (p.received < p.made || p.n_held || p.ended < p.calls) {
		pair_receive(&p, UINT32_MAX);
		while (p.n_held)
			pair_answer(&p);
		flux_flush(p.b);
		flux_poll(p.a, pair_ended, &p);
		flux_flush(p.a);
	}
	CHECK(flux_posts(p.a, 1) == 0 && !flux_pending(p.a));
	flux_destroy(p.f);
}

TEST(wrong_arguments)
{
	FLUX *f = make(2, 0, 4);
	struct flux_node *a = flux_get_node(f, 0);

	CHECK_EQ(flux_post(a, 1, "123456789", 9), -EMSGSIZE);
	CHECK_EQ(post(a, 2, 0), -EINVAL);
	CHECK_EQ(flux_posts(a, 2), 0);
	CHECK_EQ(flux_posts(a, 1), 0);
	CHECK_EQ(flux_wait(a, 0), 0);
}

/* Posts count against max_inflight until they are consumed. Then the next wait returns 1. */
TEST(room_can_be_waited_for)
{
	struct pair p;

	pair_begin(&p, 8);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 8; i++)
			CHECK_EQ(pair_send(&p, i == 3), 0);
		CHECK_EQ(pair_send(&p, round % 2), -EAGAIN);
		CHECK_EQ(flux_wait(p.a, 0), 0);
		CHECK_EQ(pair_receive(&p, 64), 8);
		CHECK_EQ(flux_wait(p.a, FLUX_FOREVER), 1);
		CHECK_EQ(flux_wait(p.a, 0), 0); /* room is reported once */
		CHECK_EQ(pair_send(&p, round % 3), 0); /* a call finds the room, too */
		flux_flush(p.a);
		CHECK_EQ(pair_receive(&p, 64), 1);
		while (p.n_held)
			pair_answer(&p);
		flux_flush(p.b);
		while (p.ended < p.calls)
			flux_poll(p.a, pair_ended, &p);
		CHECK_EQ(flux_posts(p.a, 1), 0);
	}
	flux_destroy(p.f);
}

/* A node that waits for room, also at several peers, is woken by the flush of the receiver. */
TEST(room_wakes)
{
	FLUX *f = make(3, 0, 4);
	struct flux_node *a = flux_get_node(f, 0);

	CHECK(flux_fd(a) >= 0);
	for (uint32_t round = 0; round < 20; round++) {
		struct flux_node *b = flux_get_node(f, 1 + round % 2);
		struct got g;

		for (uint32_t to = 1; to < 3; to++)
			while (!post(a, to, 5))
				;
		CHECK_EQ(flux_arm(a), 0);
		CHECK(fdtest_sleeps(flux_fd(a)));
		g = take(b);
		CHECK(g.token == FLUX_POST && g.value == 5);
		CHECK(fdtest_sleeps(flux_fd(a)));
		flux_flush(b);
		CHECK(fdtest_readable(flux_fd(a)));
		CHECK_EQ(flux_arm(a), 1);
		CHECK_EQ(flux_arm(a), 0);
	}
}

/* The count of consumed posts is published after the last of successive posts in a burst. */
TEST(count_is_published_once_per_run)
{
	FLUX *f = make(2, 0, 256);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);

	for (uint32_t i = 0; i < 64; i++)
		CHECK_EQ(post(a, 1, i), 0);
	flux_flush(a);
	while (b->in[0].posts < 56)
		take(b);
	CHECK_EQ(flux_posts(a, 1), 8);
	flux_flush(b);
	for (uint32_t i = 0; i < 7; i++) {
		take(b);
		CHECK_EQ(flux_posts(a, 1), 8);
		CHECK_EQ(b->unfenced, 0); /* no count published, so nobody to wake */
	}
	take(b);
	CHECK_EQ(b->unfenced, 1);
	CHECK_EQ(flux_posts(a, 1), 0);
}

/* flux_serve() consumes a post when the function has returned, not before. */
static void serve_full(void *arg, const struct flux_req *req, const void *payload)
{
	struct flux_node *a = arg;

	CHECK(req->token == FLUX_POST && req->len == 8);
	CHECK_EQ(post(a, 1, 1), -EAGAIN);
	CHECK_EQ(*(const uint64_t *)payload, 0);
}

TEST(served_posts_stay_for_the_function)
{
	FLUX *f = make(2, 0, 1);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);

	for (uint32_t i = 0; i < 200; i++) {
		CHECK_EQ(post(a, 1, 0), 0);
		CHECK_EQ(flux_serve(b, serve_full, a, 5), 1);
		CHECK_EQ(flux_serve(b, serve_full, a, 5), 0);
	}
}

TEST(node_posts_to_itself)
{
	FLUX *f = make(1, 0, 3);
	struct flux_node *a = flux_get_node(f, 0);
	struct got g;

	for (uint64_t i = 0; i < 300; i++) {
		CHECK_EQ(post(a, 0, i), 0);
		CHECK_EQ(flux_posts(a, 0), 1);
		CHECK_EQ(flux_wait(a, 0), 1);
		g = take(a);
		CHECK(!g.from && g.token == FLUX_POST && g.value == i);
		CHECK_EQ(flux_posts(a, 0), 0);
	}
}

/* The count of consumed posts wraps at 2^32. */
TEST(counts_go_round)
{
	struct pair p;

	pair_begin(&p, 5);
	p.a->out[1].posts = p.b->in[0].posts = UINT32_MAX - 11;
	*p.b->in[0].consumed = UINT32_MAX - 11;
	while (p.made < 60) {
		while (!pair_send(&p, false))
			;
		CHECK_EQ(pair_receive(&p, 5), 5);
	}
	CHECK_EQ(flux_posts(p.a, 1), 0);
	flux_destroy(p.f);
}

static void only_calls_end(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	CHECK(!payload && token == 100 + *(uint32_t *)arg);
	++*(uint32_t *)arg;
}

/* If the receiver leaves, each call ends once, posts are dropped, and a wait for room returns. */
TEST(receiver_leaves)
{
	for (uint32_t received = 0; received < 8; received++) {
		FLUX *f = make(2, 0, 8);
		struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
		uint32_t ended = 0;

		for (uint32_t i = 0; i < 8; i++)
			CHECK_EQ(i % 3 ? post(a, 1, i) : call(a, 1, i, 100 + i / 3), 0);
		CHECK_EQ(post(a, 1, 8), -EAGAIN);
		for (uint32_t i = 0; i < received; i++)
			take(b);
		if (received % 2)
			flux_posts(a, 1); /* frees the ids of consumed posts */
		CHECK_EQ(flux_wait(a, 0), received == 2 || received == 4 || received == 6);
		flux_leave(b);
		CHECK_EQ(flux_wait(a, FLUX_FOREVER), 1);
		while (flux_pending(a))
			flux_poll(a, only_calls_end, &ended);
		CHECK_EQ(ended, 3);
		CHECK_EQ(flux_posts(a, 1), 0);
		CHECK_EQ(post(a, 1, 9), -EPIPE);
		CHECK_EQ(call(a, 1, 9, 9), -EPIPE);
		CHECK_EQ(flux_wait(a, 0), 0);
	}
}

/* A node with posts in flight, but no calls, waits for room. The wait ends when the peer leaves. */
TEST(waiting_for_room_ends_with_the_receiver)
{
	FLUX *f = make(2, 0, 4);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);

	CHECK(flux_fd(a) >= 0);
	while (!post(a, 1, 1))
		;
	CHECK_EQ(flux_arm(a), 0);
	flux_leave(b);
	CHECK(fdtest_readable(flux_fd(a)));
	CHECK_EQ(flux_arm(a), 1);
	CHECK_EQ(post(a, 1, 1), -EPIPE);
	CHECK_EQ(flux_posts(a, 1), 0);
	CHECK_EQ(flux_arm(a), 0);
}

/* flux_left() returns a node that has left only after its posts have been received. */
TEST(sender_leaves)
{
	FLUX *f = make(2, 0, 64);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct got g;
	uint32_t left;

	for (uint64_t i = 0; i < 20; i++)
		CHECK_EQ(post(a, 1, i), 0);
	flux_leave(a);
	CHECK_EQ(flux_posts(a, 1), 0);
	CHECK_EQ(post(a, 1, 0), -EPIPE);
	for (uint64_t i = 0; i < 20; i++) {
		CHECK_EQ(flux_left(b, &left), 0);
		g = take(b);
		CHECK(g.value == i && g.token == FLUX_POST);
	}
	CHECK_EQ(flux_left(b, &left), 1);
	CHECK_EQ(left, 0);
}
