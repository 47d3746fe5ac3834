/* SPDX-License-Identifier: MIT */
#ifndef SUPPORT_RPCECHO_H
#define SUPPORT_RPCECHO_H

#include "support/rpcnew.h"

/* Answers each request that has arrived with its own payload. Returns the number of requests. */
static inline int rpc_echo(struct rpc_server *s)
{
	struct rpc_req r;
	int n = 0;

	while (RPC(server_poll)(s) > 0)
		for (; rpc_recv(s, &r); n++)
			CHECK_EQ(RPC(server_reply)(s, r.client, r.id, r.payload, r.len), 0);
	rpc_taken(s);
	RPC(server_flush)(s);
	return n;
}

#endif
