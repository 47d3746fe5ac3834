/* SPDX-License-Identifier: MIT */
/* Connecting over TCP: both sides become ready, time limits hold, and no data of the other side is
 * trusted. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/stranger.h"
#include "copyrpc_tcp.h"
#include "internal.h"
#include "pair.h"

#define LONG_MS 60000 /* a guard: no correct run waits so long */
#define SHORT_MS 30
#define HOUR_MS 3600000 /* a test fails if it waits until this limit */

/* A connecting side in a thread. */
struct caller {
	pthread_t thread;
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep_attr attr;
	struct copyrpc_ep *old; /* the endpoint to reconnect */
	struct copyrpc_ep *ep;
	uint16_t port;
	atomic_int tid; /* of the thread */
	int rc;
};

static void *connect_thread(void *arg)
{
	struct caller *c = arg;

	/* Pairs with the load of a_server_may_come_later. */
	atomic_store_explicit(&c->tid, gettid(), memory_order_release);
	if (c->old)
		c->rc = copyrpc_reconnect(c->old, "127.0.0.1", c->port, LONG_MS, &c->ep);
	else
		c->rc = copyrpc_connect(c->ctx, &c->attr, "127.0.0.1", c->port, LONG_MS, &c->ep);
	return NULL;
}

static void start(struct caller *c)
{
	CHECK_EQ(pthread_create(&c->thread, NULL, connect_thread, c), 0);
}

static int finish(struct caller *c)
{
	CHECK_EQ(pthread_join(c->thread, NULL), 0);
	return c->rc;
}

struct rig {
	struct copyrpc_ctx *ctx;
	struct caller c;
	int listener;
};

static struct rig rig_open_as(const struct copyrpc_ctx_attr *server,
	const struct copyrpc_ctx_attr *client)
{
	struct rig r = {.ctx = NULL};

	CHECK_EQ(copyrpc_ctx_create(server, &r.ctx), 0);
	CHECK_EQ(copyrpc_ctx_create(client, &r.c.ctx), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &r.listener), 0);
	r.c.port = (uint16_t)copyrpc_tcp_port(r.listener);
	return r;
}

static struct rig rig_open(const struct copyrpc_ctx_attr *attr)
{
	return rig_open_as(attr, attr);
}

static void rig_close(struct rig *r)
{
	close(r->listener);
	copyrpc_ctx_destroy(r->c.ctx);
	copyrpc_ctx_destroy(r->ctx);
}

#define RIG AT_END(rig_close) struct rig /* is closed at the end of its block */

/* Makes a call and answers it. */
static void echo(struct copyrpc_ctx *server, struct copyrpc_ctx *client, struct copyrpc_ep *ep)
{
	struct copyrpc_req *req;
	struct heard h = {0};

	CHECK_EQ(copyrpc_call(ep, "x", 1, 1, 0), 0);
	while (!h.ok) {
		copyrpc_poll(client, hear, &h);
		copyrpc_poll(server, hear, &h);
		while (copyrpc_recv(server, &req))
			CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
		CHECK_EQ(h.failed, 0);
	}
}

/* Connects the client; returns the server's endpoint. */
static struct copyrpc_ep *rig_connect(struct rig *r)
{
	struct copyrpc_ep *ep;

	start(&r->c);
	CHECK_EQ(copyrpc_accept(r->ctx, NULL, r->listener, HOUR_MS, &ep), 0);
	CHECK_EQ(finish(&r->c), 0);
	return ep;
}

TEST(both_sides_are_ready)
{
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);

	r.c.attr.name = "the server";
	ep = rig_connect(&r);
	echo(r.ctx, r.c.ctx, r.c.ep);
	echo(r.c.ctx, r.ctx, ep);
	CHECK(described(r.c.ep, "(the server): connected"));
	CHECK(described(ep, "(127.0.0.1:"));
}

/* The client starts first, and tries until the server listens. */
TEST(a_server_may_come_later)
{
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);

	close(r.listener);
	CHECK_EQ(copyrpc_connect(r.c.ctx, NULL, "127.0.0.1", r.c.port, SHORT_MS, &ep),
		-ECONNREFUSED);
	start(&r.c);
	/* Pairs with the store of connect_thread(), which sleeps after it has been refused. */
	while (!test_blocked(atomic_load_explicit(&r.c.tid, memory_order_acquire)))
		;
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", r.c.port, &r.listener), 0);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, LONG_MS, &ep), 0);
	CHECK_EQ(finish(&r.c), 0);
	echo(r.ctx, r.c.ctx, r.c.ep);
}

static int raw_line(const struct rig *r)
{
	int fd;

	CHECK_EQ(copyrpc_tcp_connect("127.0.0.1", r->c.port, LONG_MS, &fd), 0);
	return fd;
}

TEST(nobody_is_waited_for_too_long)
{
	struct copyrpc_ep *ep;
	RIG r = rig_open(&(struct copyrpc_ctx_attr){.max_endpoints = 1});
	int fd;

	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, 0, &ep), -ETIMEDOUT);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, SHORT_MS, &ep), -ETIMEDOUT);
	fd = raw_line(&r); /* sends nothing */
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, SHORT_MS, &ep), -ETIMEDOUT);
	close(fd);
	fd = raw_line(&r); /* sends a part of its greeting */
	CHECK_EQ(send(fd, "CPRPCTCP\2\0\200\0", 12, 0), 12);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, SHORT_MS, &ep), -ETIMEDOUT);
	close(fd);
	/* The connection stays in the backlog, because the server does not accept. */
	CHECK_EQ(copyrpc_connect(r.c.ctx, NULL, "127.0.0.1", r.c.port, SHORT_MS, &ep), -ETIMEDOUT);
	CHECK_EQ(copyrpc_connect(r.c.ctx, NULL, "no host.invalid", 1, SHORT_MS, &ep),
		-EADDRNOTAVAIL);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, LONG_MS, &ep), -ECONNRESET);
	/* None of the failed calls has kept an endpoint: after a poll there is room for one. (The
	 * poll is necessary because the last endpoint was connected already.) */
	copyrpc_poll(r.ctx, NULL, NULL);
	ep = rig_connect(&r);
	echo(r.ctx, r.c.ctx, r.c.ep);
}

/* Records a valid greeting, so that tests can send copies with one wrong byte. */
static void take_greeting(struct rig *r, uint8_t greeting[128])
{
	struct copyrpc_ep *ep;
	int line[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, line), 0);
	CHECK_EQ(copyrpc_ep_create(r->c.ctx, NULL, &ep), 0);
	CHECK_EQ(copyrpc_ep_meet(ep, line[0], 0), -ETIMEDOUT);
	CHECK_EQ(recv(line[1], greeting, 128, MSG_WAITALL), 128);
	close(line[0]);
	close(line[1]);
	copyrpc_ep_destroy(ep);
}

static int greet(struct rig *r, const void *greeting, size_t len, const void *result)
{
	struct copyrpc_ep *ep;
	int fd = raw_line(r), rc;

	CHECK_EQ(send(fd, greeting, len, 0), len);
	if (result)
		CHECK_EQ(send(fd, result, 16, 0), 16);
	shutdown(fd, SHUT_WR);
	rc = copyrpc_accept(r->ctx, NULL, r->listener, LONG_MS, &ep);
	close(fd);
	copyrpc_poll(r->ctx, NULL, NULL);
	return rc;
}

TEST(greetings_are_checked)
{
	static const struct {
		int at, rc;
	} wrong[] = {{0, -EPROTO}, {7, -EPROTO}, {8, -EPROTONOSUPPORT}, {9, -EPROTONOSUPPORT},
		{10, -EPROTO}, {12, -EPROTO}, {15, -EPROTO}, {24, -EINVAL}, {32, -EPROTONOSUPPORT}};
	uint8_t right[128], bytes[128], result[16] = "CPRPCRES";
	char line[128];
	RIG r = rig_open(NULL);

	take_greeting(&r, right);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		memcpy(bytes, right, sizeof(bytes));
		bytes[wrong[i].at] ^= 0x40;
		printf("  byte %d\n", wrong[i].at);
		CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), wrong[i].rc);
	}
	copyrpc_ctx_versions(r.c.ctx, line, sizeof(line));
	CHECK(!strcmp(line, ""));
	for (int other = -1; other <= 1; other += 2) { /* the version before, and the next one */
		memcpy(bytes, right, sizeof(bytes));
		bytes[8] = (uint8_t)(bytes[8] + other);
		CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), -EPROTONOSUPPORT);
		copyrpc_ctx_versions(r.ctx, line, sizeof(line));
		CHECK(!strcmp(line,
			other < 0 ?
				"the peer has version 1 of the greeting, this library has version 2" :
				"the peer has version 3 of the greeting, this library has version 2"));
	}
	memcpy(bytes, right, sizeof(bytes));
	bytes[32]--;
	CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), -EPROTONOSUPPORT);
	copyrpc_ctx_versions(r.ctx, line, sizeof(line));
	CHECK(!strcmp(line,
		"the peer has version 4 of the connection blob, this library has version 5"));
	memcpy(bytes, right, sizeof(bytes));
	memset(bytes + 120, 0, 8); /* the number of the peer's context is missing */
	CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), -EPROTO);
	for (size_t len = 0; len < sizeof(right); len += 9)
		CHECK_EQ(greet(&r, right, len, NULL), -ECONNRESET);
	CHECK_EQ(greet(&r, right, sizeof(right), NULL), -ECONNRESET);
	result[8] = 5;
	CHECK_EQ(greet(&r, right, sizeof(right), result), -ECONNREFUSED);
	result[8] = 0;
	result[12] = 1;
	CHECK_EQ(greet(&r, right, sizeof(right), result), -EPROTO);
	result[0] = 'X';
	result[12] = 0;
	CHECK_EQ(greet(&r, right, sizeof(right), result), -EPROTO);
}

/* A greeting is checked before an endpoint is created, for which there is no room here. */
TEST(a_wrong_blob_takes_no_endpoint)
{
	uint8_t bytes[128];
	RIG r = rig_open(&(struct copyrpc_ctx_attr){.max_endpoints = 1});

	take_greeting(&r, bytes);
	copyrpc_poll(r.c.ctx, NULL, NULL);
	rig_connect(&r);
	CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), -EMFILE);
	bytes[24] ^= 1;
	CHECK_EQ(greet(&r, bytes, sizeof(bytes), NULL), -EINVAL);
}

/* After random bytes copyrpc_accept() returns an error. */
TEST(noise)
{
	uint64_t seed = test_seed();
	RIG r = rig_open(NULL);

	for (int i = 0; i < 100; i++) {
		uint8_t bytes[200];
		size_t len = test_rand(&seed) % sizeof(bytes);

		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)test_rand(&seed);
		CHECK(greet(&r, bytes, len, NULL) < 0);
	}
}

/* Each side detects the difference itself. */
TEST(rings_that_differ)
{
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);

	r.c.attr.ring_size = 4096;
	start(&r.c);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, LONG_MS, &ep), -EMSGSIZE);
	CHECK_EQ(finish(&r.c), -EMSGSIZE);
}

TEST(reconnected)
{
	struct copyrpc_ep *served, *again;
	struct heard h = {0};
	RIG r = rig_open(NULL);

	r.c.attr = (struct copyrpc_ep_attr){.ring_size = 8192, .user = &r};
	start(&r.c);
	CHECK_EQ(copyrpc_accept(r.ctx, &r.c.attr, r.listener, LONG_MS, &served), 0);
	CHECK_EQ(finish(&r.c), 0);
	CHECK_EQ(copyrpc_call(r.c.ep, "x", 1, 1, 0), 0);
	for (int i = 0; i < 3; i++) {
		r.c.old = r.c.ep;
		start(&r.c);
		CHECK_EQ(copyrpc_accept(r.ctx, &r.c.attr, r.listener, LONG_MS, &again), 0);
		CHECK_EQ(finish(&r.c), 0);
		CHECK(copyrpc_ep_user(r.c.ep) == &r);
		CHECK_EQ(copyrpc_ep_status(served), -ECONNRESET); /* although it sent nothing */
		CHECK_EQ(copyrpc_ep_status(again), 0);
		copyrpc_ep_destroy(served);
		served = again;
		copyrpc_poll(r.c.ctx, hear, &h);
		echo(r.ctx, r.c.ctx, r.c.ep);
	}
	CHECK_EQ(h.failed, 1);
	CHECK_EQ(h.status, -ECANCELED);
	/* If no process listens, the old endpoint stays. */
	close(r.listener);
	CHECK_EQ(copyrpc_reconnect(r.c.ep, "127.0.0.1", r.c.port, SHORT_MS, &again), -ECONNREFUSED);
	echo(r.ctx, r.c.ctx, r.c.ep);
	r.listener = -1;
}

static void *meet_thread(void *arg)
{
	struct caller *c = arg;
	int fd;

	CHECK_EQ(copyrpc_tcp_connect("127.0.0.1", c->port, LONG_MS, &fd), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(copyrpc_ep_create(c->ctx, NULL, &c->ep), 0);
		CHECK_EQ(copyrpc_ep_meet(c->ep, fd, LONG_MS), 0);
		CHECK_EQ(copyrpc_ep_meet(c->ep, fd, LONG_MS), -EISCONN);
	}
	CHECK_EQ(send(fd, "end", 4, 0), 4);
	close(fd);
	return NULL;
}

/* The program can continue to use the TCP connection. */
TEST(three_over_one_line)
{
	struct copyrpc_ep *ep;
	char end[4];
	RIG r = rig_open(NULL);
	int fd;

	CHECK_EQ(pthread_create(&r.c.thread, NULL, meet_thread, &r.c), 0);
	CHECK_EQ(copyrpc_tcp_accept(r.listener, LONG_MS, &fd), 0);
	for (int i = 0; i < 3; i++) {
		CHECK_EQ(copyrpc_ep_create(r.ctx, NULL, &ep), 0);
		CHECK_EQ(copyrpc_ep_meet(ep, fd, LONG_MS), 0);
	}
	CHECK_EQ(recv(fd, end, 4, MSG_WAITALL), 4);
	CHECK_EQ(memcmp(end, "end", 4), 0);
	close(fd);
	finish(&r.c);
	echo(r.ctx, r.c.ctx, r.c.ep);
}

struct dripper {
	pthread_t thread;
	struct strangers *s;
	atomic_bool end;
};

static void *drip(void *arg)
{
	struct dripper *d = arg;

	/* Pairs with the store of with_strangers(). */
	while (!atomic_load_explicit(&d->end, memory_order_acquire)) {
		strangers_drip(d->s);
		poll(NULL, 0, 1);
	}
	return NULL;
}

/* An honest client connects after strangers. There is room for only one endpoint, so the test fails
 * if a stranger gets one. */
static void with_strangers(enum stranger_kind kind, const uint8_t greeting[128])
{
	RIG r = rig_open(&(struct copyrpc_ctx_attr){.max_endpoints = 1});
	struct dripper d = {.end = false};
	struct copyrpc_ep *ep;
	AT_END(strangers_leave) struct strangers s;
	int rc;

	s = strangers_come(kind, r.c.port, greeting, 128);
	d.s = &s;
	CHECK_EQ(pthread_create(&d.thread, NULL, drip, &d), 0);
	start(&r.c);
	do
		rc = copyrpc_accept(r.ctx, NULL, r.listener, HOUR_MS, &ep);
	while (rc == -EPROTO && kind == STRANGER_GARBAGE);
	CHECK_EQ(rc, 0);
	CHECK_EQ(finish(&r.c), 0);
	echo(r.ctx, r.c.ctx, r.c.ep);
	/* Pairs with the load of drip(). */
	atomic_store_explicit(&d.end, true, memory_order_release);
	CHECK_EQ(pthread_join(d.thread, NULL), 0);
}

TEST(strangers)
{
	struct rig r = rig_open(NULL);
	uint8_t greeting[128];

	take_greeting(&r, greeting);
	rig_close(&r);
	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		printf("  kind %u\n", kind);
		with_strangers(kind, greeting);
	}
}

static void *meet_late(void *arg)
{
	struct caller *c = arg;

	CHECK_EQ(copyrpc_ep_create(c->ctx, NULL, &c->ep), 0);
	c->rc = copyrpc_ep_meet(c->ep, c->port, LONG_MS);
	return NULL;
}

/* A silent connection does not delay a call that waits for an answer, and the connection is kept
 * meanwhile. */
TEST(traffic_goes_on)
{
	struct caller late;
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);
	AT_END(end_close_fd) int silent;
	int rc;

	ep = rig_connect(&r);
	silent = raw_line(&r);
	CHECK_EQ(copyrpc_call(r.c.ep, "x", 1, 1, 0), 0);
	CHECK(copyrpc_flush(r.c.ctx) >= 0);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, HOUR_MS, &ep), -EAGAIN);
	echo(r.ctx, r.c.ctx, r.c.ep);
	late = (struct caller){.ctx = r.c.ctx, .port = (uint16_t)silent};
	CHECK_EQ(pthread_create(&late.thread, NULL, meet_late, &late), 0);
	/* The completion of echo()'s reply may still need a poll. */
	while ((rc = copyrpc_accept(r.ctx, NULL, r.listener, HOUR_MS, &ep)) == -EAGAIN)
		copyrpc_poll(r.ctx, NULL, NULL);
	CHECK_EQ(rc, 0);
	CHECK_EQ(finish(&late), 0);
	echo(r.ctx, r.c.ctx, late.ep);
}

/* Accepts while a stranger is silent: copyrpc_accept() must return, because the context needs a
 * poll. */
static void accept_in_vain(struct rig *r)
{
	int silent = raw_line(r);
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_accept(r->ctx, NULL, r->listener, HOUR_MS, &ep), -EAGAIN);
	close(silent);
	CHECK_EQ(copyrpc_accept(r->ctx, NULL, r->listener, HOUR_MS, &ep), -ECONNRESET);
}

/* A reply was not sent yet; the peer waits for it, and sends nothing. */
TEST(replies_leave)
{
	struct copyrpc_req *req;
	struct heard h = {0};
	RIG r = rig_open(NULL);

	rig_connect(&r);
	CHECK_EQ(copyrpc_call(r.c.ep, "x", 1, 1, 0), 0);
	while (!copyrpc_recv(r.ctx, &req)) {
		copyrpc_poll(r.c.ctx, hear, &h);
		copyrpc_poll(r.ctx, hear, &h);
	}
	CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
	accept_in_vain(&r);
	while (!h.ok) {
		copyrpc_poll(r.ctx, hear, &h);
		copyrpc_poll(r.c.ctx, hear, &h);
	}
}

static uint64_t now_ns;

static uint64_t test_clock(void)
{
	return now_ns;
}

/* Calls until the server's send queue is full: the client is not polled and posts no receives, so
 * replies without a receive stay in the queue. Returns the number of calls. */
static uint32_t fill_send_queue(struct rig *r)
{
	struct copyrpc_req *req;
	uint32_t calls = 0;

	do {
		CHECK_EQ(copyrpc_call(r->c.ep, "x", 1, 1, 0), 0);
		copyrpc_flush(r->c.ctx);
		calls++;
		while (!copyrpc_recv(r->ctx, &req))
			copyrpc_poll(r->ctx, NULL, NULL);
		CHECK_EQ(copyrpc_reply(req, "x", 1), 0);
		copyrpc_flush(r->ctx);
	} while (!ctx_stats_of(r->ctx).sq_stalls);
	return calls;
}

/* Replies wait for room in the send queue; the client waits for them, and sends nothing. */
TEST(replies_of_a_full_queue_leave)
{
	struct heard h = {0};
	uint32_t calls;
	RIG r = rig_open_as(&(struct copyrpc_ctx_attr){.sq_depth = 16},
		&(struct copyrpc_ctx_attr){.srq_depth = 16});

	rig_connect(&r);
	calls = fill_send_queue(&r);
	accept_in_vain(&r);
	while (h.ok < calls) {
		copyrpc_poll(r.c.ctx, hear, &h);
		copyrpc_poll(r.ctx, NULL, NULL);
		CHECK_EQ(h.failed, 0);
	}
}

TEST(completions_are_waited_for)
{
	struct copyrpc_raw_done done;
	struct copyrpc_mr from, to;
	char bytes[2] = "xy";
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);

	ep = rig_connect(&r);
	CHECK_EQ(copyrpc_mr_reg(r.c.ctx, bytes, 1, COPYRPC_REMOTE_READ, &from), 0);
	CHECK_EQ(copyrpc_mr_reg(r.ctx, bytes + 1, 1, 0, &to), 0);
	CHECK_EQ(copyrpc_read(ep, to.addr, to.lkey, (uintptr_t)from.addr, from.rkey, 1, 7), 0);
	accept_in_vain(&r);
	while (!copyrpc_raw_recv(r.ctx, &done))
		copyrpc_poll(r.ctx, NULL, NULL);
	CHECK_EQ(done.status, 0);
	CHECK_EQ(bytes[1], 'x');
	copyrpc_mr_dereg(&from);
	copyrpc_mr_dereg(&to);
}

TEST(limits_of_calls_hold)
{
	struct heard h = {0};
	struct copyrpc_ep *ep;
	RIG r = rig_open(NULL);

	ep = rig_connect(&r);
	CHECK_EQ(copyrpc_call_timed(ep, "x", 1, 1, 0, 1), 0);
	copyrpc_flush(r.ctx);
	accept_in_vain(&r);
	while (!h.failed)
		copyrpc_poll(r.ctx, hear, &h);
	CHECK_EQ(h.status, -ETIMEDOUT);
}

/* While the first connection may still become ready, the second stays in the listener's backlog.
 * The listener is readable meanwhile, so that a server that waits for it wakes up. */
TEST(one_at_a_time)
{
	uint8_t words[144] = {0};
	struct copyrpc_ep *ep;
	struct pollfd p;
	int first, second;
	RIG r = rig_open(NULL);

	take_greeting(&r, words);
	memcpy(words + 128, "CPRPCRES", 8);
	now_ns = clock_ns();
	r.ctx->clock = test_clock;
	p = (struct pollfd){.fd = r.listener, .events = POLLIN};
	first = raw_line(&r);
	CHECK_EQ(send(first, words, 128, 0), 128);
	second = raw_line(&r);
	CHECK_EQ(send(second, words, sizeof(words), 0), sizeof(words));
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, SHORT_MS, &ep), -ETIMEDOUT);
	CHECK_EQ(poll(&p, 1, 0), 1);
	CHECK_EQ(copyrpc_accept(r.ctx, NULL, r.listener, HOUR_MS, &ep), 0);
	CHECK_EQ(poll(&p, 1, 0), 0);
	close(first);
	close(second);
}
