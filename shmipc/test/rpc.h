/* SPDX-License-Identifier: MIT */
/* shmipc for the cases that it shares with delegrpc. */
#ifndef SHMIPC_TEST_RPC_H
#define SHMIPC_TEST_RPC_H

#include "shmipc.h"

#define RPC_LAYER shmipc
#include "support/rpcsolo.h"

static int receive(struct shmipc_server *s, struct rpcsolo_req *r)
{
	struct shmipc_req q;

	if (!shmipc_server_recv(s, &q, &r->value, sizeof(r->value)))
		return 0;
	CHECK_EQ(q.len, sizeof(r->value));
	r->client = q.client;
	r->id = q.id;
	return 1;
}

static void answer(struct shmipc_server *s, const struct rpcsolo_req *r)
{
	CHECK_EQ(shmipc_server_reply(s, r->client, (uint32_t)r->id, &r->value, sizeof(r->value)),
		0);
}

#endif
