/* SPDX-License-Identifier: MIT */
/* Flushing: when messages leave, in how many work requests and in which order. */
#include "support/hcacall.h"
#include "pair.h"

#define WRITE_IMM 0x09
#define DEPTH 32

static int answer_all(struct copyrpc_ctx *ctx, const void *data, uint32_t len)
{
	struct copyrpc_req *req;
	int n = 0;

	for (; copyrpc_recv(ctx, &req); n++)
		CHECK_EQ(copyrpc_reply(req, data, len), 0);
	return n;
}

static uint64_t hca_wqes(const struct softhca_counters *c)
{
	uint64_t n = 0;

	for (int i = 0; i < SOFTHCA_OPCODES; i++)
		n += c->wqes[i];
	return n;
}

/* Checks by the counters of the library and of the HCA that one flush of @ctx sends one batch. */
static void check_one_batch(struct copyrpc_ctx *ctx)
{
	struct softhca_counters before = hca_counters(), after;
	struct copyrpc_stats s = ctx_stats_of(ctx), t;

	CHECK_EQ(copyrpc_flush(ctx), 1);
	t = ctx_stats_of(ctx);
	CHECK_EQ(t.batches - s.batches, 1);
	CHECK_EQ(t.wqes - s.wqes, 1);
	CHECK_EQ(t.doorbells - s.doorbells, 1);
	after = hca_counters();
	CHECK_EQ(after.doorbells - before.doorbells, 1);
	CHECK_EQ(after.wqes[WRITE_IMM] - before.wqes[WRITE_IMM], 1);
	CHECK_EQ(hca_wqes(&after) - hca_wqes(&before), 1);
	CHECK_EQ(after.recvs - before.recvs, 1);
}

TEST(thirty_two_calls_are_one_request_and_one_doorbell)
{
	/* No batch reaches the end of a queue or of a ring. */
	static const struct copyrpc_ctx_attr attr = {.max_endpoints = 1, .sq_depth = 4096};
	char data[32] = "request";
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	pair_grow(&p, COPYRPC_PAYLOAD_MAX(1 << 20));
	for (int round = 0; round < 100; round++) {
		for (int i = 0; i < DEPTH; i++)
			CHECK_EQ(copyrpc_call(p.ep[0], data, sizeof(data), 16, 0), 0);
		check_one_batch(p.ctx[0]);
		CHECK_EQ(copyrpc_poll_recv(p.ctx[1], hear, &h), DEPTH);
		CHECK_EQ(answer_all(p.ctx[1], data, 16), DEPTH);
		check_one_batch(p.ctx[1]);
		CHECK_EQ(copyrpc_poll_recv(p.ctx[0], hear, &h), DEPTH);
	}
	CHECK_EQ(h.ok, 100 * DEPTH);
}

/* The library and the HCA count the same work requests: batches, markers, READs, raw operations,
 * and the NOPs at the end of a short send queue. */
TEST(work_requests_of_all_kinds)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN, .sq_depth = 16};
	struct softhca_counters before, after;
	uint64_t seed = test_seed();
	struct copyrpc_stats s[2];
	static char mem[512];
	struct copyrpc_mr mr[2];
	struct heard h = {0};
	uint32_t made = 0;
	PAIR p = pair_open(&attr);

	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_mr_reg(p.ctx[i], mem, sizeof(mem), COPYRPC_REMOTE_WRITE, &mr[i]),
			0);
	before = hca_counters();
	while (h.ok < 3000) {
		struct copyrpc_raw_done done;
		uint32_t len = (uint32_t)(test_rand(&seed) % 400);

		made += !copyrpc_call(p.ep[0], mem, len, len, 0);
		if (test_rand(&seed) % 8 == 0)
			copyrpc_write(p.ep[0], mem, mr[0].lkey, (uintptr_t)mem, mr[1].rkey, 4, 0);
		copyrpc_poll(p.ctx[0], hear, &h);
		copyrpc_poll(p.ctx[1], hear, &h);
		answer_all(p.ctx[1], NULL, 0);
		while (copyrpc_raw_recv(p.ctx[0], &done))
			CHECK_EQ(done.status, 0);
	}
	after = hca_counters();
	for (int i = 0; i < 2; i++)
		s[i] = ctx_stats_of(p.ctx[i]);
	CHECK(s[0].wraps > 0 && after.wqes[0] > before.wqes[0]); /* there were NOPs */
	CHECK_EQ(s[0].wqes + s[1].wqes, hca_wqes(&after) - hca_wqes(&before));
	CHECK_EQ(s[0].doorbells + s[1].doorbells, after.doorbells - before.doorbells);
	/* The counters still include an endpoint that was destroyed. */
	copyrpc_ep_destroy(p.ep[0]);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(h.ok + h.failed, made);
	CHECK_EQ(ctx_stats_of(p.ctx[0]).wqes, s[0].wqes + 1); /* the goodbye */
	for (int i = 0; i < 2; i++)
		copyrpc_mr_dereg(&mr[i]);
}

/* ------------------------------------------------------------------- flush_if */

static int asked;

/* Returns false. Checks that it is called only for endpoints with messages. */
static bool never(void *arg, struct copyrpc_ep *ep)
{
	struct copyrpc_ep_load load;

	copyrpc_ep_get_load(ep, &load, sizeof(load));
	CHECK(load.open_calls + load.open_replies > 0);
	asked++;
	return false;
}

static bool always(void *arg, struct copyrpc_ep *ep)
{
	asked++;
	return true;
}

TEST(messages_wait_until_go)
{
	struct heard h = {0};
	PAIR p = pair_open(NULL);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	asked = 0;
	for (int i = 0; i < 100; i++)
		CHECK_EQ(copyrpc_flush_if(p.ctx[0], never, NULL), 0);
	CHECK_EQ(asked, 100);
	CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 0);
	CHECK_EQ(copyrpc_flush_if(p.ctx[0], always, NULL), 1);
	CHECK_EQ(asked, 101);
	CHECK_EQ(copyrpc_flush_if(p.ctx[0], always, NULL), 0);
	CHECK_EQ(asked, 101);
	CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 1);
}

/* Replies that are held back also hold back credit, which the peer needs for further calls. Once
 * the endpoint owes a sixteenth of the ring, the replies are sent although never() returns
 * false. */
TEST(credit_that_is_due_leaves)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	static const char reply[500];
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 0, 0), 0); /* 2 of 128 blocks: not due */
	copyrpc_flush(p.ctx[0]);
	for (int i = 0; i < 100; i++) {
		copyrpc_poll_recv(p.ctx[1], hear, &h);
		answer_all(p.ctx[1], NULL, 0);
		copyrpc_flush_if(p.ctx[1], never, NULL);
		copyrpc_poll(p.ctx[0], hear, &h);
	}
	CHECK_EQ(h.ok, 0);
	for (uint32_t spins = 0; h.ok < 200; spins++) {
		CHECK(spins < 1000000);
		copyrpc_call(p.ep[0], "x", 1, sizeof(reply), 0);
		copyrpc_poll(p.ctx[0], hear, &h);
		copyrpc_poll_recv(p.ctx[1], hear, &h);
		answer_all(p.ctx[1], reply, sizeof(reply) * (h.ok > 0));
		copyrpc_flush_if(p.ctx[1], never, NULL);
	}
}

/* State of the test in which the server's send queue is full when it owes credit. */
struct full {
	struct pair p;
	struct copyrpc_req *held[3];
	char mem[64];
	struct copyrpc_mr mr[2];
	struct heard h;
};

static void server_turn(struct full *f)
{
	copyrpc_poll_recv(f->p.ctx[1], hear, &f->h);
	answer_all(f->p.ctx[1], NULL, 0);
	copyrpc_flush_if(f->p.ctx[1], never, NULL);
}

/* The client holds three calls of the server, so that the server can grant no more credit. */
static void use_up_credit(struct full *f)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN, .sq_depth = 16};
	static const char large[500];
	int rc = 0;

	memset(f, 0, sizeof(*f));
	f->p = pair_open(&attr);
	CHECK_EQ(copyrpc_mr_reg(f->p.ctx[1], f->mem, sizeof(f->mem), 0, &f->mr[1]), 0);
	CHECK_EQ(copyrpc_mr_reg(f->p.ctx[0], f->mem, sizeof(f->mem), COPYRPC_REMOTE_WRITE,
			 &f->mr[0]),
		0);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(copyrpc_call(f->p.ep[1], large, sizeof(large), 0, 0), 0);
	copyrpc_flush(f->p.ctx[1]);
	CHECK_EQ(copyrpc_poll(f->p.ctx[0], hear, &f->h), 3);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(copyrpc_recv(f->p.ctx[0], &f->held[i]), 1);
	for (int i = 0; i < 10 && !rc; i++) {
		rc = copyrpc_call(f->p.ep[0], large, 4, sizeof(large), 0);
		for (int k = 0; k < 8; k++) {
			copyrpc_poll(f->p.ctx[0], hear, &f->h);
			copyrpc_poll_recv(f->p.ctx[1], hear, &f->h);
			answer_all(f->p.ctx[1], large, sizeof(large));
			copyrpc_flush(f->p.ctx[1]);
		}
	}
	CHECK_EQ(rc, -ENOBUFS);
}

/* The client releases the bytes of the three requests. The server fills its send queue as soon as
 * it has read the new position, before it grants credit. */
static void fill_send_queue(struct full *f)
{
	struct copyrpc_ep_load before, load;
	int filled = 0;

	for (int i = 0; i < 3; i++)
		CHECK_EQ(copyrpc_req_detach(f->held[i]), 0);
	copyrpc_ep_get_load(f->p.ep[1], &before, sizeof(before));
	do {
		copyrpc_flush_if(f->p.ctx[1], never, NULL);
		copyrpc_poll(f->p.ctx[0], hear, &f->h);
		copyrpc_poll_recv(f->p.ctx[1], hear, &f->h);
		copyrpc_ep_get_load(f->p.ep[1], &load, sizeof(load));
	} while (load.consumed == before.consumed);
	while (!copyrpc_write(f->p.ep[1], f->mem, f->mr[1].lkey, (uintptr_t)f->mem, f->mr[0].rkey,
		8, 0))
		filled++;
	CHECK(filled > 0);
}

TEST(credit_leaves_when_the_queue_was_full)
{
	static const char request[4];
	struct copyrpc_raw_done done;
	struct full f;
	int rounds = 0;

	use_up_credit(&f);
	fill_send_queue(&f);
	CHECK_EQ(copyrpc_flush_if(f.p.ctx[1], never, NULL), 0);
	CHECK(ep_stats_of(f.p.ep[1]).sq_stalls > 0);
	while (copyrpc_call(f.p.ep[0], request, sizeof(request), 500, 0)) {
		CHECK(rounds++ < 100000);
		copyrpc_poll(f.p.ctx[0], hear, &f.h);
		server_turn(&f);
		while (copyrpc_raw_recv(f.p.ctx[1], &done))
			CHECK_EQ(done.status, 0);
	}
	for (int i = 0; i < 2; i++)
		copyrpc_mr_dereg(&f.mr[i]);
	pair_close(&f.p);
}

/* A side that holds all of its messages back still answers the peer's request for a larger ring,
 * and moves to one that the peer has offered. */
static void large_call(int caller, int holder)
{
	static const char large[4000];
	struct heard h = {0};
	PAIR p = pair_open(NULL);
	uint32_t rounds = 0;

	CHECK_EQ(copyrpc_call(p.ep[holder], "x", 1, 0, 0), 0);
	while (copyrpc_call(p.ep[caller], large, sizeof(large), 0, 0)) {
		CHECK(rounds++ < 100000);
		for (int i = 0; i < 2; i++) {
			copyrpc_poll_recv(p.ctx[i], hear, &h);
			copyrpc_flush_if(p.ctx[i], i == holder ? never : always, NULL);
		}
	}
	CHECK_EQ(ep_stats_of(p.ep[caller]).grown, 1);
}

TEST(notes_of_the_peers_ring_leave)
{
	large_call(0, 1);
}

TEST(the_own_ring_grows)
{
	large_call(0, 0);
}

/* ---------------------------------------------------------------------- order */

/* copyrpc_recv() returns requests of two endpoints; those of each endpoint are in the order of its
 * calls. */
TEST(requests_come_out_in_order)
{
	struct copyrpc_ep *ep[2], *more[2];
	struct heard h = {0};
	struct copyrpc_req *req;
	PAIR p = pair_open(NULL);

	join(p.ctx[0], p.ctx[1], more);
	ep[0] = p.ep[0];
	ep[1] = more[0];
	for (uint32_t batch = 0; batch < 6; batch++) {
		for (uint32_t i = 0; i < 10; i++) {
			uint32_t n = batch * 10 + i;

			CHECK_EQ(copyrpc_call(ep[batch % 2], &n, sizeof(n), 4, 0), 0);
		}
		CHECK_EQ(copyrpc_ep_flush(ep[batch % 2]), 1);
	}
	CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 60);
	for (uint32_t n = 0; n < 60; n++) {
		CHECK_EQ(copyrpc_recv(p.ctx[1], &req), 1);
		CHECK(copyrpc_req_ep(req) == (n / 10 % 2 ? more[1] : p.ep[1]));
		CHECK(memcmp(copyrpc_req_data(req), &n, sizeof(n)) == 0);
		CHECK_EQ(copyrpc_reply(req, &n, sizeof(n)), 0);
	}
	CHECK_EQ(copyrpc_recv(p.ctx[1], &req), 0);
}

/* ------------------------------------------------------------------- callbacks */

/*
 * Two sides with the smallest rings call each other. All bytes of a response are equal. The
 * callback of each response makes the next calls and flushes. Then the other side runs, as it would
 * concurrently in another process, and writes as much as it may; the response must be unchanged.
 */
struct eager {
	struct pair p;
	uint64_t seed;
	uint32_t asked[2], taken[2], ended[2]; /* number of calls from each side: made, received,
						  ended */
	int inside; /* callbacks that are running */
	int how; /* kind of the flushes */
};

static struct eager eager;

static void eager_turn(int side);

static void eager_flush(int side)
{
	switch (eager.how) {
	case 0:
		copyrpc_ep_flush(eager.p.ep[side]);
		break;
	case 1:
		copyrpc_flush(eager.p.ctx[side]);
		break;
	default:
		copyrpc_flush_if(eager.p.ctx[side], always, NULL);
	}
}

static void eager_call(int side, int n)
{
	unsigned char request[400];

	while (n--) {
		uint32_t len = 4 + (uint32_t)(test_rand(&eager.seed) % (sizeof(request) - 3));

		test_fill(request, len, eager.asked[side]);
		memcpy(request, &eager.asked[side], 4);
		if (copyrpc_call(eager.p.ep[side], request, len, 300, eager.asked[side]))
			return;
		eager.asked[side]++;
	}
}

static void on_eager(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	int side = ep == eager.p.ep[1];

	CHECK_EQ(status, 0);
	test_filled(data, len, token + 77);
	eager.ended[side]++;
	if (eager.inside)
		return;
	eager.inside++;
	eager_call(side, (int)(test_rand(&eager.seed) % 6));
	eager_flush(side);
	for (uint64_t i = test_rand(&eager.seed) % 4; i; i--)
		eager_turn(!side);
	test_filled(data, len, token + 77);
	eager.inside--;
}

static void eager_turn(int side)
{
	static unsigned char reply[300];
	struct copyrpc_req *req;

	copyrpc_poll_recv(eager.p.ctx[side], on_eager, NULL);
	while (copyrpc_recv(eager.p.ctx[side], &req)) {
		uint32_t n, len = copyrpc_req_len(req), back;

		memcpy(&n, copyrpc_req_data(req), 4);
		CHECK_EQ(n, eager.taken[!side]);
		eager.taken[!side]++;
		test_filled((const char *)copyrpc_req_data(req) + 4, len - 4, n);
		back = (uint32_t)(test_rand(&eager.seed) % (sizeof(reply) + 1));
		test_fill(reply, back, n + 77);
		CHECK_EQ(copyrpc_reply(req, reply, back), 0);
	}
	eager_call(side, (int)(test_rand(&eager.seed) % 6));
	copyrpc_flush(eager.p.ctx[side]);
}

static void callbacks_flush(int how)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};

	eager = (struct eager){.seed = test_seed(), .how = how};
	eager.p = pair_open(&attr);
	for (int i = 0; i < 6000; i++) {
		eager_turn(i % 2);
		for (int side = 0; side < 2; side++)
			CHECK_EQ(copyrpc_ep_status(eager.p.ep[side]), 0);
	}
	for (int side = 0; side < 2; side++)
		CHECK(eager.ended[side] > 1000);
	pair_close(&eager.p);
}

TEST_WITH(callbacks_flush_their_endpoint, callbacks_flush, 0);
TEST_WITH(callbacks_flush_all, callbacks_flush, 1);
TEST_WITH(callbacks_flush_if, callbacks_flush, 2);

/* A call from inside a callback is sent immediately. The space of the response is released by the
 * next flush outside a callback. */
static void on_one(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	CHECK_EQ(copyrpc_call(ep, "x", 1, 1, token), 0);
	CHECK_EQ(copyrpc_flush(copyrpc_ep_ctx(ep)), 1);
}

TEST(a_flush_inside_is_followed_by_one_outside)
{
	static const struct copyrpc_ctx_attr attr = {.ring_size = COPYRPC_RING_MIN};
	struct copyrpc_ep_load load[2];
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_flush(p.ctx[0]);
	CHECK_EQ(copyrpc_poll_recv(p.ctx[1], hear, &h), 1);
	CHECK_EQ(answer_all(p.ctx[1], "y", 1), 1);
	copyrpc_flush(p.ctx[1]);
	CHECK_EQ(copyrpc_poll_recv(p.ctx[0], on_one, NULL), 1);
	CHECK_EQ(copyrpc_poll_recv(p.ctx[1], hear, &h), 1);
	copyrpc_ep_get_load(p.ep[1], &load[0], sizeof(load[0]));
	CHECK_EQ(load[0].posted - load[0].consumed, 64);
	CHECK_EQ(copyrpc_ctx_arm(p.ctx[0]), 1); /* there is something to flush */
	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	CHECK_EQ(copyrpc_flush(p.ctx[0]), 1);
	CHECK_EQ(copyrpc_poll_recv(p.ctx[1], hear, &h), 1);
	copyrpc_ep_get_load(p.ep[1], &load[1], sizeof(load[1]));
	CHECK_EQ(load[1].posted, load[1].consumed);
}
