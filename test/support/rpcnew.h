/* SPDX-License-Identifier: MIT */
/* Makes servers and clients of delegrpc or shmipc, for regions with the name of the test. */
#ifndef SUPPORT_RPCNEW_H
#define SUPPORT_RPCNEW_H

#include "support/rpclayer.h"
#include "support/test.h"

static inline struct rpc_server *server_with(const struct rpc_attr *attr)
{
	struct rpc_server *s = NULL;

	CHECK_EQ(RPC(server_create)(test_name, attr, &s), 0);
	return s;
}

static inline struct rpc_client *client_new(void)
{
	struct rpc_client *c = NULL;

	CHECK_EQ(RPC(client_connect)(test_name, NULL, &c), 0);
	return c;
}

#endif
