/* SPDX-License-Identifier: MIT */
/* Server and clients as threads of one process, so that ThreadSanitizer sees them. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>

#include "support/interrupt.h"
#include "base/sleep.h"
#include "common.h"
#include "layout.h"

#ifdef __SANITIZE_THREAD__
#define SCALE 2
#elif defined(__aarch64__)
#define SCALE 20 /* probably an emulator */
#else
#define SCALE 1
#endif

#define HELD 16

struct load {
	const char *name;
	uint64_t first;
	uint32_t calls, in_flight, lives;
	bool wait; /* sleep in wait functions; false: poll and yield */
};

static struct shmipc_client *join(const char *name)
{
	struct shmipc_client *c = NULL;
	int err;

	while ((err = shmipc_client_connect(name, NULL, &c)) != 0) {
		/* Every place is taken at the moment, or not clean yet. */
		CHECK(err == -EUSERS || err == -EAGAIN);
		sched_yield();
	}
	return c;
}

/* One connection: makes all calls of the load; each must be answered once and correctly. */
static void client_life(const struct load *l)
{
	struct shmipc_client *c = join(l->name);
	struct tally t = {.first = l->first, .size = l->calls};
	uint32_t sent = 0;

	t.seen = calloc(l->calls, 1);
	CHECK(t.seen);
	while (t.n < l->calls) {
		int n;

		while (sent < l->calls && shmipc_client_pending(c) < l->in_flight) {
			CHECK_EQ(call_tag(c, l->first + sent), 0);
			sent++;
		}
		n = shmipc_client_poll(c, tally_take, &t);
		CHECK(n >= 0);
		if (!n && l->wait)
			CHECK_EQ(shmipc_client_wait(c, SHMIPC_FOREVER), 1);
		else if (!n)
			sched_yield();
	}
	CHECK_EQ(shmipc_client_pending(c), 0);
	shmipc_client_disconnect(c);
	free(t.seen);
}

static void *client_main(void *arg)
{
	const struct load *l = arg;

	for (uint32_t i = 0; i < l->lives; i++)
		client_life(l);
	return NULL;
}

/* Serves until @total requests are answered; holds some of them and answers out of order. */
static void serve(struct shmipc_server *s, uint64_t total, bool wait)
{
	struct shmipc_req held[HELD];
	uint64_t tags[HELD], done = 0, seed = 1;
	uint32_t n = 0;

	while (done < total) {
		struct msg m;
		int ready = shmipc_server_poll(s);

		if (!ready && wait && !n)
			ready = shmipc_server_wait(s, SHMIPC_FOREVER);
		CHECK(ready >= 0);
		while (n < HELD && shmipc_server_recv(s, &held[n], &m, sizeof(m)) > 0) {
			msg_check(&m);
			tags[n++] = m.tag;
		}
		/* Answers all held requests if no others arrive, otherwise one at random. */
		while (n && (!ready || n == HELD || test_rand(&seed) % 4)) {
			uint32_t i = (uint32_t)(test_rand(&seed) % n);

			m = msg_of(msg_answer(tags[i]));
			CHECK_EQ(shmipc_server_reply(s, held[i].client, held[i].id, &m, sizeof(m)),
				0);
			held[i] = held[--n];
			tags[i] = tags[n];
			done++;
		}
		if (!ready)
			sched_yield();
	}
	shmipc_server_flush(s);
}

static void run(const char *what, uint32_t clients, uint32_t places, const struct load *each)
{
	struct shmipc_attr attr = msg_attr;
	struct shmipc_server_stats st;
	SERVER *s = NULL;
	struct load loads[8];
	pthread_t threads[8];
	char name[64];
	uint64_t total = (uint64_t)clients * each->calls * each->lives;

	snprintf(name, sizeof(name), "%s", test_name(what));
	attr.max_clients = places;
	CHECK_EQ(shmipc_server_create(name, &attr, &s), 0);
	for (uint32_t i = 0; i < clients; i++) {
		loads[i] = *each;
		loads[i].name = name;
		loads[i].first = (uint64_t)i << 32;
		CHECK_EQ(pthread_create(&threads[i], NULL, client_main, &loads[i]), 0);
	}
	serve(s, total, each->wait);
	/*
	 * Clients that wait for a place need a server that polls, until the last client is served.
	 */
	for (uint32_t i = 0; i < clients; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(shmipc_server_poll(s), 0);
	shmipc_server_get_stats(s, &st, sizeof(st));
	CHECK_EQ(st.requests, total);
	CHECK_EQ(st.replies, total);
	CHECK_EQ(st.connects, clients * each->lives);
	CHECK_EQ(st.departures, st.connects);
	CHECK_EQ(st.reclaimed, 0);
	CHECK_EQ(st.clients, 0);
}

static void four_clients_that_poll(void)
{
	const struct load l = {.calls = 40000 / SCALE, .in_flight = 32, .lives = 1};

	run("poll", 4, 8, &l);
}

static void four_clients_that_wait(void)
{
	const struct load l = {.calls = 20000 / SCALE, .in_flight = 3, .lives = 1, .wait = true};

	run("wait", 4, 8, &l);
}

static void more_clients_than_places(void)
{
	const struct load l = {.calls = 50, .in_flight = 7, .lives = 200 / SCALE, .wait = true};

	run("churn", 6, 2, &l);
}

/* ---- sleep and wake ---- */

#define ROUNDS (400 / SCALE)

struct nap {
	struct shmipc_client *c;
	uint32_t *server_state, *client_state;
	pid_t server, client; /* each stored by its thread, release; loaded with acquire */
};

/* The state is not enough: before its second check the sleeper would not sleep. */
static void until_asleep(const uint32_t *state, const pid_t *tid)
{
	while (__atomic_load_n(state, __ATOMIC_RELAXED) != SLEEP_ASLEEP ||
		!test_blocked(__atomic_load_n(tid, __ATOMIC_ACQUIRE)))
		sched_yield();
}

/* Makes a call when the server sleeps, then sleeps until the answer. */
static void *nap_client(void *arg)
{
	struct nap *nap = arg;
	static uint8_t seen[ROUNDS];
	struct tally t = {.size = ROUNDS, .seen = seen};

	__atomic_store_n(&nap->client, gettid(), __ATOMIC_RELEASE);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		until_asleep(nap->server_state, &nap->server);
		CHECK_EQ(call_tag(nap->c, i), 0);
		while (shmipc_client_poll(nap->c, tally_take, &t) == 0)
			CHECK_EQ(shmipc_client_wait(nap->c, SHMIPC_FOREVER), 1);
	}
	CHECK_EQ(t.n, ROUNDS);
	return NULL;
}

/* At each message the receiver is asleep and is woken. */
static void every_sleeper_is_woken(void)
{
	struct shmipc_client_stats ct;
	struct shmipc_server_stats st;
	struct shmipc_layout l;
	SERVER *s = NULL;
	struct nap nap = {.server = gettid()};
	pthread_t thread;

	CHECK_EQ(shmipc_layout_plan(&msg_attr, &l), 0);
	CHECK_EQ(shmipc_server_create(test_name("nap"), &msg_attr, &s), 0);
	nap.c = join(test_name("nap"));
	nap.server_state = (uint32_t *)nap.c->server_state;
	shmipc_server_poll(s);
	nap.client_state = (uint32_t *)s->peers[0].state;
	CHECK_EQ(pthread_create(&thread, NULL, nap_client, &nap), 0);
	for (int i = 0; i < ROUNDS; i++) {
		int n;

		/* 0: it slept for 100 ms, because the other thread did not get a core */
		while ((n = shmipc_server_wait(s, SHMIPC_FOREVER)) == 0)
			;
		CHECK_EQ(n, 1);
		until_asleep(nap.client_state, &nap.client);
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	shmipc_client_get_stats(nap.c, &ct, sizeof(ct));
	shmipc_server_get_stats(s, &st, sizeof(st));
	/* A wake-up finds no sleeper only if the sleep's 100 ms end at the same moment. */
	CHECK(ct.wakes > ROUNDS * 9 / 10 && ct.wakes <= ROUNDS);
	CHECK(st.wakes > ROUNDS * 9 / 10 && st.wakes <= ROUNDS);
	CHECK(ct.sleeps >= st.wakes && st.sleeps >= ct.wakes);
	shmipc_client_disconnect(nap.c);
}

static void *server_later(void *arg)
{
	struct nap *nap = arg;

	until_asleep(nap->client_state, &nap->client);
	return NULL;
}

/* A client that sleeps in a call gets the error when the server closes. */
static void *close_client(void *arg)
{
	struct nap *nap = arg;
	static uint8_t seen[1];
	struct tally t = {.size = 1, .seen = seen};

	__atomic_store_n(&nap->client, gettid(), __ATOMIC_RELEASE);
	CHECK_EQ(call_tag(nap->c, 0), 0);
	CHECK_EQ(shmipc_client_wait(nap->c, SHMIPC_FOREVER), -EPIPE);
	CHECK_EQ(shmipc_client_abort(nap->c, tally_take, &t), 1);
	CHECK_EQ(t.ended, 1);
	return NULL;
}

static void close_wakes_sleepers(void)
{
	struct shmipc_server *s = NULL;
	struct nap nap = {.server = gettid()};
	pthread_t thread;

	CHECK_EQ(shmipc_server_create(test_name("gone"), &msg_attr, &s), 0);
	nap.c = join(test_name("gone"));
	shmipc_server_poll(s);
	nap.client_state = (uint32_t *)s->peers[0].state;
	CHECK_EQ(pthread_create(&thread, NULL, close_client, &nap), 0);
	server_later(&nap);
	shmipc_server_destroy(s);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	shmipc_client_disconnect(nap.c);
}

static int server_waits(void *server)
{
	return shmipc_server_wait(server, SHMIPC_FOREVER);
}

static int client_waits(void *client)
{
	return shmipc_client_wait(client, SHMIPC_FOREVER);
}

/* The caller handles the signal and waits again; a blocking call continues. */
static void signal_ends_a_wait(void)
{
	SERVER *s = test_serve("signal", &msg_attr);
	CLIENT *c = test_join("signal");

	CHECK_EQ(interrupt_wait(server_waits, s), 0);
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(interrupt_wait(client_waits, c), 0);
	CHECK_EQ(serve_once(s), 1);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(four_clients_that_poll),
		TEST(four_clients_that_wait),
		TEST(more_clients_than_places),
		TEST(every_sleeper_is_woken),
		TEST(close_wakes_sleepers),
		TEST(signal_ends_a_wait),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
