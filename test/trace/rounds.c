/* SPDX-License-Identifier: MIT */
/*
 * Makes round trips over a shared-memory layer. cost.py counts the instructions, values.py reads
 * the arguments of the trace points.
 *
 *	rounds LAYER DEPTH ROUNDS	one thread is both sides; each round makes DEPTH calls,
 *					answers them and takes the responses
 *	rounds LAYER			the server sleeps, and is woken by a call, SLEEPS times
 */
#include <pthread.h>
#include <sched.h>

#include "base/sleep.h"
#include "support/test.h"
#include "delegrpc.h"
#include "flux.h"
#include "shmipc.h"

#define REQUEST 32
#define REPLY 16
#define SLEEPS 10

struct layer {
	const char *name;
	void (*open)(const char *name);
	int (*call)(uint64_t token);
	void (*flush)(void);
	void (*serve)(void);
	void (*poll)(uint64_t *got);
	int (*wait)(void); /* the server sleeps until there is a request */
	const uint32_t *(*sleep_word)(void); /* the server's; see base/sleep.h */
	void (*close)(void);
};

static char buf[64];

static void on_response(void *arg, uint64_t token, const void *data, uint32_t len)
{
	CHECK(data && len == REPLY);
	++*(uint64_t *)arg;
}

/* ---- flux: node 0 calls node 1 ---- */

static struct flux *flux;
static struct flux_node *caller, *callee;

static void f_open(const char *name)
{
	const struct flux_attr attr = {.nodes = 2};

	CHECK_EQ(flux_create(&attr, &flux), 0);
	caller = flux_get_node(flux, 0);
	callee = flux_get_node(flux, 1);
}

static int f_call(uint64_t token)
{
	return flux_call(caller, 1, buf, REQUEST, token);
}

static void f_flush(void)
{
	flux_flush(caller);
}

static void f_serve(void)
{
	uint64_t token, none = 0;
	uint32_t from;

	while (flux_try_recv_raw(callee, &from, &token, buf, sizeof(buf), NULL))
		CHECK_EQ(flux_reply(callee, token, buf, REPLY), 0);
	flux_poll(callee, on_response, &none);
}

static void f_poll(uint64_t *got)
{
	flux_poll(caller, on_response, got);
}

static int f_wait(void)
{
	return flux_wait(callee, FLUX_FOREVER);
}

static const uint32_t *f_sleep_word(void)
{
	return &callee->self->state;
}

static void f_close(void)
{
	flux_destroy(flux);
}

/* ---- the functions that are the same for shmipc and delegrpc ---- */

#define RPC_SIDES(layer, p)                                                                        \
	static struct layer##_server *p##_server;                                                  \
	static struct layer##_client *p##_client;                                                  \
                                                                                                   \
	static void p##_open(const char *name)                                                     \
	{                                                                                          \
		CHECK_EQ(layer##_server_create(name, NULL, &p##_server), 0);                       \
		CHECK_EQ(layer##_client_connect(name, NULL, &p##_client), 0);                      \
	}                                                                                          \
                                                                                                   \
	static int p##_call(uint64_t token)                                                        \
	{                                                                                          \
		return layer##_client_call(p##_client, buf, REQUEST, token);                       \
	}                                                                                          \
                                                                                                   \
	static void p##_flush(void)                                                                \
	{                                                                                          \
		layer##_client_flush(p##_client);                                                  \
	}                                                                                          \
                                                                                                   \
	static void p##_poll(uint64_t *got)                                                        \
	{                                                                                          \
		layer##_client_poll(p##_client, on_response, got);                                 \
	}                                                                                          \
                                                                                                   \
	static int p##_wait(void)                                                                  \
	{                                                                                          \
		return layer##_server_wait(p##_server, UINT64_MAX);                                \
	}                                                                                          \
                                                                                                   \
	static void p##_close(void)                                                                \
	{                                                                                          \
		layer##_client_disconnect(p##_client);                                             \
		layer##_server_destroy(p##_server);                                                \
	}

RPC_SIDES(shmipc, s)
RPC_SIDES(delegrpc, d)

static void s_serve(void)
{
	struct shmipc_req r;

	shmipc_server_poll(s_server);
	while (shmipc_server_recv(s_server, &r, buf, sizeof(buf)))
		CHECK_EQ(shmipc_server_reply(s_server, r.client, r.id, buf, REPLY), 0);
}

static const uint32_t *s_sleep_word(void)
{
	return s_client->server_state;
}

static void d_serve(void)
{
	struct delegrpc_req r;

	delegrpc_server_poll(d_server);
	while (delegrpc_server_recv(d_server, &r))
		CHECK_EQ(delegrpc_server_reply(d_server, r.client, r.id, buf, REPLY), 0);
	delegrpc_server_advance_tail(d_server);
}

static const uint32_t *d_sleep_word(void)
{
	return &d_client->header->server_state;
}

/* ---- */

static const struct layer layers[] = {
	{"flux", f_open, f_call, f_flush, f_serve, f_poll, f_wait, f_sleep_word, f_close},
	{"shmipc", s_open, s_call, s_flush, s_serve, s_poll, s_wait, s_sleep_word, s_close},
	{"delegrpc", d_open, d_call, d_flush, d_serve, d_poll, d_wait, d_sleep_word, d_close},
};

static void run(const struct layer *l, uint64_t depth, uint64_t rounds)
{
	uint64_t got = 0;

	for (uint64_t r = 1; r <= rounds; r++) {
		for (uint64_t i = 0; i < depth; i++)
			CHECK_EQ(l->call(i), 0);
		l->flush();
		while (got < r * depth) {
			l->serve();
			l->poll(&got);
		}
	}
}

static void *sleeper(void *arg)
{
	const struct layer *l = arg;

	while (!l->wait())
		;
	return NULL;
}

/* A server that finds a call does not sleep, so each call is made when the server sleeps. */
static void run_sleeps(const struct layer *l)
{
	uint64_t got = 0;
	pthread_t thread;

	for (uint64_t i = 1; i <= SLEEPS; i++) {
		CHECK_EQ(pthread_create(&thread, NULL, sleeper, (void *)(uintptr_t)l), 0);
		/* Pairs with the release in sleep_prepare_as(). */
		while (__atomic_load_n(l->sleep_word(), __ATOMIC_ACQUIRE) != SLEEP_ASLEEP)
			sched_yield();
		CHECK_EQ(l->call(i), 0);
		l->flush();
		pthread_join(thread, NULL);
		while (got < i) {
			l->serve();
			l->poll(&got);
		}
	}
}

int main(int argc, char **argv)
{
	const struct layer *l = NULL;
	char name[32];

	CHECK(argc == 2 || argc == 4);
	for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
		if (!strcmp(argv[1], layers[i].name))
			l = &layers[i];
	CHECK(l);
	snprintf(name, sizeof(name), "rounds-%d", (int)getpid());
	l->open(name);
	if (argc == 4)
		run(l, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	else
		run_sleeps(l);
	l->close();
	return 0;
}
