/* SPDX-License-Identifier: MIT */
/*
 * Runs the time windows of a measurement: those of a mesh that has a thread for each node, and
 * those in which one thread runs all clients (or nodes) and the server in turn.
 */
#include "bench.h"

#define EMPTY_SWEEPS 1000000u /* sweeps without a response until a response counts as lost */

/*
 * Runs turns until the deadline has passed and, if the node makes calls, at least one response has
 * come.
 */
static void mesh_load(const struct rpcbench_impl *impl, struct rpcbench_client *c)
{
	uint64_t start = clock_ns(), now = start, deadline = start + c->run->window_ns;
	uint64_t before = c->done, seen = before, moved = start, stall = 0;
	bool calls = rpcbench_mesh_calls(c);
	uint32_t empty = 0;

	for (uint32_t i = 1; now < deadline || (calls && c->done == before); i++) {
		if (impl->turn(c, calls))
			empty = 0;
		else if (++empty < RPCBENCH_SPINS)
			cpu_relax();
		else
			sched_yield();
		if (i % RPCBENCH_LOOK)
			continue;
		now = clock_ns();
		stall = calls && now - moved > stall ? now - moved : stall;
		moved = c->done == seen ? moved : now;
		seen = c->done;
		if (calls && now - moved > RPCBENCH_LOST_NS)
			rpcbench_lost(c);
	}
	c->window_done = c->done - before;
	c->window_ns = now - start;
	c->stall_ns = stall;
}

void rpcbench_mesh_window(const struct rpcbench_impl *impl, struct rpcbench_client *c)
{
	uint64_t last;

	mesh_load(impl, c);
	for (last = clock_ns(); rpcbench_inflight(c); sched_yield()) {
		if (impl->turn(c, false))
			last = clock_ns();
		else if (clock_ns() - last > RPCBENCH_LOST_NS)
			rpcbench_lost(c);
	}
	/* Pairs with rpcbench_finished(): a node serves until all nodes have their responses. */
	__atomic_fetch_add(&c->run->finished, 1, __ATOMIC_ACQ_REL);
	for (; rpcbench_finished(c->run) < c->run->active; sched_yield())
		impl->turn(c, false);
}

/* Runs a turn of each client (or node), then the server. Returns the number of responses. */
static uint64_t sweep(struct rpcbench_side *side, uint32_t n, bool calls)
{
	const struct rpcbench_impl *impl = side->impl;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rpcbench_client *c = &side->client[i];

		sum -= c->done;
		if (impl->turn)
			impl->turn(c, calls && rpcbench_mesh_calls(c));
		else
			impl->client(c);
		sum += c->done;
	}
	if (impl->server)
		impl->server(&side->server);
	return sum;
}

/* Returns the first client that waits for responses, or @c if none does. */
static struct rpcbench_client *waiting_one(struct rpcbench_client *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (rpcbench_inflight(&c[i]))
			return &c[i];
	return c;
}

void rpcbench_step(struct rpcbench_side *side, struct rpcbench_run *run, uint64_t calls)
{
	uint64_t start = clock_ns(), sum = 0, came;
	struct rpcbench_client *c = side->client;
	uint32_t n = run->active, empty = 0;

	run->last_calls = false;
	for (uint32_t i = 0; i < n; i++)
		c[i].window_done = c[i].done;
	while (sum < calls) {
		came = sweep(side, n, true);
		sum += came;
		empty = came ? 0 : empty + 1;
		if (empty == EMPTY_SWEEPS)
			rpcbench_lost(waiting_one(c, n));
	}
	for (uint32_t i = 0; i < n; i++) {
		c[i].window_done = c[i].done - c[i].window_done;
		c[i].window_ns = clock_ns() - start;
	}
	run->last_calls = true;
	while (rpcbench_inflight(waiting_one(c, n))) {
		empty = sweep(side, n, false) ? 0 : empty + 1;
		if (empty == EMPTY_SWEEPS)
			rpcbench_lost(waiting_one(c, n));
	}
}
