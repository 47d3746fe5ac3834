/* SPDX-License-Identifier: MIT */
/* Calls with a time limit end in time and once, and a later response does no harm. */
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

#include "copyrpc_tcp.h"
#include "timed.h"

#define LIMIT_MS 50
#define GUARD_MS 60000

/* The numbers of calls with a response and of calls that were late, and the token of the call that
 * ended last. */
struct log {
	uint32_t ok, late;
	uint64_t last;
};

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct log *l = arg;

	CHECK(!status || status == -ETIMEDOUT);
	CHECK(status || (len == sizeof(token) && !memcmp(data, &token, len)));
	l->ok += !status;
	l->late += !!status;
	l->last = token;
}

static struct copyrpc_req *take(struct pair *p)
{
	struct copyrpc_req *req;

	copyrpc_poll(p->ctx[1], NULL, NULL);
	CHECK_EQ(copyrpc_recv(p->ctx[1], &req), 1);
	return req;
}

static void answer(struct pair *p, struct copyrpc_req *req)
{
	CHECK_EQ(copyrpc_reply(req, copyrpc_req_data(req), copyrpc_req_len(req)), 0);
	copyrpc_poll(p->ctx[1], NULL, NULL);
}

static int call(struct pair *p, uint64_t token, uint32_t ms)
{
	return copyrpc_call_timed(p->ep[0], &token, sizeof(token), sizeof(token), token, ms);
}

/* Creates a context with an endpoint that is connected over the socket. */
static struct copyrpc_ep *meet(int fd, struct copyrpc_ctx **ctx_p)
{
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(NULL, ctx_p), 0);
	CHECK_EQ(copyrpc_ep_create(*ctx_p, NULL, &ep), 0);
	CHECK_EQ(copyrpc_ep_meet(ep, fd, GUARD_MS), 0);
	return ep;
}

/* Stops itself after the first reply was sent. If it were stopped from outside, it could be inside
 * the software HCA, and the other processes would fail its queue pairs (softhca(7)). */
static void serve_for_ever(int fd)
{
	struct copyrpc_ctx *ctx;
	bool answered = false, stopped = false;

	meet(fd, &ctx);
	for (;; sched_yield()) {
		copyrpc_poll(ctx, NULL, NULL); /* sends replies */
		if (answered && !stopped) {
			stopped = true;
			CHECK_EQ(raise(SIGSTOP), 0);
		}
		answered |= echo_all(ctx) > 0;
	}
}

static void until(struct copyrpc_ctx *ctx, struct log *l, const uint32_t *count, uint32_t n)
{
	while (*count < n) {
		copyrpc_poll(ctx, on_end, l);
		sched_yield();
	}
}

/* This case is the first, because it must fork before this process opens the HCA. The HCA
 * of the stopped peer answers, because it has receives left. When the peer continues, calls work
 * again. */
TEST(a_stopped_peer_is_noticed)
{
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct log l = {0};
	uint64_t x = 7;
	int fd[2];
	pid_t child;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	child = test_fork();
	if (!child) {
		close(fd[0]);
		serve_for_ever(fd[1]);
	}
	ep = meet(fd[0], &ctx);
	CHECK_EQ(copyrpc_call_timed(ep, &x, sizeof(x), sizeof(x), x, GUARD_MS), 0);
	until(ctx, &l, &l.ok, 1);
	CHECK_EQ(test_stopped(child), SIGSTOP);
	CHECK_EQ(copyrpc_call_timed(ep, &x, sizeof(x), sizeof(x), x, LIMIT_MS), 0);
	until(ctx, &l, &l.late, 1);
	CHECK_EQ(kill(child, SIGCONT), 0);
	CHECK_EQ(copyrpc_call_timed(ep, &x, sizeof(x), sizeof(x), x, GUARD_MS), 0);
	until(ctx, &l, &l.ok, 2);
	CHECK_EQ(l.late, 1);
	test_kill(child);
	copyrpc_ctx_destroy(ctx);
	close(fd[0]);
	close(fd[1]);
}

TEST(a_call_ends_in_time)
{
	struct copyrpc_stats s;
	struct log l = {0};
	PAIR p = open_timed(NULL);

	CHECK_EQ(call(&p, 1, LIMIT_MS), 0);
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), LIMIT_MS);
	now += LIMIT_MS * NSEC_PER_MSEC - 1;
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK_EQ(l.late, 0);
	CHECK_EQ(copyrpc_ctx_timeout(p.ctx[0]), 1);
	now += 1;
	CHECK_EQ(copyrpc_poll(p.ctx[0], on_end, &l), 1);
	CHECK_EQ(l.late, 1);
	CHECK_EQ(l.last, 1);
	for (int i = 0; i < 10; i++, now += NSEC_PER_SEC)
		copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK_EQ(l.late, 1);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), 0);
	s = ep_stats_of(p.ep[0]);
	CHECK(s.calls == 1 && s.failed_calls == 1 && s.timeouts == 1 && !s.responses);
}

TEST(an_answer_in_time_is_delivered)
{
	struct log l = {0};
	PAIR p = open_timed(NULL);

	for (uint64_t token = 0; token < 1000; token++) {
		CHECK_EQ(call(&p, token, token % 3 ? LIMIT_MS : 0), 0);
		copyrpc_poll(p.ctx[0], on_end, &l);
		answer(&p, take(&p));
		now += NSEC_PER_MSEC;
		copyrpc_poll(p.ctx[0], on_end, &l);
		CHECK_EQ(l.ok, token + 1);
		CHECK_EQ(l.last, token);
	}
	now += NSEC_PER_SEC;
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK_EQ(l.late, 0);
	CHECK_EQ(p.ctx[0]->deadline, NEVER);
}

/* Other calls are made between the end of a call and its late response. No call gets the response
 * of another one, and neither ids nor credit are lost. */
TEST(late_answers_are_dropped)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = 4096, .max_pending = 3};
	struct copyrpc_ep_load load;
	struct log l = {0};
	PAIR p = open_timed(&attr);

	for (uint64_t round = 0; round < 300; round++) {
		struct copyrpc_req *req[3];

		for (uint64_t i = 0; i < 2; i++) {
			CHECK_EQ(call(&p, 10 * round + i, LIMIT_MS), 0);
			copyrpc_poll(p.ctx[0], on_end, &l);
			req[i] = take(&p);
		}
		now += LIMIT_MS * NSEC_PER_MSEC;
		copyrpc_poll(p.ctx[0], on_end, &l);
		CHECK_EQ(l.late, 2 * (round + 1));
		copyrpc_ep_get_load(p.ep[0], &load, sizeof(load));
		CHECK_EQ(load.pending, 0);
		CHECK_EQ(copyrpc_call(p.ep[0], &round, sizeof(round), sizeof(round), round), 0);
		CHECK_EQ(call(&p, 1, 1), -EAGAIN); /* two late responses are still missing */
		copyrpc_poll(p.ctx[0], on_end, &l);
		req[2] = take(&p);
		answer(&p, req[round % 2]);
		answer(&p, req[2]);
		answer(&p, req[!(round % 2)]);
		while (copyrpc_poll(p.ctx[0], on_end, &l))
			;
		CHECK_EQ(l.ok, round + 1);
		CHECK_EQ(l.last, round);
	}
	CHECK_EQ(l.late, 600);
}

/* A call that has ended does not end again when its endpoint ends. */
TEST(an_end_is_the_end)
{
	struct log l = {0};
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	CHECK_EQ(call(&p, 1, LIMIT_MS), 0);
	CHECK_EQ(call(&p, 2, 2 * LIMIT_MS), 0);
	now += LIMIT_MS * NSEC_PER_MSEC;
	copyrpc_poll(p.ctx[0], on_end, &l);
	CHECK(l.late == 1 && l.last == 1);
	copyrpc_ep_destroy(p.ep[0]);
	now += 2 * LIMIT_MS * NSEC_PER_MSEC;
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK(h.failed == 1 && h.status == -ECANCELED);
}

static void flush_later(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct pair *p = arg;

	now += NSEC_PER_USEC;
	copyrpc_flush(p->ctx[0]);
}

/* A callback that flushes sends the probe later than the time at which the poll began. */
TEST(a_probe_sent_by_a_callback)
{
	PAIR p = open_timed(NULL);

	CHECK_EQ(call(&p, 1, 250), 0);
	copyrpc_flush(p.ctx[0]);
	for (int i = 0; i < 3; i++) {
		now += 100 * NSEC_PER_MSEC;
		copyrpc_poll_recv(p.ctx[0], flush_later, &p);
	}
	CHECK_EQ(ep_stats_of(p.ep[0]).reads, 1);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), 0);
}
