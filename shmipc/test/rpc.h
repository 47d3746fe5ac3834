/* SPDX-License-Identifier: MIT */
/* Defines the names that the tests shared with delegrpc use, for shmipc. */
#ifndef SHMIPC_TEST_RPC_H
#define SHMIPC_TEST_RPC_H

#include "shmipc.h"

#define RPC_LAYER shmipc
#define RPC_CONSTANT(name) SHMIPC_##name
#define rpc_depth depth
#define RPC_PUSHES /* the server can push to a client */
#include "support/rpclayer.h"

static inline int rpc_recv(struct shmipc_server *s, struct rpc_req *r)
{
	static _Thread_local _Alignas(16) unsigned char buf[8192];
	struct shmipc_req q;

	if (!shmipc_server_recv(s, &q, buf, sizeof(buf)))
		return 0;
	*r = (struct rpc_req){q.client, q.id, q.len, buf};
	return 1;
}

/* Nothing to do: a received request has been copied. */
static inline void rpc_taken(struct shmipc_server *s)
{
}

#endif
