/* SPDX-License-Identifier: MIT */
/* One-way messages of shmipc, and counts of them that another process has forged. */
#include <errno.h>

#include "layout.h"
#include "rpc.h"
#include "support/fdtest.h"
#include "support/rpcnew.h"

#define POST_MAX 1024 /* bytes of the longest message */

/* Returns the attributes of a region for two clients with messages of @size bytes. */
static struct shmipc_attr post_attr(uint32_t depth, uint32_t size, uint32_t pushes)
{
	return (struct shmipc_attr){.size = sizeof(struct shmipc_attr),
		.max_clients = 2,
		.depth = depth,
		.req_size = size,
		.resp_size = size,
		.pushes = pushes};
}

/* A message is a number of 4 bytes, and then its lowest byte, repeated. */
static uint32_t post_fill(unsigned char *buf, uint32_t size, uint32_t n)
{
	uint32_t len = 4 + n % (size - 3);

	memcpy(buf, &n, 4);
	memset(buf + 4, (int)(n & 0xff), len - 4);
	return len;
}

static uint32_t post_check(const void *msg, uint32_t size, uint32_t len)
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
	struct shmipc_server *s;
	struct shmipc_client *c;
	uint32_t depth, size, pushes;
	uint64_t rng;
	/* Messages to the server: made, received. To the client: pushed, got. */
	uint32_t made, received, got, pushed;
	struct rpc_req held[64];
	uint32_t n_held;
};

static void post_begin(struct post_pair *p, uint32_t depth, uint32_t size, uint32_t pushes)
{
	struct shmipc_attr attr = post_attr(depth, size, pushes);

	*p = (struct post_pair){.depth = depth, .size = size, .pushes = pushes, .rng = 1};
	p->s = server_with(&attr);
	p->c = client_new();
	CHECK_EQ(shmipc_server_poll(p->s), 0);
}

static void post_end(struct post_pair *p)
{
	shmipc_client_disconnect(p->c);
	shmipc_server_destroy(p->s);
}

static int post_one(struct post_pair *p, bool call)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->made);
	int err = call ? shmipc_client_call(p->c, buf, len, p->made) :
			 shmipc_client_post(p->c, buf, len);

	p->made += err == 0;
	return err;
}

/*
 * Receives at most max messages, in the order in which they were made. Returns the number of posts.
 */
static uint32_t post_receive(struct post_pair *p, uint32_t max)
{
	uint32_t posts = 0, n = 0;
	struct rpc_req r;

	while (n < max && shmipc_server_poll(p->s) > 0)
		for (; n < max && rpc_recv(p->s, &r); n++) {
			CHECK_EQ(post_check(r.payload, p->size, r.len), p->received);
			p->received++;
			if (r.id == SHMIPC_POST) {
				posts++;
				CHECK_EQ(shmipc_server_reply(p->s, r.client, r.id, "", 0), -EINVAL);
			} else {
				p->held[p->n_held++] = r;
			}
		}
	return posts;
}

/* Pushes and answers are numbered together, because they come in the order of sending. */
static bool post_push(struct post_pair *p)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->pushed);
	int err = shmipc_server_push(p->s, shmipc_client_index(p->c), buf, len);

	CHECK(err == 0 || err == -EAGAIN);
	p->pushed += err == 0;
	return !err;
}

static void post_answer(struct post_pair *p, uint32_t i)
{
	unsigned char buf[POST_MAX];
	uint32_t len = post_fill(buf, p->size, p->pushed++);

	CHECK_EQ(shmipc_server_reply(p->s, p->held[i].client, p->held[i].id, buf, len), 0);
	p->held[i] = p->held[--p->n_held];
}

static void post_on_push(void *arg, const void *msg, uint32_t len)
{
	struct post_pair *p = arg;

	CHECK_EQ(post_check(msg, p->size, len), p->got);
	p->got++;
}

static void post_on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	if (resp)
		post_on_push(arg, resp, len);
}

/* Posts and calls keep their order, as pushes and replies do. */
TEST(one_way_messages_keep_the_order)
{
	static const struct {
		uint32_t depth, size, pushes;
	} shapes[] = {{1, 8, 1}, {4, 40, 3}, {8, 24, 20}, {32, 56, 5}, {64, 24, 64}, {16, 900, 2}};

	for (uint32_t k = 0; k < ARRAY_SIZE(shapes); k++) {
		AT_END(post_end) struct post_pair p;

		post_begin(&p, shapes[k].depth, shapes[k].size, shapes[k].pushes);
		shmipc_client_pushes(p.c, post_on_push, &p);
		while (p.made < 5000) {
			uint32_t n = (uint32_t)(test_rand(&p.rng) % (2 * p.depth));

			while (n-- && !post_one(&p, test_rand(&p.rng) % 3 == 0))
				;
			if (test_rand(&p.rng) % 4 == 0)
				shmipc_client_flush(p.c);
			post_receive(&p, (uint32_t)(test_rand(&p.rng) % 70));
			for (n = (uint32_t)(test_rand(&p.rng) % 20); n--;) {
				if (p.n_held && test_rand(&p.rng) % 2)
					post_answer(&p, (uint32_t)(test_rand(&p.rng) % p.n_held));
				else
					post_push(&p);
			}
			CHECK(shmipc_client_poll(p.c, post_on_response, &p) >= 0);
			CHECK(shmipc_client_posts(p.c) + shmipc_client_pending(p.c) <= p.depth);
		}
		shmipc_client_flush(p.c);
		while (p.received < p.made)
			post_receive(&p, p.made);
		while (p.n_held)
			post_answer(&p, 0);
		shmipc_server_flush(p.s);
		while (shmipc_client_poll(p.c, post_on_response, &p) > 0)
			;
		CHECK_EQ(p.got, p.pushed);
		CHECK_EQ(shmipc_client_posts(p.c), 0);
	}
}

/* Posts count against the depth until they are consumed; a client can wait for the room. */
TEST(posts_wait_for_room)
{
	AT_END(post_end) struct post_pair p;

	post_begin(&p, 8, 24, 0);
	CHECK_EQ(shmipc_client_wait(p.c, UINT64_MAX), 0); /* nothing to wait for */
	CHECK_EQ(shmipc_client_post(p.c, "", p.size + 1), -EMSGSIZE);
	for (uint32_t round = 0; round < 100; round++) {
		for (uint32_t i = 0; i < 8; i++)
			CHECK_EQ(post_one(&p, i == 3), 0);
		CHECK_EQ(post_one(&p, false), -EAGAIN);
		CHECK_EQ(post_one(&p, true), -EAGAIN);
		CHECK_EQ(shmipc_client_wait(p.c, 0), 0);
		CHECK_EQ(post_receive(&p, 64), 7);
		CHECK_EQ(shmipc_client_wait(p.c, UINT64_MAX), 1);
		CHECK_EQ(shmipc_client_wait(p.c, 0), 0); /* the room was reported once */
		CHECK_EQ(post_one(&p, round % 2), 0); /* a call finds the room, too */
		CHECK_EQ(shmipc_client_posts(p.c), round % 2 ? 0 : 1);
		shmipc_client_flush(p.c);
		CHECK_EQ(post_receive(&p, 64), round % 2 ? 0 : 1);
		while (p.n_held)
			post_answer(&p, 0);
		shmipc_server_flush(p.s);
		while (shmipc_client_pending(p.c))
			CHECK(shmipc_client_poll(p.c, post_on_response, &p) >= 0);
		CHECK_EQ(shmipc_client_posts(p.c), 0);
		CHECK_EQ(shmipc_client_wait(p.c, UINT64_MAX), 0);
	}
	CHECK_EQ(server_stats_of(p.s).requests, 150);
	CHECK_EQ(server_stats_of(p.s).posts, 750);
	CHECK_EQ(server_stats_of(p.s).replies, 150);
}

/* A client's descriptor becomes readable when the room or the push for which it waits is there. */
TEST(one_way_messages_wake)
{
	AT_END(post_end) struct post_pair p;

	post_begin(&p, 4, 24, 4);
	CHECK(shmipc_client_fd(p.c) >= 0);
	while (!post_one(&p, false))
		;
	CHECK_EQ(shmipc_client_arm(p.c), 0);
	CHECK(fdtest_sleeps(shmipc_client_fd(p.c)));
	CHECK_EQ(post_receive(&p, 64), 4);
	shmipc_server_flush(p.s);
	CHECK(fdtest_readable(shmipc_client_fd(p.c)));
	CHECK_EQ(shmipc_client_arm(p.c), 1);
	CHECK_EQ(shmipc_client_posts(p.c), 0);
	shmipc_client_pushes(p.c, post_on_push, &p);
	CHECK_EQ(shmipc_client_wait(p.c, 1000), 0); /* waits for a push, in vain */
	CHECK_EQ(shmipc_client_arm(p.c), 0);
	CHECK(fdtest_sleeps(shmipc_client_fd(p.c)));
	CHECK(post_push(&p));
	shmipc_server_flush(p.s);
	CHECK(fdtest_readable(shmipc_client_fd(p.c)));
	CHECK_EQ(shmipc_client_wait(p.c, UINT64_MAX), 1);
	CHECK_EQ(shmipc_client_poll(p.c, post_on_response, &p), 1);
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
	other = client_new();
	index = shmipc_client_index(other);
	CHECK_EQ(shmipc_server_poll(p.s), 0);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(post_push(&p), i < 3);
	for (uint32_t i = 0; i < 500; i++) { /* without a push function they are dropped */
		CHECK_EQ(shmipc_server_push(p.s, index, NULL, 0), 0);
		shmipc_server_flush(p.s);
		CHECK_EQ(shmipc_client_poll(other, post_on_response, NULL), 1);
	}
	for (uint32_t i = 0; i < 4; i++) /* responses have room of their own */
		CHECK_EQ(post_one(&p, true), 0);
	shmipc_client_flush(p.c);
	CHECK_EQ(post_receive(&p, 4), 0);
	while (p.n_held)
		post_answer(&p, 0);
	shmipc_server_flush(p.s);
	shmipc_client_pushes(p.c, post_on_push, &p);
	while (shmipc_client_poll(p.c, post_on_response, &p) > 0)
		;
	CHECK_EQ(p.got, 7);
	CHECK(post_push(&p));
	CHECK_EQ(shmipc_server_push(p.s, index, "", p.size + 1), -EMSGSIZE);
	CHECK_EQ(shmipc_server_push(p.s, 1000000, "", 1), -EINVAL);
	shmipc_client_disconnect(other);
	other = NULL;
	for (int i = 0; i < 10; i++)
		shmipc_server_poll(p.s);
	CHECK_EQ(shmipc_server_push(p.s, index, "", 1), -EPIPE);
	CHECK_EQ(server_stats_of(p.s).pushes, 504);
	CHECK_EQ(server_stats_of(p.s).refused_pushes, 2);
	post_end(&p);
	post_begin(&p, 4, 24, 0);
	CHECK_EQ(shmipc_server_push(p.s, 0, "", 1), -EINVAL);
	post_end(&p);
}

/* A client learns how many posts a dead server may have lost. After a reconnect the number is 0. */
TEST(posts_outlive_no_server)
{
	AT_END(post_end) struct post_pair p;
	struct shmipc_attr attr = post_attr(8, 24, 2);
	int r;

	post_begin(&p, 8, 24, 2);
	shmipc_client_pushes(p.c, post_on_push, &p);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(post_one(&p, i == 1), 0);
	shmipc_client_flush(p.c);
	CHECK_EQ(post_receive(&p, 5), 4);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(post_one(&p, i == 1), 0);
	shmipc_server_destroy(p.s);
	while ((r = shmipc_client_poll(p.c, post_on_response, &p)) == 0)
		;
	CHECK_EQ(r, -EPIPE);
	shmipc_client_others(p.c, post_on_response, &p);
	CHECK_EQ(shmipc_client_call_wait(p.c, NULL, 0, NULL, 0, 0, NULL), -EPIPE);
	CHECK_EQ(post_one(&p, false), -EPIPE);
	CHECK_EQ(shmipc_client_posts(p.c), 2);
	CHECK_EQ(post_one(&p, false), -EPIPE);
	CHECK_EQ(post_one(&p, true), -EPIPE);
	CHECK(shmipc_client_wait(p.c, UINT64_MAX) < 0);
	CHECK_EQ(shmipc_client_abort(p.c, post_on_response, &p), 2);
	CHECK_EQ(shmipc_client_posts(p.c), 2);
	p.s = server_with(&attr);
	CHECK_EQ(shmipc_client_reconnect(p.c, UINT64_MAX), 0);
	CHECK_EQ(shmipc_client_posts(p.c), 0);
	CHECK_EQ(shmipc_server_poll(p.s), 0);
	p.received = p.made;
	CHECK_EQ(post_one(&p, false), 0);
	shmipc_client_flush(p.c);
	CHECK_EQ(post_receive(&p, 1), 1);
	CHECK(post_push(&p)); /* for the function that was set before the reconnect */
	shmipc_server_flush(p.s);
	CHECK_EQ(shmipc_client_poll(p.c, post_on_response, &p), 1);
	CHECK_EQ(p.got, 1);
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
	static const uint32_t forged[] = {5, UINT32_MAX, 1u << 31, 1};
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
	push_until_full(&p);
}

/*
 * A refused call may free the room of consumed posts, so that the next call is accepted. After the
 * end of the server no call is accepted.
 */
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

/* Writes the first message of a ring, as a hostile process would. */
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
