/* SPDX-License-Identifier: MIT */
/* Random schedules (storms) for shmipc. */
#include "rpc.h"
#include "support/rpcstorm.h"

static struct shmipc_attr rpcstorm_attr(const struct rpcstorm_shape *shape)
{
	return (struct shmipc_attr){.size = sizeof(struct shmipc_attr),
		.events = shape->events,
		.pushes = shape->pushes,
		.max_clients = shape->clients,
		.depth = shape->depth,
		.req_size = shape->req,
		.resp_size = shape->resp,
		.extra_size = shape->extra};
}

static int rpcstorm_server_poll(struct shmipc_server *s, const uint64_t *skip)
{
	return skip ? shmipc_server_poll_with_skip(s, skip) : shmipc_server_poll(s);
}

static void *rpcstorm_server_extra(struct shmipc_server *s, uint64_t client)
{
	return shmipc_server_extra(s, client);
}

static void *rpcstorm_client_extra(struct shmipc_client *c)
{
	return shmipc_client_extra(c);
}

static uint64_t rpcstorm_client_bad(struct shmipc_client *c)
{
	return 0; /* poll would already have returned -EPROTO */
}

static uint32_t rpcstorm_looked(const struct shmipc_look_region *look)
{
	return look->attr.depth;
}

static const struct rpcstorm_shape rpcstorm_defaults = {.clients = 64,
	.depth = 64,
	.req = 56,
	.resp = 56};
static const struct rpcstorm_shape rpcstorm_beyond = {.clients = SHMIPC_MAX_CLIENTS + 1,
	.depth = SHMIPC_MAX_DEPTH + 1,
	.req = SHMIPC_MAX_PAYLOAD + 1,
	.resp = SHMIPC_MAX_PAYLOAD + 1};
