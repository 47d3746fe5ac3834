/* SPDX-License-Identifier: MIT */
/*
 * Helpers that the tests of shmipc share: payloads that can be checked, one poll of a
 * server.
 */
#ifndef SHMIPC_TEST_COMMON_H
#define SHMIPC_TEST_COMMON_H

#include <sched.h>

#include "rpc.h"
#include "support/rpcnew.h"

struct msg {
	uint64_t tag, copies[3]; /* all four are equal */
};

static inline struct msg msg_of(uint64_t tag)
{
	return (struct msg){tag, {tag, tag, tag}};
}

static inline void msg_check(const struct msg *m)
{
	CHECK(m->copies[0] == m->tag && m->copies[1] == m->tag && m->copies[2] == m->tag);
}

/* Returns the answer to a message with this tag. */
static inline uint64_t msg_answer(uint64_t tag)
{
	return tag * 0x9e3779b97f4a7c15ull + 1;
}

static const struct shmipc_attr msg_attr = {
	.max_clients = 8,
	.depth = 32,
	.req_size = sizeof(struct msg),
	.resp_size = sizeof(struct msg),
};

/* Polls once, and answers all requests found. Returns their number. */
static inline int serve_once(struct shmipc_server *s)
{
	struct shmipc_req r;
	struct msg q, a;
	int n = shmipc_server_poll(s), taken = 0;

	while (shmipc_server_recv(s, &r, &q, sizeof(q)) > 0) {
		msg_check(&q);
		a = msg_of(msg_answer(q.tag));
		if (r.id != SHMIPC_POST)
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &a, sizeof(a)), 0);
		taken++;
	}
	CHECK(taken ? n > 0 : n == 0);
	return taken;
}

/* Polls, which must find requests of one client, and receives one of them. */
static inline struct shmipc_req take_msg(struct shmipc_server *s, struct msg *m)
{
	struct shmipc_req r = {0};

	CHECK_EQ(shmipc_server_poll(s), 1);
	CHECK_EQ(shmipc_server_recv(s, &r, m, sizeof(*m)), 1);
	return r;
}

/* Counts responses and checks each: exactly one per token from first to first + size - 1. */
struct tally {
	uint64_t first; /* token and tag of the first call */
	uint32_t n, size, ended; /* ended: calls that ended without a response */
	uint8_t *seen;
};

static inline void tally_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct tally *t = arg;

	CHECK(token - t->first < t->size);
	CHECK_EQ(t->seen[token - t->first], 0);
	t->seen[token - t->first] = 1;
	if (resp) {
		struct msg m = *(const struct msg *)resp;

		msg_check(&m);
		CHECK(m.tag == msg_answer(token));
		t->n++;
	} else {
		t->ended++;
	}
}

static inline int call_tag(struct shmipc_client *c, uint64_t tag)
{
	struct msg m = msg_of(tag);

	return shmipc_client_call(c, &m, sizeof(m), tag);
}

/* Makes @n calls with the tags 0, 1, ... */
static inline void calls(struct shmipc_client *c, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		CHECK_EQ(call_tag(c, i), 0);
}

/* Counts responses. */
static inline void count_one(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	++*(uint32_t *)arg;
}

/* Polls until there is no response, and adds the number of responses to *got. */
static inline void drain(struct shmipc_client *c, uint32_t *got)
{
	while (shmipc_client_poll(c, count_one, got) > 0)
		;
}

/* Returns the number of messages that must still be added before the burst is published. */
static inline uint32_t burst_room(const struct cellring_burst *b)
{
	return b->to ? (uint32_t)(b->full - b->next) / b->to->stride : 0;
}

#endif
