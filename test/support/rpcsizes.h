/* SPDX-License-Identifier: MIT */
/*
 * size_arrives() checks that each byte of requests and responses of the given sizes arrives, by
 * delegrpc or shmipc. A program first includes the layer's test/rpc.h.
 */
#ifndef SUPPORT_RPCSIZES_H
#define SUPPORT_RPCSIZES_H

#include "support/rpcnew.h"

#define SIZES_ROUNDS 12
#define SIZES_CALLS 27 /* of a round */

struct sizes {
	uint32_t req, resp, made, served, got;
	unsigned char *buf;
};

static void pattern(unsigned char *bytes, uint32_t size, uint32_t first)
{
	for (uint32_t k = 0; k < size; k++)
		bytes[k] = (unsigned char)(first + k);
}

static void pattern_check(const unsigned char *bytes, uint32_t size, uint32_t first)
{
	for (uint32_t k = 0; k < size; k++)
		CHECK_EQ(bytes[k], (unsigned char)(first + k));
}

static void on_sized(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct sizes *z = arg;

	CHECK_EQ(token, z->got++);
	CHECK_EQ(len, z->resp);
	CHECK_EQ((uintptr_t)resp % 8, 0);
	pattern_check(resp, len, 100 + (uint32_t)token);
}

static void serve_sized(struct rpc_server *s, struct sizes *z)
{
	struct rpc_req r;

	while (RPC(server_poll)(s) > 0)
		for (; rpc_recv(s, &r); z->served++) {
			CHECK_EQ(r.len, z->req);
			CHECK_EQ((uintptr_t)r.payload % 16, 0);
			pattern_check(r.payload, r.len, z->served);
			pattern(z->buf, z->resp, 100 + z->served);
			CHECK_EQ(RPC(server_reply)(s, r.client, r.id, z->buf, z->resp), 0);
		}
	rpc_taken(s);
}

static void size_arrives(uint32_t req, uint32_t resp)
{
	struct sizes z = {.req = req, .resp = resp, .buf = malloc(req + resp)};
	const struct rpc_attr attr = {.max_clients = 1,
		.rpc_depth = 32,
		.req_size = req,
		.resp_size = resp};
	SERVER *s = server_with(&attr);
	CLIENT *c;

	CHECK(z.buf);
	CHECK_EQ(RPC(client_connect)(test_name, &attr, &c), 0);
	for (uint32_t round = 0; round < SIZES_ROUNDS; round++) {
		for (uint32_t i = 0; i < SIZES_CALLS; i++, z.made++) {
			pattern(z.buf, req, z.made);
			CHECK_EQ(RPC(client_call)(c, z.buf, req, z.made), 0);
		}
		RPC(client_flush)(c);
		serve_sized(s, &z);
		while (RPC(client_poll)(c, on_sized, &z) > 0)
			;
		CHECK_EQ(z.served, z.made);
		CHECK_EQ(z.got, z.made);
	}
	free(z.buf);
}

#endif
