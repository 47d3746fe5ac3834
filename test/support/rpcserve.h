/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: the serve loop, and blocking calls while other calls are open. A
 * program first includes the layer's test/rpc.h.
 */
#ifndef SUPPORT_RPCSERVE_H
#define SUPPORT_RPCSERVE_H

#include <errno.h>
#include <pthread.h>

#include "support/fdtest.h"
#include "support/rpcnew.h"

#define SERVE_CALLS 64

/* The calls of a client, by token; each request begins with its token. */
struct serve_calls {
	struct rpc_client *c;
	uint32_t answered, more; /* more: calls that serve_answered() has yet to make */
	uint8_t seen[SERVE_CALLS];
};

static inline void serve_call(struct serve_calls *t, uint64_t token)
{
	uint64_t words[4] = {token, token, token, token};

	CHECK_EQ(RPC(client_call)(t->c, words, 8 + 8 * (token % 4), token), 0);
}

static inline void serve_answered(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct serve_calls *t = arg;

	CHECK(token < SERVE_CALLS && !t->seen[token]);
	CHECK(len == sizeof(token) && !memcmp(resp, &token, sizeof(token)));
	t->seen[token] = 1;
	t->answered++;
	if (t->more)
		serve_call(t, SERVE_CALLS - t->more--);
}

/* State of serve_one(), which answers every third request at once, and keeps the others. */
struct serve_keeper {
	struct rpc_server *s;
	struct RPC(req) kept[SERVE_CALLS];
	uint64_t words[SERVE_CALLS];
	uint32_t n, served;
};

static inline void serve_one(void *arg, const struct RPC(req) * req, const void *payload)
{
	struct serve_keeper *k = arg;
	uint64_t token;

	memcpy(&token, payload, sizeof(token));
	CHECK_EQ(req->len, 8 + 8 * (token % 4));
	for (uint32_t i = 0; i < req->len / 8; i++)
		CHECK(!memcmp((const char *)payload + 8 * (size_t)i, &token, sizeof(token)));
	k->served++;
	if (token % 3 == 0) {
		CHECK_EQ(RPC(server_reply)(k->s, req->client, req->id, &token, 8), 0);
		return;
	}
	k->words[k->n] = token;
	k->kept[k->n++] = *req;
}

/* Requests are answered in the callback or later. server_serve() handles at most five here. */
TEST(serve_answers_now_or_later)
{
	const struct rpc_attr attr = {.max_clients = 1, .req_size = 32, .resp_size = 8};
	SERVER *s = server_with(&attr);
	CLIENT *c = client_new();
	struct serve_calls t = {.c = c};
	struct serve_keeper k = {.s = s};
	int n;

	CHECK_EQ(RPC(server_serve)(s, serve_one, &k, 5), 0);
	for (uint32_t round = 0; round < 50; round++) { /* goes round the rings several times */
		memset(t.seen, 0, sizeof(t.seen));
		t.answered = k.served = 0;
		for (uint64_t i = 0; i < 40; i++)
			serve_call(&t, i);
		RPC(client_flush)(c);
		while (k.served < 40) {
			uint32_t before = k.served;

			n = RPC(server_serve)(s, serve_one, &k, 5);
			CHECK(n > 0 && n <= 5);
			CHECK_EQ(k.served - before, n);
		}
		while (RPC(client_poll)(c, serve_answered, &t) > 0)
			;
		CHECK_EQ(t.answered, 14);
		while (k.n) {
			k.n--;
			CHECK_EQ(RPC(server_reply)(s, k.kept[k.n].client, k.kept[k.n].id,
					 &k.words[k.n], 8),
				0);
		}
		RPC(server_flush)(s);
		while (RPC(client_poll)(c, serve_answered, &t) > 0)
			;
		CHECK_EQ(t.answered, 40);
	}
}

/* Sleeping clients are woken before server_serve() returns. */
TEST(serve_wakes)
{
	SERVER *s = server_with(NULL);
	CLIENT *c = client_new();
	struct serve_calls t = {.c = c};
	struct serve_keeper k = {.s = s};

	CHECK(RPC(client_fd)(c) >= 0);
	for (uint64_t i = 0; i < SERVE_CALLS; i += 3) {
		serve_call(&t, i);
		CHECK_EQ(RPC(client_arm)(c), 0);
		CHECK(fdtest_sleeps(RPC(client_fd)(c)));
		CHECK_EQ(RPC(server_serve)(s, serve_one, &k, 5), 1);
		CHECK(fdtest_readable(RPC(client_fd)(c)));
		CHECK_EQ(RPC(client_poll)(c, serve_answered, &t), 1);
	}
}

static uint32_t serve_stop;

static inline void serve_echo(void *arg, const struct RPC(req) * req, const void *payload)
{
	CHECK_EQ(RPC(server_reply)((struct rpc_server *)arg, req->client, req->id, payload, 8), 0);
}

static inline void *serve_main(void *arg)
{
	while (!__atomic_load_n(&serve_stop, __ATOMIC_ACQUIRE))
		if (!RPC(server_serve)((struct rpc_server *)arg, serve_echo, arg, 4))
			RPC(server_wait)((struct rpc_server *)arg, NSEC_PER_MSEC);
	return NULL;
}

/* While a blocking call waits, the function set by client_others() gets other calls' responses. */
TEST(call_waits_beside_others)
{
	SERVER *s = server_with(NULL);
	CLIENT *c = client_new();
	struct serve_calls t = {.c = c};
	uint64_t word = 1ull << 40, resp = 0;
	pthread_t server;
	uint32_t len;

	serve_call(&t, 0);
	CHECK_EQ(RPC(client_call_wait)(c, &word, 8, &resp, 8, 0, NULL), -EBUSY);
	RPC(client_others)(c, serve_answered, &t);
	CHECK_EQ(RPC(client_call_wait)(c, &word, 8, &resp, 8, 0, NULL), -ETIMEDOUT);
	CHECK_EQ(pthread_create(&server, NULL, serve_main, s), 0);
	for (uint32_t i = 1; i < 20; i++)
		serve_call(&t, i);
	t.more = SERVE_CALLS - 20;
	for (uint32_t i = 0; i < 200; i++, word++) {
		CHECK_EQ(RPC(client_call_wait)(c, &word, 8, &resp, 8, UINT64_MAX, &len), 0);
		CHECK(resp == word && len == 8);
	}
	while (t.answered < SERVE_CALLS) {
		CHECK(RPC(client_wait)(c, UINT64_MAX) >= 0);
		CHECK(RPC(client_poll)(c, serve_answered, &t) >= 0);
	}
	while (RPC(client_pending)(c)) /* the call that timed out */
		CHECK(RPC(client_poll)(c, serve_answered, &t) == 0);
	__atomic_store_n(&serve_stop, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(server, NULL), 0);
}

#endif
