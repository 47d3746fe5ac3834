/* SPDX-License-Identifier: MIT */
/*
 * The bench of the shared-memory layers: closed loops of small calls, a layer against
 * other rings (its peers), on the same pinned threads in the same run.
 *
 * One server thread and up to eight client threads live through the whole run. Short
 * windows (2 ms) of each implementation and each number of clients take turns, so that
 * whatever the machine does hits all of them, and ratios are taken within a round. The
 * round trip of two cache lines between the same two cores is measured in each round:
 * that is the physical limit that figures are to be read against. Every response is
 * checked; a wrong, lost or repeated one ends the bench with status 1.
 *
 * When each thread has a core of its own, a window in which no response came for 100 us is
 * taken to be the machine's doing (somebody else had the core): it is left out, for the
 * layer and for the peers alike. How many were is printed; on a quiet machine it is none.
 *
 * A layer writes its loops once, as small functions that are inlined here:
 *
 *	static int x_call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
 *	{ return x_client_call(c->handle, req, len, token); }           // 0, else try later
 *	static int x_poll(struct rpcbench_client *c)                    // how many ended
 *	{ return x_client_poll(c->handle, rpcbench_response, c); }
 *	static void x_flush(struct rpcbench_client *c) ...              // after a burst of calls
 *	static bool x_idle(struct rpcbench_client *c, uint64_t ns) ...  // false: ns have gone by
 *	static void x_client(struct rpcbench_client *c)
 *	{ rpcbench_client_run(c, x_call, x_poll, x_flush, x_idle); }
 *
 *	static int x_serve(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size)
 *	{
 *		uint64_t req[RPCBENCH_WORDS], resp[RPCBENCH_WORDS];
 *		if (x_server_recv(s->handle, &id, req, req_size) != 1)
 *			return 0;
 *		rpcbench_answer(req, req_size, resp, resp_size);
 *		x_server_reply(s->handle, id, resp, resp_size);
 *		return 1;                                       // or a burst; then return
 *	}
 *	static void x_server(struct rpcbench_server *s)
 *	{ rpcbench_server_run(s, x_serve, x_server_idle); }
 *
 *	int main(int argc, char **argv)
 *	{
 *		static const struct rpcbench_impl x = { "x", x_setup, x_teardown,
 *			x_client, x_server, false };
 *		return rpcbench_main(&x, argc, argv);
 *	}
 *
 * setup() makes everything for cfg->clients clients with cfg->queue_depth calls each, and
 * fills in server->handle and client[i].handle, which the threads then use.
 */
#ifndef BASE_RPCBENCH_H
#define BASE_RPCBENCH_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/wait.h"
#include "latrec.h"

#define RPCBENCH_CLIENTS 64
#define RPCBENCH_WORDS 7 /* 56 bytes: a message is one cache line with its header */
#define RPCBENCH_REQ 32
#define RPCBENCH_RESP 16
#define RPCBENCH_IDLE_NS (40 * NSEC_PER_USEC)
#define RPCBENCH_STALL_NS (100 * NSEC_PER_USEC)
#define RPCBENCH_LOST_NS (30 * NSEC_PER_SEC)
#define RPCBENCH_LOOK 16 /* polls per look at the clock */

struct rpcbench_config {
	uint32_t clients;
	uint32_t queue_depth;
	uint32_t req_size; /* bytes, 16 to 56, a multiple of 8 */
	uint32_t resp_size;
	bool shared_ring; /* the peers take one request ring for all clients */
	uint32_t peer_slots; /* in the peers' rings, at least; 0: as many as are best for them */
};

/* What a window is for. */
enum rpcbench_kind {
	RPCBENCH_LOAD, /* closed loop until the deadline */
	RPCBENCH_WAKE, /* one call after each gap: what waking up costs */
	RPCBENCH_REST, /* no calls: what waiting costs a server */
	RPCBENCH_HOLD, /* one call, answered at the end: what waiting costs a client */
	RPCBENCH_PROBE, /* round trips of two lines */
	RPCBENCH_QUIT,
};

struct rpcbench_run;

struct rpcbench_client {
	CACHE_ALIGNED void *handle;
	const struct rpcbench_config *cfg;
	struct rpcbench_run *run;
	uint32_t index;
	uint32_t again; /* bytes in the call that follows a response, 0: the window is over */
	uint64_t sent; /* calls, ever: their tokens are 0, 1, ... */
	uint64_t wrong;
	uint64_t done; /* of them; not beside its sum, or the compiler moves both as a vector */
	/* What the last window gave. */
	uint64_t window_done;
	uint64_t window_ns;
	uint64_t stall_ns; /* longest time without a response */
	uint64_t done_sum; /* of the tokens that came back: each did once */
};

struct rpcbench_server {
	CACHE_ALIGNED void *handle;
	const struct rpcbench_config *cfg;
	struct rpcbench_run *run;
};

struct rpcbench_impl {
	const char *name;
	/* 0 or -errno; *state_p is what teardown() gets. */
	int (*setup)(const struct rpcbench_config *cfg, struct rpcbench_server *server,
		struct rpcbench_client *clients, void **state_p);
	void (*teardown)(void *state);
	void (*client)(struct rpcbench_client *c);
	void (*server)(struct rpcbench_server *s);
	bool shared_ring; /* of a layer: all clients send into one ring */
};

/* What the threads share during a window; written between windows but for the counters. */
struct rpcbench_run {
	enum rpcbench_kind kind;
	uint32_t active; /* clients in this window */
	uint64_t window_ns;
	uint32_t wakes; /* calls of a RPCBENCH_WAKE window */
	struct latrec_hist wake; /* their latencies, ns */
	CACHE_ALIGNED uint32_t ready; /* threads that stand at the start */
	CACHE_ALIGNED uint32_t finished; /* clients that have drained */
	CACHE_ALIGNED uint64_t ping;
	CACHE_ALIGNED uint64_t pong;
};

/* The request that belongs to a token: its last word depends on the token as well. */
ALWAYS_INLINE void rpcbench_request(uint64_t *req, uint32_t size, uint64_t token, uint32_t client)
{
	uint32_t words = size / 8;

	req[0] = token;
	for (uint32_t i = 1; i + 1 < words; i++)
		req[i] = client;
	req[words - 1] = ~token ^ client;
}

/* What a server makes of it. */
ALWAYS_INLINE void rpcbench_answer(const uint64_t *req, uint32_t req_size, uint64_t *resp,
	uint32_t resp_size)
{
	uint64_t first = req[0], last = req[req_size / 8 - 1];

	resp[0] = first + last;
	for (uint32_t i = 1; i < resp_size / 8; i++)
		resp[i] = first ^ last;
}

ALWAYS_INLINE uint32_t rpcbench_inflight(const struct rpcbench_client *c)
{
	return (uint32_t)(c->sent - c->done);
}

/* Takes the response to a token and checks it. Of the type of the layers' callbacks. */
ALWAYS_INLINE void rpcbench_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct rpcbench_client *c = (struct rpcbench_client *)arg;
	const uint64_t *resp = (const uint64_t *)payload;
	uint64_t last = ~token ^ c->index;

	if (unlikely(len < RPCBENCH_RESP || resp[0] != token + last || resp[1] != (token ^ last)))
		c->wrong++;
	c->done++;
	c->done_sum += token;
}

static inline uint32_t rpcbench_finished(const struct rpcbench_run *run)
{
	/* Pairs with the add in rpcbench_client_body(). */
	return __atomic_load_n(&run->finished, __ATOMIC_ACQUIRE);
}

/* Everybody who takes part is running: threads wake up at different times. */
static inline void rpcbench_rendezvous(struct rpcbench_run *run)
{
	/* Pairs with the load below in the other threads. */
	__atomic_fetch_add(&run->ready, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&run->ready, __ATOMIC_ACQUIRE) < run->active + 1)
		sched_yield();
}

/* The next call: 0, or not 0 when the implementation has no room. */
ALWAYS_INLINE int rpcbench_next(struct rpcbench_client *c, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t))
{
	uint64_t req[RPCBENCH_WORDS], token = c->sent;

	rpcbench_request(req, size, token, c->index);
	if (call(c, token, req, size))
		return -EAGAIN;
	c->sent++;
	return 0;
}

/* Calls until the depth is reached or the implementation has no room. */
ALWAYS_INLINE void rpcbench_fill(struct rpcbench_client *c, uint32_t depth, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	void (*flush)(struct rpcbench_client *))
{
	if (rpcbench_inflight(c) >= depth)
		return;
	while (rpcbench_inflight(c) < depth && !rpcbench_next(c, size, call))
		;
	flush(c);
}

/*
 * After rpcbench_response(), for implementations that may call from there: the next call
 * goes out at once. The peers are faster when they take all responses first.
 */
ALWAYS_INLINE void rpcbench_again(struct rpcbench_client *c,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t))
{
	if (likely(c->again == RPCBENCH_REQ))
		rpcbench_next(c, RPCBENCH_REQ, call);
	else if (c->again)
		rpcbench_next(c, c->again, call);
}

static inline void rpcbench_lost(const struct rpcbench_client *c)
{
	fprintf(stderr, "client %u: %u responses did not come\n", c->index, rpcbench_inflight(c));
	_exit(1);
}

ALWAYS_INLINE void rpcbench_drain(struct rpcbench_client *c, int (*poll)(struct rpcbench_client *))
{
	uint64_t last = clock_ns();

	while (rpcbench_inflight(c)) {
		if (poll(c))
			last = clock_ns();
		else if (clock_ns() - last > RPCBENCH_LOST_NS)
			rpcbench_lost(c);
		else
			sched_yield();
	}
}

ALWAYS_INLINE void rpcbench_load(struct rpcbench_client *c, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	int (*poll)(struct rpcbench_client *), void (*flush)(struct rpcbench_client *),
	bool (*idle)(struct rpcbench_client *, uint64_t))
{
	uint64_t start = clock_ns(), now = start, deadline = start + c->run->window_ns;
	uint64_t before = c->done, seen = before, moved = start, stall = 0;
	uint32_t depth = c->cfg->queue_depth;

	c->again = size;
	for (uint32_t i = 1; now < deadline; i++) {
		rpcbench_fill(c, depth, size, call, flush);
		if ((poll(c) || idle(c, RPCBENCH_IDLE_NS)) && i % RPCBENCH_LOOK)
			continue;
		now = clock_ns();
		stall = now - moved > stall ? now - moved : stall;
		moved = c->done == seen ? moved : now;
		seen = c->done;
	}
	c->again = 0;
	c->window_done = c->done - before;
	c->window_ns = now - start;
	c->stall_ns = stall;
}

/* Single calls into the quiet: the server has gone to sleep before each. */
ALWAYS_INLINE void rpcbench_wake(struct rpcbench_client *c, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	int (*poll)(struct rpcbench_client *), void (*flush)(struct rpcbench_client *),
	bool (*idle)(struct rpcbench_client *, uint64_t))
{
	struct timespec gap = {.tv_nsec = (long)c->run->window_ns};

	for (uint32_t i = 0; i < c->run->wakes; i++) {
		uint64_t start;

		nanosleep(&gap, NULL);
		start = clock_ns();
		rpcbench_fill(c, 1, size, call, flush);
		while (!poll(c))
			idle(c, NSEC_PER_SEC);
		latrec_hist_record(&c->run->wake, clock_ns() - start);
	}
}

/* One call to a server that is away until the window ends. */
ALWAYS_INLINE void rpcbench_hold(struct rpcbench_client *c, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	int (*poll)(struct rpcbench_client *), void (*flush)(struct rpcbench_client *),
	bool (*idle)(struct rpcbench_client *, uint64_t))
{
	rpcbench_fill(c, 1, size, call, flush);
	while (!poll(c))
		idle(c, NSEC_PER_SEC);
}

static inline void rpcbench_sleep(const struct rpcbench_run *run)
{
	struct timespec ts = {.tv_nsec = (long)run->window_ns};

	nanosleep(&ts, NULL);
}

/* The body of a client's window; called with constant functions. */
ALWAYS_INLINE void rpcbench_client_body(struct rpcbench_client *c, uint32_t size,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	int (*poll)(struct rpcbench_client *), void (*flush)(struct rpcbench_client *),
	bool (*idle)(struct rpcbench_client *, uint64_t))
{
	if (c->run->kind == RPCBENCH_LOAD)
		rpcbench_load(c, size, call, poll, flush, idle);
	else if (c->run->kind == RPCBENCH_WAKE)
		rpcbench_wake(c, size, call, poll, flush, idle);
	else if (c->run->kind == RPCBENCH_HOLD)
		rpcbench_hold(c, size, call, poll, flush, idle);
	else
		rpcbench_sleep(c->run);
	rpcbench_drain(c, poll);
	/* Pairs with rpcbench_finished(): the server may stop when all have drained. */
	__atomic_fetch_add(&c->run->finished, 1, __ATOMIC_ACQ_REL);
}

ALWAYS_INLINE void rpcbench_client_run(struct rpcbench_client *c,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t),
	int (*poll)(struct rpcbench_client *), void (*flush)(struct rpcbench_client *),
	bool (*idle)(struct rpcbench_client *, uint64_t))
{
	if (c->cfg->req_size == RPCBENCH_REQ) /* the default has its copies inlined */
		rpcbench_client_body(c, RPCBENCH_REQ, call, poll, flush, idle);
	else
		rpcbench_client_body(c, c->cfg->req_size, call, poll, flush, idle);
}

ALWAYS_INLINE void rpcbench_server_body(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size, int (*serve)(struct rpcbench_server *, uint32_t, uint32_t),
	bool (*idle)(struct rpcbench_server *, uint64_t))
{
	/* Long enough to see in a window of rest what a server that sleeps costs. */
	uint64_t idle_ns = s->run->kind == RPCBENCH_LOAD ? RPCBENCH_IDLE_NS : NSEC_PER_SEC / 10;

	if (s->run->kind == RPCBENCH_HOLD)
		rpcbench_sleep(s->run);
	while (!rpcbench_finished(s->run))
		if (!serve(s, req_size, resp_size))
			idle(s, idle_ns);
	/* The first client is done; the others may want this core to drain. */
	while (rpcbench_finished(s->run) < s->run->active)
		if (!serve(s, req_size, resp_size))
			sched_yield();
}

ALWAYS_INLINE void rpcbench_server_run(struct rpcbench_server *s,
	int (*serve)(struct rpcbench_server *, uint32_t, uint32_t),
	bool (*idle)(struct rpcbench_server *, uint64_t))
{
	if (s->cfg->req_size == RPCBENCH_REQ && s->cfg->resp_size == RPCBENCH_RESP)
		rpcbench_server_body(s, RPCBENCH_REQ, RPCBENCH_RESP, serve, idle);
	else
		rpcbench_server_body(s, s->cfg->req_size, s->cfg->resp_size, serve, idle);
}

#include "base/rpcbench_peers.h"
#include "base/rpcbench_report.h"
#include "base/rpcbench_options.h"
#include "base/rpcbench_run.h"

#endif
