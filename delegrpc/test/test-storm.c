/* SPDX-License-Identifier: MIT */
/* Storms over delegrpc. */
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

static int rpcstorm_look_at(const char *name, struct rpcstorm_look *look_p, uint32_t *seen_p)
{
	struct delegrpc_look_region look;
	int err = delegrpc_look(name, &look, sizeof(look), rpcstorm_seen, seen_p);

	if (err)
		return err;
	look_p->shape = (struct rpcstorm_shape){.clients = look.attr.max_clients,
		.ring = look.attr.ring_depth,
		.depth = look.attr.resp_depth,
		.req = look.attr.req_size,
		.resp = look.attr.resp_size};
	look_p->clients = look.clients;
	look_p->dead = look.dead_clients;
	look_p->in_use = look.in_use;
	return 0;
}

static const struct rpcstorm_shape rpcstorm_defaults = {.clients = 64,
	.depth = 64,
	.req = 48,
	.resp = 56};
static const struct rpcstorm_shape rpcstorm_beyond = {.clients = DELEGRPC_MAX_CLIENTS + 1,
	.depth = DELEGRPC_MAX_RESP_DEPTH + 1,
	.req = DELEGRPC_MAX_PAYLOAD + 1,
	.resp = DELEGRPC_MAX_PAYLOAD + 1};

int main(int argc, char **argv)
{
	return storm_main(argc, argv, rpcstorm_seed);
}
