/* SPDX-License-Identifier: MIT */
/* Defines the names that the tests shared with shmipc use, for delegrpc. */
#ifndef DELEGRPC_TEST_RPC_H
#define DELEGRPC_TEST_RPC_H

#include "delegrpc.h"

#define RPC_LAYER delegrpc
#define RPC_CONSTANT(name) DELEGRPC_##name
#define rpc_depth resp_depth
#include "support/rpclayer.h"

static inline int rpc_recv(struct delegrpc_server *s, struct rpc_req *r)
{
	struct delegrpc_req q;

	if (!delegrpc_server_recv(s, &q))
		return 0;
	*r = (struct rpc_req){q.client, q.id, q.len, q.payload};
	return 1;
}

static inline void rpc_taken(struct delegrpc_server *s)
{
	delegrpc_server_advance_tail(s);
}

#endif
