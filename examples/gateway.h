/* SPDX-License-Identifier: MIT */
/*
 * A gateway: passes requests that arrive over the network (copyrpc) to servers of this host
 * (shmipc), and their responses back. eventloop.c and eventloop-libevent.c contain the loops. Each
 * turn of a loop is
 *
 *	more = gateway_serve(g);                     handle what has arrived
 *	if (gateway_is_done(g))                      then check whether the loop ends
 *		break;
 *	busy = more || gateway_arm(g);               then arm, and handle nothing after that
 *	sleep until a descriptor is readable, at most busy ? 0 : gateway_timeout(g) ms
 *
 * Two mistakes lose a wake-up, and then the program sleeps for ever:
 *
 *	Not to arm. gateway_serve() ends after ROUNDS rounds, so that timers and signals get their
 *	turn; more messages may have arrived by then. A loop that now sleeps, without having armed
 *	since its last poll, gets no wake-up for them: a peer writes to a descriptor only if the
 *	descriptor's handle is armed. So after a bounded number of rounds, arm or sleep for 0 ms.
 *
 *	To arm after the last response. A loop that ends when all calls have ended must check this
 *	after the poll that took the last response, and before it sleeps: an armed handle without
 *	pending calls never becomes readable.
 */
#ifndef GATEWAY_H
#define GATEWAY_H

#include <copyrpc_tcp.h>
#include <errno.h>
#include <shmipc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCALS 16
#define ROUNDS 16

struct gateway {
	struct copyrpc_ctx *ctx;
	int listener;
	struct shmipc_client *local[LOCALS]; /* NULL: its server has gone */
	uint32_t n_locals, next;
	uint32_t held; /* requests that have no reply yet */
	uint64_t replies;
	bool stopping; /* the gateway takes no more requests, and ends when it holds none */
};

static inline void check(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

/* A reply that is longer than the caller allows is replaced by an empty one: each request must get
 * a reply. If the caller has gone, the reply is lost, and the request is released all the same. */
static inline void gateway_reply(struct gateway *g, struct copyrpc_req *req, const void *data,
	uint32_t len)
{
	if (copyrpc_reply(req, data, len) == -EMSGSIZE)
		copyrpc_reply(req, NULL, 0);
	g->held--;
	g->replies++;
}

/*
 * Passes on a response of a local server. @data is NULL if the server has gone; the server may have
 * served the request before.
 */
static inline void on_local(void *arg, uint64_t token, const void *data, uint32_t len)
{
	gateway_reply(arg, (struct copyrpc_req *)(uintptr_t)token, data, len);
}

/* Called when the call that watches a peer has ended, see greet_peers(): the endpoint has failed,
 * or the peer has answered, which it should not. */
static inline void on_end(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	copyrpc_ep_destroy(ep);
}

/* Returns a client whose next call can be made now, or NULL. */
static inline struct shmipc_client *local_with_room(struct gateway *g)
{
	struct shmipc_attr attr;

	for (uint32_t i = 0; i < g->n_locals; i++) {
		struct shmipc_client *c = g->local[g->next++ % g->n_locals];

		if (!c)
			continue;
		shmipc_client_get_attr(c, &attr, sizeof(attr));
		if (shmipc_client_pending(c) < attr.depth)
			return c;
	}
	return NULL;
}

/*
 * Passes requests on as long as a client has room. The others wait in copyrpc until a response
 * makes room. The clients are armed before the loop sleeps, so the response wakes the loop.
 */
static inline bool pass_requests(struct gateway *g)
{
	struct shmipc_client *c;
	struct copyrpc_req *req;
	bool some = false;

	while (!g->stopping && (c = local_with_room(g)) && copyrpc_recv(g->ctx, &req) == 1) {
		g->held++;
		if (shmipc_client_call(c, copyrpc_req_data(req), copyrpc_req_len(req),
			    (uintptr_t)req))
			gateway_reply(g, req, NULL, 0); /* too long, or the server has gone */
		some = true;
	}
	return some;
}

static inline bool poll_local(struct gateway *g, uint32_t i)
{
	struct shmipc_client *c = g->local[i];
	int n = c ? shmipc_client_poll(c, on_local, g) : 0;

	if (n < 0) {
		fprintf(stderr, "local server %u: %s\n", i, strerror(-n));
		shmipc_client_abort(c, on_local, g);
		shmipc_client_disconnect(c);
		g->local[i] = NULL;
	}
	return n != 0;
}

/*
 * Makes a call to each peer that has connected, and destroys the endpoints whose connection failed.
 * An idle endpoint without calls of its own does not detect that its peer has gone. The peer must
 * take this request with copyrpc_recv() and detach it, but never answers it: see
 * copyrpc-echo-client. If the call fails because the peer has gone already, the endpoint is
 * destroyed at once.
 */
static inline void greet_peers(struct gateway *g)
{
	struct copyrpc_event ev;

	while (copyrpc_event_recv(g->ctx, &ev, sizeof(ev)))
		if (ev.kind != COPYRPC_UP || copyrpc_call(ev.ep, NULL, 0, 0, 0) < 0)
			copyrpc_ep_destroy(ev.ep);
}

/* Handles what has arrived. Returns true if more may have arrived. */
static inline bool gateway_serve(struct gateway *g)
{
	bool some = true;

	for (int round = 0; some && round < ROUNDS; round++) {
		some = copyrpc_poll(g->ctx, on_end, NULL) > 0;
		greet_peers(g);
		some |= pass_requests(g);
		for (uint32_t i = 0; i < g->n_locals; i++)
			some |= poll_local(g, i);
	}
	return some;
}

static inline bool gateway_is_done(const struct gateway *g)
{
	bool any = false;

	for (uint32_t i = 0; i < g->n_locals; i++)
		any |= g->local[i] != NULL;
	return !any || (g->stopping && !g->held);
}

/* Arms all handles. Returns true if the loop must not sleep. An error of a handle is reported by
 * the next poll. */
static inline bool gateway_arm(struct gateway *g)
{
	bool busy = copyrpc_ctx_arm(g->ctx);

	for (uint32_t i = 0; i < g->n_locals; i++)
		busy |= g->local[i] && shmipc_client_arm(g->local[i]);
	return busy;
}

static inline int gateway_timeout(const struct gateway *g)
{
	return copyrpc_ctx_timeout(g->ctx);
}

/* Opens the gateway on a free port of this host, and prints the port. */
static inline void gateway_open(struct gateway *g, int argc, char **argv)
{
	if (argc < 2 || argc > LOCALS + 1) {
		fprintf(stderr, "usage: %s NAME..., the names of 1 to %d shmipc servers\n", argv[0],
			LOCALS);
		exit(2);
	}
	*g = (struct gateway){.n_locals = (uint32_t)argc - 1};
	check(copyrpc_ctx_create(NULL, &g->ctx), "copyrpc_ctx_create");
	for (uint32_t i = 0; i < g->n_locals; i++)
		check(shmipc_client_connect(argv[1 + i], NULL, &g->local[i]), argv[1 + i]);
	check(copyrpc_tcp_listen("127.0.0.1", 0, &g->listener), "listen");
	check(copyrpc_listen(g->ctx, NULL, g->listener, 0), "listen");
	printf("%d\n", copyrpc_tcp_port(g->listener));
	fflush(stdout);
}

static inline void gateway_print(const struct gateway *g)
{
	printf("%llu replies, %u requests held\n", (unsigned long long)g->replies, g->held);
	fflush(stdout);
}

/* Returns the program's status: 0 if a signal ended the gateway and every request has a reply. */
static inline int gateway_close(struct gateway *g)
{
	gateway_print(g);
	for (uint32_t i = 0; i < g->n_locals; i++)
		shmipc_client_disconnect(g->local[i]);
	copyrpc_ctx_destroy(g->ctx);
	close(g->listener);
	return g->held != 0 || !g->stopping;
}

#endif
