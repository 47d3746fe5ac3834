/* SPDX-License-Identifier: MIT */
/*
 * The hammer (fdhammer.h) of delegrpc and shmipc. A program first includes the layer's test/rpc.h.
 */
#ifndef SUPPORT_RPCHAMMER_H
#define SUPPORT_RPCHAMMER_H

#include "support/fdhammer.h"
#include "support/rpclayer.h"

static void *hammer_create(const char *name, int *fd_p)
{
	const struct rpc_attr attr = {.max_clients = FDHAMMER_CLIENTS,
		.rpc_depth = 8,
		.req_size = 8,
		.resp_size = 8};
	struct rpc_server *s;

	CHECK_EQ(RPC(server_create)(name, &attr, &s), 0);
	*fd_p = RPC(server_fd)(s);
	return s;
}

static void hammer_destroy(void *s)
{
	RPC(server_destroy)(s);
}

static int hammer_call(void *c, uint64_t token)
{
	return RPC(client_call)(c, &token, sizeof(token), token);
}

static void *hammer_connect(const char *name, uint32_t index)
{
	struct rpc_client *c;

	CHECK_EQ(RPC(client_connect)(name, NULL, &c), 0);
	return c;
}

static void hammer_disconnect(void *c)
{
	RPC(client_disconnect)(c);
}

static int hammer_serve(void *s)
{
	struct rpc_req r;
	uint64_t v;
	int n = 0;

	CHECK(RPC(server_poll)(s) >= 0);
	for (; rpc_recv(s, &r); n++) {
		memcpy(&v, r.payload, sizeof(v));
		v = ~v;
		CHECK_EQ(RPC(server_reply)(s, r.client, r.id, &v, sizeof(v)), 0);
	}
	rpc_taken(s);
	return n;
}

static int hammer_server_arm(void *s)
{
	return RPC(server_arm)(s);
}

#define HAMMER_CLIENT(prefix) FDHAMMER_CLIENT(prefix)
HAMMER_CLIENT(RPC(client))

FDHAMMER_LAYER;

#endif
