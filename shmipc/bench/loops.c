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

/*
 * Adds the number of bursts that were written into a ring since the last count. The writer must
 * have gone less than 2047 times round the ring since then.
 */
static void count(struct sides *sides, const struct cellring_cursor *c, uint64_t *seen)
{
	uint64_t cells = (uint64_t)(c->end - c->begin) / c->cell;
	uint64_t now = (c->lap - 1) * cells + (uint64_t)(c->slot - c->begin) / c->cell;

	sides->bursts += now - *seen + (now < *seen ? CELLRING_LAP_LAST * cells : 0);
	*seen = now;
}

static uint64_t bursts(void *state)
{
	struct sides *sides = state;

	for (uint32_t i = 0; i < sides->n; i++) {
		count(sides, &sides->clients[i]->req, &sides->seen[i][0]);
		count(sides, &sides->server->peers[i].resp, &sides->seen[i][1]);
	}
	return sides->bursts;
}

/* The next poll, or a receive that finds nothing, publishes collected replies. */
RPCBENCH_SERVER(server, server_poll, recv, reply, NULL, server_wait, NULL)

const struct rpcbench_impl shmipc_rpcbench = {"shmipc", setup, teardown, client, server,
	.bursts = bursts};
