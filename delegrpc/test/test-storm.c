/* SPDX-License-Identifier: MIT */
/* Random schedules (storms) for delegrpc. */
#include "rpc.h"
#include "support/rpcstorm.h"

static struct delegrpc_attr rpcstorm_attr(const struct rpcstorm_shape *shape)
{
	return (struct delegrpc_attr){.size = sizeof(struct delegrpc_attr),
		.events = shape->events,
		.max_clients = shape->clients,
		.ring_depth = shape->ring,
		.resp_depth = shape->depth,
		.req_size = shape->req,
		.resp_size = shape->resp};
}

static int rpcstorm_server_poll(struct delegrpc_server *s, const uint64_t *skip)
{
	return delegrpc_server_poll(s);
}

static void *rpcstorm_server_extra(struct delegrpc_server *s, uint64_t client)
{
	return NULL;
}

static void *rpcstorm_client_extra(struct delegrpc_client *c)
{
	return NULL;
}

static uint64_t rpcstorm_client_bad(struct delegrpc_client *c)
{
	return client_stats_of(c).bad_responses;
}

static uint32_t rpcstorm_looked(const struct delegrpc_look_region *look)
{
	CHECK(look->in_use <= look->attr.ring_depth);
	return look->attr.resp_depth;
}

static const struct rpcstorm_shape rpcstorm_defaults = {.clients = 64,
	.depth = 64,
	.req = 48,
	.resp = 56};
static const struct rpcstorm_shape rpcstorm_beyond = {.clients = DELEGRPC_MAX_CLIENTS + 1,
	.depth = DELEGRPC_MAX_RESP_DEPTH + 1,
	.req = DELEGRPC_MAX_PAYLOAD + 1,
	.resp = DELEGRPC_MAX_PAYLOAD + 1};
