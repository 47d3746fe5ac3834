/* SPDX-License-Identifier: MIT */
/*
 * Tests, in one thread, how delegrpc collects messages: when it publishes calls and replies, when
 * it checks whether the peer sleeps, messages of every size, and replies to a client that is
 * replaced.
 */
#include "solo.h"
#include "support/rpcsizes.h"

#define DEPTH 64
#define TAKEN 25
#define LEFT 7

/* Makes enough calls for bursts of eight replies, and receives most of these calls. */
static void take_many(struct delegrpc_server *s, struct delegrpc_client *c,
	struct delegrpc_req r[TAKEN])
{
	calls_out(c, TAKEN + LEFT);
	CHECK_EQ(delegrpc_server_poll(s), TAKEN + LEFT);
	for (uint32_t i = 0; i < TAKEN; i++)
		r[i] = take(s, i);
}

static uint32_t poll_all(struct delegrpc_client *c, struct seen *seen)
{
	uint32_t before = seen->n;

	while (delegrpc_client_poll(c, note, seen) > 0)
		;
	return seen->n - before;
}

/* ---- calls ---- */

/* Three calls are staged. Checks that the function named @how publishes them. */
static void calls_published_by(const char *how)
{
	SERVER *s = server_new(1, 0, DEPTH);
	CLIENT *c = client_new();
	struct seen seen = {0};
	int n = 3;

	calls(c, 3);
	CHECK_EQ(delegrpc_server_poll(s), 0);
	if (!strcmp(how, "poll"))
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	else if (!strcmp(how, "wait"))
		CHECK_EQ(delegrpc_client_wait(c, 0), 0);
	else if (!strcmp(how, "flush"))
		CHECK_EQ(delegrpc_client_flush(c), 0);
	else
		for (; n < DELEGRPC_BATCH; n++)
			call(c, (uint32_t)n);
	CHECK_EQ(delegrpc_server_poll(s), n);
}

TEST(every_call_is_published)
{
	calls_published_by("poll");
	calls_published_by("wait");
	calls_published_by("flush");
	calls_published_by("full batch");
}

/*
 * Checks that the function named @how wakes a server that sleeps, and that the functions which are
 * called before it do not.
 */
static void server_woken_by(const char *how)
{
	SERVER *s = server_new(1, 0, 256);
	CLIENT *c = client_new();
	struct seen seen = {0};
	RAW *raw = raw_open(test_name);

	raw->header->server_state = DELEGRPC_ASLEEP;
	calls(c, DELEGRPC_BATCH);
	CHECK_EQ(raw->control->head, DELEGRPC_BATCH);
	CHECK_EQ(client_stats_of(c).wakes, 0);
	if (!strcmp(how, "poll")) {
		/* A poll that finds responses does not wake the server; the next one does. */
		CHECK_EQ(serve(s), DELEGRPC_BATCH);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), DELEGRPC_BATCH);
		CHECK_EQ(client_stats_of(c).wakes, 0);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	} else if (!strcmp(how, "wait")) {
		CHECK_EQ(delegrpc_client_wait(c, 0), 0);
	} else if (!strcmp(how, "flush")) {
		CHECK_EQ(delegrpc_client_flush(c), 0);
	} else {
		for (uint32_t n = DELEGRPC_BATCH; n < DELEGRPC_UNFENCED * DELEGRPC_BATCH; n++)
			call(c, n);
		CHECK_EQ(client_stats_of(c).wakes, 0);
		calls(c, DELEGRPC_BATCH);
	}
	CHECK_EQ(client_stats_of(c).wakes, 1);
	CHECK_EQ(raw->header->server_state, DELEGRPC_RUNNING);
	/* One check is enough, because nothing has been published since. */
	raw->header->server_state = DELEGRPC_ASLEEP;
	if (strcmp(how, "batches")) {
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		CHECK_EQ(client_stats_of(c).wakes, 1);
	}
}

TEST(server_is_woken)
{
	server_woken_by("poll");
	server_woken_by("wait");
	server_woken_by("flush");
	server_woken_by("batches");
}

/* ---- replies ---- */

/* Three replies are collected. Checks that the function named @how publishes them. */
static void replies_published_by(const char *how)
{
	SERVER *s = server_new(2, 0, DEPTH);
	CLIENT *c = client_new(), *other = client_new();
	struct delegrpc_req r[TAKEN], rest, others;
	struct seen seen = {0};
	uint32_t n = 3;

	others = pass(other, s, 99);
	take_many(s, c, r);
	for (uint32_t i = 0; i < n; i++)
		answer(s, &r[i], i);
	CHECK_EQ(poll_all(c, &seen), 0);
	if (!strcmp(how, "second poll")) {
		/* More requests wait to be answered, so the first poll does not publish. */
		CHECK_EQ(delegrpc_server_poll(s), LEFT);
		CHECK_EQ(poll_all(c, &seen), 0);
		CHECK_EQ(delegrpc_server_poll(s), LEFT);
	} else if (!strcmp(how, "poll in vain")) {
		for (uint32_t i = 0; i < LEFT; i++)
			take(s, TAKEN + i);
		CHECK_EQ(poll_all(c, &seen), 0);
		CHECK_EQ(delegrpc_server_poll(s), 0);
	} else if (!strcmp(how, "receive")) {
		while (delegrpc_server_recv(s, &rest))
			CHECK_EQ(poll_all(c, &seen), 0);
	} else if (!strcmp(how, "wait")) {
		CHECK_EQ(delegrpc_server_wait(s, 0), 1);
		CHECK_EQ(delegrpc_server_wait(s, 0), 1);
	} else if (!strcmp(how, "flush")) {
		delegrpc_server_flush(s);
	} else if (!strcmp(how, "another")) {
		answer(s, &others, 99);
	} else if (!strcmp(how, "destroy")) {
		rpc_server_end(&s);
	} else {
		for (; n < DELEGRPC_BATCH; n++) {
			CHECK_EQ(poll_all(c, &seen), 0);
			answer(s, &r[n], n);
		}
	}
	CHECK_EQ(poll_all(c, &seen), n);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(seen.token[i], i);
		CHECK_EQ(seen.value[i], i);
	}
}

TEST(every_reply_is_published)
{
	replies_published_by("second poll");
	replies_published_by("poll in vain");
	replies_published_by("receive");
	replies_published_by("wait");
	replies_published_by("flush");
	replies_published_by("another");
	replies_published_by("destroy");
	replies_published_by("full burst");
}

/* Returns how many replies the server makes, with n calls in flight, before the client sees one. */
static uint32_t replies_until_seen(uint32_t n)
{
	SERVER *s = server_new(1, 0, DEPTH);
	CLIENT *c = client_new();
	struct seen seen = {0};
	struct delegrpc_req r;
	uint32_t replies = 0;

	calls_out(c, n);
	CHECK_EQ(delegrpc_server_poll(s),
		n < DELEGRPC_SERVER_POLL_MAX ? n : DELEGRPC_SERVER_POLL_MAX);
	/* The last request that was received determines the size of the burst. */
	for (uint32_t i = 0; i + DELEGRPC_BATCH < n; i++)
		take(s, i);
	while (!poll_all(c, &seen)) {
		CHECK_EQ(delegrpc_server_recv(s, &r), 1);
		answer(s, &r, 0);
		replies++;
	}
	CHECK_EQ(seen.n, replies);
	return replies;
}

TEST(a_quarter_travels_together)
{
	CHECK_EQ(replies_until_seen(1), 1);
	CHECK_EQ(replies_until_seen(7), 1);
	CHECK_EQ(replies_until_seen(8), 2);
	CHECK_EQ(replies_until_seen(16), 4);
	CHECK_EQ(replies_until_seen(32), 8);
}

/* A request's burst field plus one is the number of replies published together. */
TEST(burst_is_as_the_client_says)
{
	static const uint32_t says[] = {0, 1, 3, 6, 7}, gets[] = {1, 2, 4, 7, 8};
	SERVER *s = server_new(2, 0, DEPTH);
	RAW *raw = raw_open(test_name);

	CHECK_EQ(shm_lock(&raw->region, 1), 0);
	for (uint32_t i = 0; i < ARRAY_SIZE(says); i++) {
		uint32_t generation = i + 1, n = 0;
		uint64_t *stamp = (uint64_t *)(void *)raw->responses, pos;
		struct delegrpc_req r;

		pos = raw_reserve(raw, 0, DELEGRPC_BATCH);
		for (uint32_t k = 0; k < DELEGRPC_BATCH; k++)
			raw_fill(raw, pos + k, says[i] << 12, RAW_ID(generation, k), k);
		CHECK_EQ(delegrpc_server_poll(s), DELEGRPC_BATCH);
		while ((uint32_t)*stamp != (1u << 16 | generation)) {
			r = take(s, n++);
			answer(s, &r, 0);
		}
		CHECK_EQ(n, gets[i]);
		while (n < DELEGRPC_BATCH)
			take(s, n++);
		delegrpc_server_advance_tail(s);
	}
}

/* No burst crosses the end of the ring; every reply of many rounds arrives. */
TEST(bursts_end_with_the_ring)
{
	SERVER *s = server_new(1, 0, DEPTH);
	CLIENT *c = client_new();
	struct seen seen = {0};
	uint32_t made = 0, got = 0;

	while (made < 5) /* the first round does not begin at the ring's start */
		call(c, made++);
	delegrpc_client_flush(c);
	serve(s);
	got += poll_all(c, &seen);
	for (uint32_t round = 0; round < 100; round++) {
		seen.n = 0;
		for (uint32_t i = 0; i < 37; i++)
			call(c, made++);
		delegrpc_client_flush(c);
		CHECK_EQ(serve(s), 37);
		CHECK_EQ(poll_all(c, &seen), 37);
		for (uint32_t i = 0; i < 37; i++)
			CHECK_EQ(seen.value[i], 1000 + got++);
	}
}

/* Checks, like server_woken_by(), that the function named @how wakes a client that sleeps. */
static void client_woken_by(const char *how)
{
	SERVER *s = server_new(2, 0, DEPTH);
	CLIENT *c = client_new();
	struct delegrpc_req r[TAKEN], rest;
	RAW *raw = raw_open(test_name);

	raw->lines[0].state = DELEGRPC_ASLEEP;
	take_many(s, c, r);
	for (uint32_t i = 0; i < DELEGRPC_BATCH; i++)
		answer(s, &r[i], i);
	CHECK_EQ(server_stats_of(s).wakes, 0);
	if (!strcmp(how, "flush")) {
		delegrpc_server_flush(s);
	} else if (!strcmp(how, "poll that finds something")) {
		for (uint32_t i = 1; i < DELEGRPC_UNFENCED; i++)
			CHECK_EQ(delegrpc_server_poll(s), LEFT);
		CHECK_EQ(server_stats_of(s).wakes, 0);
		CHECK_EQ(delegrpc_server_poll(s), LEFT);
	} else {
		while (delegrpc_server_recv(s, &rest))
			CHECK_EQ(server_stats_of(s).wakes, 0);
		CHECK_EQ(server_stats_of(s).wakes, 0);
		if (!strcmp(how, "wait"))
			CHECK_EQ(delegrpc_server_wait(s, 0), 0);
		else
			CHECK_EQ(delegrpc_server_poll(s), 0);
	}
	CHECK_EQ(server_stats_of(s).wakes, 1);
	CHECK_EQ(raw->lines[0].state, DELEGRPC_RUNNING);
	raw->lines[0].state = DELEGRPC_ASLEEP;
	delegrpc_server_poll(s);
	delegrpc_server_flush(s);
	CHECK_EQ(server_stats_of(s).wakes, 1);
}

TEST(client_is_woken)
{
	client_woken_by("flush");
	client_woken_by("poll that finds something");
	client_woken_by("poll that finds nothing");
	client_woken_by("wait");
}

/* ---- a client that is replaced ---- */

/* Returns true if client 0's response ring contains a response with this generation. */
static bool ring_has(const struct raw *raw, uint32_t generation)
{
	for (uint32_t i = 0; i < DEPTH; i++)
		if ((*(uint64_t *)(void *)(raw->responses + i * 64) & 0xffff) == generation)
			return true;
	return false;
}

/* Replies collected for the predecessor are dropped when the successor's call is received. */
TEST(replies_to_the_replaced_are_dropped)
{
	SERVER *s = server_new(1, 0, DEPTH);
	CLIENT *c = client_new();
	struct delegrpc_req old[TAKEN], r;
	struct seen seen = {0};
	RAW *raw = raw_open(test_name);

	take_many(s, c, old);
	while (delegrpc_server_recv(s, &r))
		;
	delegrpc_server_advance_tail(s);
	delegrpc_client_disconnect(c);
	c = client_new();
	call_out(c, 77);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	for (uint32_t i = 0; i < 3; i++)
		answer(s, &old[i],
			i); /* collected, because the server considers the client alive */
	r = take(s, 77); /* the successor's first request: its predecessor has gone */
	CHECK_EQ(ring_has(raw, 1), false);
	delegrpc_server_flush(s);
	CHECK_EQ(ring_has(raw, 1), false);
	answer(s, &r, 1077);
	CHECK_EQ(poll_all(c, &seen), 1);
	CHECK_EQ(seen.token[0], 77);
	CHECK_EQ(seen.value[0], 1077);
	CHECK_EQ(ring_has(raw, 1), false);
	CHECK_EQ(server_stats_of(s).replies, 1);
	CHECK_EQ(server_stats_of(s).bursts, 1); /* the dropped replies do not count */
	CHECK_EQ(server_stats_of(s).stale_replies, 3);
}

/*
 * If the replies are published before the server has received a request of the successor, they
 * have the predecessor's stamp, and no client accepts them.
 */
TEST(replies_to_the_replaced_are_not_taken)
{
	SERVER *s = server_new(1, 0, DEPTH);
	CLIENT *c = client_new();
	struct seen seen = {0};
	struct delegrpc_req old[TAKEN], r;
	RAW *raw = raw_open(test_name);

	take_many(s, c, old);
	for (uint32_t i = 0; i < 3; i++)
		answer(s, &old[i], i);
	delegrpc_client_disconnect(c);
	c = client_new();
	for (uint32_t i = 0; i < 3; i++)
		call(c, 100 + i);
	while (delegrpc_server_recv(s, &r)) /* the last recv, which finds nothing, publishes */
		;
	CHECK_EQ(ring_has(raw, 1), true);
	CHECK_EQ(poll_all(c, &seen), 0);
	delegrpc_server_advance_tail(s);
	CHECK_EQ(poll_all(c, &seen), 0); /* finds nothing, but publishes the calls */
	CHECK_EQ(serve(s), 3);
	CHECK_EQ(poll_all(c, &seen), 3);
	for (uint32_t i = 0; i < 3; i++)
		CHECK_EQ(seen.value[i], 1100 + i);
	CHECK_EQ(client_stats_of(c).bad_responses, 0);
}

TEST(all_sizes)
{
	for (uint32_t n = 1; n <= 200; n++) {
		size_arrives(n, 1 + (n * 73 + 28) % 200);
		size_arrives(1 + (n * 91 + 5) % 200, n);
	}
	size_arrives(500, 247);
	size_arrives(500, 248); /* the largest response that is collected */
	size_arrives(500, 249);
	size_arrives(500, 500);
}

/* Like size_arrives(), with lengths that are compile-time constants: the copies are inlined. */
#define CONSTANT_SIZE(s, c, n)                                                                     \
	do {                                                                                       \
		unsigned char out_[n], got_[200] = {0};                                            \
		struct delegrpc_req r_;                                                            \
                                                                                                   \
		pattern(out_, n, n);                                                               \
		CHECK_EQ(delegrpc_client_call(c, out_, n, 0), 0);                                  \
		CHECK_EQ(delegrpc_client_flush(c), 0);                                             \
		CHECK_EQ(delegrpc_server_poll(s), 1);                                              \
		CHECK_EQ(delegrpc_server_recv(s, &r_), 1);                                         \
		CHECK_EQ(r_.len, n);                                                               \
		CHECK_EQ(memcmp(r_.payload, out_, n), 0);                                          \
		CHECK_EQ(delegrpc_server_reply(s, r_.client, r_.id, out_, n), 0);                  \
		CHECK_EQ(delegrpc_client_poll(c, copy_out, got_), 1);                              \
		CHECK_EQ(memcmp(got_, out_, n), 0);                                                \
	} while (0)

static void copy_out(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	memcpy(arg, resp, 200);
}

TEST(constant_sizes)
{
	struct delegrpc_attr attr = {.max_clients = 1, .req_size = 200, .resp_size = 200};
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();

	CONSTANT_SIZE(s, c, 1);
	CONSTANT_SIZE(s, c, 7);
	CONSTANT_SIZE(s, c, 8);
	CONSTANT_SIZE(s, c, 9);
	CONSTANT_SIZE(s, c, 16);
	CONSTANT_SIZE(s, c, 33);
	CONSTANT_SIZE(s, c, 63);
	CONSTANT_SIZE(s, c, 64);
	CONSTANT_SIZE(s, c, 65);
	CONSTANT_SIZE(s, c, 200);
}
