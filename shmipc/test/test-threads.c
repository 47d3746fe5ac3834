/* SPDX-License-Identifier: MIT */
/* Server and clients as threads of one process, so that ThreadSanitizer sees them. */
#include "base/sleep.h"
#include "common.h"
#include "map.h"
#include "support/rpcthreads.h"

#ifdef __SANITIZE_THREAD__
#define SCALE 2
#elif defined(__aarch64__)
#define SCALE 20 /* probably an emulator */
#else
#define SCALE 1
#endif

static struct shmipc_attr threads_attr(const struct shape *sh)
{
	return (struct shmipc_attr){.max_clients = sh->places,
		.depth = sh->depth,
		.req_size = WORDS * 8,
		.resp_size = WORDS * 8};
}

static void check_stats(struct shmipc_server *s, const struct shape *sh, uint64_t served)
{
	struct shmipc_server_stats st = server_stats_of(s);

	CHECK_EQ(st.requests, served);
	CHECK_EQ(st.replies, served);
	CHECK_EQ(st.connects, sh->clients * sh->lives);
	CHECK_EQ(st.departures, st.connects);
	CHECK_EQ(st.reclaimed, 0);
	CHECK_EQ(st.clients, 0);
}

TEST_WITH(four_clients_that_poll, run, &(struct shape){4, 8, 0, 32, 40000 / SCALE, 1, false});
TEST_WITH(four_clients_that_wait, run, &(struct shape){4, 8, 0, 3, 20000 / SCALE, 1, true});
TEST_WITH(more_clients_than_places, run, &(struct shape){6, 2, 0, 7, 50, 200 / SCALE, true});

/* ---- sleep and wake ---- */

#define ROUNDS (400 / SCALE)

struct nap {
	struct shmipc_client *c;
	uint32_t *server_state, *client_state;
	pid_t server, client; /* ids of the threads */
};

/*
 * Returns true if the thread sleeps. The state alone does not show that: the thread sets it before
 * its last check for messages.
 */
static bool asleep(const uint32_t *state, const pid_t *tid)
{
	return __atomic_load_n(state, __ATOMIC_RELAXED) == SLEEP_ASLEEP &&
	       test_blocked(__atomic_load_n(tid, __ATOMIC_ACQUIRE));
}

static void until_asleep(const uint32_t *state, const pid_t *tid)
{
	while (!asleep(state, tid))
		sched_yield();
}

/* Makes each call when the server sleeps, then sleeps until the answer arrives. */
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
TEST(every_sleeper_is_woken)
{
	struct shmipc_client_stats ct;
	struct shmipc_server_stats st;
	SERVER *s = server_with(&msg_attr);
	struct nap nap = {.server = gettid(), .c = client_new()};
	pthread_t thread;

	nap.server_state = (uint32_t *)nap.c->server_state;
	shmipc_server_poll(s);
	nap.client_state = (uint32_t *)s->peers[0].state;
	CHECK_EQ(pthread_create(&thread, NULL, nap_client, &nap), 0);
	for (int i = 0; i < ROUNDS; i++) {
		int n;

		/* 0: a signal has interrupted the sleep */
		while ((n = shmipc_server_wait(s, SHMIPC_FOREVER)) == 0)
			;
		CHECK_EQ(n, 1);
		until_asleep(nap.client_state, &nap.client);
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	ct = client_stats_of(nap.c);
	st = server_stats_of(s);
	/* A wake-up finds no sleeper only if the sleep's 100 ms end at the same moment. */
	CHECK(ct.wakes > ROUNDS * 9 / 10 && ct.wakes <= ROUNDS);
	CHECK(st.wakes > ROUNDS * 9 / 10 && st.wakes <= ROUNDS);
	CHECK(ct.sleeps >= st.wakes && st.sleeps >= ct.wakes);
	shmipc_client_disconnect(nap.c);
}

/* Sleeps until the server is destroyed. The wait then returns -EPIPE. */
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

TEST(close_wakes_sleepers)
{
	struct shmipc_server *s = server_with(&msg_attr);
	struct nap nap = {.server = gettid(), .c = client_new()};
	struct rpc_map m; /* stays when the server has unmapped the region */
	pthread_t thread;

	map_region(test_name, &m);
	shmipc_server_poll(s);
	CHECK_EQ(pthread_create(&thread, NULL, close_client, &nap), 0);
	until_asleep(m.client_state, &nap.client);
	shmipc_server_destroy(s);
	/* Without the wake-up the client would sleep until its 100 ms end. */
	CHECK(!asleep(m.client_state, &nap.client));
	CHECK_EQ(pthread_join(thread, NULL), 0);
	shmipc_client_disconnect(nap.c);
	shm_close(&m.region);
}

int main(int argc, char **argv)
{
	threads_begin();
	return test_main(argc, argv);
}
