/* SPDX-License-Identifier: MIT */
/*
 * The loops of clients and servers, for rpcbench.h. The functions of the measured library, called
 * the implementation here, are inlined into them.
 */
#ifndef RPCBENCH_LOOPS_H
#define RPCBENCH_LOOPS_H

/* Ends the program because responses of this client did not come. */
void rpcbench_lost(const struct rpcbench_client *c);
/* Sleeps for the length of the window. */
void rpcbench_sleep(const struct rpcbench_run *run);

static inline uint32_t rpcbench_finished(const struct rpcbench_run *run)
{
	/* Pairs with the add in rpcbench_client_body(). */
	return __atomic_load_n(&run->finished, __ATOMIC_ACQUIRE);
}

/* ---- clients ---- */

/* Makes the next call. Returns 0, or not 0 if the implementation has no room. */
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

/* Makes calls until the depth is reached or the implementation has no room. */
ALWAYS_INLINE void rpcbench_fill(struct rpcbench_client *c, uint32_t depth, uint32_t size,
	const struct rpcbench_client_ops *ops)
{
	if (rpcbench_inflight(c) >= depth)
		return;
	while (rpcbench_inflight(c) < depth && !rpcbench_next(c, size, ops->call))
		;
	if (ops->flush)
		ops->flush(c);
}

/* After a response, makes the next call if c->again is its size; 0: the loop makes it elsewhere. */
ALWAYS_INLINE void rpcbench_again(struct rpcbench_client *c,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t))
{
	if (likely(c->again == RPCBENCH_REQ))
		rpcbench_next(c, RPCBENCH_REQ, call);
	else if (c->again)
		rpcbench_next(c, c->again, call);
}

ALWAYS_INLINE void rpcbench_drain(struct rpcbench_client *c, const struct rpcbench_client_ops *ops)
{
	uint64_t last = clock_ns();

	while (rpcbench_inflight(c)) {
		if (ops->poll(c))
			last = clock_ns();
		else if (clock_ns() - last > RPCBENCH_LOST_NS)
			rpcbench_lost(c);
		else
			sched_yield();
	}
}

/* Runs one turn of a loop. Returns how many responses came. */
ALWAYS_INLINE int rpcbench_turn(struct rpcbench_client *c, enum rpcbench_loop loop,
	const struct rpcbench_client_ops *ops)
{
	int n, sum;

	if (loop != RPCBENCH_LOOP_REFILL)
		return ops->poll(c);
	for (sum = 0; (n = ops->poll(c)) > 0; sum += n)
		;
	return sum;
}

ALWAYS_INLINE void rpcbench_load(struct rpcbench_client *c, uint32_t size, enum rpcbench_loop loop,
	const struct rpcbench_client_ops *ops)
{
	uint64_t start = clock_ns(), now = start, deadline = start + c->run->window_ns;
	uint64_t before = c->done, seen = before, moved = start, stall = 0;
	uint32_t depth = c->cfg->queue_depth, empty = 0;

	c->again = loop == RPCBENCH_LOOP_REFILL ? 0 : size;
	/*
	 * Continues until at least one response has come, so that the rate of a thread that had no
	 * core is not 0.
	 */
	for (uint32_t i = 1; now < deadline || c->done == before; i++) {
		rpcbench_fill(c, depth, size, ops);
		if (rpcbench_turn(c, loop, ops))
			empty = 0;
		else if (!ops->wait || (loop != RPCBENCH_LOOP_BLOCKING && ++empty < RPCBENCH_SPINS))
			cpu_relax();
		else if (!ops->wait(c, RPCBENCH_IDLE_NS))
			i = RPCBENCH_LOOK;
		if (i % RPCBENCH_LOOK)
			continue;
		now = clock_ns();
		stall = now - moved > stall ? now - moved : stall;
		moved = c->done == seen ? moved : now;
		seen = c->done;
		if (unlikely(now - moved > RPCBENCH_LOST_NS))
			rpcbench_lost(c);
	}
	c->again = 0;
	c->window_done = c->done - before;
	c->window_ns = now - start;
	c->stall_ns = stall;
}

/* Waits for the response to a call that was made at @start. */
ALWAYS_INLINE void rpcbench_await(struct rpcbench_client *c, uint64_t start,
	const struct rpcbench_client_ops *ops)
{
	while (!ops->poll(c))
		if (!ops->wait(c, NSEC_PER_SEC) && clock_ns() - start > RPCBENCH_LOST_NS)
			rpcbench_lost(c);
}

/* Makes single calls, each after a gap in which the server has gone to sleep. */
ALWAYS_INLINE void rpcbench_wake(struct rpcbench_client *c, uint32_t size,
	const struct rpcbench_client_ops *ops)
{
	for (uint32_t i = 0; i < c->run->wakes; i++) {
		uint64_t start;

		clock_nap(c->run->window_ns);
		start = clock_ns();
		rpcbench_fill(c, 1, size, ops);
		rpcbench_await(c, start, ops);
		latrec_hist_record(c->run->wake, clock_ns() - start);
	}
}

/* Makes one call to a server that first sleeps for the length of the window, without polling. */
ALWAYS_INLINE void rpcbench_hold(struct rpcbench_client *c, uint32_t size,
	const struct rpcbench_client_ops *ops)
{
	uint64_t start = clock_ns();

	rpcbench_fill(c, 1, size, ops);
	rpcbench_await(c, start, ops);
}

ALWAYS_INLINE void rpcbench_client_step(struct rpcbench_client *c, uint32_t size,
	const struct rpcbench_client_ops *ops)
{
	const struct rpcbench_run *run = c->run;

	c->again = run->last_calls || run->loop == RPCBENCH_LOOP_REFILL ? 0 : size;
	rpcbench_fill(c, run->last_calls ? 0 : c->cfg->queue_depth, size, ops);
	if (!rpcbench_turn(c, run->loop, ops) && run->loop == RPCBENCH_LOOP_BLOCKING && ops->wait)
		ops->wait(c, 0);
}

/* The body of a client's window. Each caller passes constant functions, so they are inlined. */
ALWAYS_INLINE void rpcbench_client_body(struct rpcbench_client *c, uint32_t size,
	const struct rpcbench_client_ops *ops)
{
	if (c->run->kind == RPCBENCH_STEP) {
		rpcbench_client_step(c, size, ops);
		return;
	}
	if (c->run->kind == RPCBENCH_WAKE)
		rpcbench_wake(c, size, ops);
	else if (c->run->kind == RPCBENCH_HOLD)
		rpcbench_hold(c, size, ops);
	else if (c->run->kind == RPCBENCH_REST)
		rpcbench_sleep(c->run);
	else if (c->run->loop == RPCBENCH_LOOP_REFILL)
		rpcbench_load(c, size, RPCBENCH_LOOP_REFILL, ops);
	else if (c->run->loop == RPCBENCH_LOOP_BLOCKING)
		rpcbench_load(c, size, RPCBENCH_LOOP_BLOCKING, ops);
	else
		rpcbench_load(c, size, RPCBENCH_LOOP_CALLBACK, ops);
	rpcbench_drain(c, ops);
	/* Pairs with rpcbench_finished(): the server may stop when no client has an open call. */
	__atomic_fetch_add(&c->run->finished, 1, __ATOMIC_ACQ_REL);
}

ALWAYS_INLINE void rpcbench_client_run(struct rpcbench_client *c,
	const struct rpcbench_client_ops *ops)
{
	if (c->cfg->req_size == RPCBENCH_REQ) /* copies of this constant size are inlined */
		rpcbench_client_body(c, RPCBENCH_REQ, ops);
	else
		rpcbench_client_body(c, c->cfg->req_size, ops);
}

/* ---- the server ---- */

/* Takes and answers requests one by one, at most @most. Returns their number. */
ALWAYS_INLINE int rpcbench_serve(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size,
	const struct rpcbench_server_ops *ops, int most)
{
	uint64_t req[RPCBENCH_WORDS], resp[RPCBENCH_WORDS];
	struct rpcbench_req r;
	int n = 0;

	while (n < most && ops->recv(s, &r, req, req_size)) {
		rpcbench_answer(req, req_size, resp, resp_size);
		ops->reply(s, &r, resp, resp_size);
		n++;
	}
	if (ops->end)
		ops->end(s);
	return n;
}

/* Takes up to RPCBENCH_TAKE requests, then answers them. Returns their number. */
ALWAYS_INLINE int rpcbench_serve_many(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size, const struct rpcbench_server_ops *ops)
{
	uint64_t req[RPCBENCH_TAKE][RPCBENCH_WORDS], resp[RPCBENCH_WORDS];
	struct rpcbench_req r[RPCBENCH_TAKE];
	int n = 0;

	while (n < RPCBENCH_TAKE && ops->recv(s, &r[n], req[n], req_size))
		n++;
	for (int i = 0; i < n; i++) {
		rpcbench_answer(req[i], req_size, resp, resp_size);
		ops->reply(s, &r[i], resp, resp_size);
	}
	if (ops->end)
		ops->end(s);
	return n;
}

ALWAYS_INLINE int rpcbench_serve_turn(struct rpcbench_server *s, enum rpcbench_loop loop,
	uint32_t req_size, uint32_t resp_size, const struct rpcbench_server_ops *ops)
{
	if (ops->serve && loop != RPCBENCH_LOOP_SINGLE)
		return ops->serve(s, req_size, resp_size);
	if (ops->poll)
		ops->poll(s);
	if (loop == RPCBENCH_LOOP_MANY)
		return rpcbench_serve_many(s, req_size, resp_size, ops);
	return rpcbench_serve(s, req_size, resp_size, ops,
		loop == RPCBENCH_LOOP_SINGLE ? 1 : INT_MAX);
}

ALWAYS_INLINE void rpcbench_server_loop(struct rpcbench_server *s, enum rpcbench_loop loop,
	uint32_t req_size, uint32_t resp_size, const struct rpcbench_server_ops *ops)
{
	/* The windows other than RPCBENCH_LOAD measure a sleeping server, so its waits are long. */
	uint64_t idle_ns = s->run->kind == RPCBENCH_LOAD ? RPCBENCH_IDLE_NS : NSEC_PER_SEC / 10;
	uint32_t empty = 0;

	while (!rpcbench_finished(s->run)) {
		if (loop == RPCBENCH_LOOP_BLOCKING && ops->wait) {
			ops->wait(s, idle_ns);
			rpcbench_serve(s, req_size, resp_size, ops, INT_MAX);
		} else if (rpcbench_serve_turn(s, loop, req_size, resp_size, ops)) {
			empty = 0;
		} else if (!ops->wait || ++empty < RPCBENCH_SPINS) {
			cpu_relax();
		} else {
			ops->wait(s, idle_ns);
		}
	}
	/* The first client has finished; the others may need this core for their last calls. */
	while (rpcbench_finished(s->run) < s->run->active)
		if (!rpcbench_serve_turn(s, loop, req_size, resp_size, ops))
			sched_yield();
}

/* Runs turns until one finds nothing. */
ALWAYS_INLINE void rpcbench_server_step(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size, const struct rpcbench_server_ops *ops)
{
	bool waits = s->run->loop == RPCBENCH_LOOP_BLOCKING && ops->wait;
	int n;

	do {
		if (waits) {
			ops->wait(s, 0);
			n = rpcbench_serve(s, req_size, resp_size, ops, INT_MAX);
		} else {
			n = rpcbench_serve_turn(s, s->run->loop, req_size, resp_size, ops);
		}
	} while (n);
}

ALWAYS_INLINE void rpcbench_server_body(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size, const struct rpcbench_server_ops *ops)
{
	if (s->run->kind == RPCBENCH_HOLD)
		rpcbench_sleep(s->run);
	if (s->run->kind == RPCBENCH_STEP)
		rpcbench_server_step(s, req_size, resp_size, ops);
	else if (s->run->loop == RPCBENCH_LOOP_SINGLE)
		rpcbench_server_loop(s, RPCBENCH_LOOP_SINGLE, req_size, resp_size, ops);
	else if (s->run->loop == RPCBENCH_LOOP_MANY)
		rpcbench_server_loop(s, RPCBENCH_LOOP_MANY, req_size, resp_size, ops);
	else if (s->run->loop == RPCBENCH_LOOP_BLOCKING)
		rpcbench_server_loop(s, RPCBENCH_LOOP_BLOCKING, req_size, resp_size, ops);
	else
		rpcbench_server_loop(s, RPCBENCH_LOOP_CALLBACK, req_size, resp_size, ops);
}

ALWAYS_INLINE void rpcbench_server_run(struct rpcbench_server *s,
	const struct rpcbench_server_ops *ops)
{
	if (s->cfg->req_size == RPCBENCH_REQ && s->cfg->resp_size == RPCBENCH_RESP)
		rpcbench_server_body(s, RPCBENCH_REQ, RPCBENCH_RESP, ops);
	else
		rpcbench_server_body(s, s->cfg->req_size, s->cfg->resp_size, ops);
}

/* Each macro defines the function fn, of a client or of a server, with these operations inlined. */
#define RPCBENCH_CLIENT(fn, ...)                                                                   \
	static void fn(struct rpcbench_client *c)                                                  \
	{                                                                                          \
		static const struct rpcbench_client_ops ops = {__VA_ARGS__};                       \
                                                                                                   \
		rpcbench_client_run(c, &ops);                                                      \
	}
#define RPCBENCH_SERVER(fn, ...)                                                                   \
	static void fn(struct rpcbench_server *s)                                                  \
	{                                                                                          \
		static const struct rpcbench_server_ops ops = {__VA_ARGS__};                       \
                                                                                                   \
		rpcbench_server_run(s, &ops);                                                      \
	}

#endif
