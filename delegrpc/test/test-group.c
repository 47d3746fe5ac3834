/* SPDX-License-Identifier: MIT */
/* Regions for a user or for a group. */
#include "support/grouptest.h"
#include "delegrpc.h"

static void serve(void *s)
{
	struct delegrpc_req r;

	delegrpc_server_wait(s, NSEC_PER_MSEC);
	while (delegrpc_server_recv(s, &r))
		CHECK_EQ(delegrpc_server_reply(s, r.client, r.id, r.payload, r.len), 0);
	delegrpc_server_advance_tail(s);
	delegrpc_server_flush(s);
}

GROUPTEST_LAYER(delegrpc, DELEGRPC_SET_GID);

int main(int argc, char **argv)
{
	return grouptest_main(&layer, argc, argv);
}
