/* SPDX-License-Identifier: MIT */
/* A mesh of flux: every node calls every other node. */
#include "flux.h"

#include "rpcbench.h"

extern const struct rpcbench_impl flux_mesh;
uint64_t flux_bench_bursts(void *state);

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct flux_attr attr = {
		.nodes = cfg->clients,
		.max_inflight = cfg->queue_depth,
		.payload_size = RPCBENCH_REQ,
		.reply_size = RPCBENCH_RESP,
	};
	struct flux *f;
	int r = flux_create(&attr, &f);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < cfg->clients; i++)
		clients[i].handle = flux_get_node(f, i);
	*state_p = f;
	return 0;
}

static void teardown(void *state)
{
	flux_destroy(state);
}

uint64_t flux_bench_bursts(void *state)
{
	struct flux_attr attr;
	struct flux_stats s;
	uint64_t sum = 0;

	flux_get_attr(state, &attr, sizeof(attr));
	for (uint32_t i = 0; i < attr.nodes; i++) {
		flux_node_get_stats(flux_get_node(state, i), &s, sizeof(s));
		sum += s.bursts;
	}
	return sum;
}

ALWAYS_INLINE int call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	return flux_call(c->handle, c->to, req, len, token);
}

ALWAYS_INLINE int serve(struct rpcbench_client *c, uint32_t most)
{
	uint64_t req[RPCBENCH_REQ / 8], resp[RPCBENCH_RESP / 8], token;
	uint32_t from, n = 0;

	while (n < most &&
		flux_try_recv_raw(c->handle, &from, &token, req, RPCBENCH_REQ, NULL) == 1) {
		rpcbench_answer(req, RPCBENCH_REQ, resp, RPCBENCH_RESP);
		flux_reply(c->handle, token, resp, RPCBENCH_RESP);
		n++;
	}
	return (int)n;
}

ALWAYS_INLINE int poll(struct rpcbench_client *c)
{
	return flux_poll(c->handle, rpcbench_response, c);
}

RPCBENCH_MESH(turn, call, serve, poll)

const struct rpcbench_impl flux_mesh = {"flux", setup, teardown, .turn = turn,
	.bursts = flux_bench_bursts};
