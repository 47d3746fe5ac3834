/* SPDX-License-Identifier: MIT */
/*
 * delegrpc between processes: clients and servers that are killed at random moments with calls in
 * flight, and clients that write random data wherever they can.
 *
 *	test-delegrpc-process [KILLS]	of clients, default 200; of servers: a twentieth
 */
#include <signal.h>
#include <sys/wait.h>

#include "raw.h"
#include "rpc.h"
#include "support/rpcnew.h"

#define VICTIMS 3
#define DEPTH 16

static uint64_t rng;
static uint32_t kills = 200;

static uint32_t pick(uint32_t n)
{
	return (uint32_t)(test_rand(&rng) % n);
}

static pid_t spawn(void (*fn)(void))
{
	pid_t pid = test_fork();

	if (!pid) {
		rng ^= (uint64_t)getpid() << 20;
		fn();
		_exit(80);
	}
	return pid;
}

/* ---- a server and clients, each a process ---- */

static void serve_for_ever(void)
{
	struct delegrpc_attr attr = {.max_clients = VICTIMS + 1,
		.resp_depth = DEPTH,
		.ring_depth = 2 * (VICTIMS + 1) * DELEGRPC_BATCH};
	struct delegrpc_server *s;
	struct delegrpc_req r;

	if (delegrpc_server_create(test_name, &attr, &s))
		_exit(81);
	for (;;) {
		if (delegrpc_server_wait(s, NSEC_PER_SEC) < 0)
			_exit(82);
		delegrpc_server_poll(s);
		while (delegrpc_server_recv(s, &r)) {
			uint64_t word[2];

			memcpy(word, r.payload, sizeof(word));
			word[0] = ~word[0];
			if (r.len != sizeof(word) ||
				delegrpc_server_reply(s, r.client, r.id, word, sizeof(word)))
				_exit(83);
		}
		delegrpc_server_advance_tail(s);
		if (server_stats_of(s).bad_requests)
			_exit(84);
	}
}

struct caller {
	struct delegrpc_client *c;
	uint64_t made, got;
	uint64_t open[DEPTH]; /* tokens in flight */
	uint32_t nopen;
};

static void take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct caller *a = arg;
	uint64_t word[2];
	uint32_t i = 0;

	memcpy(word, resp, sizeof(word));
	CHECK(word[0] == ~token && word[1] == (uint64_t)(uintptr_t)a->c);
	while (i < a->nopen && a->open[i] != token)
		i++;
	CHECK(i < a->nopen);
	a->open[i] = a->open[--a->nopen];
	a->got++;
}

/* Makes some calls, polls, and perhaps waits. Returns -EPIPE or the number of responses. */
static int work(struct caller *a)
{
	int n;

	for (uint32_t k = pick(DEPTH); k; k--) {
		uint64_t word[2] = {a->made, (uint64_t)(uintptr_t)a->c};

		if (delegrpc_client_call(a->c, word, sizeof(word), a->made))
			break;
		a->open[a->nopen++] = a->made++;
	}
	n = delegrpc_client_poll(a->c, take, a);
	if (!n && delegrpc_client_pending(a->c))
		n = delegrpc_client_wait(a->c, 10 * NSEC_PER_MSEC) < 0 ? -EPIPE : 0;
	return n;
}

static void connect_caller(struct caller *a)
{
	int err;

	memset(a, 0, sizeof(*a));
	do
		err = delegrpc_client_connect(test_name, NULL, &a->c);
	while (err == -ENOENT || err == -EAGAIN || err == -ECONNREFUSED);
	CHECK_EQ(err, 0);
}

static void call_for_ever(void)
{
	struct caller a;

	for (;;) {
		connect_caller(&a);
		for (uint32_t i = pick(2000); i; i--)
			CHECK(work(&a) >= 0);
		delegrpc_client_disconnect(a.c);
	}
}

TEST(clients_are_killed)
{
	pid_t server = spawn(serve_for_ever), victim[VICTIMS];
	struct caller survivor;

	connect_caller(&survivor);
	for (int i = 0; i < VICTIMS; i++)
		victim[i] = spawn(call_for_ever);
	for (uint32_t k = 0; k < kills; k++) {
		uint64_t until = survivor.got + pick(2000);
		uint32_t v = pick(VICTIMS);

		while (survivor.got < until)
			CHECK(work(&survivor) >= 0);
		test_kill(victim[v]);
		victim[v] = spawn(call_for_ever);
	}
	for (int i = 0; i < VICTIMS; i++)
		test_kill(victim[i]);
	while (delegrpc_client_pending(survivor.c))
		CHECK(work(&survivor) >= 0);
	CHECK_EQ(survivor.got, survivor.made);
	printf("  %u kills, %" PRIu64 " calls of the survivor\n", kills, survivor.got);
	delegrpc_client_disconnect(survivor.c);
	test_kill(server);
}

TEST(servers_are_killed)
{
	struct caller a;

	for (uint32_t k = 0; k < kills / 20; k++) {
		pid_t server = spawn(serve_for_ever);
		uint64_t start, until = pick(1000);
		int n;

		connect_caller(&a);
		while (a.got < until)
			CHECK(work(&a) >= 0);
		test_kill(server);
		start = clock_ns();
		while ((n = work(&a)) >= 0)
			;
		CHECK_EQ(n, -EPIPE);
		printf("  -EPIPE %u ms after the kill\n",
			(unsigned)((clock_ns() - start) / NSEC_PER_MSEC));
		delegrpc_client_disconnect(a.c);
	}
}

/* ---- hostile clients ---- */

/* Acts as client 1, and overwrites random words of the region, from word @from on. */
static void scribble(size_t from)
{
	struct raw *raw = raw_open(test_name);
	uint64_t *words = raw->region.addr;
	size_t n = raw->region.size / 8 - from;

	shm_lock(&raw->region, 2);
	for (;;) {
		uint64_t value = test_rand(&rng);

		/* Plausible values do more damage than random ones. */
		if (value & 1)
			value = value >> 8 & 0x3f0000003f;
		__atomic_store_n(&words[from + pick((uint32_t)n)], value, __ATOMIC_RELAXED);
	}
}

static void scribble_everywhere(void)
{
	scribble(0);
}

/* Overwrites lines, requests and responses, but not head and tail, so that the server continues. */
static void scribble_behind_the_indices(void)
{
	scribble(32);
}

/* Reserves and fills slots by the protocol, but with forged requests. */
static void forge(void)
{
	struct raw *raw = raw_open(test_name);

	for (uint64_t pos, n;;) {
		if (__atomic_load_n(&raw->control->head, __ATOMIC_RELAXED) -
				__atomic_load_n(&raw->control->tail, __ATOMIC_ACQUIRE) >
			32)
			continue;
		n = 1 + pick(8);
		pos = raw_reserve(raw, 2 + pick(2), (uint32_t)n);
		for (uint64_t i = 0; i < n; i++) {
			unsigned char *slot = raw->requests + ((pos + i) & 63) * raw->req_stride;

			raw_fill_length(raw, pos + i, pick(6), RAW_ID(pick(3), pick(10)), pick(100),
				pick(2) ? pick(56) : (uint32_t)test_rand(&rng));
			__atomic_store_n((uint64_t *)(void *)(slot + 8), RAW_ID(pick(3), pick(10)),
				__ATOMIC_RELAXED);
		}
	}
}

static void ignore_response(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	char copy[56];

	memcpy(copy, resp, sizeof(copy));
	(*(uint32_t *)arg)++;
}

/*
 * Returns true if the server has dropped more than 100 requests. It may take long until the forger
 * gets a core.
 */
static bool refused_some(const struct delegrpc_server *s)
{
	return server_stats_of(s).bad_requests > 100;
}

/*
 * Runs a server and an honest client beside one or two hostile ones. No access is out of bounds,
 * and no process hangs.
 */
static struct delegrpc_server_stats endure(void (*hostile)(void), uint32_t rounds)
{
	struct delegrpc_attr attr = {.size = sizeof(attr),
		.max_clients = 4,
		.resp_depth = 8,
		.ring_depth = 64,
		.events = 1};
	struct delegrpc_server_stats st;
	struct delegrpc_server *s = server_with(&attr);
	struct delegrpc_client *c = client_new();
	uint32_t responses = 0, broken = 0;
	pid_t pid[2];

	pid[0] = spawn(hostile);
	pid[1] = hostile == forge ? 0 : spawn(hostile); /* forge() locks the bytes of two clients */
	for (uint32_t i = 0; i < rounds || (hostile == forge && !refused_some(s)); i++) {
		struct delegrpc_req r;
		struct delegrpc_event e;
		char copy[DELEGRPC_MAX_PAYLOAD];

		delegrpc_client_call(c, &i, sizeof(i), i);
		delegrpc_client_poll(c, ignore_response, &responses);
		if (i % 64 == 0)
			delegrpc_client_wait(c, NSEC_PER_MSEC / 100);
		broken += delegrpc_server_poll(s) < 0;
		if (hostile == forge)
			CHECK_EQ(broken, 0);
		while (delegrpc_server_event(s, &e, sizeof(e)) > 0)
			CHECK(e.index < 4);
		while (delegrpc_server_recv(s, &r)) {
			CHECK(r.client < 4 && r.len <= 48);
			memcpy(copy, r.payload, r.len);
			delegrpc_server_reply(s, r.client, r.id, copy, r.len);
		}
		delegrpc_server_advance_tail(s);
		if (i % 64 == 0)
			delegrpc_server_wait(s, NSEC_PER_MSEC / 100);
	}
	test_kill(pid[0]);
	if (pid[1])
		test_kill(pid[1]);
	delegrpc_server_get_stats(s, &st, sizeof(st));
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
	/* A server can create a new region. */
	delegrpc_server_destroy(server_with(&attr));
	return st;
}

TEST(hostile_everywhere)
{
	for (int i = 0; i < 20; i++) /* each round soon breaks the ring */
		endure(scribble_everywhere, 500);
}

TEST(hostile_behind_the_indices)
{
	for (int i = 0; i < 20; i++)
		endure(scribble_behind_the_indices, 500);
}

TEST(hostile_with_manners)
{
	struct delegrpc_server_stats st = endure(forge, 20000);

	CHECK(st.requests > 100);
	CHECK(st.bad_requests > 100);
}

int main(int argc, char **argv)
{
	struct shm_region left;

	if (argc > 1)
		kills = (uint32_t)strtoul(argv[1], NULL, 10);
	CHECK(kills >= 20);
	rng = test_seed();
	argc = test_main(argc > 2 ? 2 : 1, argv + (argc > 2));
	/* Replaces the region that the last killed server left, so that it is removed. */
	if (shm_create("delegrpc", test_name, 1, &left) == 0)
		shm_close(&left);
	return argc;
}
