/* SPDX-License-Identifier: MIT */
/* shmipc in the loops of rpcbench.h: one server, each client with a connection of its own. */
#include "shmipc.h"

#include <unistd.h>

#include "loops.h"

struct sides {
	struct shmipc_server *server;
	struct shmipc_client *clients[RPCBENCH_CLIENTS];
};

static void teardown(void *state)
{
	struct sides *sides = state;

	for (uint32_t i = 0; i < RPCBENCH_CLIENTS; i++)
		shmipc_client_disconnect(sides->clients[i]);
	shmipc_server_destroy(sides->server);
	free(sides);
}

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct shmipc_attr attr = {
		.max_clients = cfg->clients,
		.depth = cfg->queue_depth,
		.req_size = cfg->req_size,
		.resp_size = cfg->resp_size,
	};
	struct sides *sides = calloc(1, sizeof(*sides));
	char name[64];
	int err;

	if (!sides)
		return -ENOMEM;
	snprintf(name, sizeof(name), "bench.%d", (int)getpid());
	err = shmipc_server_create(name, &attr, &sides->server);
	server->handle = sides->server;
	for (uint32_t i = 0; !err && i < cfg->clients; i++) {
		err = shmipc_client_connect(name, &attr, &sides->clients[i]);
		clients[i].handle = sides->clients[i];
	}
	if (!err)
		err = shmipc_server_unlink(sides->server);
	if (err) {
		teardown(sides);
		return err;
	}
	*state_p = sides;
	return 0;
}

ALWAYS_INLINE int call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	return shmipc_client_call(c->handle, req, len, token);
}

ALWAYS_INLINE void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	rpcbench_response(arg, token, resp, len);
	rpcbench_again(arg, call);
}

ALWAYS_INLINE int poll(struct rpcbench_client *c)
{
	return shmipc_client_poll(c->handle, on_response, c);
}

ALWAYS_INLINE void flush(struct rpcbench_client *c)
{
	/* The next poll publishes. */
}

ALWAYS_INLINE bool client_wait(struct rpcbench_client *c, uint64_t ns)
{
	return shmipc_client_wait(c->handle, ns) != 0;
}

static void client(struct rpcbench_client *c)
{
	static const struct rpcbench_client_ops ops = {call, poll, flush, client_wait};

	rpcbench_client_run(c, &ops);
}

ALWAYS_INLINE void server_poll(struct rpcbench_server *s)
{
	shmipc_server_poll(s->handle);
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

ALWAYS_INLINE void reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	shmipc_server_reply(s->handle, r->client, (uint32_t)r->id, resp, len);
}

ALWAYS_INLINE void served(struct rpcbench_server *s)
{
	/* Collected replies are published by the next poll, or by a receive that finds nothing. */
}

ALWAYS_INLINE void server_wait(struct rpcbench_server *s, uint64_t ns)
{
	shmipc_server_wait(s->handle, ns);
}

static void server(struct rpcbench_server *s)
{
	static const struct rpcbench_server_ops ops = {server_poll, recv, reply, served,
		server_wait, NULL};

	rpcbench_server_run(s, &ops);
}

const struct rpcbench_impl shmipc_rpcbench = {"shmipc", setup, teardown, client, server, false};
