/* SPDX-License-Identifier: MIT */
/* Storms over delegrpc. */
#include "delegrpc.h"

#include "base/rpcstorm.h"

static struct delegrpc_attr rpcstorm_attr(const struct rpcstorm_shape *shape)
{
	return (struct delegrpc_attr){.max_clients = shape->clients,
		.ring_depth = shape->ring,
		.resp_depth = shape->depth,
		.req_size = shape->req,
		.resp_size = shape->resp};
}

static int rpcstorm_server_poll(void *s, const uint64_t *skip)
{
	return delegrpc_server_poll(s);
}

static int rpcstorm_recv(void *s, struct rpcstorm_req *r)
{
	struct delegrpc_req q;

	if (!delegrpc_server_recv(s, &q))
		return 0;
	*r = (struct rpcstorm_req){q.client, q.id, q.len, q.payload};
	return 1;
}

static int rpcstorm_reply(void *s, uint64_t client, uint64_t id, const void *resp, uint32_t len)
{
	return delegrpc_server_reply(s, (uint32_t)client, id, resp, len);
}

static void rpcstorm_taken(void *s)
{
	delegrpc_server_advance_tail(s);
}

static void *rpcstorm_server_extra(void *s, uint64_t client)
{
	return NULL;
}

static void *rpcstorm_client_extra(void *c)
{
	return NULL;
}

static uint64_t rpcstorm_client_bad(void *c)
{
	struct delegrpc_client_stats st;

	delegrpc_client_get_stats(c, &st);
	return st.bad_responses;
}

#define rpcstorm_abort NULL /* calls end with the client */

RPCSTORM_LAYER(delegrpc);

int main(int argc, char **argv)
{
	return storm_main(argc, argv, rpcstorm_seed);
}
