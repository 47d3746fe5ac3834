/* SPDX-License-Identifier: MIT */
/*
 * Nodes that sleep in epoll as often as they can: one serves, the others call it.
 *
 *	test-flux-hammer [CALLS]	calls of each caller but the last one
 */
#define FDHAMMER_THREADS_ONLY /* a network is in one process */
#include "support/fdhammer.h"
#include "flux.h"

#define SERVER FDHAMMER_CLIENTS /* index of the node that serves */

static struct flux *net;

static void *hammer_create(const char *name, int *fd_p)
{
	struct flux_attr attr = {.nodes = FDHAMMER_CLIENTS + 1,
		.max_inflight = 8,
		.payload_size = sizeof(uint64_t)};
	struct flux_node *s;

	CHECK_EQ(flux_create(&attr, &net), 0);
	s = flux_get_node(net, SERVER);
	*fd_p = flux_fd(s);
	return s;
}

static void hammer_destroy(void *s)
{
	flux_destroy(net);
}

static int hammer_call(void *c, uint64_t token)
{
	return flux_call(c, SERVER, &token, sizeof(token), token);
}

FDHAMMER_CLIENT(flux)

static void *hammer_connect(const char *name, uint32_t index)
{
	return flux_get_node(net, index);
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

FDHAMMER_LAYER;
