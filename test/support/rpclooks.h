/* SPDX-License-Identifier: MIT */
/*
 * Counts how often locks are set or tested when many clients of delegrpc or shmipc connect.
 * A program first includes the layer's test/rpc.h.
 */
#ifndef SUPPORT_RPCLOOKS_H
#define SUPPORT_RPCLOOKS_H

#include <errno.h>
#include <sys/resource.h>

#include "support/locklooks.h"
#include "support/rpcnew.h"

#define CLIENTS 1000

static struct rpc_client *clients[CLIENTS];

static uint64_t looks_of_connect(uint32_t i)
{
	uint64_t looks = lock_looks;

	clients[i] = client_new();
	return lock_looks - looks;
}

/*
 * Creates a server, which it returns, and connects CLIENTS clients. A connect must make at most two
 * system calls that set or test a lock, however many clients there are, and at most @most if no
 * place is free.
 */
static struct rpc_server *looks_server(uint64_t most)
{
	const struct rpc_attr attr = {.max_clients = CLIENTS,
		.rpc_depth = 1,
		.req_size = 8,
		.resp_size = 8};
	const struct rlimit limit = {2 * CLIENTS, 2 * CLIENTS};
	struct rpc_server *s = server_with(&attr);
	struct rpc_client *c;

	setrlimit(RLIMIT_NOFILE, &limit);
	for (uint32_t i = 0; i < CLIENTS; i++)
		CHECK(looks_of_connect(i) <= 2);
	lock_looks = 0;
	CHECK_EQ(RPC(client_connect)(test_name, NULL, &c), -EUSERS);
	CHECK(lock_looks <= most);
	return s;
}

static void looks_end(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++)
		RPC(client_disconnect)(clients[i]);
}

#endif
