/* SPDX-License-Identifier: MIT */
/* The serve loop of delegrpc, and blocking calls while other calls are open. */
#include "rpc.h"
#include "support/rpcserve.h"

/* The slots of a ring that can be full are given back. */
TEST(serve_gives_room_back)
{
	const struct delegrpc_attr attr = {.max_clients = 1, .ring_depth = 16, .resp_depth = 64};
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();
	struct serve_calls t = {.c = c};

	for (uint32_t i = 0; i < 100; i++) {
		t.seen[0] = 0;
		serve_call(&t, 0);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		CHECK_EQ(delegrpc_server_serve(s, serve_echo, s, 4), 1);
		CHECK_EQ(delegrpc_client_poll(c, serve_answered, &t), 1);
	}
}
