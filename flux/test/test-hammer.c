/* SPDX-License-Identifier: MIT */
/*
 * Nodes that sleep in epoll as often as they can: one serves, the others call it.
 *
 *	test-flux-hammer [CALLS]	of each caller
 */
#include "base/fdhammer.h"
#include "flux.h"

#define SERVER FDHAMMER_CLIENTS /* its index */

static struct flux *net;
static uint32_t calls = 10000;

static int hammer_call(void *c, uint64_t token)
{
	return flux_call(c, SERVER, &token, sizeof(token), token);
}

static int hammer_poll(void *c, struct fdhammer_client *t)
{
	return flux_poll(c, fdhammer_answer, t);
}

static int hammer_fd(void *c)
{
	return flux_fd(c);
}

static int hammer_arm(void *c)
{
	return flux_arm(c);
}

static int hammer_wait(void *c)
{
	return flux_wait(c, NSEC_PER_SEC);
}

static void *hammer_connect(uint32_t index)
{
	return flux_node(net, index);
}

static void hammer_disconnect(void *c)
{
	CHECK_EQ(flux_pending(c), 0);
}

static int hammer_serve(void *s)
{
	uint64_t call, v;
	uint32_t from, len;
	int n = 0;

	for (; flux_try_recv_raw(s, &from, &call, &v, sizeof(v), &len) == 1; n++) {
		CHECK_EQ(len, sizeof(v));
		CHECK_EQ(v >> 32, from);
		v = ~v;
		CHECK_EQ(flux_reply(s, call, &v, sizeof(v)), 0);
	}
	return n;
}

static int hammer_server_arm(void *s)
{
	return flux_arm(s);
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

static void threads(void)
{
	struct flux_attr attr = {.nodes = FDHAMMER_CLIENTS + 1,
		.max_inflight = 8,
		.payload_size = sizeof(uint64_t)};
	struct flux_node *s;

	CHECK_EQ(flux_create(&attr, &net), 0);
	s = flux_node(net, SERVER);
	fdhammer(&layer, s, flux_fd(s), calls, fdhammer_threads);
	flux_destroy(net);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {TEST(threads)};

	if (argc > 1)
		calls = (uint32_t)atoi(argv[1]);
	return test_main(tests, ARRAY_SIZE(tests), 1, argv);
}
