/* SPDX-License-Identifier: MIT */
/*
 * Endpoints that are connected again. Two nodes in one thread call each other while queue pairs
 * fail, the link goes down and TCP connections are lost. Each call has a number: it must be
 * executed once, and answered once with the right bytes.
 */
#ifndef COPYRPC_TEST_BACK_H
#define COPYRPC_TEST_BACK_H

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "copyrpc_tcp.h"
#include "faults.h"
#include "lobby.h"
#include "timed.h"

#define MOST (1u << 20) /* calls of a node */
#define HELD 8

struct request { /* payload */
	uint32_t number, salt;
	uint8_t bytes[480];
};

struct node {
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;
	struct node *peer;
	int side, listener;
	uint32_t made, done, most, lazy; /* calls: made, ended, to be made; lazy: number of turns in
					    which completions are not handled */
	uint32_t downs, backs, ends; /* numbers of events; `ends`: DOWN of an endpoint that does not
					return */
	int status; /* of the calls that have failed */
	uint32_t failed;
	uint8_t *executed, *ended; /* by number: calls of the peer; own calls */
	struct copyrpc_req *held[HELD];
};

/* With this path no queue pair fails on its own, even if the other side does not run for
 * seconds. */
static const struct copyrpc_path slow = {.timeout = 20, .retry_cnt = 7};

static uint64_t seed;
static const char *devices[2]; /* of the nodes; NULL: the first one */
static void (*tend)(struct node *n); /* called after each turn; NULL: none */
static bool slow_path; /* the nodes that are opened next have the path `slow` */

static inline uint32_t pick(uint32_t n)
{
	return (uint32_t)(test_rand(&seed) % n);
}

/* Half of the messages are short, so that a batch of several can be copied into a WQE. */
static inline uint32_t length(uint32_t salt)
{
	return 8 + salt % (salt & 1 ? 480 : 24);
}

static inline void fill(struct request *r, uint32_t number, uint32_t salt)
{
	r->number = number;
	r->salt = salt;
	memset(r->bytes, (int)(number * 7 + salt), sizeof(r->bytes));
}

static inline void check_payload(const void *data, uint32_t len, uint32_t number, uint32_t salt)
{
	struct request want;

	fill(&want, number, salt);
	CHECK_EQ(len, length(salt));
	CHECK(!memcmp(data, &want, len));
}

static inline void on_response(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
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

static inline void open_contexts(struct node n[2], const struct copyrpc_ctx_attr *attr,
	bool real_clock)
{
	memset(n, 0, 2 * sizeof(*n));
	for (int i = 0; i < 2; i++) {
		struct copyrpc_ctx_attr own = *attr;

		own.device = devices[i];
		if (slow_path)
			own.path = &slow;
		CHECK_EQ(copyrpc_ctx_create(&own, &n[i].ctx), 0);
		if (!real_clock)
			stop_clock(n[i].ctx);
		n[i].side = i;
		n[i].listener = -1;
		n[i].peer = &n[!i];
		n[i].executed = calloc(MOST, 1);
		n[i].ended = calloc(MOST, 1);
	}
}

static inline void dial_node(struct node n[2])
{
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 1), 0);
	CHECK_EQ(copyrpc_dial(n[0].ctx, NULL, "127.0.0.1",
			 (uint16_t)copyrpc_tcp_port(n[1].listener), FAR_MS, 7),
		0);
}

static inline void open_nodes(struct node n[2], const struct copyrpc_ctx_attr *attr)
{
	open_contexts(n, attr, false);
	dial_node(n);
}

static inline void close_nodes(struct node (*nodes)[2])
{
	for (int i = 0; i < 2; i++) {
		struct node *n = &(*nodes)[i];

		copyrpc_ctx_destroy(n->ctx);
		free(n->executed);
		free(n->ended);
	}
	if ((*nodes)[1].listener >= 0)
		close((*nodes)[1].listener);
	slow_path = false;
}

#define NODES AT_END(close_nodes) struct node /* closed at the end of their block */

static inline void take_events(struct node *n)
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

static inline void answer(struct node *n, struct copyrpc_req *req)
{
	struct request reply;
	const struct request *r = copyrpc_req_data(req);
	uint32_t number = r->number, salt = r->salt * 3;
	int rc;

	fill(&reply, number, salt);
	rc = copyrpc_reply(req, &reply, length(salt));
	CHECK(!rc || rc == copyrpc_ep_status(n->ep));
}

/* Takes the requests that have arrived, and answers some of the held ones. */
static inline void serve(struct node *n)
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

static inline void turn(struct node *n)
{
	now += NSEC_PER_MSEC;
	/* A lazy node handles only connections, and no completions. */
	if (!n->lazy && pick(100) == 0)
		n->lazy = pick(60);
	if (n->lazy) {
		n->lazy--;
		if (n->ctx->side)
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
	if (tend)
		tend(n);
}

static inline void turn_both(struct node n[2])
{
	turn(&n[0]);
	turn(&n[1]);
}

static inline void turns(struct node n[2], int count)
{
	while (count--)
		turn_both(n);
}

static inline bool idle(const struct node *n)
{
	return n->ep && n->done == n->most;
}

/* Makes calls on both sides until all have ended. */
static inline void calls(struct node n[2], uint32_t count)
{
	n[0].most += count;
	n[1].most += count;
	while (!idle(&n[0]) || !idle(&n[1]))
		turn_both(n);
}

static inline void up(struct node n[2])
{
	while (!n[0].ep || !n[1].ep)
		turn_both(n);
}

static const struct copyrpc_ctx_attr returning = {.size = sizeof(returning),
	.ring_size = 8192,
	.max_endpoints = 2,
	.sq_depth = 16,
	.reconnect_ms = 1000000000,
	.probe_ms = 100000,
	.path = &quick};
/* Stops the queue pair of one side. If its send queue is empty, this side gets no completion. */
static inline void lose(struct node n[2], int side)
{
	mlx5dvl_qp_to_error(n[side].ep->qp);
}

/* Cuts the TCP connections of a context, but not its listener. */
static inline void cut_tcp(const struct copyrpc_ctx *ctx, int listener)
{
	struct lobby *y = container_of(ctx->side, struct lobby, side);

	for (struct watch *w = y->watches; w; w = w->next)
		if (w->fd >= 0 && w->fd != listener)
			shutdown(w->fd, SHUT_RDWR);
}

/*
 * Side 0 makes a call, and side 1 does not handle it. Returns true when the completion of the
 * call's batch is in the receive CQ of side 1, false if the connection was lost before. Needs
 * slow_path.
 */
static inline bool call_unhandled(struct node n[2])
{
	struct request r;

	fill(&r, n[0].made, 0);
	CHECK_EQ(copyrpc_call(n[0].ep, &r, length(0), length(0), n[0].made), 0);
	n[0].made++;
	n[0].most++;
	copyrpc_flush(n[0].ctx);
	while (!mlx5dvl_cq_ready(n[1].ctx->recv_cq)) {
		if (mlx5dvl_cq_ready(n[0].ctx->send_cq)) {
			copyrpc_poll_recv(n[0].ctx, on_response, &n[0]);
			copyrpc_flush(n[0].ctx); /* the send queue may have been full */
		}
		if (n[0].ep->ch.away || mlx5dvl_qp_status(n[0].ep->qp))
			return false;
		sched_yield();
	}
	return true;
}

/* Lets both nodes poll until the condition holds. */
#define UNTIL(condition)                                                                           \
	while (!(condition))                                                                       \
	turn_both(n)

#endif
