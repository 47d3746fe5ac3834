/* SPDX-License-Identifier: MIT */
/*
 * The mesh, for rpcbench.h: N nodes that call each other. One turn of a node makes calls until
 * cfg->queue_depth calls are in flight, then answers calls that have arrived, then accepts
 * responses. All implementations run this turn, each with its functions inlined.
 *
 * The least work for a call and its response, with requests of 32 bytes and responses of 16:
 *
 *	lines	A burst of n calls moves ceil(40 n / 64) cache lines from one core to another, its
 *		answers ceil(24 n / 64); each message has a head of 8 bytes. That is 2 lines per
 *		call for bursts of one, 1.5 for two, 1.25 for four, 1 for eight. A reader that looks
 *		before the burst is published makes a line move once more.
 *	looks	A turn looks at the request rings of the N - 1 other nodes, and at the response
 *		rings of those that owe a response: a load and a comparison each.
 *	copies	With a queue depth of 8 or more, messages are collected in private memory. A request
 *		is then copied three times (to private memory, to the ring, out of it), a response
 *		twice: 16 loads and 16 stores of 8 bytes. The bench also generates and checks each
 *		message.
 *
 * The implementation `bare` does only this work, and keeps a queue of tokens.
 */
#ifndef RPCBENCH_MESH_H
#define RPCBENCH_MESH_H

/* The functions of which a node's turn consists. */
struct rpcbench_mesh_ops {
	/* Calls node c->to. Returns 0, or not 0 if there is no room. */
	int (*call)(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len);
	/*
	 * Answers calls that have arrived, until @most or more are answered; may also leave some of
	 * them to the next turn. Returns the number of answered calls.
	 */
	int (*serve)(struct rpcbench_client *c, uint32_t most);
	/*
	 * Publishes the collected messages, accepts responses, and returns the number of responses.
	 */
	int (*poll)(struct rpcbench_client *c);
};

/* Returns a random number below n. */
static inline uint32_t rpcbench_mesh_draw(struct rpcbench_client *c, uint32_t n)
{
	c->rng = c->rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((c->rng >> 32) * n >> 32);
}

/* Returns a random node of [first, end) other than this one. Such a node must exist. */
static inline uint32_t rpcbench_mesh_pick(struct rpcbench_client *c, uint32_t first, uint32_t end)
{
	bool inside = c->index >= first && c->index < end;
	uint32_t to = first + rpcbench_mesh_draw(c, end - first - inside);

	return to + (inside && to >= c->index);
}

static inline uint32_t rpcbench_mesh_after(const struct rpcbench_client *c, uint32_t to, uint32_t n)
{
	to = to + 1 < n ? to + 1 : 0;
	if (to != c->index)
		return to;
	return to + 1 < n ? to + 1 : 0;
}

/*
 * Returns, with equal probability, one of the first @hot nodes or one of the others. A node that is
 * alone in its group calls only the other group.
 */
static inline uint32_t rpcbench_mesh_hot(struct rpcbench_client *c, uint32_t hot, uint32_t n)
{
	bool to_hot = rpcbench_mesh_draw(c, 2);

	if (hot == 1 && c->index == 0)
		to_hot = false;
	if (hot + 1 == n && c->index == hot)
		to_hot = true;
	return rpcbench_mesh_pick(c, to_hot ? 0 : hot, to_hot ? hot : n);
}

static inline uint32_t rpcbench_mesh_next(struct rpcbench_client *c)
{
	uint32_t n = c->run->active, some = c->cfg->pattern_nodes;

	switch (c->cfg->pattern) {
	case RPCBENCH_PATTERN_RANDOM:
		return rpcbench_mesh_pick(c, 0, n);
	case RPCBENCH_PATTERN_HOT:
		return rpcbench_mesh_hot(c, some, n);
	case RPCBENCH_PATTERN_SERVERS:
		return rpcbench_mesh_after(c, c->to, some);
	default:
		return rpcbench_mesh_after(c, c->to, n);
	}
}

static inline bool rpcbench_mesh_calls(const struct rpcbench_client *c)
{
	return c->cfg->pattern != RPCBENCH_PATTERN_SERVERS || c->index >= c->cfg->pattern_nodes;
}

/* Runs one turn. Returns the number of calls answered plus the number of responses that came. */
ALWAYS_INLINE int rpcbench_mesh_turn(struct rpcbench_client *c, bool calls,
	const struct rpcbench_mesh_ops *ops)
{
	int n;

	while (calls && rpcbench_inflight(c) < c->cfg->queue_depth) {
		c->to = rpcbench_mesh_next(c);
		if (rpcbench_next(c, RPCBENCH_REQ, ops->call))
			break;
	}
	n = ops->serve(c, RPCBENCH_TAKE * (c->run->active - 1));
	return n + ops->poll(c);
}

/* Defines the function fn, which runs one turn with these operations inlined. */
#define RPCBENCH_MESH(fn, ...)                                                                     \
	static int fn(struct rpcbench_client *c, bool calls)                                       \
	{                                                                                          \
		static const struct rpcbench_mesh_ops ops = {__VA_ARGS__};                         \
                                                                                                   \
		return rpcbench_mesh_turn(c, calls, &ops);                                         \
	}

#endif
