/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "shmipc.h"

#define RPC_LAYER shmipc
#define RPC_SET_GID SHMIPC_SET_GID
#include "support/grouptest.h"

static void serve(struct shmipc_server *s)
{
	struct shmipc_req r;

	shmipc_server_wait(s, NSEC_PER_MSEC);
	for (uint64_t word; shmipc_server_recv(s, &r, &word, sizeof(word)) > 0;)
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &word, r.len), 0);
	shmipc_server_flush(s);
}

int main(int argc, char **argv)
{
	return grouptest_main(argc, argv);
}
