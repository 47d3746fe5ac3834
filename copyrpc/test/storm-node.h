/* SPDX-License-Identifier: MIT */
/* A node of a storm acts at random, and checks what copyrpc.h promises. */
#ifndef COPYRPC_TEST_STORM_NODE_H
#define COPYRPC_TEST_STORM_NODE_H

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "storm.h"

/* ---- calls ---------------------------------------------------------------------- */

static struct conn *some_conn(struct node *n)
{
	uint32_t peer = draw(n, storm->nodes), link = draw(n, storm->links);
	struct conn *c = n->slot[peer][link].conn;

	return c && c->ep ? c : NULL;
}

static int start_call(struct node *n, struct conn *c, uint32_t limit_ms, uint8_t parent)
{
	static _Thread_local uint8_t bytes[1 << 14];
	struct msg m = message(c, true, c->asked);
	int rc, status = copyrpc_ep_status(c->ep);

	if (n->ncalls == CALLS)
		return -EAGAIN;
	fill(bytes, m.len, m.key);
	if (storm->attr.nested)
		bytes[0] = parent != HELD;
	if (parent != HELD)
		rc = copyrpc_call_nested(c->ep, bytes, m.len, m.resp_max, n->ncalls);
	else if (limit_ms)
		rc = copyrpc_call_timed(c->ep, bytes, m.len, m.resp_max, n->ncalls, limit_ms);
	else
		rc = copyrpc_call(c->ep, bytes, m.len, m.resp_max, n->ncalls);
	if (rc) {
		CHECK(status ? rc == status : rc == -EAGAIN || rc == -ENOBUFS);
		return rc;
	}
	CHECK_EQ(status, 0);
	n->call[n->ncalls++] =
		(struct call){.conn = c, .seq = c->asked++, .timed = limit_ms, .parent = parent};
	n->pending++;
	return 0;
}

static void call_some(struct node *n)
{
	struct conn *c = some_conn(n);
	uint32_t limit_ms = draw(n, 8) ? 0 : 1 + draw(n, 20);

	if (!c)
		return;
	for (uint32_t i = 1 + draw(n, 8); i; i--)
		if (start_call(n, c, limit_ms, HELD))
			return;
}

/* ---- requests ------------------------------------------------------------------- */

static void destroy(struct node *n, struct conn *c)
{
	struct copyrpc_ep *ep = c->ep;

	c->ep = NULL;
	copyrpc_ep_destroy(ep);
	for (uint32_t i = 0; i < n->nraws; i++) {
		if (n->raw[i].conn != c || n->raw[i].ended)
			continue;
		n->raw[i].ended = true; /* the operation is dropped without a completion */
		n->raws--;
	}
}

static void finish(struct node *n, struct held *h)
{
	static _Thread_local uint8_t bytes[1 << 14];
	struct msg m = message(h->conn, false, h->seq);
	int rc, status = h->conn->ep ? copyrpc_ep_status(h->conn->ep) : -ECANCELED;

	CHECK_EQ(copyrpc_req_len(h->req), m.len);
	check_bytes(copyrpc_req_data(h->req), storm->attr.nested, m.len, m.key);
	if (!status && draw(n, 16) == 0)
		CHECK_EQ(copyrpc_reply(h->req, bytes, m.resp_max + 1), -EMSGSIZE);
	fill(bytes, m.resp_len, ~m.key);
	rc = copyrpc_reply(h->req, bytes, m.resp_len);
	CHECK(h->conn->ep ? rc == status : rc < 0);
	h->req = NULL;
	n->nheld--;
}

/* Handles a request by a nested call, if one can be made now. */
static bool nest(struct node *n, uint8_t i)
{
	struct held *h = &n->held[i];
	struct conn *c = some_conn(n);

	CHECK_EQ(copyrpc_req_detach(h->req), 0);
	if (!c || start_call(n, c, 0, i))
		return false;
	h->waits = true;
	return true;
}

static void take(struct node *n, struct copyrpc_req *req)
{
	struct conn *c = copyrpc_ep_user(copyrpc_req_ep(req));
	struct msg m = message(c, false, c->taken);
	const uint8_t *data = copyrpc_req_data(req);
	struct held now = {.req = req, .conn = c, .seq = c->taken++};
	uint8_t i = 0;

	CHECK(c->ep && c->connected);
	CHECK_EQ(copyrpc_req_allowance(req), m.resp_max);
	n->nheld++;
	while (i < HELD && n->held[i].req)
		i++;
	if (i == HELD || draw(n, 4)) {
		finish(n, &now);
		return;
	}
	n->held[i] = now;
	CHECK_EQ(copyrpc_req_len(req), m.len);
	if (storm->attr.nested && n->steps && !data[0] && !n->depth && draw(n, 2) && nest(n, i))
		return;
	if (storm->attr.nested || draw(n, 2))
		CHECK_EQ(copyrpc_req_detach(req), 0);
}

static void serve(struct node *n, uint32_t max)
{
	struct copyrpc_req *req;

	while (max-- && copyrpc_recv(n->ctx, &req))
		take(n, req);
}

static void finish_some(struct node *n, bool all)
{
	for (int i = 0; i < HELD; i++)
		if (n->held[i].req && !n->held[i].waits && (all || draw(n, 2)))
			finish(n, &n->held[i]);
}

/* ---- raw operations ------------------------------------------------------------- */

static void start_raw(struct node *n)
{
	uint32_t len = 1 + draw(n, 500), at = draw(n, MEMORY / 2 - 500);
	struct conn *c = some_conn(n);
	bool is_read = draw(n, 2);
	int rc;

	if (!c || n->nraws == RAWS)
		return;
	if (is_read)
		rc = copyrpc_read(c->ep, n->local + at, n->local_mr.lkey, c->raddr + at, c->rkey,
			len, n->nraws);
	else
		rc = copyrpc_write(c->ep, n->memory + at, n->mr.lkey, c->raddr + MEMORY / 2 + at,
			c->rkey, len, n->nraws);
	if (rc) {
		CHECK(rc == -EAGAIN || rc == copyrpc_ep_status(c->ep) || rc == -ECONNRESET);
		return;
	}
	n->raw[n->nraws++] = (struct raw){c, at, len, is_read, false};
	n->raws++;
}

static void end_raws(struct node *n)
{
	struct copyrpc_raw_done done;

	while (copyrpc_raw_recv(n->ctx, &done)) {
		struct raw *r = &n->raw[done.token];

		CHECK(done.token < n->nraws && !r->ended && r->conn->ep == done.ep);
		r->ended = true;
		n->raws--;
		if (done.status)
			CHECK_EQ(done.status, copyrpc_ep_status(done.ep));
		else if (r->is_read) /* all nodes' memory is the same initially, and
					remote writes leave this half alone */
			CHECK(!memcmp(n->local + r->at, n->memory + r->at, r->len));
	}
}

/* ---- a turn --------------------------------------------------------------------- */

static bool maybe(void *arg, struct copyrpc_ep *ep)
{
	return draw(arg, 2);
}

static void flush_some(struct node *n)
{
	struct conn *c = some_conn(n);

	switch (draw(n, 3)) {
	case 0:
		copyrpc_flush(n->ctx);
		break;
	case 1:
		copyrpc_flush_if(n->ctx, maybe, n);
		break;
	default:
		if (c)
			copyrpc_ep_flush(c->ep);
	}
}

/* Does a random action that is allowed inside and outside a callback. */
static void act(struct node *n)
{
	struct conn *c;

	switch (draw(n, 24)) {
	case 0:
	case 1:
	case 2:
	case 3:
		flush_some(n);
		break;
	case 4:
	case 5:
		finish_some(n, false);
		break;
	case 6:
		serve(n, 1 + draw(n, 3));
		break;
	case 7:
	case 8:
		start_raw(n);
		break;
	case 9:
		end_raws(n);
		break;
	case 10:
		c = draw(n, 12) ? NULL : some_conn(n);
		if (c && n->steps)
			destroy(n, c);
		break;
	default:
		if (n->steps)
			call_some(n);
	}
}

static void check_end(const struct call *call, struct copyrpc_ep *ep, int status)
{
	switch (status) {
	case -ECONNRESET:
	case -EACCES:
	case -EIO:
		CHECK_EQ(status, copyrpc_ep_status(ep));
		return;
	case -ECANCELED:
		CHECK(!call->conn->ep);
		return;
	case -ETIMEDOUT:
		CHECK(call->timed || copyrpc_ep_status(ep) == status);
		return;
	default:
		CHECK_EQ(status, 0);
	}
}

static void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status, const void *data,
	uint32_t len)
{
	struct node *n = arg;
	struct call *call = &n->call[token];
	struct msg m;

	CHECK(token < n->ncalls && !call->ended);
	CHECK(copyrpc_ep_user(ep) == call->conn);
	call->ended = true;
	n->pending--;
	m = message(call->conn, true, call->seq);
	check_end(call, ep, status);
	if (status) {
		CHECK(!data && !len);
	} else {
		CHECK(call->conn->ep == ep); /* the endpoint is not destroyed */
		CHECK_EQ(len, m.resp_len);
		check_bytes(data, 0, len, ~m.key);
	}
	if (call->parent != HELD) {
		n->held[call->parent].waits = false;
		finish(n, &n->held[call->parent]);
	}
	n->depth++;
	for (uint32_t i = draw(n, 4); i > 1; i--)
		act(n);
	n->depth--;
	if (!status) /* data is valid while the callback runs */
		check_bytes(data, 0, len, ~m.key);
}

static void turn(struct node *n)
{
	if (draw(n, 4)) {
		copyrpc_poll(n->ctx, on_end, n);
	} else {
		copyrpc_poll_recv(n->ctx, on_end, n);
		if (draw(n, 2))
			flush_some(n);
	}
	if (draw(n, 4))
		serve(n, UINT32_MAX);
}

/* ---- connecting ----------------------------------------------------------------- */

static void ring(uint32_t node)
{
	CHECK_EQ(eventfd_write(storm->bell[node], 1), 0);
}

/* Locks the cards. The HCA may kill one process, the victim (the last node), at any instruction. If
 * the victim held the lock when it died, its cards are cleared. */
static void lock_cards(void)
{
	if (pthread_mutex_lock(&storm->lock) != EOWNERDEAD)
		return;
	memset(storm->card[storm->nodes - 1], 0, sizeof(storm->card[0]));
	CHECK_EQ(pthread_mutex_consistent(&storm->lock), 0);
}

static struct card card_of(uint32_t node, uint32_t peer, uint32_t link)
{
	struct card card;

	lock_cards();
	card = storm->card[node][peer][link];
	pthread_mutex_unlock(&storm->lock);
	return card;
}

static void publish(struct node *n, uint32_t peer, uint32_t link, const struct conn *c)
{
	struct card card = {.round = n->slot[peer][link].round,
		.raddr = (uintptr_t)n->memory,
		.rkey = n->mr.rkey};

	copyrpc_ep_info(c->ep, card.blob);
	lock_cards();
	storm->card[n->id][peer][link] = card;
	pthread_mutex_unlock(&storm->lock);
	ring(peer);
}

static void make(struct node *n, uint32_t peer, uint32_t link, uint32_t round)
{
	struct slot *slot = &n->slot[peer][link];
	struct conn *c = &n->conn[n->nconns];
	struct copyrpc_ep_attr attr = {.user = c};
	int rc;

	if (n->nconns == CONNS)
		return;
	rc = copyrpc_ep_create(n->ctx, &attr, &c->ep);
	if (rc) {
		CHECK_EQ(rc, -EMFILE); /* until the former endpoint is freed */
		return;
	}
	n->nconns++;
	slot->conn = c;
	slot->round = round;
	c->lower = n->id < peer;
	c->id = mix(storm->seed, (uint64_t)(c->lower ? n->id : peer) << 48 |
					 (uint64_t)(c->lower ? peer : n->id) << 40 |
					 (uint64_t)link << 32 | round);
	publish(n, peer, link, c);
}

/* If the connection has failed or the peer has created a newer one, returns true once in four calls
 * on average: this end then destroys its endpoint. */
static bool is_over(struct node *n, const struct conn *c, bool newer)
{
	int status = copyrpc_ep_status(c->ep);

	if (status && status != -ENOTCONN)
		return draw(n, 4) == 0;
	return newer && draw(n, 4) == 0;
}

static void tend_slot(struct node *n, uint32_t peer, uint32_t link)
{
	struct card theirs = card_of(peer, n->id, link);
	struct slot *slot = &n->slot[peer][link];
	bool dead = atomic_load(&storm->dead) & 1u << peer;

	if (slot->conn && !slot->conn->ep)
		slot->conn = NULL;
	if (slot->conn && is_over(n, slot->conn, theirs.round > slot->round || dead)) {
		destroy(n, slot->conn);
		slot->conn = NULL;
	}
	if (!slot->conn && !dead && n->steps)
		make(n, peer, link, theirs.round > slot->round ? theirs.round : slot->round + 1);
	if (!slot->conn || slot->conn->connected || theirs.round != slot->round ||
		copyrpc_ep_status(slot->conn->ep) != -ENOTCONN)
		return;
	slot->conn->raddr = theirs.raddr;
	slot->conn->rkey = theirs.rkey;
	CHECK_EQ(copyrpc_ep_connect(slot->conn->ep, theirs.blob, COPYRPC_INFO_SIZE), 0);
	slot->conn->connected = true;
}

static void tend(struct node *n)
{
	for (uint32_t peer = 0; peer < storm->nodes; peer++)
		for (uint32_t link = 0; link < storm->links && peer != n->id; link++)
			tend_slot(n, peer, link);
}

/* ---- sleeping ------------------------------------------------------------------- */

static uint32_t failed_conns(const struct node *n)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < n->nconns; i++)
		failed += n->conn[i].ep && n->conn[i].connected && copyrpc_ep_status(n->conn[i].ep);
	return failed;
}

/* The library does not probe the peer for raw operations alone, so they never end if the HCA holds
 * an earlier message of their queue pair for ever. */
static void drop_raws(struct node *n)
{
	for (uint32_t i = 0; i < n->nconns; i++) {
		struct copyrpc_ep *ep = n->conn[i].ep;

		if (!ep || !copyrpc_raw_pending(ep))
			continue;
		CHECK(is_held(ep));
		destroy(n, &n->conn[i]);
	}
}

/* Must be called after a sleep that timed out after GUARD_MS. Checks that there is no work: if
 * there is any, a wake-up was lost. */
static void check_idle(struct node *n)
{
	struct pollfd p = {.fd = copyrpc_ctx_fd(n->ctx), .events = POLLIN};
	uint32_t failed = failed_conns(n);

	if (poll(&p, 1, 0))
		return;
	CHECK_EQ(copyrpc_poll(n->ctx, on_end, n), 0);
	CHECK_EQ(failed_conns(n), failed);
	if (!n->steps && !n->pending)
		drop_raws(n);
}

static bool is_done(const struct node *n)
{
	return !n->steps && !n->pending && !n->raws && !n->nheld;
}

static void report(struct node *n)
{
	if (is_done(n) && !(atomic_fetch_or(&storm->done, 1u << n->id) & 1u << n->id))
		ring(NODES);
}

/* Sleeps for GUARD_MS at most. A node that has steps left sleeps for 2 ms at most if it has no
 * pending call or holds a request. */
static void sleep_now(struct node *n)
{
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	eventfd_t rung;
	int ms, longest;

	copyrpc_flush(n->ctx); /* sends messages that copyrpc_flush_if() has held */
	serve(n, UINT32_MAX);
	end_raws(n);
	if (!n->steps)
		finish_some(n, true);
	report(n);
	longest = n->steps && (!n->pending || n->nheld) ? 2 : GUARD_MS;
	if (copyrpc_ctx_arm(n->ctx))
		return;
	p[0].fd = copyrpc_ctx_fd(n->ctx);
	p[1].fd = storm->bell[n->id];
	ms = copyrpc_ctx_timeout(n->ctx);
	if (ms < 0 || ms > longest)
		ms = longest;
	if (!poll(p, 2, ms) && ms == GUARD_MS)
		check_idle(n);
	if (p[1].revents)
		eventfd_read(storm->bell[n->id], &rung);
}

/* ---- a node --------------------------------------------------------------------- */

static void open_node(struct node *n)
{
	CHECK_EQ(copyrpc_ctx_create(&storm->attr, &n->ctx), 0);
	for (uint32_t i = 0; i < MEMORY; i++)
		n->memory[i] = (uint8_t)(i * 7 + i / 256);
	CHECK_EQ(copyrpc_mr_reg(n->ctx, n->memory, MEMORY,
			 COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &n->mr),
		0);
	CHECK_EQ(copyrpc_mr_reg(n->ctx, n->local, MEMORY, 0, &n->local_mr), 0);
	atomic_fetch_add(&storm->opened, 1);
}

/* Destroys a random part of the endpoints first, and the others with the context. */
static void close_node(struct node *n)
{
	struct copyrpc_stats s;

	for (uint32_t i = 0; i < n->nconns; i++)
		if (n->conn[i].ep && draw(n, 2))
			destroy(n, &n->conn[i]);
	copyrpc_poll(n->ctx, on_end, n);
	CHECK_EQ(n->pending, 0);
	s = ctx_stats_of(n->ctx);
	CHECK_EQ(s.calls, n->ncalls);
	CHECK_EQ(s.responses + s.failed_calls, n->ncalls);
	copyrpc_mr_dereg(&n->mr);
	copyrpc_mr_dereg(&n->local_mr);
	copyrpc_ctx_destroy(n->ctx);
}

static void work(struct node *n)
{
	if (n->steps && !--n->steps)
		ring(n->id);
	if (n->steps % 4 == 0)
		tend(n);
	if (n->steps)
		act(n);
	else
		finish_some(n, true);
	turn(n);
	end_raws(n);
	if (!n->steps || draw(n, 16) < n->sleepy)
		sleep_now(n);
	else
		sched_yield();
	report(n);
}

static uint32_t alive_conns(const struct node *n)
{
	uint32_t alive = 0;

	for (uint32_t i = 0; i < n->nconns; i++)
		alive += n->conn[i].ep && !copyrpc_ep_status(n->conn[i].ep);
	return alive;
}

/* Waits until the failure of the device has failed all endpoints, and destroys some of them
 * meanwhile. The failure must wake a node that sleeps. */
static void wait_for_the_end(struct node *n)
{
	struct copyrpc_ep *ep;
	int err;

	if (!alive_conns(n))
		return;
	while (alive_conns(n)) {
		struct conn *c = draw(n, 2) ? some_conn(n) : NULL;

		if (c && !copyrpc_ep_status(c->ep) && alive_conns(n) > 1)
			destroy(n, c);
		turn(n);
		finish_some(n, true);
		/* If no connection is alive, this thread must not sleep: turn() may have read the
		 * event of the device's failure, and no other event follows. */
		if (alive_conns(n))
			sleep_now(n);
	}
	/* The last endpoint may also have failed because its peer said goodbye. */
	while ((err = copyrpc_ep_create(n->ctx, NULL, &ep)) != -EIO) {
		if (!err)
			copyrpc_ep_destroy(ep);
		turn(n);
	}
}

static void *run_node(void *arg)
{
	struct node *n = arg;

	open_node(n);
	while (atomic_load(&storm->phase) == RUN)
		work(n);
	if (storm->fatal)
		wait_for_the_end(n);
	finish_some(n, true);
	close_node(n);
	return NULL;
}

static struct node *new_node(uint32_t id)
{
	struct node *n = calloc(1, sizeof(*n));

	CHECK(n);
	n->id = id;
	n->seed = mix(storm->seed, 100 + id);
	n->steps = storm->steps / 2 + draw(n, storm->steps);
	n->sleepy = draw(n, 2) ? 0 : draw(n, 17);
	return n;
}

#endif
