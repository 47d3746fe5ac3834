/* SPDX-License-Identifier: MIT */
/* Tests what flux.h promises: most of it in one thread, sleeping and waking with two threads. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "support/interrupt.h"
#include "common.h"

TEST(create_checks_attr)
{
	static const struct flux_attr bad[] = {
		{.nodes = 0},
		{.nodes = FLUX_MAX_NODES + 1},
		{.nodes = 2, .capacity = FLUX_MAX_CAPACITY + 1},
		{.nodes = 2, .capacity = 1},
		{.nodes = 2, .capacity = 64, .max_inflight = 64},
		{.nodes = 2, .max_inflight = FLUX_MAX_CAPACITY},
		{.nodes = 2, .max_inflight = UINT32_MAX},
		{.nodes = 2, .payload_size = FLUX_MAX_PAYLOAD + 1, .reply_size = 8},
		{.nodes = 2, .reply_size = FLUX_MAX_PAYLOAD + 1},
	};
	struct flux_attr huge = {.nodes = FLUX_MAX_NODES,
		.capacity = FLUX_MAX_CAPACITY,
		.payload_size = FLUX_MAX_PAYLOAD};
	struct flux *f = (struct flux *)&f;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(flux_create(&bad[i], &f), -EINVAL);
	CHECK_EQ(flux_create(&huge, &f), -ENOMEM);
	CHECK(f == (struct flux *)&f); /* f is written only on success */
	flux_destroy(NULL);
}

TEST(defaults)
{
	static const struct {
		uint32_t max_inflight, capacity;
	} t[] = {{17, 68}, {1, 64}, {FLUX_MAX_CAPACITY - 1, FLUX_MAX_CAPACITY}};
	struct flux_attr attr = {.nodes = 2};
	unsigned char payload[57] = {0};
	struct flux_node *a;
	FLUX *f;
	uint32_t n = 0;

	CHECK_EQ(flux_create(&attr, &f), 0);
	a = flux_get_node(f, 0);
	CHECK(flux_get_node(f, 1) && !flux_get_node(f, 2));
	CHECK_EQ(flux_call(a, 1, payload, 57, 0), -EMSGSIZE);
	while (!flux_call(a, 1, payload, 56, 0))
		n++;
	CHECK_EQ(n, 256);
	flux_get_attr(f, &attr, sizeof(attr));
	CHECK_EQ(attr.nodes, 2);
	CHECK_EQ(attr.capacity, 1024);
	CHECK_EQ(attr.max_inflight, 256);
	CHECK_EQ(attr.payload_size, 56);
	CHECK_EQ(attr.reply_size, 56);
	flux_destroy(f);

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		attr = (struct flux_attr){.nodes = 2, .max_inflight = t[i].max_inflight};
		CHECK_EQ(flux_create(&attr, &f), 0);
		CHECK_EQ(flux_get_node(f, 1)->capacity, t[i].capacity);
		flux_destroy(f);
	}

	attr = (struct flux_attr){.nodes = 2, .capacity = 4};
	CHECK_EQ(flux_create(&attr, &f), 0);
	a = flux_get_node(f, 0);
	for (n = 0; !flux_call(a, 1, payload, 56, 0); n++)
		;
	CHECK_EQ(n, 3);
}

TEST(call_and_reply)
{
	FLUX *f = make(3, 0, 0);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 2);
	struct seen s = {0};
	struct got g;

	CHECK_EQ(serve(b), 0);
	CHECK_EQ(call(a, 2, 41, 7), 0);
	CHECK_EQ(flux_pending(a), 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	g = take(b);
	CHECK_EQ(g.from, 0);
	CHECK_EQ(g.value, 41);
	g.value = 42;
	answer(b, g);
	CHECK_EQ(flux_pending(a), 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
	CHECK_EQ(s.token[0], 7);
	CHECK_EQ(s.value[0], 42);
	CHECK_EQ(flux_pending(a), 0);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
}

TEST(bad_arguments)
{
	FLUX *f = make(2, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	unsigned char big[16] = {0};
	struct got g;
	struct seen s = {0};

	CHECK_EQ(call(a, 2, 0, 0), -EINVAL);
	CHECK_EQ(call(a, UINT32_MAX, 0, 0), -EINVAL);
	CHECK_EQ(flux_call(a, 1, big, 9, 0), -EMSGSIZE);
	CHECK_EQ(flux_pending(a), 0);
	CHECK_EQ(call(a, 1, 5, 1), 0);
	g = take(b);
	CHECK_EQ(g.value, 5);
	CHECK_EQ(flux_reply(b, g.token, big, 9), -EMSGSIZE);
	CHECK_EQ(flux_reply(b, g.token + 1, &g.value, 8), -EINVAL); /* never received */
	CHECK_EQ(flux_reply(b, g.token + 8, &g.value, 8), -EINVAL); /* no such id */
	CHECK_EQ(flux_reply(b, g.token | 2ull << 32, &g.value, 8), -EINVAL); /* no such node */
	CHECK_EQ(flux_reply(b, g.token | 1ull << 32, &g.value, 8), -EINVAL); /* wrong caller */
	CHECK_EQ(flux_reply(b, UINT64_MAX, &g.value, 8), -EINVAL);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
	answer(b, g);
	CHECK_EQ(flux_reply(b, g.token, &g.value, 8), -EINVAL); /* answered already */
	poll_all(a, &s);
	CHECK_EQ(s.n, 1);
}

/* In a burst of answers, too, each call can be answered only once. */
TEST(bad_replies_of_a_burst)
{
	FLUX *f = make(2, 64, 32);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct got got[32];

	calls(a, 1, 32);
	flux_flush(a);
	for (uint32_t i = 0; i < 32; i++)
		got[i] = take(b);
	answer(b, got[5]);
	CHECK_EQ(flux_reply(b, got[5].token, &got[0].value, 8), -EINVAL);
	CHECK_EQ(flux_reply(b, got[6].token | UINT32_MAX, &got[0].value, 8), -EINVAL);
	CHECK_EQ(flux_reply(b, got[6].token | 32, &got[0].value, 8), -EINVAL);
	answer(b, got[6]);
}

/*
 * Two peers have made more than 32 calls each. Before the node turns to the other peer it receives at
 * most 32 calls of one peer, and all calls that were published together or none of them.
 */
TEST(turn_has_32_calls)
{
	FLUX *f = make(3, 0, 0);
	struct flux_node *b = flux_get_node(f, 0);
	uint32_t first, n = 1;

	for (uint32_t p = 1; p < 3; p++) {
		calls(flux_get_node(f, p), 0, 100);
		flux_flush(flux_get_node(f, p));
	}
	for (first = take(b).from; take(b).from == first; n++)
		;
	CHECK(n > 24 && n <= 32);
}

/* The numbers that the manual states. */
TEST(documented_numbers)
{
	FLUX *f = make(2, 0, 0);
	struct flux_node *a = flux_get_node(f, 0);
	struct seen s = {0};

	calls(a, 1, 8);
	CHECK_EQ(serve(flux_get_node(f, 1)), 7); /* the caller keeps the eighth until a flush */
	flux_flush(a);
	CHECK_EQ(serve(flux_get_node(f, 1)), 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 8);
	calls(a, 1, 20);
	flux_flush(a);
	CHECK_EQ(serve(flux_get_node(f, 1)), 20);
	flux_flush(flux_get_node(f, 1));
	CHECK_EQ(flux_poll(a, on_response, &s), 8);
}

TEST(full_is_eagain)
{
	FLUX *f = make(2, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	uint64_t sent = 0;

	for (uint32_t round = 0; round < 100; round++) {
		while (!call(a, 1, sent, sent))
			sent++;
		CHECK_EQ(call(a, 1, 0, 0), -EAGAIN);
		CHECK_EQ(flux_pending(a), 8);
		CHECK_EQ(call(b, 0, 0, 0), 0); /* the other direction has its own room */
		CHECK_EQ(serve(b), 8);
		CHECK_EQ(serve(a), 1);
		poll_all(a, &s);
		poll_all(b, &(struct seen){0});
		CHECK_EQ(flux_pending(a), 0);
		CHECK_EQ(s.n, sent);
	}
	for (uint64_t i = 0; i < sent; i++) {
		CHECK_EQ(s.token[i], i);
		CHECK_EQ(s.value[i], i + 1);
	}
}

/* One call stays unanswered during many laps of the rings. */
TEST(held_beyond_capacity)
{
	FLUX *f = make(2, 4, 3);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	struct got held;

	CHECK_EQ(call(a, 1, 77, 77), 0);
	held = take(b);
	for (uint64_t i = 0; i < 1000; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		CHECK_EQ(serve(b), 1);
		CHECK_EQ(flux_poll(a, on_response, &s), 1);
		CHECK_EQ(s.token[i], i);
		CHECK_EQ(s.value[i], i + 1);
		CHECK_EQ(flux_pending(a), 1);
	}
	held.value = 1000;
	answer(b, held);
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
	CHECK_EQ(s.token[1000], 77);
	CHECK_EQ(s.value[1000], 1000);
}

/* Answers the calls in reverse order. */
TEST(reply_in_reverse)
{
	FLUX *f = make(2, 16, 15);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct got got[15];
	struct seen s = {0};

	for (uint32_t round = 0; round < 50; round++) {
		for (uint64_t i = 0; i < 15; i++)
			CHECK_EQ(call(a, 1, 100 * round + i, i), 0);
		flux_flush(a);
		for (uint64_t i = 0; i < 15; i++) {
			got[i] = take(b);
			CHECK_EQ(got[i].value, 100 * round + i);
		}
		for (uint64_t i = 15; i-- > 0;)
			answer(b, got[i]);
		flux_flush(b);
		s.n = 0;
		poll_all(a, &s);
		CHECK_EQ(s.n, 15);
		for (uint64_t i = 0; i < 15; i++) {
			CHECK_EQ(s.token[i], 14 - i);
			CHECK_EQ(s.value[i], 100 * round + 14 - i);
		}
	}
}

TEST(poll_is_bounded_and_fair)
{
	FLUX *f = make(4, 256, 128);
	struct flux_node *a = flux_get_node(f, 0);
	uint32_t ended[4] = {0}, most = 0, n;
	struct seen s = {0};

	for (uint32_t p = 1; p < 4; p++)
		for (uint32_t i = 0; i < 128; i++)
			CHECK_EQ(call(a, p, p, p), 0);
	flux_flush(a);
	for (uint32_t p = 1; p < 4; p++)
		CHECK_EQ(serve(flux_get_node(f, p)), 128);
	CHECK_EQ(flux_pending(a), 3 * 128);
	while ((n = (uint32_t)flux_poll(a, on_response, &s))) {
		most = n > most ? n : most;
		for (uint32_t i = s.n - n; i < s.n; i++)
			ended[s.token[i]]++;
		for (uint32_t p = 1; p < 4; p++)
			CHECK_EQ(ended[p], ended[p % 3 + 1]);
	}
	CHECK_EQ(most, 3 * 32);
	CHECK_EQ(s.n, 3 * 128);
}

/* Each of three peers has made 512 calls, which are received in turns. */
TEST(recv_is_fair)
{
	FLUX *f = make(4, 1024, 512);
	uint32_t got[4] = {0}, from = 0;
	uint64_t token, value = 0;

	for (uint32_t p = 1; p < 4; p++) {
		calls(flux_get_node(f, p), 0, 512);
		flux_flush(flux_get_node(f, p));
	}
	while (recv_one(flux_get_node(f, 0), &from, &token, &value)) {
		CHECK_EQ(value, got[from]); /* in order */
		got[from]++;
		for (uint32_t p = 1; p < 4; p++)
			CHECK(got[p] <= got[p % 3 + 1] + 2 * 32); /* FLUX_TURN */
	}
	CHECK_EQ(got[1] + got[2] + got[3], 3 * 512);
}

struct again {
	struct flux_node *node;
	uint64_t left;
	uint64_t ended;
};

static void call_again(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct again *g = arg;

	CHECK_EQ(*(const uint64_t *)payload, token + 1);
	if (g->left) {
		g->left--;
		CHECK_EQ(call(g->node, 1, token + 10, token + 10), 0);
	}
	/* The new call has not overwritten the slot of the response. */
	CHECK_EQ(*(const uint64_t *)payload, token + 1);
	g->ended++;
}

TEST(call_from_the_response)
{
	FLUX *f = make(2, 4, 3);
	struct again g = {.node = flux_get_node(f, 0), .left = 1000};

	calls(g.node, 1, 3);
	while (flux_pending(g.node)) {
		serve(flux_get_node(f, 1));
		flux_poll(g.node, call_again, &g);
	}
	CHECK_EQ(g.ended, 1003);
}

TEST(call_oneself)
{
	FLUX *f = make(1, 0, 0);
	struct flux_node *a = flux_get_node(f, 0);
	struct seen s = {0};

	CHECK_EQ(call(a, 0, 1, 2), 0);
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	CHECK_EQ(serve(a), 1);
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
	CHECK_EQ(s.token[0], 2);
	CHECK_EQ(s.value[0], 2);
}

TEST(many_nodes)
{
	FLUX *f = make(FLUX_MAX_NODES, 8, 4);
	struct flux_node *a = flux_get_node(f, 100);
	struct seen s = {0};

	for (uint32_t p = 0; p < FLUX_MAX_NODES; p++)
		CHECK_EQ(call(a, p, p, p), 0);
	CHECK_EQ(flux_pending(a), FLUX_MAX_NODES);
	for (uint32_t p = 0; p < FLUX_MAX_NODES; p++)
		CHECK_EQ(serve(flux_get_node(f, p)), 1);
	poll_all(a, &s);
	CHECK_EQ(s.n, FLUX_MAX_NODES);
	for (uint32_t i = 0; i < s.n; i++)
		CHECK_EQ(s.value[i], s.token[i] + 1);
}

/* Messages of many cache lines. Every second call is shorter than its slot. */
TEST(long_payloads)
{
	static unsigned char out[5000], in[5000];
	FLUX *f = make_of(2, 8, 0, sizeof(out), 0);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	uint64_t token;
	uint32_t from;

	for (uint32_t round = 0; round < 100; round++) {
		uint32_t len = round % 2 ? sizeof(out) : 49 * round;
		struct seen s = {0};

		for (uint32_t i = 0; i < sizeof(out); i++)
			out[i] = (unsigned char)(i * 7 + round);
		CHECK_EQ(flux_call(a, 1, out, len, round), 0);
		CHECK_EQ(flux_try_recv_raw(b, &from, &token, in, len, NULL), 1);
		CHECK(!memcmp(in, out, len));
		CHECK_EQ(flux_reply(b, token, in, sizeof(in)), 0);
		CHECK_EQ(flux_poll(a, on_response, &s), 1);
		CHECK(!memcmp(&s.value[0], in, 8));
	}
}

/* The lap number of a ring has few bits and wraps. */
TEST(lap_wraps)
{
	FLUX *f = make(2, 4, 3);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct cellring_cursor *ends[] = {&a->out[1].req.at, &a->out[1].resp, &b->in[0].req,
		&b->in[0].resp.at};
	struct seen s = {0};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		ends[i]->lap = CELLRING_LAP_LAST - 1;
		for (unsigned char *cell = ends[i]->begin; cell != ends[i]->end;
			cell += ends[i]->cell)
			((struct cellring_message *)cell)->head =
				CELLRING_HEAD(CELLRING_LAP_LAST - 2, 1, 1);
	}
	for (uint64_t i = 0; i < 64; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		CHECK_EQ(serve(b), 1);
		CHECK_EQ(serve(b), 0);
		CHECK_EQ(flux_poll(a, on_response, &s), 1);
		CHECK_EQ(flux_poll(a, on_response, &s), 0);
		CHECK_EQ(s.value[i], i + 1);
	}
	CHECK(ends[0]->lap < 16);
}

struct kept {
	struct flux_node *node;
	uint64_t token[64], value[64];
	uint32_t n, served;
};

/* Answers every second call at once, and keeps the tokens of the others. */
static void serve_or_keep(void *arg, const struct flux_req *req, const void *payload)
{
	struct kept *k = arg;
	uint64_t value = *(const uint64_t *)payload;

	CHECK_EQ(req->len, sizeof(value));
	CHECK_EQ(req->from, 0);
	k->served++;
	value++;
	if (value % 2) {
		CHECK_EQ(flux_reply(k->node, req->token, &value, sizeof(value)), 0);
		CHECK_EQ(flux_reply(k->node, req->token, &value, sizeof(value)), -EINVAL);
		return;
	}
	k->value[k->n] = value;
	k->token[k->n++] = req->token;
}

/* flux_serve() calls its function at most max times. The function answers at once or later. */
TEST(serve_answers_now_or_later)
{
	FLUX *f = make(2, 64, 60);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct kept k = {.node = b};
	int n;

	CHECK_EQ(flux_serve(b, serve_or_keep, &k, 7), 0);
	for (uint32_t round = 0; round < 20; round++) {
		struct seen s = {0};

		calls(a, 1, 50);
		flux_flush(a);
		k.served = 0;
		while (k.served < 50) {
			uint32_t before = k.served, kept = k.n;

			n = flux_serve(b, serve_or_keep, &k, 7);
			CHECK(n > 0 && n <= 7);
			CHECK_EQ(k.served - before, n);
			CHECK_EQ(b->unfenced, 0); /* b has checked whether the caller sleeps */
			CHECK_EQ(flux_poll(a, on_response, &s), n - (int)(k.n - kept));
		}
		CHECK_EQ(s.n, 25);
		while (k.n) {
			k.n--;
			CHECK_EQ(flux_reply(b, k.token[k.n], &k.value[k.n], 8), 0);
		}
		flux_flush(b);
		poll_all(a, &s);
		CHECK_EQ(s.n, 50);
		for (uint32_t i = 0; i < s.n; i++)
			CHECK_EQ(s.value[i], s.token[i] + 1);
	}
	CHECK_EQ(b->unfenced, 0);
}

TEST(wait_times_out)
{
	FLUX *f = make(2, 0, 0);
	struct flux_node *a = flux_get_node(f, 0);

	CHECK_EQ(flux_wait(a, 0), 0);
	CHECK_EQ(flux_wait(a, 100), 0);
	CHECK_EQ(flux_wait(a, 5 * NSEC_PER_MSEC), 0);
	CHECK_EQ(call(a, 1, 0, 0), 0);
	CHECK_EQ(flux_wait(a, 1000), 0); /* a call is not a response */
	CHECK_EQ(flux_wait(flux_get_node(f, 1), 0), 1);
}

TEST(counters)
{
	FLUX *f = make(2, 4, 3);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct flux_stats s;

	for (uint32_t i = 0; i < 10; i++) {
		CHECK_EQ(call(a, 1, i, i), 0);
		flux_flush(a);
		serve(b);
		poll_all(a, &(struct seen){0});
	}
	CHECK_EQ(call(a, 1, 0, 0), 0);
	flux_flush(a);
	flux_leave(b);
	poll_all(a, &(struct seen){0});
	s = stats_of(a);
	CHECK_EQ(s.calls, 11);
	CHECK_EQ(s.responses, 10);
	CHECK_EQ(s.aborted, 1);
	CHECK_EQ(s.requests, 0);
	CHECK_EQ(s.flushes, 11);
	CHECK_EQ(s.bursts, 11);
	s = stats_of(b);
	CHECK_EQ(s.requests, 10);
	CHECK_EQ(s.replies, 10);
	CHECK_EQ(s.calls, 0);
}

static pid_t sleeper_tid; /* stored by the sleeper (release), loaded by its waker (acquire) */

/* A server that sleeps before each call. */
static void *sleeper(void *arg)
{
	struct flux_node *n = arg;
	uint32_t served = 0;

	__atomic_store_n(&sleeper_tid, gettid(), __ATOMIC_RELEASE);

	while (served < 500) {
		CHECK_EQ(flux_wait(n, UINT64_MAX), 1);
		served += serve(n);
	}
	flux_flush(n);
	CHECK(stats_of(n).sleeps >= 500);
	return NULL;
}

TEST(sleep_and_wake)
{
	FLUX *f = make(2, 0, 0);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, sleeper, b), 0);
	for (uint64_t i = 0; i < 500; i++) {
		/*
		 * The state alone does not show that the thread sleeps: the thread sets it before
		 * its second check for calls.
		 */
		while (!(
			asleep(b) && test_blocked(__atomic_load_n(&sleeper_tid, __ATOMIC_ACQUIRE))))
			sched_yield();
		CHECK_EQ(call(a, 1, i, i), 0);
		while (!flux_poll(a, on_response, &s))
			CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	}
	pthread_join(t, NULL);
	CHECK_EQ(s.n, 500);
	CHECK(stats_of(a).wakes >= 500);
}

static int wait_for_ever(void *node)
{
	return flux_wait(node, UINT64_MAX);
}

/* The wait returns 0, so that its caller can handle the signal. */
TEST(signal_ends_a_wait)
{
	FLUX *f = make(2, 0, 0);

	CHECK_EQ(interrupt_wait(wait_for_ever, flux_get_node(f, 0)), 0);
}

/* A program built with another version has shorter or longer structs. */
TEST(sizes_of_other_versions)
{
	struct {
		struct flux_attr attr;
		uint64_t later;
	} longer = {.attr = {.size = sizeof(longer), .nodes = 1}, .later = 1};
	FLUX *f;
	struct flux_stats st;

	CHECK_EQ(flux_create(&longer.attr, &f), -E2BIG);
	longer.later = 0;
	CHECK_EQ(flux_create(&longer.attr, &f), 0);
	memset(&longer, 0xee, sizeof(longer));
	flux_get_attr(f, &longer.attr, sizeof(longer));
	CHECK_EQ(longer.attr.size, sizeof(longer.attr));
	CHECK_EQ(longer.later, 0xeeeeeeeeeeeeeeee);
	memset(&longer, 0xee, sizeof(longer));
	flux_get_attr(f, &longer.attr, offsetof(struct flux_attr, capacity));
	CHECK_EQ(longer.attr.size, offsetof(struct flux_attr, capacity));
	CHECK_EQ(longer.attr.capacity, 0xeeeeeeee);
	memset(&st, 0xee, sizeof(st));
	flux_node_get_stats(flux_get_node(f, 0), &st, sizeof(st) - 8);
	CHECK_EQ(st.calls, 0);
	CHECK_EQ(st.received_posts, 0xeeeeeeeeeeeeeeee);
}
