/* SPDX-License-Identifier: MIT */
/* Adapts delegrpc to the test cases that delegrpc and shmipc share. */
#ifndef DELEGRPC_TEST_RPC_H
#define DELEGRPC_TEST_RPC_H

#include "delegrpc.h"

#define RPC_LAYER delegrpc
#include "support/rpcsolo.h"

static int receive(struct delegrpc_server *s, struct rpcsolo_req *r)
{
	struct delegrpc_req q;

	if (!delegrpc_server_recv(s, &q))
		return 0;
	CHECK_EQ(q.len, sizeof(r->value));
	memcpy(&r->value, q.payload, sizeof(r->value));
	r->client = q.client;
	r->id = q.id;
	delegrpc_server_advance_tail(s);
	return 1;
}

static void answer(struct delegrpc_server *s, const struct rpcsolo_req *r)
{
	CHECK_EQ(delegrpc_server_reply(s, (uint32_t)r->client, r->id, &r->value, sizeof(r->value)),
		0);
}

#endif
