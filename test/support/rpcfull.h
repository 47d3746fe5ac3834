/* SPDX-License-Identifier: MIT */
/*
 * delegrpc or shmipc in a /dev/shm that is too small. A program first includes the layer's
 * test/rpc.h. This header defines main().
 */
#ifndef SUPPORT_RPCFULL_H
#define SUPPORT_RPCFULL_H

#include <errno.h>

#include "support/rpcecho.h"
#include "support/smallshm.h"
#include "support/test.h"

static void full_answered(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK_EQ(memcmp(resp, &token, sizeof(token)), 0);
}

/* Needs a /dev/shm with room for the region of one client, but not for that of many. */
TEST(region_too_large)
{
	const struct rpc_attr small = {.max_clients = 1};
	uint64_t answer;
	SERVER *s;
	CLIENT *c;

	CHECK_EQ(RPC(server_create)("full", NULL, &s), -ENOSPC);
	CHECK_EQ(RPC(client_connect)("full", NULL, &c), -ENOENT);
	CHECK(access("/dev/shm/" RPC_PREFIX ".full", F_OK) != 0);
	CHECK_EQ(RPC(server_create)("full", &small, &s), 0);
	CHECK_EQ(RPC(client_connect)("full", NULL, &c), 0);
	for (uint64_t i = 0; i < 1000; i++) { /* each page is touched */
		CHECK_EQ(RPC(client_call)(c, &i, sizeof(i), i), 0);
		CHECK_EQ(RPC(client_poll)(c, full_answered, NULL), 0);
		CHECK_EQ(rpc_echo(s), 1);
		CHECK_EQ(RPC(client_poll)(c, full_answered, NULL), 1);
	}
	CHECK_EQ(RPC(client_call_wait)(c, "", 1, &answer, sizeof(answer), 0, NULL), -ETIMEDOUT);
}

int main(int argc, char **argv)
{
	int skip = smallshm_mount((size_t)128 * 1024);

	return skip ? skip : test_main(argc, argv);
}

#endif
