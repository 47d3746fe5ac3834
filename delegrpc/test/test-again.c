/* SPDX-License-Identifier: MIT */
/* Clients of delegrpc that wait for a server, and that outlive one. */
#include "rpc.h"
#include "support/rpcagain.h"

/*
 * A call or a flush can be the first function to notice the server's end. Then
 * delegrpc_client_abort() first calls the response function for the responses that the server wrote
 * before its end.
 */
TEST(abort_follows_any_function)
{
	for (uint32_t flush = 0; flush < 2; flush++) {
		struct rpc_server *s = again_server(1, 8);
		struct again_tokens t = {0};
		struct delegrpc_client *c = client_new();
		uint64_t word = 60;

		again_call(c, &t, 20);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		CHECK_EQ(rpc_echo(s), 20);
		t.open |= 1ull << word;
		CHECK_EQ(delegrpc_client_call(c, &word, sizeof(word), word), 0);
		delegrpc_server_destroy(s);
		CHECK_EQ(flush ? delegrpc_client_flush(c) :
				 delegrpc_client_call(c, &word, sizeof(word), 1),
			-EPIPE);
		CHECK_EQ(delegrpc_client_abort(c, again_take, &t), 1);
		CHECK(!t.open && t.answered == 20 && t.ended == 1);
		CHECK_EQ(delegrpc_client_pending(c), 0);
		CHECK_EQ(delegrpc_client_reconnect(c, 0), -ENOENT);
		delegrpc_client_disconnect(c);
	}
}
