/* SPDX-License-Identifier: MIT */
/*
 * Failures: each pending call ends exactly once with a status, only the endpoint concerned fails,
 * and the context stays usable. Then raw RDMA, including its failures.
 */
#include <endian.h>
#include <signal.h>
#include <sys/socket.h>

#include "base/wait.h"
#include "pair.h"
#include "traffic.h"

#define CALLS 100

struct ends {
	uint32_t ok, failed;
	int status; /* of the last failed call */
	uint8_t ended[CALLS];
};

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct ends *e = arg;

	CHECK(token < CALLS && !e->ended[token]);
	e->ended[token] = 1;
	if (status) {
		CHECK(!data && !len);
		CHECK(copyrpc_ep_status(ep) == status);
		e->status = status;
		e->failed++;
	} else {
		e->ok++;
	}
}

static void no_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	CHECK(!"no call was made");
}

static const struct copyrpc_ctx_attr small = {.ring_size = 8192,
	.max_endpoints = 4,
	.path = &impatient};

static struct copyrpc_ctx *open_ctx(void)
{
	struct copyrpc_ctx *ctx;

	CHECK_EQ(copyrpc_ctx_create(&small, &ctx), 0);
	return ctx;
}

static void call_many(struct copyrpc_ep *ep, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		CHECK_EQ(copyrpc_call(ep, "payload", 7, 16, i), 0);
}

/* Checks that a call from the first endpoint to the second is answered. */
static void check_works(struct copyrpc_ep *ep[2])
{
	struct copyrpc_req *req;
	struct ends e = {0};

	call_many(ep[0], 7, 8);
	while (!e.ok) {
		copyrpc_poll(copyrpc_ep_ctx(ep[0]), on_end, &e);
		copyrpc_poll(copyrpc_ep_ctx(ep[1]), on_end, &e);
		while (copyrpc_recv(copyrpc_ep_ctx(ep[1]), &req))
			CHECK_EQ(copyrpc_reply(req, "fine", 4), 0);
	}
	CHECK_EQ(e.failed, 0);
}

/* Checks that a new pair in the same contexts works. */
static void check_usable(struct copyrpc_ctx *a, struct copyrpc_ctx *b)
{
	struct copyrpc_ep *ep[2];

	join(a, b, ep);
	check_works(ep);
	for (int i = 0; i < 2; i++)
		copyrpc_ep_destroy(ep[i]);
	CHECK_EQ(copyrpc_poll(a, no_end, NULL), 0);
	CHECK_EQ(copyrpc_poll(b, no_end, NULL), 0);
}

static void wait_failed(struct copyrpc_ctx *ctx, struct ends *e, uint32_t n)
{
	struct wait w = WAIT_INIT;

	while (e->failed < n) {
		copyrpc_poll(ctx, on_end, e);
		if (wait_step(&w))
			usleep(100);
	}
}

/* A process that has answered half of the requests is killed. This case is the first, because it
 * must fork before this process opens the HCA. */
TEST(peer_killed)
{
	uint8_t mine[COPYRPC_INFO_SIZE], theirs[COPYRPC_INFO_SIZE];
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct ends e = {0};
	ssize_t got;
	pid_t child;
	int fd[2];
	char c;

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	child = test_fork();
	close(fd[!!child]);
	ctx = open_ctx();
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep), 0);
	copyrpc_ep_info(ep, mine);
	CHECK_EQ(write(fd[!child], mine, sizeof(mine)), sizeof(mine));
	CHECK_EQ(recv(fd[!child], theirs, sizeof(theirs), MSG_WAITALL), sizeof(theirs));
	CHECK_EQ(copyrpc_ep_connect(ep, theirs, sizeof(theirs)), 0);
	if (!child) {
		struct copyrpc_req *req;

		for (int n = 0; n < 30;) {
			copyrpc_poll(ctx, no_end, NULL);
			for (; copyrpc_recv(ctx, &req); n++)
				if (n % 2)
					CHECK_EQ(copyrpc_reply(req, "half", 4), 0);
			sched_yield();
		}
		copyrpc_poll(ctx, no_end, NULL);
		CHECK_EQ(write(fd[1], "x", 1), 1);
		pause();
	}
	call_many(ep, 0, 30);
	while ((got = recv(fd[0], &c, 1, MSG_DONTWAIT)) != 1) {
		CHECK(got < 0); /* 0: the child has ended */
		copyrpc_poll(ctx, on_end, &e);
		sched_yield();
	}
	test_kill(child);
	wait_failed(ctx, &e, 15);
	CHECK_EQ(e.ok, 15);
	CHECK_EQ(e.status, -ECONNRESET);
	copyrpc_ep_destroy(ep);
	copyrpc_poll(ctx, no_end, NULL);
	check_usable(ctx, ctx);
	copyrpc_ctx_destroy(ctx);
	close(fd[0]);
}

/* ------------------------------------------------------------------- refusals */

TEST(contexts_are_refused)
{
	struct copyrpc_ctx *ctx = NULL;
	static const struct {
		struct copyrpc_ctx_attr attr;
		int err;
	} table[] = {
		{{.device = "mlx5_99"}, -ENODEV},
		{{.ring_size = 5000}, -EINVAL},
		{{.ring_size = 2048}, -EINVAL},
		{{.ring_size = 1u << 31}, -EINVAL},
		{{.srq_depth = 1024, .cq_depth = 512}, -EINVAL},
		{{.sq_depth = 8}, -EINVAL},
		{{.max_endpoints = 1 << 20}, -EINVAL},
		{{.max_endpoints = UINT32_MAX}, -EINVAL},
		{{.set = COPYRPC_SET_VECTOR << 1}, -E2BIG},
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		CHECK_EQ(copyrpc_ctx_create(&table[i].attr, &ctx), table[i].err);
		CHECK(!ctx);
	}
	copyrpc_ctx_destroy(NULL);
	copyrpc_ep_destroy(NULL);
}

TEST(endpoints_are_refused)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	struct copyrpc_ep *ep[5];

	CHECK_EQ(copyrpc_ep_create(ctx, &(struct copyrpc_ep_attr){.ring_size = 6000}, &ep[0]),
		-EINVAL);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[i]), 0);
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[4]), -EMFILE);
	copyrpc_ep_destroy(ep[1]);
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[4]), -EMFILE);
	CHECK_EQ(copyrpc_poll(ctx, no_end, NULL), 0);
	CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[4]), 0);
}

TEST(connections_are_refused)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	struct copyrpc_ep *ep[2], *larger;
	uint8_t blob[2][COPYRPC_INFO_SIZE], bad[COPYRPC_INFO_SIZE];
	static const struct {
		int at, err;
	} table[] = {{0, -EINVAL}, {8, -EPROTONOSUPPORT}, {10, -EINVAL}, {30, -EINVAL},
		{39, -EINVAL}, {84, -EINVAL}, /* QP number, PSN, MTU, READs: */ {15, -EINVAL},
		{19, -EINVAL}, {22, -EINVAL}, {23, -EINVAL}};

	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ep_create(ctx, NULL, &ep[i]), 0);
		copyrpc_ep_info(ep[i], blob[i]);
	}
	CHECK_EQ(copyrpc_ep_connect(ep[0], blob[1], COPYRPC_INFO_SIZE - 1), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		memcpy(bad, blob[1], sizeof(bad));
		bad[table[i].at] ^= 0xc0;
		CHECK_EQ(copyrpc_ep_connect(ep[0], bad, sizeof(bad)), table[i].err);
	}
	CHECK_EQ(copyrpc_ep_create(ctx, &(struct copyrpc_ep_attr){.ring_size = 32768}, &larger), 0);
	copyrpc_ep_info(larger, bad);
	CHECK_EQ(copyrpc_ep_connect(ep[0], bad, sizeof(bad)), -EMSGSIZE);
	/* The refused calls have changed nothing. */
	CHECK_EQ(copyrpc_ep_status(ep[0]), -ENOTCONN);
	CHECK_EQ(copyrpc_ep_connect(ep[0], blob[1], COPYRPC_INFO_SIZE), 0);
	CHECK_EQ(copyrpc_ep_connect(ep[1], blob[0], COPYRPC_INFO_SIZE), 0);
	CHECK_EQ(copyrpc_ep_connect(ep[1], blob[0], COPYRPC_INFO_SIZE), -EISCONN);
	check_works(ep);
}

TEST(calls_are_refused)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	uint32_t max = COPYRPC_PAYLOAD_MAX(8192), n;
	static uint8_t buf[4096];
	struct ends e = {0};
	struct copyrpc_stats s;
	struct copyrpc_ep *ep[2];
	int rc;

	join(ctx, ctx, ep);
	CHECK_EQ(copyrpc_call(ep[0], buf, max + 1, 0, 0), -EMSGSIZE);
	CHECK_EQ(copyrpc_call(ep[0], buf, 0, max + 1, 0), -EMSGSIZE);
	CHECK_EQ(copyrpc_call(ep[0], buf, UINT32_MAX, 0, 0), -EMSGSIZE);
	CHECK_EQ(copyrpc_call(ep[0], buf, 0, UINT32_MAX, 0), -EMSGSIZE);
	for (n = 0; !(rc = copyrpc_call(ep[0], buf, 0, max, n)); n++)
		;
	CHECK_EQ(rc, -ENOBUFS);
	CHECK_EQ(n, 1); /* the credit is a quarter of the ring, and a call takes an eighth and a
			   block */
	for (n = 1; !(rc = copyrpc_call(ep[0], buf, max, 0, n)); n++)
		;
	CHECK_EQ(rc, -EAGAIN);
	s = ep_stats_of(ep[0]);
	CHECK_EQ(s.calls, n);
	CHECK_EQ(s.ring_stalls, 1);
	CHECK_EQ(s.credit_stalls, 1);
	/* After the calls are answered, neither condition holds any more. */
	while (e.ok < n) {
		struct copyrpc_req *req;

		copyrpc_poll(ctx, on_end, &e);
		while (copyrpc_recv(ctx, &req))
			CHECK_EQ(copyrpc_reply(req, NULL, 0), 0);
	}
	check_works(ep);
}

/* ---------------------------------------------------------------------- ends */

TEST(destroy_with_pending_calls)
{
	PAIR p = pair_open(&small);
	struct copyrpc_req *req, *held[2];
	struct ends e = {0};

	call_many(p.ep[0], 0, 20);
	copyrpc_poll(p.ctx[0], on_end, &e);
	call_many(p.ep[0], 20, 30); /* never sent */
	CHECK_EQ(copyrpc_poll(p.ctx[1], no_end, NULL), 20);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_recv(p.ctx[1], &held[i]), 1);
	copyrpc_ep_destroy(p.ep[0]);
	CHECK_EQ(e.failed, 0);
	CHECK_EQ(copyrpc_poll(p.ctx[0], on_end, &e), 30);
	CHECK_EQ(e.failed, 30);
	CHECK_EQ(e.status, -ECANCELED);
	CHECK_EQ(copyrpc_poll(p.ctx[0], on_end, &e), 0);

	/* Destroys the other side, while requests are held and others are in the queue. */
	copyrpc_ep_destroy(p.ep[1]);
	CHECK_EQ(copyrpc_recv(p.ctx[1], &req), 0);
	CHECK_EQ(copyrpc_poll(p.ctx[1], no_end, NULL), 0);
	for (int i = 0; i < 2; i++) {
		CHECK(memcmp(copyrpc_req_data(held[i]), "payload", 7) == 0);
		CHECK_EQ(copyrpc_reply(held[i], "late", 4), -ECANCELED);
		copyrpc_poll(p.ctx[1], no_end, NULL);
	}
	check_usable(p.ctx[0], p.ctx[1]);
}

TEST(context_destroyed_in_use)
{
	struct copyrpc_ctx *ctx = open_ctx();
	struct copyrpc_ep *ep[2];
	struct copyrpc_req *req;
	struct ends e = {0};

	join(ctx, ctx, ep);
	call_many(ep[0], 0, 20);
	copyrpc_poll(ctx, on_end, &e);
	copyrpc_poll(ctx, on_end, &e);
	CHECK_EQ(copyrpc_recv(ctx, &req), 1);
	CHECK_EQ(copyrpc_req_detach(req), 0);
	copyrpc_ep_destroy(ep[1]);
	copyrpc_ctx_destroy(ctx);
	CHECK_EQ(e.failed, 0);
}

/* The peer destroys its endpoint after it has received the requests. Its goodbye ends the calls. */
TEST(peer_destroyed)
{
	PAIR p = pair_open(&small);
	struct ends e = {0};

	call_many(p.ep[0], 0, 10);
	copyrpc_poll(p.ctx[0], on_end, &e);
	CHECK_EQ(copyrpc_poll(p.ctx[1], no_end, NULL), 10);
	copyrpc_ep_destroy(p.ep[1]);
	CHECK_EQ(copyrpc_poll(p.ctx[1], no_end, NULL), 0);
	wait_failed(p.ctx[0], &e, 10);
	CHECK_EQ(e.status, -ECONNRESET);
	CHECK_EQ(copyrpc_ep_status(p.ep[0]), -ECONNRESET);
	CHECK_EQ(copyrpc_call(p.ep[0], NULL, 0, 0, 50), -ECONNRESET);
	copyrpc_ep_destroy(p.ep[0]);
	copyrpc_poll(p.ctx[0], no_end, NULL);
	check_usable(p.ctx[0], p.ctx[1]);
}

/* ----------------------------------------------------------- inside callbacks */

struct nest {
	struct copyrpc_ep *ep;
	struct copyrpc_req *held;
	int left, ok, failed;
	bool destroy;
};

static void on_nested(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct nest *n = arg;

	n->ok += !status;
	n->failed += !!status;
	if (n->held) {
		CHECK_EQ(copyrpc_reply(n->held, "in", 2), 0);
		n->held = NULL;
	}
	if (n->left && !status) {
		n->left--;
		CHECK_EQ(copyrpc_call(ep, "again", 5, 8, token + 1), 0);
	}
	if (n->destroy)
		copyrpc_ep_destroy(ep);
}

/* The callback calls, replies and destroys. */
TEST(nested_use)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	struct nest n = {.left = 50};
	struct copyrpc_ep *ep[2];
	struct copyrpc_req *req;

	join(ctx, ctx, ep);
	CHECK_EQ(copyrpc_call(ep[0], "one", 3, 8, 0), 0);
	CHECK_EQ(copyrpc_call(ep[1], "two", 3, 8, 0), 0);
	while (n.ok < 52) {
		copyrpc_poll(ctx, on_nested, &n);
		while (copyrpc_recv(ctx, &req)) {
			if (!n.held && n.ok > 10 && n.ok < 40)
				n.held = req; /* replied to in the next callback */
			else
				CHECK_EQ(copyrpc_reply(req, "out", 3), 0);
		}
	}
	/* Ten responses come in one batch: the first destroys the endpoint. */
	for (int i = 0; i < 10; i++)
		CHECK_EQ(copyrpc_call(ep[0], "x", 1, 8, 0), 0);
	copyrpc_poll(ctx, on_nested, &n);
	copyrpc_poll(ctx, on_nested, &n);
	while (copyrpc_recv(ctx, &req))
		CHECK_EQ(copyrpc_reply(req, NULL, 0), 0);
	n.destroy = true;
	copyrpc_flush(ctx);
	CHECK_EQ(copyrpc_poll(ctx, on_nested, &n), 10);
	CHECK_EQ(n.ok, 53);
	CHECK_EQ(n.failed, 9);
	copyrpc_ep_destroy(ep[1]);
	n.destroy = false;
	copyrpc_poll(ctx, on_nested, &n);
	check_usable(ctx, ctx);
}

/* ------------------------------------------------------------------------ raw */

static struct copyrpc_raw_done wait_raw(struct copyrpc_ctx *ctx)
{
	struct copyrpc_raw_done done;
	struct wait w = WAIT_INIT;

	while (!copyrpc_raw_recv(ctx, &done)) {
		copyrpc_poll(ctx, no_end, NULL);
		if (wait_step(&w))
			usleep(100);
	}
	return done;
}

TEST(raw_read_and_write)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	static uint8_t local[8192], remote[8192];
	struct copyrpc_mr lmr, rmr;
	struct copyrpc_ep *ep[2];

	join(ctx, ctx, ep);
	CHECK_EQ(copyrpc_mr_reg(ctx, local, sizeof(local), 0, &lmr), 0);
	CHECK_EQ(copyrpc_mr_reg(ctx, remote, sizeof(remote),
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &rmr),
		0);
	CHECK_EQ(copyrpc_mr_reg(ctx, remote, sizeof(remote), 64, &rmr), -EINVAL);
	CHECK_EQ(copyrpc_write(ep[0], local, lmr.lkey, (uintptr_t)remote, rmr.rkey, 0, 0), -EINVAL);
	for (uint32_t len = 1; len <= sizeof(local); len = len * 3 + 1) {
		struct copyrpc_raw_done done;

		traffic_fill(local, len, len);
		CHECK_EQ(copyrpc_write(ep[0], local, lmr.lkey, (uintptr_t)remote, rmr.rkey, len,
				 ~(uint64_t)len),
			0);
		CHECK_EQ(copyrpc_raw_pending(ep[0]), 1);
		done = wait_raw(ctx);
		CHECK(done.ep == ep[0] && done.token == ~(uint64_t)len && !done.status);
		CHECK(memcmp(local, remote, len) == 0);
		memset(local, 0, len);
		CHECK_EQ(copyrpc_read(ep[0], local, lmr.lkey, (uintptr_t)remote, rmr.rkey, len, 5),
			0);
		done = wait_raw(ctx);
		CHECK(done.token == 5 && !done.status);
		CHECK(memcmp(local, remote, len) == 0);
		CHECK_EQ(copyrpc_raw_pending(ep[0]), 0);
		check_works(ep);
	}
	copyrpc_mr_dereg(&lmr);
	copyrpc_mr_dereg(&rmr);
	copyrpc_mr_dereg(&rmr);
}

/* More operations than fit are started; each ends once, and calls work in between. */
TEST(raw_many)
{
	AT_END(end_ctx) struct copyrpc_ctx *ctx = open_ctx();
	static uint64_t local[4096], remote[4096];
	static bool seen[4096];
	struct copyrpc_mr lmr, rmr;
	struct copyrpc_raw_done done;
	struct copyrpc_ep *ep[2];
	uint64_t posted = 0, ended = 0;

	join(ctx, ctx, ep);
	for (int i = 0; i < 4096; i++)
		remote[i] = (uint64_t)i * i + 1;
	CHECK_EQ(copyrpc_mr_reg(ctx, local, sizeof(local), 0, &lmr), 0);
	CHECK_EQ(copyrpc_mr_reg(ctx, remote, sizeof(remote), COPYRPC_REMOTE_READ, &rmr), 0);
	while (ended < 4096) {
		int rc = 0;

		while (posted < 4096 && !rc) {
			rc = copyrpc_read(ep[posted % 2], &local[posted], lmr.lkey,
				(uintptr_t)&remote[posted], rmr.rkey, 8, posted);
			posted += !rc;
		}
		CHECK(rc == 0 || rc == -EAGAIN);
		check_works(ep);
		while (copyrpc_raw_recv(ctx, &done)) {
			CHECK(!done.status && done.token < posted);
			CHECK(!seen[done.token]);
			seen[done.token] = true;
			CHECK_EQ(local[done.token], done.token * done.token + 1);
			ended++;
		}
	}
	copyrpc_mr_dereg(&lmr);
	copyrpc_mr_dereg(&rmr);
}

/* The peer's memory permits no WRITE, so the WRITE and the pending calls end with -EACCES. */
TEST(raw_refused)
{
	PAIR p = pair_open(&small);
	static uint8_t local[64], remote[64];
	struct copyrpc_mr lmr, rmr;
	struct copyrpc_raw_done done;
	struct ends e = {0};

	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], local, sizeof(local), 0, &lmr), 0);
	CHECK_EQ(copyrpc_mr_reg(p.ctx[1], remote, sizeof(remote), COPYRPC_REMOTE_READ, &rmr), 0);
	call_many(p.ep[0], 0, 10);
	copyrpc_poll(p.ctx[0], on_end, &e);
	CHECK_EQ(copyrpc_write(p.ep[0], local, lmr.lkey, (uintptr_t)remote, rmr.rkey, 64, 9), 0);
	wait_failed(p.ctx[0], &e, 10);
	CHECK_EQ(e.status, -EACCES);
	CHECK_EQ(copyrpc_raw_recv(p.ctx[0], &done), 1);
	CHECK(done.ep == p.ep[0] && done.token == 9 && done.status == -EACCES);
	CHECK_EQ(copyrpc_read(p.ep[0], local, lmr.lkey, (uintptr_t)remote, rmr.rkey, 64, 9),
		-EACCES);
	for (int i = 0; i < 2; i++) {
		copyrpc_ep_destroy(p.ep[i]);
		copyrpc_poll(p.ctx[i], no_end, NULL);
	}
	check_usable(p.ctx[0], p.ctx[1]);
	copyrpc_mr_dereg(&lmr);
	copyrpc_mr_dereg(&rmr);
}

/* A peer may write the receive ring, but not read it. */
TEST(the_receive_ring_is_not_read)
{
	PAIR p = pair_open(&small);
	uint8_t blob[COPYRPC_INFO_SIZE];
	struct copyrpc_raw_done done;
	static uint8_t local[64];
	struct copyrpc_mr mr;
	uint64_t addr;
	uint32_t rkey;

	check_works(p.ep);
	copyrpc_ep_info(p.ep[1], blob);
	memcpy(&addr, blob + 56, sizeof(addr)); /* see copyrpc.h */
	memcpy(&rkey, blob + 72, sizeof(rkey));
	CHECK_EQ(copyrpc_mr_reg(p.ctx[0], local, sizeof(local), 0, &mr), 0);
	CHECK_EQ(copyrpc_read(p.ep[0], local, mr.lkey, le64toh(addr), le32toh(rkey), sizeof(local),
			 3),
		0);
	done = wait_raw(p.ctx[0]);
	CHECK(done.ep == p.ep[0] && done.token == 3);
	CHECK_EQ(done.status, -EACCES);
	for (size_t i = 0; i < sizeof(local); i++)
		CHECK_EQ(local[i], 0);
	copyrpc_mr_dereg(&mr);
}
