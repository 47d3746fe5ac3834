/* SPDX-License-Identifier: MIT */
/* The loops of clients and servers, for rpcbench.h: inlined, each with its layer's functions. */
#ifndef RPCBENCH_LOOPS_H
#define RPCBENCH_LOOPS_H

/* Ends the program: responses of this client did not come. */
void rpcbench_lost(const struct rpcbench_client *c);
/* For the length of the window. */
void rpcbench_sleep(const struct rpcbench_run *run);

static inline uint32_t rpcbench_finished(const struct rpcbench_run *run)
{
	/* Pairs with the add in rpcbench_client_body(). */
	return __atomic_load_n(&run->finished, __ATOMIC_ACQUIRE);
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

#endif
