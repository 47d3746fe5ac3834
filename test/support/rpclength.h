/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: each request and each response arrives with the length that it was
 * sent with. A program first includes the layer's test/rpc.h, and defines answer_all().
 */
#ifndef SUPPORT_RPCLENGTH_H
#define SUPPORT_RPCLENGTH_H

#include <pthread.h>

#include "support/lengthtest.h"
#include "support/rpcnew.h"

#define SIZE LENGTHTEST_SIZE
#define CALLS 2000
#define DEPTH 32

/*
 * Receives all requests and checks them: they are messages *n, *n + 1, and so on (lengthtest.h).
 * Adds their count to *n. Answers message i with message i + 1.
 */
static void answer_all(struct rpc_server *s, uint64_t *n, uint64_t *seed);

/* Creates a server for one client with DEPTH calls, with requests and responses of this size. */
static inline struct rpc_server *length_server(uint32_t size)
{
	const struct rpc_attr attr = {.max_clients = 1,
		.rpc_depth = DEPTH,
		.req_size = size,
		.resp_size = size};

	return server_with(&attr);
}

/* Messages are sent alone and in bursts, in both directions. */
TEST(lengths_travel)
{
	uint64_t seed = test_seed(), sent = 0, served = 0, ended = 0;
	SERVER *s = length_server(SIZE);
	CLIENT *c = client_new();
	unsigned char buf[SIZE];

	while (ended < CALLS) {
		uint32_t n = 1 + (uint32_t)(test_rand(&seed) % DEPTH);

		for (uint32_t i = 0; i < n; i++, sent++)
			CHECK_EQ(RPC(client_call)(c, lengthtest_message(buf, sent),
					 lengthtest_length(sent), sent),
				0);
		RPC(client_flush)(c);
		answer_all(s, &served, &seed);
		while (RPC(client_poll)(c, lengthtest_answer, &ended) > 0)
			;
		CHECK_EQ(ended, sent);
	}
}

struct echo {
	struct rpc_server *s;
	uint32_t len;
};

static void *echo_once(void *arg)
{
	struct echo *e = arg;
	struct rpc_req r;

	CHECK_EQ(RPC(server_wait)(e->s, UINT64_MAX), 1);
	CHECK_EQ(rpc_recv(e->s, &r), 1);
	CHECK_EQ(RPC(server_reply)(e->s, r.client, r.id, r.payload, e->len), 0);
	rpc_taken(e->s);
	RPC(server_flush)(e->s);
	return NULL;
}

TEST(blocking_call_says_how_long)
{
	SERVER *s = length_server(SIZE);
	CLIENT *c = client_new();
	unsigned char q[SIZE], a[SIZE];
	struct echo e = {.s = s};
	pthread_t t;

	memset(q, 7, sizeof(q));
	for (e.len = 0; e.len <= SIZE; e.len += 20) {
		uint32_t len = 1, copied = e.len < 50 ? e.len : 50;

		memset(a, LENGTHTEST_BEHIND, sizeof(a));
		CHECK_EQ(pthread_create(&t, NULL, echo_once, &e), 0);
		CHECK_EQ(RPC(client_call_wait)(c, q, SIZE, a, 50, UINT64_MAX, &len), 0);
		CHECK_EQ(pthread_join(t, NULL), 0);
		CHECK_EQ(len, e.len);
		test_filled(a, copied, 7);
		test_filled(a + copied, SIZE - copied, LENGTHTEST_BEHIND);
	}
}

#endif
