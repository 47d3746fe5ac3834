/* SPDX-License-Identifier: MIT */
/* Counts how many locks a client of shmipc tests when it connects. */
#include "rpc.h"
#include "support/rpclooks.h"

TEST(connect_looks)
{
	/* If all places are taken, the lock of each is tested once. */
	SERVER *s = looks_server(CLIENTS + 1);

	/* A place that was given back and cleaned by the server is found without a search. */
	CHECK_EQ(shmipc_server_poll(s), 0);
	shmipc_client_disconnect(clients[CLIENTS - 1]);
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK(looks_of_connect(CLIENTS - 1) <= 2);
	looks_end();
}
