/* SPDX-License-Identifier: MIT */
/* Clients that cannot wake a server that sleeps on its descriptor. */
#include "shmipc.h"

#define RPC_LAYER shmipc
#include "support/reachtest.h"
#include "layout.h"

static int serve(struct shmipc_server *s)
{
	struct shmipc_req r;
	uint64_t word;
	int n = 0;

	while (shmipc_server_poll(s) > 0)
		for (; shmipc_server_recv(s, &r, &word, sizeof(word)) > 0; n++)
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &word, r.len), 0);
	shmipc_server_flush(s);
	return n;
}

static void forge_netns(const char *name, int64_t by)
{
	struct shm_region r;

	CHECK_EQ(shm_attach(SHMIPC_PREFIX, name, sizeof(struct shmipc_header), &r), 0);
	((struct shmipc_header *)r.addr)->server_addr.netns += (uint64_t)by;
	shm_close(&r);
}

static void forge_state(const char *name, uint32_t state)
{
	struct shm_region r;

	CHECK_EQ(shm_attach(SHMIPC_PREFIX, name, sizeof(struct shmipc_header), &r), 0);
	__atomic_store_n(&((struct shmipc_header *)r.addr)->server_state, state, __ATOMIC_SEQ_CST);
	shm_close(&r);
}

int main(int argc, char **argv)
{
	return reachtest_main(argc, argv);
}
