/* SPDX-License-Identifier: MIT */
/*
 * Endpoints that are connected again. Two nodes in one thread call each other while queue pairs
 * fail, the link goes down and TCP connections are lost. Each call has a number, and both sides
 * count: it must be executed once, and answered once with the right bytes.
 */
#include <dlfcn.h>
#include <endian.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copyrpc_bulk.h"
#include "copyrpc_tcp.h"
#include "lobby.h"
#include "meet.h"
#include "timed.h"

#ifndef SCALE
#define SCALE 1
#endif
#ifdef TIMES /* the long form */
#define CALLS 500000 /* of each side in the storm */
#define GROWING 5000
#define CALM 200 /* the most calls between two faults */
#define GUARD_S 3000
#else
#define CALLS 400
#define GROWING 10 /* storms with growing rings */
#define CALM 20
#define GUARD_S 800
#endif
#define MOST (1u << 20) /* calls of a node */
#define HELD 8
#define LARGE (5u << 20) /* more than a transfer posts at a time */

struct request { /* payload */
	uint32_t number, salt;
	uint8_t bytes[480];
};

struct node {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct node *peer;
	int listener;
	uint32_t made, done, most, lazy;
	uint32_t downs, backs, ends; /* events; `ends`: DOWN for ever */
	int status; /* of the calls that have failed */
	uint32_t failed;
	uint8_t *executed, *ended; /* of the peer's calls, of its own */
	struct copyrpc_req *held[HELD];
};

static int (*fault_add)(const char *rule);
static long long (*fault_remove)(int number);
static uint64_t seed;

static uint32_t pick(uint32_t n)
{
	return (uint32_t)(test_rand(&seed) % n);
}

/* Half of the messages are short, so that batches of several are short enough to be copied. */
static uint32_t length(uint32_t salt)
{
	return 8 + salt % (salt & 1 ? 480 : 24);
}

static void fill(struct request *r, uint32_t number, uint32_t salt)
{
	r->number = number;
	r->salt = salt;
	memset(r->bytes, (int)(number * 7 + salt), sizeof(r->bytes));
}

static void check_payload(const void *data, uint32_t len, uint32_t number, uint32_t salt)
{
	struct request want;

	fill(&want, number, salt);
	CHECK_EQ(len, length(salt));
	CHECK(!memcmp(data, &want, len));
}

static void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	struct node *n = arg;
	uint32_t number = (uint32_t)token;

	CHECK(number < n->made && !n->ended[number]);
	n->ended[number] = 1;
	n->done++;
	if (status) {
		n->status = status;
		n->failed++;
		return;
	}
	CHECK(n->peer->executed[number]);
	check_payload(data, len, number, (uint32_t)(token >> 32) * 3);
}

/* ------------------------------------------------------------------ nodes */

static void open_nodes_at(struct node n[2], const struct copyrpc_ctx_attr *attr, bool real_clock)
{
	memset(n, 0, 2 * sizeof(*n));
	*(void **)&fault_add = dlsym(RTLD_DEFAULT, "softhca_fault_add");
	*(void **)&fault_remove = dlsym(RTLD_DEFAULT, "softhca_fault_remove");
	CHECK(fault_add && fault_remove);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(copyrpc_ctx_create(attr, &n[i].ctx), 0);
		if (!real_clock)
			stop_clock(n[i].ctx);
		n[i].peer = &n[!i];
		n[i].executed = calloc(MOST, 1);
		n[i].ended = calloc(MOST, 1);
	}
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 1), 0);
	CHECK_EQ(copyrpc_dial(n[0].ctx, NULL, "127.0.0.1",
			 (uint16_t)copyrpc_tcp_port(n[1].listener), FAR_MS, 7),
		0);
}

static void open_nodes(struct node n[2], const struct copyrpc_ctx_attr *attr)
{
	open_nodes_at(n, attr, false);
}

static void close_nodes(struct node (*nodes)[2])
{
	for (int i = 0; i < 2; i++) {
		struct node *n = &(*nodes)[i];

		copyrpc_ctx_destroy(n->ctx);
		free(n->executed);
		free(n->ended);
	}
	close((*nodes)[1].listener);
}

#define NODES AT_END(close_nodes) struct node /* closed with their block */

static void take_events(struct node *n)
{
	struct copyrpc_event e;

	while (copyrpc_event_recv(n->ctx, &e, sizeof(e))) {
		CHECK(!n->ep || e.ep == n->ep);
		switch (e.kind) {
		case COPYRPC_UP:
			n->ep = e.ep;
			break;
		case COPYRPC_BACK:
			CHECK_EQ(e.status, 0);
			n->backs++;
			break;
		case COPYRPC_DOWN:
			n->downs += e.status == -EAGAIN;
			n->ends += e.status != -EAGAIN;
			break;
		default:
			CHECK(!"no other event");
		}
	}
}

static void answer(struct node *n, struct copyrpc_req *req)
{
	struct request reply;
	const struct request *r = copyrpc_req_data(req);
	uint32_t number = r->number, salt = r->salt * 3;
	int rc;

	fill(&reply, number, salt);
	rc = copyrpc_reply(req, &reply, length(salt));
	CHECK(!rc || rc == copyrpc_ep_status(n->ep));
}

/* Takes the requests that have come; answers some of those that are held. */
static void serve(struct node *n)
{
	for (int i = 0; i < HELD; i++) {
		struct copyrpc_req *req = n->held[i];
		const struct request *r;

		if (req && pick(3) == 0) {
			answer(n, req);
			n->held[i] = NULL;
		}
		if (n->held[i] || !copyrpc_recv(n->ctx, &req))
			continue;
		r = copyrpc_req_data(req);
		check_payload(r, copyrpc_req_len(req), r->number, r->salt);
		CHECK(!n->executed[r->number]);
		n->executed[r->number] = 1;
		n->held[i] = req;
		if (pick(4) == 0)
			CHECK_EQ(copyrpc_req_detach(req), 0);
	}
}

static void turn(struct node *n)
{
	now += NSEC_PER_MSEC;
	/* Sometimes connections go on while completions are not handled. */
	if (!n->lazy && pick(100) == 0)
		n->lazy = pick(60);
	if (n->lazy) {
		n->lazy--;
		n->ctx->side->step(n->ctx);
		return;
	}
	for (uint32_t k = pick(6); n->ep && n->made < n->most && k; k--) {
		uint32_t salt = pick(500);
		struct request r;

		fill(&r, n->made, salt);
		if (copyrpc_call(n->ep, &r, length(salt), length(salt * 3),
			    n->made | (uint64_t)salt << 32))
			break;
		n->made++;
	}
	copyrpc_poll(n->ctx, on_response, n);
	take_events(n);
	serve(n);
}

static void turn_both(struct node n[2])
{
	turn(&n[0]);
	turn(&n[1]);
}

static bool idle(const struct node *n)
{
	return n->ep && n->done == n->most;
}

/* Makes calls on both sides until all have ended. */
static void calls(struct node n[2], uint32_t count)
{
	n[0].most += count;
	n[1].most += count;
	while (!idle(&n[0]) || !idle(&n[1]))
		turn_both(n);
}

static void up(struct node n[2])
{
	while (!n[0].ep || !n[1].ep)
		turn_both(n);
}

/* The clock of the test runs much faster than the timers of the HCA. */
static const struct copyrpc_path quick = {.timeout = 8, .retry_cnt = 3}; /* 4 ms */
static const struct copyrpc_ctx_attr returning = {.size = sizeof(returning),
	.ring_size = 8192,
	.max_endpoints = 2,
	.sq_depth = 16,
	.reconnect_ms = 1000000000,
	.probe_ms = 100000,
	.path = &quick};

/* ------------------------------------------------------------------ cases */

/* Stops the queue pair of one side without a completion there. */
static void lose(struct node n[2], int side)
{
	mlx5dvl_qp_to_error(n[side].ep->qp);
}

static void returns(int side, bool traffic)
{
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	for (uint32_t i = 1; i <= 3; i++) {
		lose(n, side);
		calls(n, traffic ? 20 : 0);
		while (n[0].backs < i || n[1].backs < i)
			turn_both(n);
		CHECK_EQ(n[0].downs, i);
		CHECK_EQ(n[1].downs, i);
	}
	calls(n, 20);
	CHECK_EQ(n[0].failed + n[1].failed + n[0].ends + n[1].ends, 0);
}

TEST_WITH(dialing_side, returns, 0, true);
TEST_WITH(listening_side, returns, 1, true);
TEST_WITH(idle_dialing_side, returns, 0, false);
TEST_WITH(idle_listening_side, returns, 1, false);

/* Sleeps until one of the nodes has an event, or something to do. */
static void sleep_both(struct node n[2])
{
	struct pollfd fds[2];
	int ms = -1;

	for (int i = 0; i < 2; i++) {
		int due = copyrpc_ctx_timeout(n[i].ctx);

		if (copyrpc_ctx_arm(n[i].ctx))
			return;
		ms = due >= 0 && (ms < 0 || due < ms) ? due : ms;
		fds[i] = (struct pollfd){.fd = copyrpc_ctx_fd(n[i].ctx), .events = POLLIN};
	}
	CHECK(poll(fds, 2, ms) >= 0);
}

/* Nodes that sleep and have no calls notice the loss, and return. */
TEST(sleeping)
{
	NODES n[2];

	open_nodes_at(n, &returning, true);
	for (uint32_t losses = 0; n[0].backs < 3 || n[1].backs < 3;) {
		if (n[0].ep && n[1].ep && losses < 3 && n[0].backs == losses &&
			n[1].backs == losses) {
			lose(n, 1);
			losses++;
		}
		turn_both(n);
		sleep_both(n);
	}
	calls(n, 10);
}

/* Polls both until the condition holds. */
#define UNTIL(condition)                                                                           \
	while (!(condition))                                                                       \
	turn_both(n)

/* The probe may come before the HCA's report. */
static bool is_loss(int status)
{
	return status == -ECONNRESET || status == -ETIMEDOUT;
}

static void open_up(struct node n[2])
{
	open_nodes(n, &returning);
	up(n);
	calls(n, 10);
}

/* The peer has destroyed its endpoint, as if its process had been restarted. */
TEST(peer_is_gone)
{
	NODES n[2];

	open_up(n);
	copyrpc_ep_destroy(n[1].ep);
	n[1].ep = NULL;
	n[0].most += 5;
	UNTIL(n[0].ends);
	CHECK_EQ(n[0].downs, 1);
	CHECK(n[0].failed && n[0].done == n[0].made);
	CHECK_EQ(n[0].status, -ECONNRESET);
	CHECK_EQ(copyrpc_ep_status(n[0].ep), -ECONNRESET);
}

/* Nobody listens until the time is over. Both ends then fail by themselves. */
TEST(too_late)
{
	char line[256];
	NODES n[2];

	open_up(n);
	CHECK_EQ(copyrpc_unlisten(n[1].ctx, n[1].listener), 0);
	close(n[1].listener);
	lose(n, 0);
	n[1].most += 3;
	UNTIL(n[0].downs && n[1].downs);
	CHECK_EQ(copyrpc_ep_status(n[0].ep), 0);
	copyrpc_ep_describe(n[0].ep, line, sizeof(line));
	CHECK(strstr(line, "being connected again"));
	CHECK(copyrpc_ctx_timeout(n[1].ctx) >= 0 && copyrpc_ctx_timeout(n[1].ctx) <= 100);
	CHECK_EQ(n[0].ends + n[1].ends, 0);
	now += returning.reconnect_ms * NSEC_PER_MSEC;
	UNTIL(n[0].ends && n[1].ends);
	CHECK(n[1].failed && n[1].done == n[1].made);
	CHECK(is_loss(n[1].status));
	n[1].listener = dup(0);
}

/* The library ends raw operations, which it cannot repeat. */
TEST(raw_operations)
{
	static uint64_t there = 1, here[2] = {2, 3};
	struct copyrpc_raw_done done;
	struct copyrpc_ctx_attr attr = returning;
	struct copyrpc_mr remote, local;
	NODES n[2];

	attr.sq_depth = 256; /* there is always room */
	open_nodes(n, &attr);
	up(n);
	CHECK_EQ(copyrpc_mr_reg(n[1].ctx, &there, 8, COPYRPC_REMOTE_WRITE, &remote), 0);
	CHECK_EQ(copyrpc_mr_reg(n[0].ctx, here, 16, 0, &local), 0);
	lose(n, 1);
	CHECK_EQ(copyrpc_write(n[0].ep, here, local.lkey, (uintptr_t)&there, remote.rkey, 8, 5), 0);
	UNTIL(n[0].downs);
	CHECK_EQ(copyrpc_write(n[0].ep, here, local.lkey, (uintptr_t)&there, remote.rkey, 8, 6),
		-EAGAIN);
	UNTIL(n[0].backs && n[1].backs);
	CHECK_EQ(copyrpc_raw_recv(n[0].ctx, &done), 1);
	CHECK_EQ(done.token, 5);
	CHECK(is_loss(done.status));
	CHECK_EQ(copyrpc_write(n[0].ep, here + 1, local.lkey, (uintptr_t)&there, remote.rkey, 8, 7),
		0);
	while (!copyrpc_raw_recv(n[0].ctx, &done))
		turn_both(n);
	CHECK(done.token == 7 && !done.status && there == 3);
	CHECK_EQ(copyrpc_raw_pending(n[0].ep), 0);
	copyrpc_mr_dereg(&local);
	copyrpc_mr_dereg(&remote);
}

static void on_pulled(void *arg, struct copyrpc_ep *ep, int status)
{
	CHECK_EQ(status, 0);
	++*(int *)arg;
}

/* Transfers go on, before and after some of their parts have arrived. */
TEST(transfers)
{
	static uint8_t there[8 << 20], here[8 << 20];
	struct copyrpc_bulk *remote, *local;
	uint8_t desc[COPYRPC_BULK_SIZE];
	struct copyrpc_remote r;
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	CHECK_EQ(copyrpc_bulk_create(n[1].ctx, there, sizeof(there), COPYRPC_REMOTE_READ, &remote),
		0);
	CHECK_EQ(copyrpc_bulk_create(n[0].ctx, here, sizeof(here), 0, &local), 0);
	CHECK_EQ(copyrpc_bulk_export(remote, n[1].ep, 0, sizeof(there), desc), 0);
	CHECK_EQ(copyrpc_bulk_import(n[0].ep, desc, sizeof(desc), &r), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		int ends = 0;

		memset(there, (int)i, sizeof(there));
		if (i == 1)
			lose(n, 1);
		CHECK_EQ(copyrpc_bulk_pull(n[0].ep, &r, 0, local, 0, sizeof(here), on_pulled,
				 &ends),
			0);
		if (i == 2)
			copyrpc_poll(n[0].ctx, on_response, &n[0]);
		if (i > 1)
			lose(n, (int)i % 2);
		UNTIL(ends);
		CHECK(!memcmp(here, there, sizeof(here)));
		UNTIL(n[0].backs == i && n[1].backs == i);
		CHECK_EQ(ends, 1);
	}
}

struct larges {
	uint32_t ok, failed;
};

static void on_large(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct larges *l = arg;

	l->ok += !status && len == LARGE && *(const uint8_t *)data == (uint8_t)(token + 1) &&
		 ((const uint8_t *)data)[LARGE - 1] == (uint8_t)(token + 1);
	l->failed += !!status;
}

/* The connection is lost before the server has the request, while it holds it, or while the response
 * is pushed. Each call is executed once. */
TEST(large_calls)
{
	static uint8_t data[LARGE], resp[LARGE];
	const struct copyrpc_large_attr large = {.message_max = LARGE};
	struct larges l = {0};
	NODES n[2];

	open_nodes(n, &returning);
	up(n);
	CHECK_EQ(copyrpc_large_accept(n[1].ctx, &large), 0);
	for (uint32_t i = 0, taken = 0; i < 12; i++) {
		struct copyrpc_req *req = NULL;
		uint32_t loss = i % 4;

		memset(data, (int)i, sizeof(data));
		CHECK_EQ(copyrpc_call_large(n[0].ep, data, LARGE, resp, LARGE, i), 0);
		for (uint32_t k = 0; l.ok <= i; k++) {
			now += NSEC_PER_MSEC;
			if (k == loss && i < 9)
				lose(n, (int)i % 2);
			copyrpc_poll(n[0].ctx, on_large, &l);
			copyrpc_poll(n[1].ctx, on_large, &l);
			take_events(&n[0]);
			take_events(&n[1]);
			if (!req && copyrpc_recv(n[1].ctx, &req)) {
				taken++;
				CHECK(*(const uint8_t *)copyrpc_req_data(req) == (uint8_t)i);
			} else if (req && copyrpc_req_memory(req)) {
				memset(copyrpc_req_memory(req), (int)i + 1, LARGE);
				CHECK_EQ(copyrpc_reply(req, copyrpc_req_memory(req), LARGE), 0);
				req = NULL;
			}
			CHECK_EQ(l.failed, 0);
		}
		CHECK_EQ(taken, i + 1);
		UNTIL(n[0].backs == n[0].downs && n[1].backs == n[1].downs);
	}
	CHECK(n[0].backs >= 9);
}

static void on_limit(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	*(int *)arg = status;
}

/* A time limit runs on; the response comes later, and is dropped. */
TEST(time_limit)
{
	struct request r;
	NODES n[2];
	int ended = 0;

	open_up(n);
	lose(n, 0);
	UNTIL(n[0].downs);
	fill(&r, MOST - 1, 1);
	CHECK_EQ(copyrpc_call_timed(n[0].ep, &r, length(1), 500, 0, 10), 0);
	now += 20 * NSEC_PER_MSEC;
	copyrpc_poll(n[0].ctx, on_limit, &ended);
	CHECK_EQ(ended, -ETIMEDOUT);
	UNTIL(n[0].backs && n[1].backs && n[1].executed[MOST - 1]);
	calls(n, 50);
	CHECK_EQ(n[0].failed, 0);
}

/* One side does not want to return: then the other does not either. */
static void one_side(int side)
{
	NODES n[2];

	open_nodes(n, &returning);
	n[side].ctx->attr.reconnect_ms = 0;
	up(n);
	calls(n, 10);
	lose(n, 0);
	n[1].most += 1;
	UNTIL(n[1].ends);
	CHECK_EQ(n[1].failed, 1);
	CHECK_EQ(n[0].downs + n[1].downs, 0);
}

TEST_WITH(only_dialing_side, one_side, 1);
TEST_WITH(only_listening_side, one_side, 0);

/* The program destroys an endpoint, or its context, at any moment of its return. */
TEST(destroyed_while_away)
{
	for (int i = 0; i < 16; i++) {
		NODES n[2];

		open_nodes(n, &returning);
		up(n);
		lose(n, i & 1);
		UNTIL(n[0].ctx->n_away + n[1].ctx->n_away);
		for (int k = 0; k < i / 4; k++)
			turn(&n[k & 1]);
		if (i & 2)
			copyrpc_ep_destroy(n[i & 1].ep);
		for (int k = 0; k < 3; k++)
			turn_both(n);
	}
}

/* The device reports that a queue pair is drained, or a second is enough. */
TEST(drained)
{
	NODES n[2];

	open_up(n);
	for (int i = 0; i < 2; i++) {
		ep_leave(n[0].ep, -ECONNRESET);
		CHECK(!ep_is_drained(n[0].ep));
		if (i)
			now += NSEC_PER_SEC;
		else
			ctx_device_events(n[0].ctx);
		CHECK(ep_is_drained(n[0].ep));
		UNTIL(n[0].backs > (uint32_t)i && n[1].backs > (uint32_t)i);
	}
}

/* A side with a completion that it has not handled does not answer a hello. */
TEST(completions_come_first)
{
	struct request r;
	NODES n[2];

	open_up(n);
	fill(&r, n[0].made, 0);
	CHECK_EQ(copyrpc_call(n[0].ep, &r, length(0), length(0), n[0].made), 0);
	n[0].made++;
	n[0].most++;
	copyrpc_flush(n[0].ctx);
	while (!mlx5dvl_cq_ready(n[1].ctx->recv_cq))
		sched_yield();
	ep_leave(n[0].ep, -ECONNRESET);
	for (int i = 0; i < 3000; i++) {
		turn(&n[0]);
		n[1].ctx->side->step(n[1].ctx);
	}
	CHECK_EQ(n[0].backs, 0);
	CHECK_EQ(n[1].ctx->n_away, 1); /* it has heard the hello */
	UNTIL(n[0].backs && n[1].backs && idle(&n[0]));
	calls(n, 10);
}

/* ------------------------------------------------------------------ strangers */

struct hello {
	struct greeting greeting;
	struct place place;
};

/* Says a hello as the dialing side would, after an attempt of it. */
static struct hello hello_of(const struct node n[2])
{
	struct hello h = {.greeting = {.magic = "CPRPCTCP",
				  .version = htole16(2),
				  .len = htole16(sizeof(h.greeting)),
				  .flags = htole32(6),
				  .owner = htole64(n[0].ep->owner),
				  .node = htole64(n[0].ctx->node)},
		.place = {.magic = "CPRPCPOS",
			.whom = htole64(n[1].ep->owner),
			.attempt = htole64(n[0].ep->attempt + 1),
			.received = htole64(n[0].ep->ch.live.pos * WIRE_BLOCK)}};

	copyrpc_ep_info(n[0].ep, h.greeting.blob);
	return h;
}

/* Returns the error of the listener's result; it has said `ahead` bytes before that. */
static uint32_t say_hello(struct node n[2], const struct hello *h, size_t ahead)
{
	uint8_t bytes[sizeof(*h) + sizeof(struct result)];
	struct result r;
	int fd;

	CHECK_EQ(copyrpc_tcp_connect("127.0.0.1", (uint16_t)copyrpc_tcp_port(n[1].listener), 5000,
			 &fd),
		0);
	CHECK_EQ(send(fd, h, sizeof(*h), 0), sizeof(*h));
	while (recv(fd, bytes, ahead + sizeof(r), MSG_PEEK | MSG_DONTWAIT) <
		(ssize_t)(ahead + sizeof(r)))
		turn(&n[1]);
	CHECK_EQ(recv(fd, bytes, ahead, 0), ahead);
	CHECK_EQ(recv(fd, &r, sizeof(r), 0), sizeof(r));
	close(fd);
	return le32toh(r.error);
}

TEST(hellos_are_checked)
{
	const size_t refusal = sizeof(struct greeting), whole = refusal + sizeof(struct place);
	NODES n[2];
	struct hello h;

	open_up(n);
	lose(n, 0);
	UNTIL(n[0].backs && n[1].backs);
	h = hello_of(n);
	h.place.whom ^= 1; /* the number of another process */
	CHECK_EQ(say_hello(n, &h, refusal), ENOENT);
	h = hello_of(n);
	h.greeting.owner ^= 1; /* another caller */
	CHECK_EQ(say_hello(n, &h, refusal), ENOENT);
	h = hello_of(n);
	h.place.attempt = htole64(n[0].ep->attempt); /* an old attempt */
	CHECK_EQ(say_hello(n, &h, refusal), EALREADY);
	CHECK_EQ(n[1].downs, 1);
	calls(n, 10);
	h = hello_of(n);
	h.place.received = htole64((n[1].ep->ch.sent + 1) * WIRE_BLOCK);
	CHECK_EQ(say_hello(n, &h, whole), EPROTO);
	UNTIL(n[1].ends);
	CHECK_EQ(copyrpc_ep_status(n[1].ep), -EPROTO);
}

/* Wrong places in hellos, each of which fails the endpoint. */
TEST(positions_are_checked)
{
	for (int i = 0; i < 5; i++) {
		NODES n[2];
		struct hello h;

		open_up(n);
		h = hello_of(n);
		switch (i) {
		case 0:
			h.place.received = htole64(n[1].ep->ch.cr.rc * WIRE_BLOCK - WIRE_BLOCK);
			break;
		case 1:
			h.place.received = htole64(n[1].ep->ch.sent * WIRE_BLOCK + 1);
			break;
		case 2:
			h.greeting.blob[56] ^= 64; /* another ring */
			break;
		default: /* another key */
			h.greeting.blob[i == 3 ? 72 : 76] ^= 1;
		}
		CHECK_EQ(say_hello(n, &h, sizeof(h)), EPROTO);
		UNTIL(n[1].ends);
		CHECK_EQ(copyrpc_ep_status(n[1].ep), -EPROTO);
	}
}

/* ------------------------------------------------------------------ the storm */

static void cut_tcp(struct node *n)
{
	struct lobby *y = container_of(n->ctx->side, struct lobby, side);

	for (struct watch *w = y->watches; w; w = w->next)
		if (w->fd >= 0 && w->fd != n->listener)
			shutdown(w->fd, SHUT_RDWR);
}

static uint64_t returned, resent, grown; /* of all nodes */

/* The number of rules is limited, so the former one is removed. */
static void add_rule(const char *text)
{
	static int last;

	if (last > 0)
		fault_remove(last);
	last = fault_add(text);
	if (last <= 0)
		printf("%s\n", text);
	CHECK(last > 0);
}

static void trouble(struct node n[2], bool *down)
{
	static const char *const rules[] = {
		"action=error opcode=write_imm syndrome=retry_exceeded",
		"action=error opcode=write_imm syndrome=rnr_exceeded",
		"action=error opcode=write_imm syndrome=remote_op",
		"action=error opcode=read syndrome=remote_op",
		"action=partial opcode=write_imm bytes=40 syndrome=remote_op",
		"action=partial opcode=write_imm bytes=200 syndrome=retry_exceeded",
		"action=no_answer opcode=write_imm count=6",
		"action=late opcode=write_imm delay_ns=2000000",
		"action=link_down",
	};
	char text[128];
	uint32_t which = pick(ARRAY_SIZE(rules) + 3);

	if (*down) {
		add_rule("action=link_up");
		*down = false;
		return;
	}
	if (which >= ARRAY_SIZE(rules)) {
		if (which == ARRAY_SIZE(rules))
			cut_tcp(&n[pick(2)]);
		else
			lose(n, which == ARRAY_SIZE(rules) + 1);
		return;
	}
	snprintf(text, sizeof(text), "%s nth=%u", rules[which], 1 + pick(4));
	*down = strstr(text, "link_down");
	add_rule(text);
}

/* Makes @count calls of each side. */
static void weather(const struct copyrpc_ctx_attr *attr, uint32_t count)
{
	uint32_t next = 0;
	bool down = false;
	NODES n[2];

	open_nodes(n, attr);
	up(n);
	n[0].most = n[1].most = count - 1;
	while (!idle(&n[0]) || !idle(&n[1])) {
		/* After some calls, and sometimes while there is no connection. */
		if (n[0].done + n[1].done >= next || pick(2000) == 0) {
			trouble(n, &down);
			next = n[0].done + n[1].done + 1 + pick(CALM);
		}
		turn_both(n);
	}
	add_rule("action=link_up"); /* by the message of the last call */
	calls(n, 1);
	for (int i = 0; i < 2; i++) {
		struct copyrpc_stats st;

		copyrpc_ctx_get_stats(n[i].ctx, &st, sizeof(st));
		printf("%u calls, %" PRIu64 " returns, %" PRIu64 " batches, %" PRIu64
		       " of them again\n",
			count, st.returns, st.batches, st.resent);
		returned += st.returns;
		resent += st.resent;
		grown += st.grown;
		CHECK_EQ(n[i].failed, 0);
		CHECK_EQ(n[i].ends, 0);
		CHECK_EQ(n[i].made, count);
		for (uint32_t k = 0; k < count; k++)
			CHECK(n[i].ended[k] && n[!i].executed[k]);
	}
}

TEST(storm)
{
	seed = test_seed();
	alarm(GUARD_S);
	weather(&returning, CALLS / SCALE);
	CHECK(SCALE > 1 || (returned > 10 && resent > 10));
}

/* The rings grow while connections are lost. */
TEST(storms_over_growing_rings)
{
	struct copyrpc_ctx_attr attr = returning;

	attr.ring_size = 1 << 17;
	seed = test_seed();
	alarm(GUARD_S);
	for (int i = 0; i < GROWING / SCALE; i++)
		weather(&attr, 60);
	CHECK(SCALE > 1 || (resent > 10 && grown > GROWING));
}
