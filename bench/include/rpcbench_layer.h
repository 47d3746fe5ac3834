/* SPDX-License-Identifier: MIT */
/*
 * Runs delegrpc or shmipc in the loops of rpcbench.h. The bench/loops.c of a layer includes the
 * layer's header, defines RPC_LAYER, includes this file, and defines attr_of() and recv(). Then it
 * calls RPCBENCH_SERVER() and defines the layer's struct rpcbench_impl.
 */
#ifndef RPCBENCH_LAYER_H
#define RPCBENCH_LAYER_H

#include "rpcbench.h"

extern const struct rpcbench_impl delegrpc_rpcbench, shmipc_rpcbench;

#ifdef RPC_LAYER
#include "support/rpclayer.h"

struct sides {
	struct rpc_server *server;
	struct rpc_client *clients[RPCBENCH_CLIENTS];
	uint32_t n;
	uint64_t bursts, seen[RPCBENCH_CLIENTS][2]; /* for the bursts() of shmipc */
};

static struct rpc_attr attr_of(const struct rpcbench_config *cfg);

static void teardown(void *state)
{
	struct sides *sides = state;

	for (uint32_t i = 0; i < RPCBENCH_CLIENTS; i++)
		RPC(client_disconnect)(sides->clients[i]);
	RPC(server_destroy)(sides->server);
	free(sides);
}

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct rpc_attr attr = attr_of(cfg);
	struct sides *sides = calloc(1, sizeof(*sides));
	char name[64];
	int err;

	if (!sides)
		return -ENOMEM;
	snprintf(name, sizeof(name), "bench.%d", (int)getpid());
	err = RPC(server_create)(name, &attr, &sides->server);
	server->handle = sides->server;
	sides->n = cfg->clients;
	for (uint32_t i = 0; !err && i < cfg->clients; i++) {
		err = RPC(client_connect)(name, &attr, &sides->clients[i]);
		clients[i].handle = sides->clients[i];
	}
	if (!err)
		err = RPC(server_unlink)(sides->server);
	if (err) {
		teardown(sides);
		return err;
	}
	*state_p = sides;
	return 0;
}

ALWAYS_INLINE int call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	return RPC(client_call)(c->handle, req, len, token);
}

ALWAYS_INLINE void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	rpcbench_response(arg, token, resp, len);
	rpcbench_again(arg, call);
}

ALWAYS_INLINE int poll(struct rpcbench_client *c)
{
	return RPC(client_poll)(c->handle, on_response, c);
}

ALWAYS_INLINE bool client_wait(struct rpcbench_client *c, uint64_t ns)
{
	return RPC(client_wait)(c->handle, ns) != 0;
}

RPCBENCH_CLIENT(client, .call = call, .poll = poll, .wait = client_wait)

ALWAYS_INLINE void server_poll(struct rpcbench_server *s)
{
	RPC(server_poll)(s->handle);
}

ALWAYS_INLINE void reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	RPC(server_reply)(s->handle, r->client, r->id, resp, len);
}

ALWAYS_INLINE void server_wait(struct rpcbench_server *s, uint64_t ns)
{
	RPC(server_wait)(s->handle, ns);
}

#endif

#endif
