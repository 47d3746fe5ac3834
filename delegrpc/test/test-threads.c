/* SPDX-License-Identifier: MIT */
/*
 * Clients and server as threads of one process, so that the thread sanitizer sees the
 * protocol: every payload is checked, every call is answered once, replies are delayed and in
 * random order, clients come and go, with both kinds of ring, waiting and polling.
 *
 *	test-delegrpc-threads [TIMES]	multiplies the number of calls
 */
#include <pthread.h>

#include "support/interrupt.h"
#include "support/test.h"
#include "delegrpc.h"

#define MAX_HELD 64

struct shape {
	uint32_t clients, ring, depth, calls, lives;
	bool wait; /* sleep when there is nothing to do, instead of polling */
};

static char name[64];
static uint64_t seed;
static uint32_t times = 1;

struct client_thread {
	pthread_t thread;
	const struct shape *shape;
	uint32_t index;
	struct delegrpc_client *c;
	uint64_t rand;
	uint32_t made, got;
	unsigned char *answered; /* by token */
};

struct server_thread {
	pthread_t thread;
	const struct shape *shape;
	struct delegrpc_server *s;
	uint32_t stop; /* atomic */
	uint64_t served;
};

/* Fills 40 B. Every word depends on the client and on the call. */
static void fill(uint64_t *words, uint64_t who, uint64_t token)
{
	for (uint64_t i = 0; i < 5; i++)
		words[i] = (who << 32 | token) * (2 * i + 1);
}

static void check_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct client_thread *t = arg;
	uint64_t want[5], got[5];

	fill(want, t->index, token);
	memcpy(got, resp, sizeof(got));
	for (int i = 0; i < 5; i++)
		CHECK(got[i] == ~want[i]);
	CHECK(token < t->made);
	CHECK_EQ(t->answered[token]++, 0);
	t->got++;
}

static void connect_client(struct client_thread *t)
{
	int err;

	/* The thread of a predecessor may be about to disconnect. */
	while ((err = delegrpc_client_connect(name, NULL, &t->c)) == -EUSERS)
		sched_yield();
	CHECK_EQ(err, 0);
}

static void live(struct client_thread *t)
{
	const struct shape *sh = t->shape;
	uint64_t req[5];

	connect_client(t);
	memset(t->answered, 0, sh->calls);
	t->made = t->got = 0;
	while (t->got < sh->calls) {
		uint32_t burst = (uint32_t)(test_rand(&t->rand) % (sh->depth + 1));
		int n;

		while (burst-- && t->made < sh->calls) {
			fill(req, t->index, t->made);
			if (delegrpc_client_call(t->c, req, sizeof(req), t->made))
				break;
			t->made++;
		}
		n = delegrpc_client_poll(t->c, check_answer, t);
		CHECK(n >= 0);
		if (!n && sh->wait)
			CHECK(delegrpc_client_wait(t->c, NSEC_PER_SEC) >= 0);
		else if (!n)
			sched_yield();
	}
	CHECK_EQ(delegrpc_client_pending(t->c), 0);
	delegrpc_client_disconnect(t->c);
}

static void *client_main(void *arg)
{
	struct client_thread *t = arg;

	for (uint32_t i = 0; i < t->shape->lives; i++)
		live(t);
	return NULL;
}

struct held {
	uint32_t client, id;
	uint64_t words[5];
};

static void answer(struct server_thread *t, struct held *h)
{
	for (int i = 0; i < 5; i++)
		h->words[i] = ~h->words[i];
	CHECK_EQ(delegrpc_server_reply(t->s, h->client, h->id, h->words, sizeof(h->words)), 0);
	t->served++;
}

static void *server_main(void *arg)
{
	struct server_thread *t = arg;
	struct held held[MAX_HELD];
	struct delegrpc_req r;
	uint64_t rand = seed;
	uint32_t n = 0;

	while (!__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE)) {
		int found = delegrpc_server_poll(t->s);

		CHECK(found >= 0);
		while (n < MAX_HELD && delegrpc_server_recv(t->s, &r)) {
			CHECK_EQ(r.len, sizeof(held[n].words));
			held[n].client = r.client;
			held[n].id = r.id;
			memcpy(held[n++].words, r.payload, r.len);
		}
		delegrpc_server_advance_tail(t->s);
		/*
		 * Answers some of the held requests at random, or all of them if no others arrive.
		 */
		for (uint32_t k = found ? (uint32_t)(test_rand(&rand) % 8) : n; k && n; k--) {
			uint32_t i = (uint32_t)(test_rand(&rand) % n);

			answer(t, &held[i]);
			held[i] = held[--n];
		}
		if (!found && !n && t->shape->wait)
			CHECK(delegrpc_server_wait(t->s, NSEC_PER_MSEC * 20) >= 0);
		else if (!found)
			sched_yield();
	}
	CHECK_EQ(n, 0);
	return NULL;
}

static void run(const struct shape *sh)
{
	struct delegrpc_attr attr = {.max_clients = sh->clients,
		.ring_depth = sh->ring,
		.resp_depth = sh->depth,
		.req_size = 40,
		.resp_size = 40};
	struct client_thread t[8] = {0};
	struct server_thread server = {.shape = sh};
	struct delegrpc_server_stats st;

	CHECK_EQ(delegrpc_server_create(name, &attr, &server.s), 0);
	CHECK_EQ(pthread_create(&server.thread, NULL, server_main, &server), 0);
	for (uint32_t i = 0; i < sh->clients; i++) {
		t[i].shape = sh;
		t[i].index = i;
		t[i].rand = seed + i;
		t[i].answered = malloc(sh->calls);
		CHECK(t[i].answered);
		CHECK_EQ(pthread_create(&t[i].thread, NULL, client_main, &t[i]), 0);
	}
	for (uint32_t i = 0; i < sh->clients; i++) {
		CHECK_EQ(pthread_join(t[i].thread, NULL), 0);
		free(t[i].answered);
	}
	__atomic_store_n(&server.stop, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(server.thread, NULL), 0);
	delegrpc_server_get_stats(server.s, &st, sizeof(st));
	CHECK_EQ(server.served, (uint64_t)sh->clients * sh->calls * sh->lives);
	CHECK_EQ(st.requests, server.served);
	CHECK_EQ(st.replies, server.served);
	CHECK_EQ(st.bad_requests, 0);
	CHECK_EQ(st.holes, 0);
	delegrpc_server_destroy(server.s);
}

static void ample_ring(void)
{
	run(&(struct shape){4, 0, 32, 20000 * times, 1, false});
}

static void tight_ring(void)
{
	run(&(struct shape){3, 32, 32, 20000 * times, 1, false});
}

static void one_call_in_flight(void)
{
	run(&(struct shape){2, 0, 1, 5000 * times, 1, false});
}

static void clients_come_and_go(void)
{
	run(&(struct shape){4, 0, 8, 100, 60 * times, false});
	run(&(struct shape){3, 32, 16, 100, 60 * times, false});
}

static void sleeping(void)
{
	run(&(struct shape){4, 0, 4, 3000 * times, 2, true});
	run(&(struct shape){3, 32, 32, 6000 * times, 2, true});
}

static int server_waits(void *s)
{
	return delegrpc_server_wait(s, UINT64_MAX);
}

static int client_waits(void *c)
{
	return delegrpc_client_wait(c, UINT64_MAX);
}

/* The caller handles the signal and waits again. */
static void signal_ends_a_wait(void)
{
	struct delegrpc_server *s;
	struct delegrpc_client *c;
	uint64_t word = 1;

	CHECK_EQ(delegrpc_server_create(name, NULL, &s), 0);
	CHECK_EQ(delegrpc_client_connect(name, NULL, &c), 0);
	CHECK_EQ(interrupt_wait(server_waits, s), 0);
	CHECK_EQ(delegrpc_client_call(c, &word, sizeof(word), 1), 0);
	CHECK_EQ(interrupt_wait(client_waits, c), 0);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(ample_ring),
		TEST(tight_ring),
		TEST(one_call_in_flight),
		TEST(clients_come_and_go),
		TEST(sleeping),
		TEST(signal_ends_a_wait),
	};

	if (argc > 1)
		times = (uint32_t)strtoul(argv[1], NULL, 10);
	CHECK(times > 0);
	seed = test_seed();
	snprintf(name, sizeof(name), "threads.%d", (int)getpid());
	return test_main(tests, ARRAY_SIZE(tests), 1, argv);
}
