/* SPDX-License-Identifier: MIT */
/* flux against other rings: node 0 serves, every other node is a client. */
#include "flux.h"

#include "base/rpcbench.h"

static int setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct flux_attr attr = {
		.nodes = cfg->clients + 1,
		.max_inflight = cfg->queue_depth,
		.payload_size = cfg->req_size,
		.reply_size = cfg->resp_size,
	};
	struct flux *f;
	int r = flux_create(&attr, &f);

	if (r < 0)
		return r;
	server->handle = flux_node(f, 0);
	for (uint32_t i = 0; i < cfg->clients; i++)
		clients[i].handle = flux_node(f, i + 1);
	*state_p = f;
	return 0;
}

static void teardown(void *state)
{
	flux_destroy(state);
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

ALWAYS_INLINE void flush(struct rpcbench_client *c)
{
	/* The poll that follows flushes. */
}

ALWAYS_INLINE bool idle(struct rpcbench_client *c, uint64_t ns)
{
	return flux_wait(c->handle, ns);
}

static void client(struct rpcbench_client *c)
{
	rpcbench_client_run(c, call, poll, flush, idle);
}

ALWAYS_INLINE int serve(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size)
{
	uint64_t req[RPCBENCH_WORDS], resp[RPCBENCH_WORDS], token;
	uint32_t from, len;
	int n = 0;

	while (n < FLUX_TURN &&
		flux_try_recv_raw(s->handle, &from, &token, req, req_size, &len) == 1) {
		rpcbench_answer(req, req_size, resp, resp_size);
		flux_reply(s->handle, token, resp, resp_size);
		n++;
	}
	return n;
}

ALWAYS_INLINE bool server_idle(struct rpcbench_server *s, uint64_t ns)
{
	return flux_wait(s->handle, ns);
}

static void server(struct rpcbench_server *s)
{
	rpcbench_server_run(s, serve, server_idle);
}

int main(int argc, char **argv)
{
	static const struct rpcbench_impl flux = {"flux", setup, teardown, client, server, false};

	return rpcbench_main(&flux, argc, argv);
}
