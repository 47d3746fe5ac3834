/* SPDX-License-Identifier: MIT */
/* Regions for one user or for a group. */
#include "delegrpc.h"

#define RPC_LAYER delegrpc
#define RPC_SET_GID DELEGRPC_SET_GID
#include "support/grouptest.h"

static void serve(struct delegrpc_server *s)
{
	struct delegrpc_req r;

	delegrpc_server_wait(s, NSEC_PER_MSEC);
	while (delegrpc_server_recv(s, &r))
		CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, r.payload, r.len), 0);
	delegrpc_server_advance_tail(s);
	delegrpc_server_flush(s);
}

int main(int argc, char **argv)
{
	return grouptest_main(argc, argv);
}
