/* SPDX-License-Identifier: MIT */
/*
 * Runs clients and a server of delegrpc or shmipc as threads of one process, so that the thread
 * sanitizer sees the protocol. Clients connect and disconnect several times; they wait or poll. The
 * server delays replies and sends them in random order. The test checks every payload, and that
 * every call is answered once. A program first includes the layer's test/rpc.h, and defines
 * threads_attr() and check_stats(). Its main() calls threads_begin().
 */
#ifndef SUPPORT_RPCTHREADS_H
#define SUPPORT_RPCTHREADS_H

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "support/interrupt.h"
#include "support/rpcnew.h"

#define MAX_HELD 64
#define WORDS 5

struct shape {
	uint32_t clients, places, ring, depth, calls, lives;
	bool wait; /* sleep when there is nothing to do, instead of polling */
};

/* Returns attributes for sh->places clients with sh->depth calls of WORDS * 8 bytes. */
static struct rpc_attr threads_attr(const struct shape *sh);
/* Checks the server's counters after @served calls. */
static void check_stats(struct rpc_server *s, const struct shape *sh, uint64_t served);

static uint64_t threads_seed;

struct client_thread {
	pthread_t thread;
	const struct shape *shape;
	uint32_t index;
	struct rpc_client *c;
	uint64_t rand;
	uint32_t made, got;
	unsigned char *answered; /* by token */
};

/* Every word depends on the client and on the call. */
static void fill(uint64_t *words, uint64_t who, uint64_t token)
{
	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = (who << 32 | token) * (2 * i + 1);
}

static void check_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct client_thread *t = arg;
	uint64_t want[WORDS], got[WORDS];

	fill(want, t->index, token);
	memcpy(got, resp, sizeof(got));
	for (int i = 0; i < WORDS; i++)
		CHECK(got[i] == ~want[i]);
	CHECK(token < t->made);
	CHECK_EQ(t->answered[token]++, 0);
	t->got++;
}

static void connect_client(struct client_thread *t)
{
	int err;

	/* All places for clients may be in use, or not yet cleaned by the server. */
	while ((err = RPC(client_connect)(test_name, NULL, &t->c)) != 0) {
		CHECK(err == -EUSERS || err == -EAGAIN);
		sched_yield();
	}
}

static void live(struct client_thread *t)
{
	const struct shape *sh = t->shape;
	uint64_t req[WORDS];

	connect_client(t);
	memset(t->answered, 0, sh->calls);
	t->made = t->got = 0;
	while (t->got < sh->calls) {
		uint32_t burst = (uint32_t)(test_rand(&t->rand) % (sh->depth + 1));
		int n;

		while (burst-- && t->made < sh->calls) {
			fill(req, t->index, t->made);
			if (RPC(client_call)(t->c, req, sizeof(req), t->made))
				break;
			t->made++;
		}
		n = RPC(client_poll)(t->c, check_answer, t);
		CHECK(n >= 0);
		if (!n && sh->wait)
			CHECK_EQ(RPC(client_wait)(t->c, UINT64_MAX), t->got < t->made);
		else if (!n)
			sched_yield();
	}
	CHECK_EQ(RPC(client_pending)(t->c), 0);
	RPC(client_disconnect)(t->c);
}

static void *client_main(void *arg)
{
	struct client_thread *t = arg;

	for (uint32_t i = 0; i < t->shape->lives; i++)
		live(t);
	return NULL;
}

struct held {
	uint64_t client, id, words[WORDS];
};

static void answer_held(struct rpc_server *s, struct held *h)
{
	for (int i = 0; i < WORDS; i++)
		h->words[i] = ~h->words[i];
	CHECK_EQ(RPC(server_reply)(s, h->client, h->id, h->words, sizeof(h->words)), 0);
}

/* Serves until @total requests are answered. */
static void serve_threads(struct rpc_server *s, uint64_t total, bool wait)
{
	struct held held[MAX_HELD];
	uint64_t rand = threads_seed, done = 0;
	struct rpc_req r;
	uint32_t n = 0;

	while (done < total) {
		int found = RPC(server_poll)(s);

		if (!found && wait && !n)
			found = RPC(server_wait)(s, UINT64_MAX);
		CHECK(found >= 0);
		for (; n < MAX_HELD && rpc_recv(s, &r); n++) {
			CHECK_EQ(r.len, sizeof(held[n].words));
			held[n].client = r.client;
			held[n].id = r.id;
			memcpy(held[n].words, r.payload, r.len);
		}
		rpc_taken(s);
		/* Answers some of the held requests at random, or all if no others arrive. */
		for (uint32_t k = found ? (uint32_t)(test_rand(&rand) % 8) : n; k && n; k--) {
			uint32_t i = (uint32_t)(test_rand(&rand) % n);

			answer_held(s, &held[i]);
			held[i] = held[--n];
			done++;
		}
		if (!found)
			sched_yield();
	}
	CHECK_EQ(n, 0);
	RPC(server_flush)(s);
}

static void run(const struct shape *sh)
{
	uint64_t total = (uint64_t)sh->clients * sh->calls * sh->lives;
	struct rpc_attr attr = threads_attr(sh);
	struct client_thread t[8] = {0};
	SERVER *s = server_with(&attr);

	for (uint32_t i = 0; i < sh->clients; i++) {
		t[i].shape = sh;
		t[i].index = i;
		t[i].rand = threads_seed + i;
		t[i].answered = malloc(sh->calls);
		CHECK(t[i].answered);
		CHECK_EQ(pthread_create(&t[i].thread, NULL, client_main, &t[i]), 0);
	}
	/* Only the server's polls free the places of clients that have disconnected. */
	serve_threads(s, total, sh->wait);
	for (uint32_t i = 0; i < sh->clients; i++) {
		CHECK_EQ(pthread_join(t[i].thread, NULL), 0);
		free(t[i].answered);
	}
	CHECK_EQ(RPC(server_poll)(s), 0);
	check_stats(s, sh, total);
}

static int server_waits(void *server)
{
	return RPC(server_wait)(server, UINT64_MAX);
}

static int client_waits(void *client)
{
	return RPC(client_wait)(client, UINT64_MAX);
}

/* After a signal, wait returns, so that the caller can handle the signal and wait again. */
TEST(signal_ends_a_wait)
{
	uint64_t word = 1;
	SERVER *s = server_with(NULL);
	CLIENT *c = client_new();

	CHECK_EQ(interrupt_wait(server_waits, s), 0);
	CHECK_EQ(RPC(client_call)(c, &word, sizeof(word), 1), 0);
	CHECK_EQ(interrupt_wait(client_waits, c), 0);
}

static void threads_begin(void)
{
	threads_seed = test_seed();
}

#endif
