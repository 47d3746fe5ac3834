/* SPDX-License-Identifier: MIT */
/* delegrpc in the loops of rpcbench.h: one server; all clients share the request ring. */
#include "delegrpc.h"

#define RPC_LAYER delegrpc
#include "rpcbench_layer.h"

static struct delegrpc_attr attr_of(const struct rpcbench_config *cfg)
{
	return (struct delegrpc_attr){.max_clients = cfg->clients,
		.resp_depth = cfg->queue_depth,
		.req_size = cfg->req_size,
		.resp_size = cfg->resp_size};
}

ALWAYS_INLINE int recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	struct delegrpc_req q;

	if (!delegrpc_server_recv(s->handle, &q))
		return 0;
	memcpy(req, q.payload, len);
	r->client = q.client;
	r->id = q.id;
	return 1;
}

ALWAYS_INLINE void served(struct rpcbench_server *s)
{
	delegrpc_server_advance_tail(s->handle);
}

static uint64_t bursts(void *state)
{
	struct delegrpc_server_stats replies;
	struct delegrpc_client_stats calls;
	struct sides *sides = state;
	uint64_t sum;

	delegrpc_server_get_stats(sides->server, &replies, sizeof(replies));
	sum = replies.bursts;
	for (uint32_t i = 0; i < sides->n; i++) {
		delegrpc_client_get_stats(sides->clients[i], &calls, sizeof(calls));
		sum += calls.flushes;
	}
	return sum;
}

RPCBENCH_SERVER(server, server_poll, recv, reply, served, server_wait, NULL)

const struct rpcbench_impl delegrpc_rpcbench = {"delegrpc", setup, teardown, client, server,
	.shared_ring = true, .bursts = bursts};
