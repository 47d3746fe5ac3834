/* SPDX-License-Identifier: MIT */
/*
 * A peer is killed in the middle of a pull, a push or a large call. Each transfer and call of this
 * side ends once, its memory and file descriptors are freed, and transfers and calls with the next
 * process in the peer's place succeed.
 */
#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "bulk.h"
#include "copyrpc_tcp.h"
#include "pair.h"
#include "process.h"
#include "support/fdtest.h"
#include "support/hcacall.h"

#define LEN (6u << 20) /* more than a transfer posts at a time */
#define RETURN_MS 300 /* how long this side waits for a dead peer */
#define NO_END_MS 3600000 /* the wait ends only when another process takes the peer's place */
#define GUARD_S 200

enum kind { PULL, PUSH, LARGE_REQUEST, LARGE_RESPONSE };

struct request {
	uint32_t kind;
	uint8_t desc[COPYRPC_BULK_SIZE];
};

struct end { /* one side, in its own process */
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct copyrpc_bulk *bulk;
	struct copyrpc_req *req; /* asked for the transfer in progress; NULL: none */
	uint32_t ok, failed, ups, downs;
	int status;
};

static uint8_t memory[LEN], data[LEN];
static int listener;
static uint64_t reconnect_ms;

static bool is_loss(int status)
{
	return status == -ECONNRESET || status == -ETIMEDOUT;
}

static uint32_t registrations(const struct copyrpc_ctx *ctx)
{
	uint32_t n = 0;

	for (const struct reg *r = ctx->regs; r; r = r->next)
		n++;
	return n;
}
static struct copyrpc_ctx *open_ctx(void)
{
	const struct copyrpc_ctx_attr attr = {.size = sizeof(attr),
		.ring_size = 65536,
		.max_endpoints = 4,
		.reconnect_ms = reconnect_ms,
		.probe_ms = 1000,
		.path = &quick};
	struct copyrpc_ctx *ctx;

	CHECK_EQ(copyrpc_ctx_create(&attr, &ctx), 0);
	return ctx;
}

static void take_events(struct end *e)
{
	struct copyrpc_event ev;

	while (copyrpc_event_recv(e->ctx, &ev, sizeof(ev))) {
		if (ev.kind == COPYRPC_UP) {
			e->ep = ev.ep;
			e->ups++;
		}
		e->downs += ev.kind == COPYRPC_DOWN && ev.status != -EAGAIN;
	}
}

static void note(struct end *e, int status)
{
	e->ok += !status;
	e->failed += !!status;
	e->status = status;
}

/* ------------------------------------------------------------------ serving */

static void on_moved(void *arg, struct copyrpc_ep *ep, int status)
{
	struct end *e = arg;
	int rc;

	note(e, status);
	rc = copyrpc_reply(e->req, "done", 4);
	CHECK_EQ(rc, copyrpc_ep_status(ep));
	e->req = NULL;
}

static void move(struct end *e, struct copyrpc_req *req)
{
	struct copyrpc_ep *ep = copyrpc_req_ep(req);
	struct copyrpc_remote there;
	struct request r;

	memcpy(&r, copyrpc_req_data(req), sizeof(r));
	CHECK_EQ(copyrpc_bulk_import(ep, r.desc, sizeof(r.desc), &there), 0);
	CHECK(!e->req);
	e->req = req;
	if (r.kind == PULL)
		CHECK_EQ(copyrpc_bulk_pull(ep, &there, 0, e->bulk, 0, LEN, on_moved, e), 0);
	else
		CHECK_EQ(copyrpc_bulk_push(ep, e->bulk, 0, &there, 0, LEN, on_moved, e), 0);
}

/* There is memory for one large call. The next one gets memory only if this memory was freed. */
static void open_server(struct end *e)
{
	const struct copyrpc_large_attr large = {.message_max = LEN, .memory_max = LEN};

	*e = (struct end){.ctx = open_ctx()};
	CHECK_EQ(copyrpc_large_accept(e->ctx, &large), 0);
	CHECK_EQ(copyrpc_bulk_create(e->ctx, memory, LEN, 0, &e->bulk), 0);
	CHECK_EQ(copyrpc_listen(e->ctx, NULL, listener, 0), 0);
}

static void serve_some(struct end *e)
{
	struct copyrpc_req *req;

	copyrpc_poll(e->ctx, NULL, NULL);
	take_events(e);
	if (e->req || !copyrpc_recv(e->ctx, &req))
		return;
	if (copyrpc_req_memory(req)) {
		copyrpc_reply(req, copyrpc_req_memory(req), copyrpc_req_allowance(req));
		note(e, 0);
		return;
	}
	move(e, req);
}

static void run_server(uint32_t unused)
{
	struct end e;

	open_server(&e);
	for (;;) {
		serve_some(&e);
		sched_yield();
	}
}

/* ------------------------------------------------------------------ calling */

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *bytes,
	uint32_t len)
{
	note(arg, status);
}

static void open_client(struct end *e)
{
	*e = (struct end){.ctx = open_ctx()};
	CHECK_EQ(copyrpc_bulk_create(e->ctx, memory, LEN,
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &e->bulk),
		0);
}

static void client_turn(struct end *e)
{
	copyrpc_poll(e->ctx, on_end, e);
	take_events(e);
	sched_yield();
}

static void dial(struct end *e)
{
	uint32_t ups = e->ups;

	CHECK_EQ(copyrpc_dial(e->ctx, NULL, "127.0.0.1", (uint16_t)copyrpc_tcp_port(listener),
			 GUARD_S * 1000, 0),
		0);
	while (e->ups == ups)
		client_turn(e);
}

static void begin_call(struct end *e, enum kind kind)
{
	struct request r = {.kind = kind};
	int rc;

	do {
		client_turn(e);
		if (kind == PULL || kind == PUSH) {
			CHECK_EQ(copyrpc_bulk_export(e->bulk, e->ep, 0, LEN, r.desc), 0);
			rc = copyrpc_call(e->ep, &r, sizeof(r), 8, 0);
		} else {
			rc = copyrpc_call_large(e->ep, data, kind == LARGE_REQUEST ? LEN : 8,
				memory, kind == LARGE_REQUEST ? 8 : LEN, 0);
		}
	} while (rc == -EAGAIN || rc == -ENOBUFS);
	CHECK_EQ(rc, 0);
}

static void run_client(uint32_t kind)
{
	struct end e;

	open_client(&e);
	dial(&e);
	begin_call(&e, (enum kind)kind);
	while (!e.ok && !e.failed)
		client_turn(&e);
	CHECK_EQ(e.failed, 0);
	copyrpc_ctx_destroy(e.ctx);
}

/* ------------------------------------------------------------------ killing */

static bool is_over(pid_t pid)
{
	siginfo_t info = {.si_pid = 0};

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

/* A rule of the software HCA kills the process in the middle of its second READ or WRITE. That is a
 * part of the transfer, or a READ by which copyrpc probes the peer. */
static int kill_in_message(pid_t pid, enum kind kind)
{
	char rule[128];

	snprintf(rule, sizeof(rule), "action=kill bytes=1000 pid=%d opcode=%s nth=2", pid,
		kind == PULL || kind == LARGE_REQUEST ? "read" : "write");
	return hca_fault(rule);
}

/* True if this side has begun to move the bytes. */
static bool has_begun(const struct end *e, enum kind kind)
{
	return kind == LARGE_REQUEST  ? e->ctx->pool.size :
	       kind == LARGE_RESPONSE ? e->ok :
					!!e->req;
}

static void client_is_killed(enum kind kind, uint64_t returns_ms)
{
	struct end e;
	uint32_t regs;
	pid_t pid;
	int fds;

	alarm(GUARD_S);
	reconnect_ms = returns_ms;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	open_server(&e);
	fds = fdtest_open();
	regs = registrations(e.ctx);
	pid = start_process(run_client, kind, GUARD_S);
	while (!has_begun(&e, kind))
		serve_some(&e);
	test_kill(pid);
	while (!e.downs)
		serve_some(&e);
	CHECK(is_loss(copyrpc_ep_status(e.ep)));
	while (e.req)
		serve_some(&e);
	if (kind == PULL || kind == PUSH)
		CHECK(!e.ok && e.failed == 1 && is_loss(e.status));
	copyrpc_ep_destroy(e.ep);
	serve_some(&e);
	CHECK_EQ(registrations(e.ctx), regs);
	CHECK_EQ(fdtest_open(), fds);
	e.ok = 0;
	pid = start_process(run_client, kind, GUARD_S); /* the next one */
	while (!e.ok)
		serve_some(&e);
	while (!is_over(pid))
		serve_some(&e);
	CHECK_EQ(test_reap(pid), 0);
	copyrpc_ctx_destroy(e.ctx);
	close(listener);
}

static void server_is_killed(enum kind kind, uint64_t returns_ms)
{
	struct end e;
	uint32_t regs;
	int fds, rule;
	pid_t pid;

	alarm(GUARD_S);
	reconnect_ms = returns_ms;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	pid = start_process(run_server, kind, GUARD_S);
	open_client(&e);
	dial(&e);
	fds = fdtest_open();
	regs = registrations(e.ctx);
	rule = kill_in_message(pid, kind);
	begin_call(&e, kind);
	while (!is_over(pid))
		client_turn(&e);
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
	CHECK(HCA(softhca_fault_remove)(rule) > 0);
	pid = start_process(run_server, kind, GUARD_S); /* the next one, which does not have the
							   endpoint */
	while (!e.failed && !e.ok)
		client_turn(&e);
	CHECK(e.failed == 1 && is_loss(e.status));
	copyrpc_ep_destroy(e.ep);
	client_turn(&e);
	CHECK_EQ(registrations(e.ctx), regs);
	dial(&e);
	begin_call(&e, kind);
	while (!e.ok)
		client_turn(&e);
	CHECK_EQ(e.failed, 1);
	CHECK_EQ(fdtest_open(), fds);
	copyrpc_ctx_destroy(e.ctx);
	kill(pid, SIGKILL);
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
	close(listener);
}

TEST_WITH(client_while_pulled_from, client_is_killed, PULL, 0);
TEST_WITH(client_while_pushed_to, client_is_killed, PUSH, RETURN_MS);
TEST_WITH(client_in_a_large_request, client_is_killed, LARGE_REQUEST, RETURN_MS);
TEST_WITH(client_in_a_large_response, client_is_killed, LARGE_RESPONSE, 0);
TEST_WITH(server_while_it_pulls, server_is_killed, PULL, NO_END_MS);
TEST_WITH(server_while_it_pushes, server_is_killed, PUSH, 0);
TEST_WITH(server_in_a_large_request, server_is_killed, LARGE_REQUEST, 0);
TEST_WITH(server_in_a_large_response, server_is_killed, LARGE_RESPONSE, NO_END_MS);
