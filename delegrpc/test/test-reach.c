/* SPDX-License-Identifier: MIT */
/* Clients that cannot wake a server that sleeps on its descriptor. */
#include "delegrpc.h"

#define RPC_LAYER delegrpc
#include "support/reachtest.h"
#include "raw.h"

static int serve(struct delegrpc_server *s)
{
	struct delegrpc_req r;
	int n = 0;

	while (delegrpc_server_poll(s) > 0)
		for (; delegrpc_server_recv(s, &r); n++)
			CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, r.payload, r.len), 0);
	delegrpc_server_advance_tail(s);
	delegrpc_server_flush(s);
	return n;
}

static void forge_netns(const char *name, int64_t by)
{
	struct raw raw;

	raw_open(name, &raw);
	raw.header->server_address.netns += (uint64_t)by;
	raw_close(&raw);
}

static void forge_state(const char *name, uint32_t state)
{
	struct raw raw;

	raw_open(name, &raw);
	__atomic_store_n(&raw.header->server_state, state, __ATOMIC_SEQ_CST);
	raw_close(&raw);
}

int main(int argc, char **argv)
{
	return reachtest_main(argc, argv);
}
