/* SPDX-License-Identifier: MIT */
/*
 * Server and clients that sleep in epoll as often as they can.
 *
 *	test-shmipc-hammer [CALLS]	of each client, in each run
 */
#include "base/fdhammer.h"
#include "shmipc.h"

static char name[64];
static uint32_t calls = 10000;

static int hammer_call(void *c, uint64_t token)
{
	return shmipc_client_call(c, &token, sizeof(token), token);
}

static int hammer_poll(void *c, struct fdhammer_client *t)
{
	return shmipc_client_poll(c, fdhammer_answer, t);
}

static int hammer_fd(void *c)
{
	return shmipc_client_fd(c);
}

static int hammer_arm(void *c)
{
	return shmipc_client_arm(c);
}

static int hammer_wait(void *c)
{
	return shmipc_client_wait(c, NSEC_PER_SEC);
}

static void *hammer_connect(uint32_t index)
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

static const struct fdhammer_layer layer = {
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

static void hammer(void (*run)(struct fdhammer *h, void *s, int fd))
{
	struct shmipc_attr attr = {.max_clients = FDHAMMER_CLIENTS,
		.depth = 8,
		.req_size = 8,
		.resp_size = 8};
	struct shmipc_server *s;

	CHECK_EQ(shmipc_server_create(name, &attr, &s), 0);
	fdhammer(&layer, s, shmipc_server_fd(s), calls, run);
	shmipc_server_destroy(s);
}

static void threads(void)
{
	hammer(fdhammer_threads);
}

static void processes(void)
{
	hammer(fdhammer_processes);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(threads), TEST(processes)};

	snprintf(name, sizeof(name), "hammer.%d", (int)getpid());
	if (argc > 1)
		calls = (uint32_t)atoi(argv[1]);
	return test_main(tests, ARRAY_SIZE(tests), 1, argv);
}
