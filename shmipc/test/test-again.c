/* SPDX-License-Identifier: MIT */
/* Clients of shmipc that wait for a server, and that outlive one. */
#include "rpc.h"
#include "support/rpcagain.h"

/*
 * A size that was 0 may differ in the next region. Here it is `pushes`, which moves the extra
 * buffer. Both sides must find the buffer at the same place.
 */
TEST(extra_of_the_next_region)
{
	struct shmipc_attr attr = {.size = sizeof(attr), .extra_size = 8}, seen;
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();
	struct again_tokens t = {0};
	struct rpc_req r;

	shmipc_server_destroy(s);
	again_bereave(c, &t);
	attr.pushes = 4;
	s = server_with(&attr);
	CHECK_EQ(shmipc_client_reconnect(c, SHMIPC_FOREVER), 0);
	shmipc_client_get_attr(c, &seen, sizeof(seen));
	CHECK_EQ(seen.pushes, 4);
	memcpy(shmipc_client_extra(c), "written", 8);
	again_call(c, &t, 1);
	shmipc_client_flush(c);
	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(rpc_recv(s, &r), 1);
	CHECK_EQ(memcmp(shmipc_server_extra(s, r.client), "written", 8), 0);
}
