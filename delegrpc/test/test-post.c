/* SPDX-License-Identifier: MIT */
/* Posts: order, room, waking, the end of a server, and what hostile processes write. */
#include "solo.h"
#include "support/fdtest.h"

struct posts {
	struct delegrpc_server *s;
	struct delegrpc_client *c;
	uint64_t rng;
	uint32_t made, received, answered; /* calls and posts, numbered from 0 */
	uint64_t called[64]; /* by number: bit set if it is a call */
};

static void posts_begin(struct posts *p, uint32_t ring, uint32_t depth)
{
	*p = (struct posts){.s = server_new(2, ring, depth), .rng = 1};
	p->c = client_new();
}

static void posts_end(struct posts *p)
{
	delegrpc_client_disconnect(p->c);
	delegrpc_server_destroy(p->s);
}

static int make(struct posts *p, bool call)
{
	uint32_t at = p->made % 4096;
	int err = call ? delegrpc_client_call(p->c, &p->made, 4, p->made) :
			 delegrpc_client_post(p->c, &p->made, 4);

	if (err)
		return err;
	p->called[at / 64] &= ~(1ull << at % 64);
	p->called[at / 64] |= (uint64_t)call << at % 64;
	p->made++;
	return 0;
}

/* Receives at most max messages, in order, and answers the calls. Returns the number of posts. */
static uint32_t receive(struct posts *p, uint32_t max)
{
	uint32_t posts = 0, n = 0;
	struct delegrpc_req r;

	while (n < max && delegrpc_server_poll(p->s) > 0)
		for (; n < max && delegrpc_server_recv(p->s, &r); n++) {
			uint32_t at = p->received % 4096;
			bool call = p->called[at / 64] >> at % 64 & 1;

			CHECK_EQ(value_of(&r), p->received++);
			CHECK_EQ(r.id != DELEGRPC_POST, call);
			CHECK_EQ(delegrpc_server_reply(p->s, r.client, r.id, r.payload, 4),
				call ? 0 : -EINVAL);
			posts += !call;
		}
	return posts;
}

static void on_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct posts *p = arg;

	CHECK(!resp || value_of(&(struct delegrpc_req){.len = len, .payload = resp}) == token);
	p->answered += resp != NULL;
	if (resp && token % 5 == 0)
		make(p, token % 2); /* in the response function, too */
}

/* With every kind of ring, each message arrives once and in the order in which it was made. */
TEST(posts_and_calls_keep_their_order)
{
	static const uint32_t shapes[][2] = {{0, 1}, {0, 4}, {0, 8}, {32, 64}, {32, 8}, {0, 64}};

	for (uint32_t k = 0; k < ARRAY_SIZE(shapes); k++) {
		struct delegrpc_client_stats cs;
		struct delegrpc_server_stats ss;
		struct posts p;

		posts_begin(&p, shapes[k][0], shapes[k][1]);
		while (p.made < 4000) {
			for (uint32_t n = (uint32_t)(test_rand(&p.rng) % 100); n; n--)
				if (make(&p, test_rand(&p.rng) % 3 == 0))
					break;
			if (test_rand(&p.rng) % 4 == 0)
				delegrpc_client_flush(p.c);
			receive(&p, (uint32_t)(test_rand(&p.rng) % 70));
			if (test_rand(&p.rng) % 2)
				delegrpc_server_advance_tail(p.s);
			CHECK(delegrpc_client_poll(p.c, on_answer, &p) >= 0);
			CHECK(delegrpc_client_posts(p.c) + delegrpc_client_pending(p.c) <=
				shapes[k][1]);
		}
		while (delegrpc_client_posts(p.c) || delegrpc_client_pending(p.c)) {
			CHECK(delegrpc_client_poll(p.c, on_answer, &p) >= 0);
			receive(&p, UINT32_MAX);
			delegrpc_server_advance_tail(p.s);
		}
		CHECK_EQ(p.received, p.made);
		delegrpc_client_get_stats(p.c, &cs, sizeof(cs));
		delegrpc_server_get_stats(p.s, &ss, sizeof(ss));
		CHECK_EQ(cs.calls + cs.posts, p.made);
		CHECK(cs.calls == ss.requests && cs.posts == ss.posts && cs.calls == p.answered);
		CHECK(cs.responses == p.answered && !cs.bad_responses && !ss.bad_requests);
		posts_end(&p);
	}
}

/*
 * A post is in flight until its slot is given back. After a refusal the client can wait for room
 * once.
 */
TEST(posts_wait_for_room)
{
	uint32_t answer, v;
	AT_END(posts_end) struct posts p;

	posts_begin(&p, 0, 8);
	CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 0);
	CHECK_EQ(delegrpc_client_post(p.c, &v, 49), -EMSGSIZE);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 8; i++)
			CHECK_EQ(make(&p, false), 0);
		CHECK_EQ(make(&p, round % 2), -EAGAIN);
		CHECK_EQ(delegrpc_client_call_wait(p.c, &v, 4, &answer, 4, 0, NULL), -EAGAIN);
		CHECK_EQ(delegrpc_client_wait(p.c, 0), 0);
		CHECK_EQ(receive(&p, 8), 8);
		CHECK_EQ(delegrpc_client_wait(p.c, 1000), 0); /* the slots are not given back */
		delegrpc_server_advance_tail(p.s);
		CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 1);
		CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 0); /* room is reported once */
		CHECK_EQ(make(&p, true), 0); /* a call finds the room, too */
		CHECK_EQ(delegrpc_client_posts(p.c), 0);
		CHECK_EQ(make(&p, false), 0);
		CHECK_EQ(delegrpc_client_posts(p.c), 1);
		/* An accepted call ends the wait for room. */
		CHECK_EQ(delegrpc_client_call(p.c, &p.made, 4, 3), 0);
		p.called[p.made % 4096 / 64] |= 1ull << p.made % 64;
		p.made++;
		delegrpc_client_flush(p.c);
		CHECK_EQ(receive(&p, 8), 1);
		delegrpc_server_advance_tail(p.s);
		while (delegrpc_client_pending(p.c)) {
			struct seen seen = {0};

			CHECK(delegrpc_client_poll(p.c, note, &seen) >= 0);
		}
		CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 0);
		CHECK_EQ(make(&p, false), 0);
		CHECK_EQ(delegrpc_client_posts(p.c), 1);
		delegrpc_client_flush(p.c);
		CHECK_EQ(receive(&p, 8), 1);
		delegrpc_server_advance_tail(p.s);
		CHECK_EQ(delegrpc_client_posts(p.c), 0);
		CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 0); /* room was reported above */
	}
}

/* If the ring is full, a client can wait until some of its posts have been consumed. */
TEST(posts_wait_for_the_ring)
{
	AT_END(posts_end) struct posts p;

	posts_begin(&p, 32, 64);
	while (!make(&p, false))
		;
	CHECK(p.made < 40); /* fewer than the client has ids */
	CHECK_EQ(delegrpc_client_wait(p.c, 1000), 0);
	receive(&p, 32);
	delegrpc_server_advance_tail(p.s);
	CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 1);
	CHECK_EQ(make(&p, false), 0);
}

static void echo(void *arg, const struct delegrpc_req *r, const void *payload)
{
	if (r->id != DELEGRPC_POST)
		CHECK_EQ(delegrpc_server_reply(arg, r->client, r->id, payload, 4), 0);
}

/* A blocking call uses the room of consumed posts, and times out. */
TEST(blocking_call_after_posts)
{
	uint32_t v = 77, answer = 0;
	AT_END(posts_end) struct posts p;

	posts_begin(&p, 0, 4);
	while (!make(&p, false))
		;
	delegrpc_client_flush(p.c);
	CHECK_EQ(delegrpc_server_serve(p.s, echo, p.s, 8), 4);
	CHECK_EQ(delegrpc_client_call_wait(p.c, &v, 4, &answer, 4, 0, NULL), -ETIMEDOUT);
	CHECK_EQ(delegrpc_server_serve(p.s, echo, p.s, 8), 1);
	CHECK_EQ(delegrpc_client_poll(p.c, on_answer, &p), 0); /* the late response is dropped */
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(make(&p, false), 0);
}

/*
 * An armed client that waits for room is woken by the server's next flush or poll after
 * delegrpc_server_advance_tail(), also if an earlier flush found no room.
 */
TEST(room_wakes)
{
	for (uint32_t early = 0; early < 3; early++) {
		AT_END(posts_end) struct posts p;
		int fd;

		posts_begin(&p, 0, 4);
		fd = delegrpc_client_fd(p.c);
		CHECK(fd >= 0);
		CHECK_EQ(delegrpc_client_arm(p.c), 0);
		while (!make(&p, false))
			;
		CHECK_EQ(delegrpc_client_arm(p.c), 0);
		CHECK(fdtest_sleeps(fd));
		CHECK_EQ(receive(&p, 4), 4);
		if (early) { /* this wakes the client, which sleeps again */
			delegrpc_server_flush(p.s);
			CHECK_EQ(delegrpc_client_arm(p.c), 0);
		}
		CHECK(fdtest_sleeps(fd));
		delegrpc_server_advance_tail(p.s);
		if (early == 2)
			delegrpc_server_poll(p.s);
		else
			delegrpc_server_flush(p.s);
		CHECK(fdtest_readable(fd));
		CHECK_EQ(delegrpc_client_arm(p.c), 1);
		CHECK_EQ(make(&p, false), 0);
		CHECK_EQ(delegrpc_client_posts(p.c), 1);
		CHECK_EQ(delegrpc_client_arm(p.c), 0);
		CHECK_EQ(receive(&p, 8), 1);
		delegrpc_server_advance_tail(p.s);
		delegrpc_server_flush(p.s);
		CHECK(fdtest_readable(fd));
		CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), 1);
	}
}

/*
 * After a server's end delegrpc_client_posts() returns how many posts may be lost. The next
 * connection counts from 0.
 */
TEST(posts_outlive_no_server)
{
	AT_END(posts_end) struct posts p;
	int r;

	posts_begin(&p, 0, 8);
	for (uint32_t i = 0; i < 5; i++)
		CHECK_EQ(make(&p, i == 1), 0);
	delegrpc_client_flush(p.c);
	CHECK_EQ(receive(&p, 3), 2);
	delegrpc_server_advance_tail(p.s);
	CHECK_EQ(receive(&p, 1), 1); /* the slot of this post is not given back */
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(make(&p, i == 1), 0);
	delegrpc_server_destroy(p.s);
	while ((r = delegrpc_client_poll(p.c, on_answer, &p)) >= 0)
		;
	CHECK_EQ(r, -EPIPE);
	CHECK_EQ(delegrpc_client_posts(p.c), 4);
	CHECK_EQ(delegrpc_client_wait(p.c, UINT64_MAX), -EPIPE);
	CHECK_EQ(make(&p, false), -EPIPE);
	CHECK_EQ(delegrpc_client_abort(p.c, on_answer, &p), 1);
	CHECK_EQ(delegrpc_client_posts(p.c), 4);
	CHECK_EQ(client_stats_of(p.c).posts, 6);
	CHECK_EQ(client_stats_of(p.c).calls, 2);
	p.s = server_new(2, 0, 8);
	CHECK_EQ(delegrpc_client_reconnect(p.c, UINT64_MAX), 0);
	CHECK_EQ(delegrpc_client_posts(p.c), 0);
	p.received = p.made;
	CHECK_EQ(make(&p, false), 0);
	CHECK_EQ(client_stats_of(p.c).posts, 1);
	delegrpc_client_flush(p.c);
	CHECK_EQ(receive(&p, 1), 1);
}

/* Only one index marks a post. Length and client of a post are checked like those of a call. */
TEST(forged_posts_are_dropped)
{
	static const struct {
		uint32_t client, index, len, generation;
		bool good;
	} forged[] = {{0, 0xffff, 4, 1, true}, {0, 0xfffe, 4, 1, false}, {0, 8, 4, 1, false},
		{0, 0x8000, 4, 1, false}, {0, 0xffff, 49, 1, false}, {2, 0xffff, 4, 1, false},
		{0, 0xffff, 4, 0, false}, {0, 0xffff, 48, 1, true}};
	uint32_t good = 0;
	SERVER *s = server_new(2, 0, 8);
	struct delegrpc_req r;
	RAW *raw = raw_open(test_name);

	for (uint32_t i = 0; i < ARRAY_SIZE(forged); i++) {
		uint64_t pos = raw_reserve(raw, 0, 1);

		raw_fill_length(raw, pos, forged[i].client,
			RAW_ID(forged[i].generation, forged[i].index), i, forged[i].len);
		CHECK_EQ(delegrpc_server_poll(s), 1);
		CHECK_EQ(delegrpc_server_recv(s, &r), forged[i].good);
		CHECK(!forged[i].good || r.id == DELEGRPC_POST);
		good += forged[i].good;
		delegrpc_server_advance_tail(s);
	}
	CHECK_EQ(server_stats_of(s).posts, good);
	CHECK_EQ(server_stats_of(s).bad_requests, ARRAY_SIZE(forged) - good);
}

/* A response with the id that a post occupies is dropped. */
TEST(forged_response_to_a_post)
{
	AT_END(posts_end) struct posts p;
	RAW *raw;

	posts_begin(&p, 0, 4);
	raw = raw_open(test_name);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(make(&p, false), 0);
	for (uint32_t i = 0; i < 3; i++)
		__atomic_store_n((uint64_t *)(void *)(raw->responses + i * 64),
			(uint64_t)(4 << 15 | i) << 32 | 1u << 16 | raw->lines[0].generation,
			__ATOMIC_RELEASE);
	CHECK_EQ(delegrpc_client_poll(p.c, on_answer, &p), 0);
	CHECK_EQ(client_stats_of(p.c).bad_responses, 3);
	CHECK_EQ(delegrpc_client_posts(p.c), 3);
}

/* A tail that another process has written neither frees an id twice nor hides a post for ever. */
TEST(forged_tails)
{
	static const uint64_t tails[] = {3, 1000, INT64_MAX, 1ull << 63, UINT64_MAX, 0};

	for (uint32_t i = 0; i < ARRAY_SIZE(tails); i++) {
		AT_END(posts_end) struct posts p;
		RAW *raw;

		posts_begin(&p, 0, 8);
		raw = raw_open(test_name);
		for (uint32_t k = 0; k < 3; k++)
			CHECK_EQ(make(&p, false), 0);
		delegrpc_client_flush(p.c);
		CHECK_EQ(make(&p, false), 0); /* these two are staged */
		CHECK_EQ(make(&p, false), 0);
		raw->control->tail = tails[i];
		CHECK_EQ(delegrpc_client_posts(p.c), (int64_t)tails[i] > 0 ? 2 : 5);
		raw->control->tail = 0;
		while (!make(&p, false))
			;
		CHECK_EQ(delegrpc_client_posts(p.c), 8);
		receive(&p, UINT32_MAX);
		delegrpc_server_advance_tail(p.s);
		delegrpc_client_flush(p.c);
		receive(&p, UINT32_MAX);
		delegrpc_server_advance_tail(p.s);
		CHECK_EQ(delegrpc_client_posts(p.c), 0);
		CHECK_EQ(p.received, p.made);
	}
}
