/* SPDX-License-Identifier: MIT */
/*
 * A server and clients that sleep in epoll as often as they can.
 *
 *	test-delegrpc-hammer [CALLS]	calls of each client, in each run
 */
#include "support/fdhammer.h"
#include "delegrpc.h"

static void *hammer_create(const char *name, int *fd_p)
{
	struct delegrpc_attr attr = {.max_clients = FDHAMMER_CLIENTS, .resp_depth = 8};
	struct delegrpc_server *s;

	CHECK_EQ(delegrpc_server_create(name, &attr, &s), 0);
	*fd_p = delegrpc_server_fd(s);
	return s;
}

FDHAMMER_REGION(delegrpc)

static int hammer_serve(void *s)
{
	struct delegrpc_req r;
	uint64_t v;
	int n = 0;

	CHECK(delegrpc_server_poll(s) >= 0);
	for (; delegrpc_server_recv(s, &r); n++) {
		memcpy(&v, r.payload, sizeof(v));
		v = ~v;
		CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, &v, sizeof(v)), 0);
	}
	delegrpc_server_advance_tail(s);
	return n;
}

FDHAMMER_LAYER(0);

int main(int argc, char **argv)
{
	return fdhammer_main(&layer, argc, argv);
}
