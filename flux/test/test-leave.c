/* SPDX-License-Identifier: MIT */
/* Nodes that leave: the calls to them end once, and the other nodes get one event. */
#include <errno.h>
#include <pthread.h>

#include "common.h"

TEST(leave_ends_calls_once)
{
	FLUX *f = make(3, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1),
			 *c = flux_get_node(f, 2);
	struct seen s = {0};

	calls(a, 1, 3);
	CHECK_EQ(serve(b), 3);
	for (uint64_t i = 3; i < 8; i++)
		CHECK_EQ(call(a, 1, i, i), 0);
	CHECK_EQ(call(a, 2, 50, 50), 0);
	flux_leave(b);
	flux_leave(b);
	CHECK_EQ(call(a, 1, 0, 0), -EPIPE);
	CHECK_EQ(serve(c), 1);
	poll_all(a, &s);
	CHECK_EQ(s.n, 9);
	CHECK_EQ(s.aborted, 5);
	CHECK_EQ(flux_pending(a), 0);
	for (uint32_t i = 0; i < s.n; i++) {
		/* All answers that the peer gave before it left are delivered. */
		bool answered = s.token[i] < 3 || s.token[i] == 50;

		CHECK_EQ(s.value[i], answered ? s.token[i] + 1 : UINT64_MAX);
		for (uint32_t k = 0; k < i; k++)
			CHECK(s.token[i] != s.token[k]);
	}
	CHECK_EQ(call(a, 1, 0, 0), -EPIPE);
	CHECK_EQ(call(a, 2, 1, 1), 0);
}

/* flux_left() returns another node once: when it has left and nothing more will come from it. */
TEST(leavers_are_told_once)
{
	FLUX *f = make(130, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1),
			 *last = flux_get_node(f, 129);
	struct seen s = {0};
	uint32_t left = 7;

	CHECK_EQ(flux_left(a, &left), 0);
	CHECK_EQ(call(b, 0, 1, 1), 0);
	CHECK_EQ(call(b, 0, 2, 2), 0);
	CHECK_EQ(call(a, 1, 3, 3), 0);
	flux_leave(b);
	CHECK_EQ(flux_left(a, &left), 0); /* calls from b, and a call to b, are open */
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	take(a);
	take(a);
	CHECK_EQ(flux_left(a, &left), 0); /* the call to b is open */
	CHECK_EQ(call(last, 0, 4, 4), 0);
	flux_leave(last);
	CHECK_EQ(flux_left(a, &left), 0); /* a call of the last node has not been received */
	take(a);
	CHECK_EQ(flux_left(a, &left), 1);
	CHECK_EQ(left, 129);
	CHECK_EQ(flux_left(a, &left), 0);
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1); /* flux_left() has not returned b yet */
	CHECK_EQ(flux_left(a, &left), 1);
	CHECK_EQ(left, 1);
	CHECK_EQ(flux_left(a, &left), 0);
	CHECK_EQ(flux_wait(a, 0), 0);
	CHECK_EQ(flux_left(last, &left), 1); /* a node that has left gets no event for itself */
	CHECK_EQ(left, 1);
	CHECK_EQ(flux_left(last, &left), 0);
	poll_all(last, &s);
	flux_leave(a);
	CHECK_EQ(flux_left(last, &left), 1);
	CHECK_EQ(left, 0);
	CHECK_EQ(flux_left(a, &left), 0);
}

/* After flux_left() has returned a node, no call to it is accepted, not even in an open burst. */
TEST(told_nodes_get_no_calls)
{
	FLUX *f = make(2, 256, 128);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};
	uint32_t left;

	calls(a, 1, 64);
	CHECK_EQ(serve(b), 64);
	flux_flush(b);
	while (flux_pending(a))
		flux_poll(a, on_response, &s);
	CHECK(a->out[1].burst);
	flux_leave(b);
	CHECK_EQ(flux_left(a, &left), 1);
	CHECK_EQ(call(a, 1, 0, 0), -EPIPE);
}

/*
 * A peer may add calls to a burst that was open when the node left: at most eight. Each ends once.
 */
TEST(leave_while_a_burst_is_open)
{
	for (uint32_t before = 1; before <= 64; before++) {
		FLUX *f = make(2, 256, 128);
		struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
		struct seen s = {0};
		uint32_t n = 0;

		for (; n < before; n++)
			CHECK_EQ(call(a, 1, n, n), 0);
		flux_leave(b);
		while (call(a, 1, n, n) == 0)
			n++;
		CHECK(n - before <= 8);
		CHECK_EQ(call(a, 1, n, n), -EPIPE);
		CHECK_EQ(flux_pending(a), n);
		poll_all(a, &s);
		CHECK_EQ(s.n, n);
		CHECK_EQ(s.aborted, n);
		for (uint32_t i = 0; i < n; i++)
			CHECK_EQ(s.token[i], i);
		CHECK_EQ(call(a, 1, n, n), -EPIPE);
		CHECK_EQ(flux_pending(a), 0);
	}
}

TEST(leave_of_a_caller)
{
	FLUX *f = make(2, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct got held;
	struct seen s = {0};

	CHECK_EQ(call(a, 1, 1, 1), 0);
	CHECK_EQ(call(a, 1, 2, 2), 0);
	held = take(b);
	flux_leave(a);
	CHECK_EQ(call(a, 1, 3, 3), -EPIPE);
	CHECK_EQ(flux_reply(b, held.token, &held.value, 8), -EPIPE);
	/* After -EPIPE the call counts as answered. */
	CHECK_EQ(flux_reply(b, held.token, &held.value, 8), -EINVAL);
	held = take(b); /* a call that node a published before it left */
	CHECK_EQ(held.value, 2);
	CHECK_EQ(flux_reply(b, held.token, &held.value, 8), -EPIPE);
	CHECK_EQ(serve(b), 0);
	CHECK_EQ(b->self->senders[0], 0); /* b no longer polls a's ring */
	CHECK_EQ(flux_pending(a), 2);
	CHECK_EQ(flux_wait(a, UINT64_MAX), 1);
	poll_all(a, &s);
	CHECK_EQ(s.n, 2);
	CHECK_EQ(s.aborted, 2);
	CHECK_EQ(flux_pending(a), 0);
}

/* If a peer that owed no answer has left, the node's wait does not end. */
TEST(leave_of_one_that_owes_nothing)
{
	FLUX *f = make(2, 16, 8);
	struct flux_node *a = flux_get_node(f, 0), *b = flux_get_node(f, 1);
	struct seen s = {0};

	CHECK_EQ(call(a, 1, 1, 1), 0);
	CHECK_EQ(serve(b), 1);
	CHECK_EQ(flux_poll(a, on_response, &s), 1);
	flux_leave(b);
	CHECK_EQ(flux_wait(a, 0), 0);
	CHECK_EQ(flux_poll(a, on_response, &s), 0);
}

/* Each node answers one call and leaves immediately. Its answer is delivered. */
static void *answer_and_leave(void *arg)
{
	struct flux *f = arg;

	for (uint32_t i = 1; i < FLUX_MAX_NODES; i++) {
		struct flux_node *n = flux_get_node(f, i);

		while (!serve(n))
			flux_wait(n, UINT64_MAX);
		flux_leave(n);
	}
	return NULL;
}

#ifdef __SANITIZE_THREAD__ /* this build is slow */
#define LEAVES 5
#else
#define LEAVES 40
#endif

TEST(answered_before_leaving)
{
	for (uint32_t round = 0; round < LEAVES; round++) {
		FLUX *f = make(FLUX_MAX_NODES, 4, 3);
		struct flux_node *a = flux_get_node(f, 0);
		struct seen s = {0};
		pthread_t t;

		CHECK_EQ(pthread_create(&t, NULL, answer_and_leave, f), 0);
		for (uint32_t i = 1; i < FLUX_MAX_NODES; i++) {
			CHECK_EQ(call(a, i, i, i), 0);
			while (!flux_poll(a, on_response, &s))
				flux_wait(a, UINT64_MAX);
			CHECK_EQ(s.n, i);
			CHECK_EQ(s.value[i - 1], i + 1);
		}
		pthread_join(t, NULL);
	}
}

/* Sleeps on a call that is never answered. */
static void *stranded(void *arg)
{
	struct seen s = {0};

	CHECK_EQ(call(arg, 1, 0, 9), 0);
	while (!flux_poll(arg, on_response, &s))
		CHECK_EQ(flux_wait(arg, UINT64_MAX), 1);
	CHECK_EQ(s.aborted, 1);
	CHECK_EQ(s.token[0], 9);
	return NULL;
}

TEST(leave_wakes)
{
	FLUX *f = make(2, 0, 0);
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, stranded, flux_get_node(f, 0)), 0);
	while (!asleep(flux_get_node(f, 0)))
		sched_yield();
	flux_leave(flux_get_node(f, 1));
	pthread_join(t, NULL);
}
