/* SPDX-License-Identifier: MIT */
/* Compares flux with other rings. Without --mesh node 0 serves, and the others are clients. */
#include "flux.h"

#include "rpcbench.h"

/* Creates a network whose nodes are the clients, after @servers nodes that serve. */
static int create(const struct rpcbench_config *cfg, uint32_t servers,
	struct rpcbench_client *clients, void **state_p)
{
	struct flux_attr attr = {
		.nodes = cfg->clients + servers,
		.max_inflight = cfg->queue_depth,
		.payload_size = cfg->req_size,
		.reply_size = cfg->resp_size,
	};
	struct flux *f;
	int r = flux_create(&attr, &f);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < cfg->clients; i++)
		clients[i].handle = flux_get_node(f, servers + i);
	*state_p = f;
	return 0;
}

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	int r = create(cfg, 1, clients, state_p);

	if (!r)
		server->handle = flux_get_node(*state_p, 0);
	return r;
}

static void teardown(void *state)
{
	flux_destroy(state);
}

static uint64_t bursts(void *state)
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
	return flux_call(c->handle, 0, req, len, token);
}

ALWAYS_INLINE void on_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	rpcbench_response(arg, token, payload, len);
	rpcbench_again(arg, call);
}

ALWAYS_INLINE int poll(struct rpcbench_client *c)
{
	return flux_poll(c->handle, on_response, c);
}

ALWAYS_INLINE bool client_wait(struct rpcbench_client *c, uint64_t ns)
{
	return flux_wait(c->handle, ns);
}

RPCBENCH_CLIENT(client, call, poll, NULL, client_wait)

/* This server makes no calls, but it polls like a server that makes calls. */
ALWAYS_INLINE void no_response(void *arg, uint64_t token, const void *payload, uint32_t len)
{
}

ALWAYS_INLINE void server_poll(struct rpcbench_server *s)
{
	flux_poll(s->handle, no_response, NULL);
}

ALWAYS_INLINE int recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	uint32_t from;

	return flux_try_recv_raw(s->handle, &from, &r->id, req, len, NULL) == 1;
}

ALWAYS_INLINE void reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	flux_reply(s->handle, r->id, resp, len);
}

ALWAYS_INLINE void server_wait(struct rpcbench_server *s, uint64_t ns)
{
	flux_wait(s->handle, ns);
}

/* `end` is NULL: polls, and receives that find nothing, publish collected answers. */
RPCBENCH_SERVER(server, server_poll, recv, reply, NULL, server_wait, NULL)

/* ---- the mesh: every node calls every other node ---- */

static int mesh_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	return create(cfg, 0, clients, state_p);
}

ALWAYS_INLINE int mesh_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	return flux_call(c->handle, c->to, req, len, token);
}

ALWAYS_INLINE int mesh_serve(struct rpcbench_client *c, uint32_t most)
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

ALWAYS_INLINE int mesh_poll(struct rpcbench_client *c)
{
	return flux_poll(c->handle, rpcbench_response, c);
}

RPCBENCH_MESH(mesh_turn, mesh_call, mesh_serve, mesh_poll)

static const struct rpcbench_impl mesh = {"flux", mesh_setup, teardown, .turn = mesh_turn,
	.bursts = bursts};

int main(int argc, char **argv)
{
	static const struct rpcbench_impl flux = {"flux", setup, teardown, client, server,
		.mesh = &mesh, .bursts = bursts};

	return rpcbench_main(&flux, NULL, argc, argv);
}
