/* SPDX-License-Identifier: MIT */
/* shmipc in the loops of rpcbench.h: one server, each client with a connection of its own. */
#include "shmipc.h"

#define RPC_LAYER shmipc
#include "rpcbench_layer.h"

static struct shmipc_attr attr_of(const struct rpcbench_config *cfg)
{
	return (struct shmipc_attr){.max_clients = cfg->clients,
		.depth = cfg->queue_depth,
		.req_size = cfg->req_size,
		.resp_size = cfg->resp_size};
}

ALWAYS_INLINE int recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	struct shmipc_req q;

	if (shmipc_server_recv(s->handle, &q, req, len) != 1)
		return 0;
	r->client = q.client;
	r->id = q.id;
	return 1;
}

/* The next poll, or a receive that finds nothing, publishes collected replies. */
RPCBENCH_SERVER(server, server_poll, recv, reply, NULL, server_wait, NULL)

const struct rpcbench_impl shmipc_rpcbench = {"shmipc", setup, teardown, client, server, false};
