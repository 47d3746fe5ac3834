/* SPDX-License-Identifier: MIT */
/* Helpers of tests with a server and clients in one thread. */
#ifndef DELEGRPC_TEST_SOLO_H
#define DELEGRPC_TEST_SOLO_H

#include "raw.h"
#include "rpc.h"
#include "support/rpcnew.h"

/* The responses that the response function has received. */
struct seen {
	uint32_t n;
	uint64_t token[256];
	uint32_t value[256];
};

static inline void note(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct seen *seen = arg;

	CHECK(seen->n < ARRAY_SIZE(seen->token));
	seen->token[seen->n] = token;
	memcpy(&seen->value[seen->n++], resp, 4);
}

static inline struct delegrpc_server *server_new(uint32_t clients, uint32_t ring, uint32_t resp)
{
	struct delegrpc_attr attr = {.max_clients = clients,
		.ring_depth = ring,
		.resp_depth = resp};

	return server_with(&attr);
}

static inline void call(struct delegrpc_client *c, uint32_t value)
{
	CHECK_EQ(delegrpc_client_call(c, &value, sizeof(value), value), 0);
}

/* Makes @n calls with the values 0, 1, ... */
static inline void calls(struct delegrpc_client *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		call(c, i);
}

/* call_out() and calls_out() also publish the calls. */
static inline void call_out(struct delegrpc_client *c, uint32_t value)
{
	call(c, value);
	CHECK_EQ(delegrpc_client_flush(c), 0);
}

static inline void calls_out(struct delegrpc_client *c, uint32_t n)
{
	calls(c, n);
	CHECK_EQ(delegrpc_client_flush(c), 0);
}

static inline uint32_t value_of(const struct delegrpc_req *r)
{
	uint32_t v;

	CHECK_EQ(r->len, sizeof(v));
	memcpy(&v, r->payload, sizeof(v));
	return v;
}

/* Receives one request, which must have arrived and carry this value. */
static inline struct delegrpc_req take(struct delegrpc_server *s, uint32_t value)
{
	struct delegrpc_req r;

	CHECK_EQ(delegrpc_server_recv(s, &r), 1);
	CHECK_EQ(value_of(&r), value);
	return r;
}

/* Makes a call and receives its request, which must be the only one. */
static inline struct delegrpc_req pass(struct delegrpc_client *c, struct delegrpc_server *s,
	uint32_t value)
{
	call_out(c, value);
	CHECK_EQ(delegrpc_server_poll(s), 1);
	return take(s, value);
}

static inline void answer(struct delegrpc_server *s, const struct delegrpc_req *r, uint32_t value)
{
	CHECK_EQ(delegrpc_server_reply(s, r->client, r->id, &value, sizeof(value)), 0);
}

/* Answers each request that has arrived with its value + 1000. Returns their number. */
static inline uint32_t serve(struct delegrpc_server *s)
{
	struct delegrpc_req r;
	uint32_t n = 0;

	while (delegrpc_server_poll(s) > 0)
		while (delegrpc_server_recv(s, &r)) {
			answer(s, &r, value_of(&r) + 1000);
			n++;
		}
	delegrpc_server_advance_tail(s);
	return n;
}

/*
 * Polls until the server has searched for slots that will never be filled, or a poll does not
 * return 0. Returns the last result.
 */
static inline int poll_stuck(struct delegrpc_server *s)
{
	int n = 0;

	for (int i = 0; i <= DELEGRPC_STUCK_POLLS && !n; i++)
		n = delegrpc_server_poll(s);
	return n;
}

#endif
