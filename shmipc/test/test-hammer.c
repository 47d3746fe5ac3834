/* SPDX-License-Identifier: MIT */
/*
 * A server and clients that sleep in epoll as often as they can.
 *
 *	test-shmipc-hammer [CALLS]	calls of each client, in each run
 */
#include "rpc.h"
#include "support/rpchammer.h"

static const struct shmipc_attr hammer_attr = {.max_clients = FDHAMMER_CLIENTS,
	.depth = 8,
	.req_size = 8,
	.resp_size = 8};
