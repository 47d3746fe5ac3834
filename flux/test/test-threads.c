/* SPDX-License-Identifier: MIT */
/*
 * Every node calls random nodes, holds the calls that it receives and answers them in random order;
 * every call must end exactly once, with its own answer. In the second test the nodes leave with
 * calls in flight, and each call ends once, with the answer or without it.
 *
 *	test-threads [COUNT]	thousands of calls per node
 */
#include "flux.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "support/test.h"

#define NODES 5
#define INFLIGHT 36 /* enough for bursts of eight; the rings have little more room */
#define SLOTS (NODES * INFLIGHT)
#define HELD (NODES * INFLIGHT)

struct message {
	uint64_t from, to, serial, value;
};

/* A call whose answer this node waits for. Its token is serial * SLOTS + its index. */
struct expected {
	struct message sent;
	bool waiting;
};

struct held {
	uint64_t flux_token;
	struct message request;
};

struct worker {
	struct flux_node *node;
	uint32_t index;
	uint32_t to; /* index of the node that this worker calls at present */
	uint64_t seed;
	uint64_t calls; /* number of calls to make */
	uint64_t made, ended, aborted;
	struct expected expected[SLOTS];
	uint32_t free[SLOTS], n_free;
	struct held held[HELD];
	uint32_t n_held;
	uint64_t next[NODES]; /* serial number of the next call to each node */
	uint64_t seen[NODES]; /* serial number of the next call from each node */
};

static uint64_t calls_per_node = 2000;
static uint32_t finished; /* workers whose calls have all ended */
static pthread_barrier_t start;

static uint64_t answer_to(const struct message *m)
{
	return (m->value ^ m->serial) * 0x9e3779b97f4a7c15ull + m->to;
}

static void ended(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct worker *w = arg;
	uint32_t slot = (uint32_t)token % SLOTS;
	struct expected *e = &w->expected[slot];
	struct message m;

	CHECK(e->waiting);
	CHECK_EQ(token / SLOTS, e->sent.serial);
	e->waiting = false;
	w->free[w->n_free++] = slot;
	w->ended++;
	if (!payload) {
		w->aborted++;
		return;
	}
	memcpy(&m, payload, sizeof(m));
	CHECK_EQ(m.from, e->sent.from);
	CHECK_EQ(m.to, e->sent.to);
	CHECK_EQ(m.serial, e->sent.serial);
	CHECK(m.value == answer_to(&e->sent));
}

/* Makes one call. Returns false if there is no room or the node has left. */
static bool call_one(struct worker *w)
{
	uint32_t to = w->to, slot;
	struct message m = {.from = w->index,
		.to = to,
		.serial = w->next[to],
		.value = test_rand(&w->seed)};
	int r;

	if (m.value % 16 == 0)
		w->to = (uint32_t)(test_rand(&w->seed) % NODES);
	if (!w->n_free)
		return false;
	slot = w->free[w->n_free - 1];
	r = flux_call(w->node, to, &m, sizeof(m), m.serial * SLOTS + slot);
	if (r < 0) {
		CHECK(r == -EAGAIN || r == -EPIPE);
		return false;
	}
	w->n_free--;
	w->next[to]++;
	w->expected[slot] = (struct expected){m, true};
	w->made++;
	return true;
}

static void receive(struct worker *w)
{
	struct held h;
	uint32_t from;

	while (w->n_held < HELD && flux_try_recv_raw(w->node, &from, &h.flux_token, &h.request,
					   sizeof(h.request), NULL) == 1) {
		CHECK_EQ(h.request.from, from);
		CHECK_EQ(h.request.to, w->index);
		CHECK_EQ(h.request.serial, w->seen[from]);
		w->seen[from]++;
		w->held[w->n_held++] = h;
	}
}

/* Answers held requests in random order, until @keep of them are left. */
static void answer(struct worker *w, uint32_t keep)
{
	while (w->n_held > keep) {
		uint32_t i = (uint32_t)(test_rand(&w->seed) % w->n_held);
		struct held h = w->held[i];
		int r;

		w->held[i] = w->held[--w->n_held];
		h.request.value = answer_to(&h.request);
		r = flux_reply(w->node, h.flux_token, &h.request, sizeof(h.request));
		CHECK(r == 0 || r == -EPIPE);
	}
}

static void step(struct worker *w)
{
	uint32_t burst = (uint32_t)(test_rand(&w->seed) % INFLIGHT);
	uint64_t left = w->calls - w->made;

	for (uint32_t i = 0; i < burst && i < left; i++)
		call_one(w);
	receive(w);
	/* While this worker has calls left to make, half of the requests stay unanswered. */
	answer(w, left ? w->n_held / 2 : 0);
	if (!flux_poll(w->node, ended, w) && !w->n_held)
		flux_wait(w->node, 100 * NSEC_PER_USEC);
}

static bool others_busy(void)
{
	return __atomic_load_n(&finished, __ATOMIC_RELAXED) < NODES;
}

static void *run_to_the_end(void *arg)
{
	struct worker *w = arg;

	pthread_barrier_wait(&start);
	while (w->made < w->calls || flux_pending(w->node) || w->n_held)
		step(w);
	CHECK_EQ(w->ended, w->calls);
	CHECK_EQ(w->aborted, 0);
	__atomic_fetch_add(&finished, 1, __ATOMIC_RELAXED);
	while (others_busy() || w->n_held)
		step(w);
	flux_flush(w->node);
	return NULL;
}

/* Leaves after a number of calls, with some still unanswered. */
static void *run_and_leave(void *arg)
{
	struct worker *w = arg;
	uint64_t idle = 0;

	pthread_barrier_wait(&start);
	while (w->made < w->calls && idle < 1000) {
		uint64_t before = w->made + w->ended;

		step(w);
		idle = before == w->made + w->ended ? idle + 1 : 0;
	}
	flux_leave(w->node);
	while (flux_pending(w->node))
		CHECK(flux_poll(w->node, ended, w) > 0);
	CHECK_EQ(w->ended, w->made);
	CHECK_EQ(flux_call(w->node, w->to, &(struct message){0}, sizeof(struct message), 0),
		-EPIPE);
	return NULL;
}

static void workers_init(struct worker *w, struct flux *f, uint64_t seed)
{
	for (uint32_t i = 0; i < NODES; i++) {
		w[i] = (struct worker){.node = flux_get_node(f, i),
			.index = i,
			.to = i,
			.seed = seed + i};
		for (uint32_t k = 0; k < SLOTS; k++)
			w[i].free[w[i].n_free++] = k;
	}
}

static void workers_run(struct worker *w, void *(*fn)(void *))
{
	pthread_t t[NODES];

	finished = 0;
	CHECK_EQ(pthread_barrier_init(&start, NULL, NODES), 0);
	for (uint32_t i = 0; i < NODES; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, fn, &w[i]), 0);
	for (uint32_t i = 0; i < NODES; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	pthread_barrier_destroy(&start);
}

static const struct flux_attr small = {.nodes = NODES,
	.capacity = INFLIGHT + 1,
	.payload_size = sizeof(struct message)};

TEST(each_to_each)
{
	static struct worker w[NODES];
	struct flux_stats sum = {0}, s;
	struct flux *f;

	CHECK_EQ(flux_create(&small, &f), 0);
	workers_init(w, f, test_seed());
	for (uint32_t i = 0; i < NODES; i++)
		w[i].calls = calls_per_node;
	workers_run(w, run_to_the_end);
	for (uint32_t i = 0; i < NODES; i++) {
		flux_node_get_stats(w[i].node, &s, sizeof(s));
		CHECK_EQ(s.calls, calls_per_node);
		CHECK_EQ(s.responses, calls_per_node);
		sum.requests += s.requests;
		sum.replies += s.replies;
	}
	CHECK_EQ(sum.requests, NODES * calls_per_node);
	CHECK_EQ(sum.replies, NODES * calls_per_node);
	flux_destroy(f);
}

TEST(nodes_leave_in_traffic)
{
	static struct worker w[NODES];
	uint64_t rounds = calls_per_node / 40, seed = test_seed(), aborted = 0, ok = 0;

	for (uint64_t r = 0; r < rounds; r++) {
		struct flux *f;

		CHECK_EQ(flux_create(&small, &f), 0);
		workers_init(w, f, seed + r * NODES);
		for (uint32_t i = 0; i < NODES; i++)
			w[i].calls = test_rand(&w[i].seed) % 200;
		workers_run(w, run_and_leave);
		for (uint32_t i = 0; i < NODES; i++) {
			aborted += w[i].aborted;
			ok += w[i].ended - w[i].aborted;
		}
		flux_destroy(f);
	}
	printf("%" PRIu64 " calls answered, %" PRIu64 " ended by a node that left\n", ok, aborted);
	CHECK(aborted && ok);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		calls_per_node = 1000 * strtoull(argv[1], NULL, 10);
	CHECK(calls_per_node > 0);
	return test_main(1, argv);
}
