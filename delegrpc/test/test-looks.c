/* SPDX-License-Identifier: MIT */
/* Counts how many locks a client of delegrpc tests when it connects. */
#include "rpc.h"
#include "raw.h"
#include "support/rpclooks.h"

TEST(connect_looks)
{
	/* If all ids are taken, the lock of each is tested at most twice. */
	SERVER *s = looks_server(2 * CLIENTS + 1);
	struct delegrpc_client *c;
	RAW *raw;

	/*
	 * At most two tests of locks find an id that was given back. An id whose client died with
	 * `taken` set is found, too.
	 */
	delegrpc_client_disconnect(clients[CLIENTS - 1]);
	CHECK(looks_of_connect(CLIENTS - 1) <= 2);
	delegrpc_client_disconnect(clients[CLIENTS - 1]);
	raw = raw_open(test_name);
	raw->lines[CLIENTS - 1].taken = 1;
	looks_of_connect(CLIENTS - 1);
	/* The field `taken` is only a hint: no client gets the id of a living client. */
	for (uint32_t i = 0; i < CLIENTS; i++)
		raw->lines[i].taken = 0;
	CHECK_EQ(delegrpc_client_connect(test_name, NULL, &c), -EUSERS);
	delegrpc_client_disconnect(clients[7]);
	for (uint32_t i = 0; i < CLIENTS; i++)
		raw->lines[i].taken = i * 3;
	looks_of_connect(7);
	CHECK_EQ(delegrpc_client_index(clients[7]), 7);
	looks_end();
}
