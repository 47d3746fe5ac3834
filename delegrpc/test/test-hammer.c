/* SPDX-License-Identifier: MIT */
/*
 * Server and clients that sleep in epoll as often as they can.
 *
 *	test-delegrpc-hammer [CALLS]	of each client, in each run
 */
#include "base/fdhammer.h"
#include "delegrpc.h"

static void *hammer_create(const char *name, int *fd_p)
{
	struct delegrpc_attr attr = {.max_clients = FDHAMMER_CLIENTS, .resp_depth = 8};
	struct delegrpc_server *s;

	CHECK_EQ(delegrpc_server_create(name, &attr, &s), 0);
	*fd_p = delegrpc_server_fd(s);
	return s;
}

static void hammer_destroy(void *s)
{
	delegrpc_server_destroy(s);
}

static int hammer_call(void *c, uint64_t token)
{
	return delegrpc_client_call(c, &token, sizeof(token), token);
}

FDHAMMER_CLIENT(delegrpc_client)

static void *hammer_connect(const char *name, uint32_t index)
{
	struct delegrpc_client *c;

	CHECK_EQ(delegrpc_client_connect(name, NULL, &c), 0);
	return c;
}

static void hammer_disconnect(void *c)
{
	delegrpc_client_disconnect(c);
}

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

static int hammer_server_arm(void *s)
{
	return delegrpc_server_arm(s);
}

int main(int argc, char **argv)
{
	static const struct fdhammer_layer layer = {
		.create = hammer_create,
		.destroy = hammer_destroy,
		.call = hammer_call,
		.poll = hammer_poll,
		.fd = hammer_fd,
		.arm = hammer_arm,
		.wait = hammer_wait,
		.connect = hammer_connect,
		.disconnect = hammer_disconnect,
		.serve = hammer_serve,
		.server_arm = hammer_server_arm,
	};

	return fdhammer_main(&layer, argc, argv);
}
