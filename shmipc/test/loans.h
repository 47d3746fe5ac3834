/* SPDX-License-Identifier: MIT */
/* Helpers that the tests of loans share. */
#ifndef SHMIPC_TEST_LOANS_H
#define SHMIPC_TEST_LOANS_H

#include <errno.h>

#include "common.h"
#include "loan.h"

#define REQ 200 /* not a multiple of a cache line */
#define RESP 4096
#define LOANS 3

static const struct shmipc_attr loan_attr = {.size = sizeof(struct shmipc_attr),
	.max_clients = 2,
	.depth = 8,
	.req_size = 32,
	.resp_size = 32,
	.loans = LOANS,
	.loan_req_size = REQ,
	.loan_resp_size = RESP};

static inline void fill(void *at, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		((unsigned char *)at)[i] = (unsigned char)(test_rand(&seed) >> 32);
}

static inline void check(const void *at, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		CHECK_EQ(((const unsigned char *)at)[i], (unsigned char)(test_rand(&seed) >> 32));
}

static inline void *loan(struct shmipc_client *c)
{
	void *at = NULL;

	CHECK_EQ(shmipc_client_loan(c, &at), 0);
	CHECK_EQ((uintptr_t)at % 64, 0);
	return at;
}

/* Makes a call with a loan. The token is the seed of its bytes. */
static inline void commit(struct shmipc_client *c, uint32_t len, uint64_t token)
{
	void *at = loan(c);

	fill(at, len, token);
	CHECK_EQ(shmipc_client_commit(c, at, len, token), 0);
	shmipc_client_flush(c);
}

/* Answers with the bytes of the request, in the loan, or in the ring if the call has no loan. */
static inline void answer(void *arg, const struct shmipc_req *r, const void *payload)
{
	struct shmipc_server *s = arg;
	void *a;
	int err = shmipc_server_loan(s, r->client, r->id, &a);

	if (err) {
		CHECK_EQ(err, -EINVAL);
		CHECK_EQ(shmipc_server_reply(s, r->client, r->id, payload, r->len), 0);
		return;
	}
	memcpy(a, payload, r->len);
	CHECK_EQ(shmipc_server_commit(s, r->client, r->id, r->len), 0);
}

static inline void check_echo(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	check(resp, len, token);
	++*(uint32_t *)arg;
}

#endif
