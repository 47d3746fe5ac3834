/* SPDX-License-Identifier: MIT */
/* Contexts that listen and dial. One thread polls all of them, and moves the clock. */
#ifndef COPYRPC_TEST_DIAL_H
#define COPYRPC_TEST_DIAL_H

#include <sys/socket.h>
#include <unistd.h>

#include "copyrpc_tcp.h"
#include "timed.h"

#define SECOND NSEC_PER_SEC

/* A context that listens, and the events that it has had. */
struct node {
	struct copyrpc_ctx *ctx;
	int listener;
	uint16_t port;
	uint32_t ups, downs, gones;
	struct copyrpc_event last, up, gone;
	struct heard heard;
};

static inline void open_node(struct node *n, uint32_t endpoints,
	const struct copyrpc_listen_attr *attr)
{
	const struct copyrpc_ctx_attr a = {.max_endpoints = endpoints,
		.ring_size = 4096,
		.path = &impatient};

	memset(n, 0, sizeof(*n));
	CHECK_EQ(copyrpc_ctx_create(&a, &n->ctx), 0);
	stop_clock(n->ctx);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n->listener), 0);
	n->port = (uint16_t)copyrpc_tcp_port(n->listener);
	CHECK_EQ(copyrpc_listen(n->ctx, attr, n->listener, 1), 0);
}

static inline void close_node(struct node *n)
{
	copyrpc_ctx_destroy(n->ctx);
	close(n->listener);
}

static inline void open_nodes(struct node n[2])
{
	open_node(&n[0], 16, NULL);
	open_node(&n[1], 16, NULL);
}

static inline void close_nodes(struct node (*n)[2])
{
	close_node(&(*n)[0]);
	close_node(&(*n)[1]);
}

#define NODES AT_END(close_nodes) struct node /* closed at the end of their block */

/* Moves the clock by a millisecond, polls once, and takes all events and requests. */
static inline void turn(struct node *n)
{
	const uint32_t most = n->ctx->n_eps + (n->ctx->armed ? 2 : 1);

	now += NSEC_PER_MSEC;
	copyrpc_poll(n->ctx, hear, &n->heard);
	CHECK(n->ctx->n_eps <= most);
	while (copyrpc_event_recv(n->ctx, &n->last, sizeof(n->last))) {
		n->ups += n->last.kind == COPYRPC_UP && !n->last.status;
		n->downs += n->last.kind == COPYRPC_DOWN;
		n->gones += n->last.kind == COPYRPC_GONE;
		if (n->last.kind == COPYRPC_UP)
			n->up = n->last;
		if (n->last.kind == COPYRPC_GONE)
			n->gone = n->last;
	}
	echo_all(n->ctx);
}

static inline void turn_both(struct node n[2])
{
	turn(&n[0]);
	turn(&n[1]);
}

static inline void dial(struct node *from, uint16_t port, bool single, uint64_t token)
{
	const struct copyrpc_dial_attr a = {.single = single};

	CHECK_EQ(copyrpc_dial(from->ctx, &a, "127.0.0.1", port, FAR_MS, token), 0);
}

/* Returns the number of endpoints that exist and have not failed. */
static inline uint32_t alive(const struct node *n)
{
	uint32_t count = 0;

	for (const struct copyrpc_ep *ep = n->ctx->eps; ep; ep = ep->next)
		count += ep->qp && !ep->ch.status;
	return count;
}

/* Makes a call in each direction over the only connection. */
static inline void call_both(struct node n[2])
{
	for (int i = 0; i < 2; i++) {
		uint32_t ok = n[i].heard.ok;

		CHECK_EQ(copyrpc_call(n[i].up.ep, "x", 1, 1, 0), 0);
		while (n[i].heard.ok == ok)
			turn_both(n);
		CHECK_EQ(n[i].heard.failed, 0);
	}
}

static inline uint64_t returns(const struct node *n)
{
	return ctx_stats_of(n->ctx).returns;
}

static inline bool closed_by_peer(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

#endif
