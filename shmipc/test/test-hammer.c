/* SPDX-License-Identifier: MIT */
/*
 * A server and clients that sleep in epoll as often as they can.
 *
 *	test-shmipc-hammer [CALLS]	calls of each client, in each run
 */
#include "support/fdhammer.h"
#include "shmipc.h"

static void *hammer_create(const char *name, int *fd_p)
{
	struct shmipc_attr attr = {.max_clients = FDHAMMER_CLIENTS,
		.depth = 8,
		.req_size = 8,
		.resp_size = 8};
	struct shmipc_server *s;

	CHECK_EQ(shmipc_server_create(name, &attr, &s), 0);
	*fd_p = shmipc_server_fd(s);
	return s;
}

FDHAMMER_REGION(shmipc)

static int hammer_serve(void *s)
{
	struct shmipc_req r;
	uint64_t v;
	int n = 0;

	shmipc_server_poll(s);
	for (; shmipc_server_recv(s, &r, &v, sizeof(v)) == 1; n++) {
		v = ~v;
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &v, sizeof(v)), 0);
	}
	return n;
}

FDHAMMER_LAYER(0);

int main(int argc, char **argv)
{
	return fdhammer_main(&layer, argc, argv);
}
