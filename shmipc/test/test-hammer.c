/* SPDX-License-Identifier: MIT */
/*
 * Server and clients that sleep in epoll as often as they can.
 *
 *	test-shmipc-hammer [CALLS]	of each client, in each run
 */
#include "base/fdhammer.h"
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

static void hammer_destroy(void *s)
{
	shmipc_server_destroy(s);
}

static int hammer_call(void *c, uint64_t token)
{
	return shmipc_client_call(c, &token, sizeof(token), token);
}

FDHAMMER_CLIENT(shmipc_client)

static void *hammer_connect(const char *name, uint32_t index)
{
	struct shmipc_client *c;

	CHECK_EQ(shmipc_client_connect(name, NULL, &c), 0);
	return c;
}

static void hammer_disconnect(void *c)
{
	shmipc_client_disconnect(c);
}

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

static int hammer_server_arm(void *s)
{
	return shmipc_server_arm(s);
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
