/* SPDX-License-Identifier: MIT */
/* Keeps track of calls by their tokens, for clients that outlive their server. */
#ifndef SUPPORT_RPCTOKENS_H
#define SUPPORT_RPCTOKENS_H

#include <errno.h>

#include "support/rpcecho.h"

static inline struct rpc_server *again_server(uint32_t clients, uint32_t req_size)
{
	const struct rpc_attr attr = {.max_clients = clients, .req_size = req_size};

	return server_with(&attr);
}

struct again_tokens {
	uint64_t open; /* bit t: the call with token t is in flight */
	uint32_t ended, answered; /* calls that ended without a response, and with one */
};

static inline void again_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct again_tokens *t = arg;

	CHECK(t->open >> token & 1);
	t->open &= ~(1ull << token);
	if (resp) {
		CHECK_EQ(memcmp(resp, &token, sizeof(token)), 0);
		t->answered++;
	} else {
		t->ended++;
	}
}

static inline void again_call(struct rpc_client *c, struct again_tokens *t, uint32_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		CHECK_EQ(RPC(client_call)(c, &i, sizeof(i), i), 0);
		t->open |= 1ull << i;
	}
}

/* Polls until the client has found that the server is gone. */
static inline void again_bereave(struct rpc_client *c, struct again_tokens *t)
{
	int n;

	do
		n = RPC(client_poll)(c, again_take, t);
	while (n >= 0);
	CHECK_EQ(n, -EPIPE);
}

#endif
