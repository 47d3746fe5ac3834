/* SPDX-License-Identifier: MIT */
/*
 * A server and clients of delegrpc or shmipc in one thread, for cases that both layers share. A
 * program first includes the layer's test/rpc.h.
 */
#ifndef SUPPORT_RPCSOLO_H
#define SUPPORT_RPCSOLO_H

#include "base/shm.h"
#include "support/rpcnew.h"

/* A request that was received; its payload is its value. */
struct rpcsolo_req {
	uint64_t client, id, value;
};

static int receive(struct rpc_server *s, struct rpcsolo_req *r)
{
	struct rpc_req q;

	if (!rpc_recv(s, &q))
		return 0;
	CHECK_EQ(q.len, sizeof(r->value));
	memcpy(&r->value, q.payload, sizeof(r->value));
	r->client = q.client;
	r->id = q.id;
	rpc_taken(s);
	return 1;
}

static void answer(struct rpc_server *s, const struct rpcsolo_req *r)
{
	CHECK_EQ(RPC(server_reply)(s, r->client, r->id, &r->value, sizeof(r->value)), 0);
}

static struct rpc_server *server_new(uint32_t clients)
{
	struct rpc_attr attr = {.max_clients = clients};

	return server_with(&attr);
}

static void call(struct rpc_client *c, uint64_t value)
{
	CHECK_EQ(RPC(client_call)(c, &value, sizeof(value), value), 0);
}

static void check_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	uint64_t value;

	CHECK_EQ(len, sizeof(value));
	memcpy(&value, resp, sizeof(value));
	CHECK_EQ(value, token);
}

static int poll_client(struct rpc_client *c)
{
	return RPC(client_poll)(c, check_answer, NULL);
}

/* Answers the requests that have arrived, and returns how many. Does not flush. */
static int serve(struct rpc_server *s)
{
	struct rpcsolo_req r;
	int n = 0;

	while (RPC(server_poll)(s) > 0)
		for (; receive(s, &r); n++)
			answer(s, &r);
	return n;
}

#endif
