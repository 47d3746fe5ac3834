/* SPDX-License-Identifier: MIT */
/* Times that the manual promises, with a clock that stands still until the test moves it. */
#include <poll.h>

#include "support/hcacall.h"
#include "timed.h"

static uint64_t reads(const struct pair *p)
{
	return ep_stats_of(p->ep[0]).reads;
}

/* Makes a call whose request is received and not answered, while the peer has nothing more to
 * send. */
static struct copyrpc_req *leave_unanswered(struct pair *p, struct heard *h)
{
	struct copyrpc_req *req;

	CHECK_EQ(copyrpc_call(p->ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p->ctx[0], hear, h);
	CHECK_EQ(copyrpc_poll(p->ctx[1], hear, h), 1);
	CHECK_EQ(copyrpc_recv(p->ctx[1], &req), 1);
	return req;
}

static void answer(struct pair *p, struct copyrpc_req *req, struct heard *h)
{
	CHECK_EQ(copyrpc_reply(req, NULL, 0), 0);
	copyrpc_poll(p->ctx[1], hear, h);
	copyrpc_poll(p->ctx[0], hear, h);
}

/* Polls the caller @times times, each time after @ns nanoseconds. */
static void let_pass(struct pair *p, struct heard *h, int times, uint64_t ns)
{
	while (times--) {
		now += ns;
		copyrpc_poll(p->ctx[0], hear, h);
	}
}

/* If polls are frequent, the probe comes within 0.2 s; if polls are rare, it comes in the second
 * poll. */
TEST(silent_peers_are_probed)
{
	static const uint64_t between[] = {NSEC_PER_USEC, NSEC_PER_MSEC, 20 * NSEC_PER_MSEC,
		90 * NSEC_PER_MSEC, 150 * NSEC_PER_MSEC};

	for (size_t i = 0; i < ARRAY_SIZE(between); i++) {
		struct heard h = {0};
		PAIR p = open_timed(NULL);
		uint64_t start;

		leave_unanswered(&p, &h);
		/* Any number of polls sends nothing while no time passes. */
		for (int k = 0; k < 10000; k++)
			copyrpc_poll(p.ctx[0], hear, &h);
		CHECK_EQ(reads(&p), 0);
		start = now;
		while (copyrpc_poll(p.ctx[0], hear, &h), !reads(&p))
			now += between[i];
		CHECK(now - start >= 100 * NSEC_PER_MSEC);
		CHECK(now - start <= 200 * NSEC_PER_MSEC + 2 * between[i]);
	}
}

/* A call is also watched if the endpoint had no pending calls before and had left the list of
 * watched endpoints. */
TEST(a_later_call_is_watched_too)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	for (int k = 0; k < 2; k++) {
		answer(&p, leave_unanswered(&p, &h), &h);
	}
	CHECK_EQ(h.ok, 2);
	let_pass(&p, &h, 3, 110 * NSEC_PER_MSEC);
	CHECK_EQ(reads(&p), 0);
	leave_unanswered(&p, &h);
	let_pass(&p, &h, 3, 110 * NSEC_PER_MSEC);
	CHECK(reads(&p) > 0);
}

/* The peer's queue pair was stopped, as if its process had been killed; the probe detects this by
 * an error of the HCA. */
TEST(a_dead_peer_is_noticed)
{
	const struct copyrpc_ctx_attr attr = {.path = &impatient};
	struct heard h = {0};
	PAIR p = open_timed(&attr);

	leave_unanswered(&p, &h);
	CHECK_EQ(mlx5dvl_qp_to_error(p.ep[1]->qp), 0);
	for (int k = 0; k < 11; k++) {
		copyrpc_poll(p.ctx[0], hear, &h);
		now += 20 * NSEC_PER_MSEC;
	}
	CHECK_EQ(reads(&p), 1);
	while (!h.failed) /* the HCA repeats the request according to its own clock */
		copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(h.status, -ECONNRESET);
}

/* Checks the counter of messages that found no receive, if the device has it. */
static void check_counted(const struct copyrpc_ctx *ctx)
{
	uint64_t n = 0, counter;

	if (mlx5dvl_ctx_counter(ctx->dev, "out_of_buffer", &counter)) {
		CHECK_EQ(copyrpc_ctx_no_receive(ctx, &n), -ENOENT);
		return;
	}
	CHECK_EQ(copyrpc_ctx_no_receive(ctx, &n), 0);
	CHECK(n > 0 && n <= counter);
}

/*
 * The peer is stopped and its receives are used up: its HCA delays all messages for ever, including
 * the probe. The calls end after probe_ms, 5 s by default.
 */
TEST(an_endless_wait_ends)
{
	static const uint32_t ms[] = {0, 300};

	for (size_t i = 0; i < ARRAY_SIZE(ms); i++) {
		struct copyrpc_ctx_attr attr = {.srq_depth = 4, .probe_ms = ms[i]};
		uint64_t start, deadline = (ms[i] ? ms[i] : 5000) * NSEC_PER_MSEC;
		struct heard h = {0};
		PAIR p = open_timed(&attr);

		for (uint32_t k = 0; k < 5; k++) {
			CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
			copyrpc_poll(p.ctx[0], hear, &h);
		}
		for (start = now; !h.failed; now += 20 * NSEC_PER_MSEC) {
			copyrpc_poll(p.ctx[0], hear, &h);
			CHECK(now - start <= deadline + 400 * NSEC_PER_MSEC);
		}
		CHECK(now - start >= deadline);
		CHECK_EQ(h.failed, 5);
		CHECK_EQ(h.status, -ETIMEDOUT);
		CHECK_EQ(copyrpc_ep_status(p.ep[0]), -ETIMEDOUT);
		check_counted(p.ctx[1]);
	}
}

/*
 * A part of the reply never arrives, but the server's HCA executes the caller's probes. The server
 * makes no calls, but it probes its peer, too, because the reply is not consumed. So the server's
 * endpoint fails after probe_ms, which ends the call.
 */
TEST(a_reply_that_never_arrives_ends_the_call)
{
	static const struct copyrpc_path path = {.timeout = 8};
	static const struct copyrpc_ctx_attr attr = {.probe_ms = 300, .path = &path};
	struct heard h = {0};
	struct copyrpc_req *req;
	PAIR p = open_timed(&attr);
	uint64_t start;

	req = leave_unanswered(&p, &h);
	hca_fault("action=hold_receive opcode=write_imm");
	answer(&p, req, &h);
	for (start = now; !copyrpc_ep_status(p.ep[1]); now += 20 * NSEC_PER_MSEC) {
		copyrpc_poll(p.ctx[0], hear, &h);
		copyrpc_poll(p.ctx[1], hear, &h);
		CHECK(now - start <= 700 * NSEC_PER_MSEC);
	}
	CHECK_EQ(copyrpc_ep_status(p.ep[1]), -ETIMEDOUT);
	CHECK_EQ(h.failed, 0);
	now += 110 * NSEC_PER_MSEC;
	while (!h.failed) /* the HCA repeats the probe according to its own clock */
		copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(h.status, -ECONNRESET);
}

/* The link is down while the HCA repeats a request three times, with its default time of 1.07 s.
 * Callers do not notice it. */
TEST(a_link_that_is_down_for_three_seconds)
{
	uint64_t before = hca_counters().retries, repeated = 0;
	struct heard h = {0};
	PAIR p = open_timed(NULL);

	hca_fault("action=link_down opcode=write_imm");
	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	while (!h.ok) {
		pair_turn(&p, &h);
		CHECK_EQ(h.failed, 0);
		if (hca_counters().retries - before == repeated || ++repeated > 3)
			poll(NULL, 0, 1); /* the HCA repeats it according to its own clock */
		else if (repeated == 3)
			hca_fault("action=link_up");
		now = 1000 * NSEC_PER_SEC + repeated * (4096ull << COPYRPC_TIMEOUT);
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_status(p.ep[i]), 0);
}

/* A call to a slow server does not fail as long as the probes are answered. */
TEST(a_slow_server_is_waited_for)
{
	struct copyrpc_ctx_attr attr = {.probe_ms = 300};
	struct heard h = {0};
	struct copyrpc_req *req;
	PAIR p = open_timed(&attr);

	req = leave_unanswered(&p, &h);
	let_pass(&p, &h, 100, 100 * NSEC_PER_MSEC);
	answer(&p, req, &h);
	CHECK_EQ(h.ok, 1);
}

/* A program that could not flush after a poll has sent no probe, and must not treat the peer as
 * dead. */
TEST(time_before_a_flush_is_no_silence)
{
	struct copyrpc_ctx_attr attr = {.probe_ms = 300};
	struct heard h = {0};
	struct copyrpc_req *req;
	PAIR p = open_timed(&attr);

	req = leave_unanswered(&p, &h);
	for (int k = 0; k < 20; k++) {
		copyrpc_poll_recv(p.ctx[0], hear, &h);
		now += 5 * NSEC_PER_SEC;
	}
	CHECK_EQ(reads(&p), 0);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), 0);
	answer(&p, req, &h);
	CHECK_EQ(h.ok, 1);
}

/* No probe is sent while responses arrive, or if there are no pending calls. */
TEST(no_probe_without_need)
{
	struct heard h = {0};
	struct copyrpc_req *req, *old;
	PAIR p = open_timed(NULL);

	pair_grow(&p, COPYRPC_PAYLOAD_MAX(1 << 20));
	old = leave_unanswered(&p, &h);
	for (int k = 0; k < 100; k++) {
		req = leave_unanswered(&p, &h);
		CHECK_EQ(copyrpc_reply(req, NULL, 0), 0);
		copyrpc_poll(p.ctx[1], hear, &h);
		now += 50 * NSEC_PER_MSEC;
		copyrpc_poll(p.ctx[0], hear, &h);
	}
	answer(&p, old, &h);
	CHECK_EQ(h.ok, 101);
	let_pass(&p, &h, 100, NSEC_PER_SEC);
	CHECK_EQ(reads(&p), 0);
}

/*
 * A caller without room READs the peer's position after 5 us, then after 10, 20, ... us, at most a
 * millisecond, as long as the position is unchanged. The delays depend on time, not on the number
 * of polls.
 */
TEST(reads_back_off)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	static const char payload[400];
	uint64_t wait = 5 * NSEC_PER_USEC, n = 0;
	struct heard h = {0};
	PAIR p = open_timed(&attr);

	while (!copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0))
		;
	CHECK_EQ(copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0), -EAGAIN);
	copyrpc_poll(p.ctx[0], hear, &h); /* sends, and finds that a READ is needed */
	for (int i = 0; i < 12; i++) {
		for (int k = 0; k < 1000; k++)
			copyrpc_poll(p.ctx[0], hear, &h);
		now += wait - 1;
		copyrpc_poll(p.ctx[0], hear, &h);
		CHECK_EQ(reads(&p), n);
		now += 1;
		copyrpc_poll(p.ctx[0], hear, &h); /* posts the READ */
		copyrpc_poll(p.ctx[0], hear, &h); /* finds that the position is unchanged */
		CHECK_EQ(reads(&p), ++n);
		wait = 2 * wait < NSEC_PER_MSEC ? 2 * wait : NSEC_PER_MSEC;
	}
}

/* Makes n calls. The peer takes each request out of the ring, and replies at once or at the end. A
 * caller without room polls while time passes. Returns the number of READs. */
static uint64_t reads_of_calls(uint32_t n, uint32_t size, bool replies)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = 65536};
	static const char payload[4000];
	struct copyrpc_req *held[256], *req;
	struct heard h = {0};
	uint32_t calls = 0, kept = 0;
	PAIR p = open_timed(&attr);

	while (h.ok < n) {
		while (calls < n && !copyrpc_call(p.ep[0], payload, size, 0, 0))
			calls++;
		copyrpc_poll(p.ctx[0], hear, &h);
		copyrpc_poll(p.ctx[1], hear, &h);
		while (copyrpc_recv(p.ctx[1], &req)) {
			CHECK_EQ(copyrpc_req_detach(req), 0);
			if (replies)
				CHECK_EQ(copyrpc_reply(req, NULL, 0), 0);
			else
				held[kept++] = req;
		}
		while (kept && h.ok + kept == n)
			CHECK_EQ(copyrpc_reply(held[--kept], NULL, 0), 0);
		now += NSEC_PER_USEC;
	}
	return reads(&p);
}

/* Replies contain the position, so no READ is needed. If nothing flows back, there is one READ per
 * half of the ring, which has room for seven or eight calls of 126 blocks. */
TEST(reads_are_rare)
{
	uint64_t n;

	CHECK_EQ(reads_of_calls(8192, 32, true), 0);
	CHECK_EQ(reads_of_calls(8192, 4000, true), 0);
	n = reads_of_calls(240, 4000, false);
	printf("  %" PRIu64 " READs in 240 calls without a reply\n", n);
	CHECK(n >= 240 / 8 - 1 && n <= 240 / 7);
}

static bool never(void *arg, struct copyrpc_ep *ep)
{
	return false;
}

/* A READ is posted even while messages are held. */
TEST(reads_while_messages_are_held)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	static const char payload[400];
	PAIR p = open_timed(&attr);

	while (!copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0))
		;
	copyrpc_flush(p.ctx[0]);
	CHECK_EQ(copyrpc_call(p.ep[0], payload, 0, 0, 0), 0);
	CHECK_EQ(copyrpc_call(p.ep[0], payload, sizeof(payload), 0, 0), -EAGAIN);
	CHECK_EQ(copyrpc_flush_if(p.ctx[0], never, NULL), 0);
	now += 5 * NSEC_PER_USEC;
	CHECK_EQ(copyrpc_flush_if(p.ctx[0], never, NULL), 0);
	CHECK_EQ(reads(&p), 1);
}

/* Ten milliseconds are enough for the CPU's counter to reach the next era (ticks.h). The test
 * repeats this, because other processes may lengthen some of the intervals. */
TEST(ticks_follow_the_clock)
{
	for (int i = 0; i < 20; i++) {
		uint64_t start = clock_ns();
		uint32_t era = ticks_era();

		while (clock_ns() - start < 10 * NSEC_PER_MSEC)
			;
		CHECK(ticks_era() != era);
	}
}

/* By default, the first poll of an era reads the clock. */
TEST(a_poll_after_a_pause_looks)
{
	struct heard h = {0};
	PAIR p = open_timed(NULL);
	uint32_t era;

	leave_unanswered(&p, &h);
	p.ctx[0]->look_always = false;
	for (int i = 0; i < 3; i++) { /* the first check only records the number of batches so
					 far */
		now += 100 * NSEC_PER_MSEC;
		for (era = ticks_era(); ticks_era() == era;)
			;
		copyrpc_poll(p.ctx[0], hear, &h);
	}
	CHECK(reads(&p) >= 1);
}
