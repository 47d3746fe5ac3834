/* SPDX-License-Identifier: MIT */
/* Sleeping on a context's descriptor: the program is woken when there is work, and only then. */
#include <pthread.h>

#include "timed.h"

#define ROUNDS (TIMES == 1 && SCALE == 1 ? 8000u : 20000u * TIMES / SCALE)
#define GUARD_MS 60000 /* nothing here takes as long, unless a wake-up is lost */

/* Opens a pair and consumes completions from each CQ, so that consumer indices are not 0. */
static struct pair open_used(const struct copyrpc_ctx_attr *attr, struct heard *h)
{
	struct pair p = open_timed(attr); /* the clock stands still: no probe (copyrpc(7)) is due */
	struct copyrpc_req *req;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_call(p.ep[i], "x", 1, 1, 0), 0);
		copyrpc_poll(p.ctx[i], hear, h);
		copyrpc_poll(p.ctx[!i], hear, h);
		CHECK_EQ(copyrpc_recv(p.ctx[!i], &req), 1);
		CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
		copyrpc_poll(p.ctx[!i], hear, h);
		copyrpc_poll(p.ctx[i], hear, h);
	}
	return p;
}

static void call_from_0(struct pair *p, struct heard *h)
{
	CHECK_EQ(copyrpc_call(p->ep[0], "x", 1, 1, 0), 0);
	copyrpc_flush(p->ctx[0]);
}

TEST(an_idle_context_sleeps)
{
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	for (int i = 0; i < 3; i++) {
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
		CHECK_EQ(readable(p.ctx[1], 0), 0);
		copyrpc_poll(p.ctx[1], hear, &h);
	}
}

/* Batches that arrive between the arm and the sleep cause exactly one wake-up. */
TEST(a_batch_wakes)
{
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
		call_from_0(&p, &h);
		call_from_0(&p, &h);
		CHECK_EQ(readable(p.ctx[1], GUARD_MS), 1);
		CHECK_EQ(readable(p.ctx[1], 0), 1); /* stays readable until the context is polled */
		CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 2);
		CHECK_EQ(readable(p.ctx[1], 0), 0);
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
		CHECK_EQ(readable(p.ctx[1], 0), 0);
	}
}

/* If there is work already, the arm returns 1. */
TEST(work_is_not_slept_over)
{
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	call_from_0(&p, &h);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 1);
	copyrpc_poll(p.ctx[1], hear, &h);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
	CHECK_EQ(readable(p.ctx[1], 0), 0);

	CHECK_EQ(copyrpc_call(p.ep[1], "x", 1, 1, 0), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 1);
	copyrpc_flush(p.ctx[1]);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);

	copyrpc_ep_destroy(p.ep[1]); /* with a pending call */
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 1);
	CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 1);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
}

TEST(an_end_of_a_read_wakes)
{
	static uint64_t from = 7, to;
	struct copyrpc_mr src, dst;
	struct copyrpc_raw_done done;
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	CHECK_EQ(copyrpc_mr_reg(p.ctx[1], &from, 8, COPYRPC_REMOTE_READ, &src), 0);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], &to, 8, 0, &dst), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
		CHECK_EQ(readable(p.ctx[0], 0), 0);
		CHECK_EQ(copyrpc_read(p.ep[0], &to, dst.lkey, (uintptr_t)&from, src.rkey, 8, 1), 0);
		CHECK_EQ(readable(p.ctx[0], GUARD_MS), 1);
		copyrpc_poll(p.ctx[0], hear, &h);
		CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 1);
		CHECK_EQ(readable(p.ctx[0], 0), 0);
	}
	copyrpc_mr_dereg(&src);
	copyrpc_mr_dereg(&dst);
}

/* A program that polls for a while after it has armed the context is also woken up. */
TEST(an_arm_outlasts_empty_polls)
{
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
	for (int i = 0; i < 3; i++)
		copyrpc_poll(p.ctx[1], hear, &h);
	call_from_0(&p, &h);
	CHECK_EQ(readable(p.ctx[1], GUARD_MS), 1);
	copyrpc_poll(p.ctx[1], hear, &h);
	CHECK_EQ(readable(p.ctx[1], 0), 0);
}

static bool never(void *arg, struct copyrpc_ep *ep)
{
	return false;
}

/*
 * Messages that the function passed to copyrpc_flush_if() has held back do not count as work. A new
 * message is work for a flush.
 */
TEST(what_is_held_is_no_work)
{
	struct heard h = {0};
	PAIR p = open_used(NULL, &h);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	CHECK_EQ(copyrpc_flush_if(p.ctx[0], never, NULL), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 1);
	CHECK_EQ(copyrpc_flush(p.ctx[0]), 1);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
}

/* ------------------------------------------------------ vectors, moderation */

TEST(both_queues_have_the_vector)
{
	struct copyrpc_ctx_attr attr = {.size = sizeof(attr), .vector = 2};
	struct copyrpc_ctx *ctx;

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
		CHECK_EQ(mlx5dvl_cq_vector(ctx->recv_cq), attr.vector);
		CHECK_EQ(mlx5dvl_cq_vector(ctx->send_cq), attr.vector);
		copyrpc_ctx_destroy(ctx);
		attr.vector = 0;
		attr.set = COPYRPC_SET_VECTOR;
	}
	attr.vector = 100000;
	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), -EINVAL);
}

TEST(a_count_needs_a_period)
{
	struct copyrpc_ctx_attr attr = {.size = sizeof(attr), .event_count = 2};
	AT_END(end_ctx) struct copyrpc_ctx *ctx;

	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), -EINVAL);
	attr.event_period_us = 1;
	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
}

/* One batch is less than the count: the context is woken when the period is over. */
TEST(a_moderated_batch_wakes)
{
	static const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.event_count = 1000,
		.event_period_us = 4000};
	struct heard h = {0};
	PAIR p = open_used(&attr, &h);

	for (int i = 0; i < 10; i++) {
		CHECK_EQ(copyrpc_ctx_arm(p.ctx[1]), 0);
		call_from_0(&p, &h);
		CHECK_EQ(readable(p.ctx[1], GUARD_MS), 1);
		CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 1);
	}
}

/* ------------------------------------------------------------------- timeout */

TEST(sleep_is_bounded_by_what_is_due)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	static const char payload[400];
	struct heard h = {0};
	PAIR p = open_used(&attr, &h);

	/* Its call was answered, and the peer has consumed what it sent. */
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[1]), -1);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 100); /* the peer may not have consumed the reply */
	for (int i = 0; i < 3; i++) {
		now += 100 * NSEC_PER_MSEC;
		copyrpc_poll(p.ctx[0], hear, &h); /* the second one sends a probe */
	}
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), -1);
	CHECK_EQ(copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 100);
	now += 30 * NSEC_PER_MSEC + 1;
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 70);
	now += NSEC_PER_SEC;
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 0);
	p.ctx[0]->probed = now;
	while (!copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0))
		;
	copyrpc_poll(p.ctx[0], hear, &h); /* finds that a READ is due in 5 us */
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 1);
	now += 5 * NSEC_PER_USEC;
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 0);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 0);
	copyrpc_flush(p.ctx[0]);
	CHECK_EQ(readable(p.ctx[0], GUARD_MS), 1); /* the READ has ended */
}

/* -------------------------------------------------------------------- hammer */

/*
 * Two threads, each with its own context, call and serve each other in bursts of random length, and
 * sleep whenever copyrpc_ctx_arm() returns 0. If a wake-up is lost, both sleep until the time limit
 * of a sleep, because each waits for the other.
 */
struct side {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	uint64_t seed, sleeps;
	uint32_t sent, answered, served; /* numbers of calls */
	uint32_t rounds; /* number of calls that each side makes in all */
	bool by_clock; /* rings are so small that flow control also needs timed actions */
	pthread_t thread;
};

static void on_answer(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct side *s = arg;

	CHECK_EQ(status, 0);
	s->answered++;
}

static void call_some(struct side *s)
{
	static const char payload[400];

	/* Makes a burst if all calls were answered, else fewer calls. */
	for (uint64_t n = test_rand(&s->seed) % (s->answered == s->sent ? 4 : 2) + 1; n; n--) {
		uint32_t len = s->by_clock ? sizeof(payload) : 32;

		if (s->sent == s->rounds || copyrpc_call(s->ep, payload, len, 32, 0))
			return;
		s->sent++;
	}
}

static void sleep_if_armed(struct side *s)
{
	for (uint64_t n = test_rand(&s->seed) % 64; n; n--)
		__asm__ volatile("");
	if (copyrpc_ctx_arm(s->ctx))
		return;
	for (uint64_t n = test_rand(&s->seed) % 64; n; n--)
		__asm__ volatile("");
	s->sleeps++;
	/* A sleep may end at its time limit, unless there is a completion, which must wake. */
	if (s->by_clock && !readable(s->ctx, copyrpc_ctx_timeout(s->ctx)) &&
		!mlx5dvl_cq_ready(s->ctx->recv_cq) && !mlx5dvl_cq_ready(s->ctx->send_cq))
		return;
	CHECK_EQ(readable(s->ctx, GUARD_MS), 1);
}

static bool finished(const struct side *s)
{
	return s->answered == s->rounds && s->served == s->rounds;
}

static void *hammer(void *arg)
{
	struct side *s = arg;
	struct copyrpc_req *req;

	while (!finished(s)) {
		if (s->answered == s->sent || test_rand(&s->seed) % 4 == 0)
			call_some(s);
		copyrpc_poll(s->ctx, on_answer, s);
		while (copyrpc_recv(s->ctx, &req)) {
			CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
			s->served++;
		}
		if (!finished(s) && (s->answered < s->sent || s->sent == s->rounds))
			sleep_if_armed(s);
	}
	copyrpc_poll(s->ctx, on_answer, s);
	return NULL;
}

static void run_hammer(uint32_t ring, bool by_clock, uint16_t moderation, uint32_t rounds)
{
	struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.ring_size = ring,
		.event_count = moderation,
		.event_period_us = moderation};
	uint64_t seed = test_seed();
	struct side s[2] = {0};
	PAIR p = pair_open(&attr);

	for (int i = 0; i < 2; i++) {
		s[i] = (struct side){.ctx = p.ctx[i],
			.ep = p.ep[i],
			.seed = seed + (uint64_t)i,
			.by_clock = by_clock,
			.rounds = rounds};
		CHECK_EQ(pthread_create(&s[i].thread, NULL, hammer, &s[i]), 0);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(s[i].thread, NULL), 0);
		CHECK(s[i].sleeps > 0);
		/* Each message, and each completion of a signaled WRITE, causes at most one
		 * wake-up. */
		if (!by_clock)
			CHECK(s[i].sleeps <= 4 * rounds);
	}
	printf("  %" PRIu64 " and %" PRIu64 " sleeps\n", s[0].sleeps, s[1].sleeps);
}

TEST_WITH(no_wake_up_is_lost, run_hammer, 1 << 16, false, 0, ROUNDS);
TEST_WITH(no_moderated_wake_up_is_lost, run_hammer, 1 << 16, false, 8, ROUNDS / 5);
TEST_WITH(no_wake_up_is_lost_in_small_rings, run_hammer, COPYRPC_RING_MIN, true, 0, ROUNDS);
