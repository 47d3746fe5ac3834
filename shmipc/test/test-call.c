/* SPDX-License-Identifier: MIT */
/* shmipc in one thread: blocking calls, and the numbers that its manual states. */
#include "common.h"

/* Returns the number of empty polls until a client checks for a sleeping server; at most 100. */
static uint32_t polls_until_fence(struct shmipc_client *c)
{
	uint32_t n = 0, got = 0;

	while (c->unfenced && n < 100) {
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 0);
		n++;
	}
	return n;
}

/* The numbers that the manual states. */
TEST(documented_numbers)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	uint32_t n = 0, got = 0, most = 0;
	struct shmipc_req r;
	struct msg m;

	CHECK(SHMIPC_MAX_CLIENTS == 4095 && SHMIPC_MAX_NAME == 194);
	CHECK(SHMIPC_MAX_DEPTH == 1 << 16 && SHMIPC_MAX_PAYLOAD == 1 << 20);
	calls(c, 20);
	CHECK_EQ(polls_until_fence(c), 8);
	CHECK_EQ(shmipc_server_poll(s), 1);
	for (; shmipc_server_recv(s, &r, &m, sizeof(m)) > 0; n++)
		CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
	CHECK_EQ(n, 8);
	while (shmipc_server_poll(s))
		while (shmipc_server_recv(s, &r, &m, sizeof(m)) > 0)
			CHECK_EQ(shmipc_server_reply(s, r.client, r.id, &m, sizeof(m)), 0);
	shmipc_server_flush(s);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 8);
	drain(c, &got);
	/*
	 * If each poll finds a response to a call made alone, there is a fence per 64 bursts and
	 * polls.
	 */
	CHECK_EQ(call_tag(c, 0), 0);
	shmipc_client_flush(c);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
	for (uint32_t i = 0; i < 100; i++) {
		CHECK_EQ(call_tag(c, i), 0);
		CHECK_EQ(serve_once(s), 1);
		CHECK_EQ(shmipc_client_poll(c, count_one, &got), 1);
		most = c->unfenced > most ? c->unfenced : most;
	}
	CHECK(most == 62 || most == 63);
}

TEST(blocking_call_gives_up_and_recovers)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct msg q = msg_of(5), a;
	uint8_t seen[1] = {0};
	struct tally t = {.first = 8, .size = 1, .seen = seen};

	for (uint32_t i = 0; i < msg_attr.depth; i++)
		CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 1000, NULL),
			-ETIMEDOUT);
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL), -EAGAIN);
	CHECK_EQ(shmipc_client_pending(c), msg_attr.depth);
	/* The responses to the calls that timed out are dropped. */
	while (serve_once(s))
		;
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 0);
	CHECK_EQ(shmipc_client_pending(c), 0);
	CHECK_EQ(call_tag(c, 8), 0);
	shmipc_client_flush(c);
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL), -EBUSY);
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(c, tally_take, &t), 1);
}

/* The ids of calls that timed out become free again without a poll by the caller. */
TEST(blocking_calls_alone_recover)
{
	SERVER *s = server_with(&msg_attr);
	CLIENT *c = client_new();
	struct msg q = msg_of(5), a;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < msg_attr.depth; i++)
			CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL),
				-ETIMEDOUT);
		CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL),
			-EAGAIN);
		while (serve_once(s))
			;
	}
	CHECK_EQ(shmipc_client_call_wait(c, &q, sizeof(q), &a, sizeof(a), 0, NULL), -ETIMEDOUT);
	CHECK_EQ(shmipc_client_pending(c), 1);
}
