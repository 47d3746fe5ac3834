/* SPDX-License-Identifier: MIT */
/* delegrpc in the loops of rpcbench.h: one server; all clients share the request ring. */
#include <unistd.h>

#include "delegrpc.h"

#include "loops.h"

struct state {
	struct delegrpc_server *server;
	struct delegrpc_client *clients[RPCBENCH_CLIENTS];
};

static void teardown(void *arg)
{
	struct state *st = arg;

	for (int i = 0; i < RPCBENCH_CLIENTS; i++)
		delegrpc_client_disconnect(st->clients[i]);
	delegrpc_server_destroy(st->server);
	free(st);
}

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct delegrpc_attr attr = {.max_clients = cfg->clients,
		.resp_depth = cfg->queue_depth,
		.req_size = cfg->req_size,
		.resp_size = cfg->resp_size};
	struct state *st = calloc(1, sizeof(*st));
	char name[64];
	int err;

	if (!st)
		return -ENOMEM;
	snprintf(name, sizeof(name), "bench.%d.%u.%u", (int)getpid(), cfg->clients,
		cfg->queue_depth);
	err = delegrpc_server_create(name, &attr, &st->server);
	for (uint32_t i = 0; !err && i < cfg->clients; i++)
		err = delegrpc_client_connect(name, &attr, &st->clients[i]);
	if (!err)
		err = delegrpc_server_unlink(st->server);
	if (err) {
		teardown(st);
		return err;
	}
	server->handle = st->server;
	for (uint32_t i = 0; i < cfg->clients; i++)
		clients[i].handle = st->clients[i];
	*state_p = st;
	return 0;
}

ALWAYS_INLINE int call(struct rpcbench_client *c, uint64_t token, const void *req, uint32_t len)
{
	return delegrpc_client_call(c->handle, req, len, token);
}

ALWAYS_INLINE void on_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	rpcbench_response(arg, token, resp, len);
	rpcbench_again(arg, call);
}

ALWAYS_INLINE int poll(struct rpcbench_client *c)
{
	return delegrpc_client_poll(c->handle, on_response, c);
}

ALWAYS_INLINE void flush(struct rpcbench_client *c)
{
	/* The next poll publishes. */
}

ALWAYS_INLINE bool client_wait(struct rpcbench_client *c, uint64_t ns)
{
	return delegrpc_client_wait(c->handle, ns) == 1;
}

static void client(struct rpcbench_client *c)
{
	static const struct rpcbench_client_ops ops = {call, poll, flush, client_wait};

	rpcbench_client_run(c, &ops);
}

ALWAYS_INLINE void server_poll(struct rpcbench_server *s)
{
	delegrpc_server_poll(s->handle);
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

ALWAYS_INLINE void reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	delegrpc_server_reply(s->handle, r->client, r->id, resp, len);
}

ALWAYS_INLINE void served(struct rpcbench_server *s)
{
	delegrpc_server_advance_tail(s->handle);
}

ALWAYS_INLINE void server_wait(struct rpcbench_server *s, uint64_t ns)
{
	delegrpc_server_wait(s->handle, ns);
}

static void server(struct rpcbench_server *s)
{
	static const struct rpcbench_server_ops ops = {server_poll, recv, reply, served,
		server_wait, NULL};

	rpcbench_server_run(s, &ops);
}

const struct rpcbench_impl delegrpc_rpcbench = {"delegrpc", setup, teardown, client, server, true};
