/* SPDX-License-Identifier: MIT */
/*
 * cellring between two threads, with a ring in each direction. Payloads are checked, messages are
 * published alone and in bursts, and the rings have no more room than the plan requires for the
 * messages in flight.
 */
#include <pthread.h>
#include <stdlib.h>

#include "support/test.h"
#include "base/wait.h"
#include "cellring.h"

#define WORDS 5

#ifdef __SANITIZE_THREAD__
#define CALLS 20000u
#else
#define CALLS 200000u
#endif

struct side {
	struct cellring_cursor out, in;
	struct cellring_burst burst;
	uint32_t in_flight;
	uint64_t seed;
};

/*
 * Makes a payload that looks like a valid head, to detect a consumer that reads payload as a head.
 */
static void make(uint64_t *words, const struct cellring_cursor *c, uint32_t n)
{
	words[0] = n;
	for (uint32_t k = 1; k < WORDS; k++)
		words[k] = CELLRING_HEAD(c->lap + k % 2, 1, 1) | (n & 7);
}

static void check(const uint64_t *words, uint32_t n)
{
	CHECK_EQ(words[0], n);
	for (uint32_t k = 1; k < WORDS; k++)
		CHECK_EQ(words[k] & 0xff, n & 7);
}

static void send_one(struct side *s, uint32_t n)
{
	uint64_t words[WORDS];

	make(words, &s->out, n);
	if (!s->burst.to)
		cellring_put(&s->out, n & CELLRING_ID_MASK, words, sizeof(words));
	else if (cellring_burst_add(&s->burst, n & CELLRING_ID_MASK, words, sizeof(words)))
		cellring_burst_write_full(&s->burst);
}

static void flush(struct side *s)
{
	if (cellring_burst_held(&s->burst))
		cellring_burst_write_part(&s->burst);
	cellring_burst_close(&s->burst);
}

/* Consumes up to max messages, the first of which is number n. */
static uint32_t take(struct side *s, uint32_t n, uint32_t max)
{
	uint64_t words[WORDS];
	uint32_t got = 0;

	while (got < max) {
		if (s->in.slot == s->in.ready) {
			uint64_t head = cellring_look(&s->in);

			if (!head)
				break;
			CHECK(cellring_arrive(&s->in, head));
		}
		CHECK_EQ(CELLRING_ID(cellring_head(s->in.slot)), (n + got) & CELLRING_ID_MASK);
		cellring_copy(words, cellring_payload(s->in.slot), sizeof(words));
		cellring_next(&s->in);
		check(words, n + got++);
	}
	return got;
}

/* Sends @count messages numbered from n, in bursts or one by one. */
static void send_some(struct side *s, uint32_t n, uint32_t count)
{
	if (count > 1 && test_rand(&s->seed) % 4)
		cellring_burst_open(&s->burst, &s->out, count);
	for (uint32_t i = 0; i < count; i++) {
		send_one(s, n + i);
		if (s->burst.to && cellring_burst_stale(&s->burst))
			cellring_burst_open(&s->burst, s->burst.to, s->burst.limit);
	}
	flush(s);
}

static void rest(struct wait *w, uint32_t found)
{
	if (found)
		wait_reset(w);
	else if (wait_step(w))
		sched_yield();
}

static void *answer(void *arg)
{
	struct side *s = arg;
	struct wait w = WAIT_INIT;

	for (uint32_t n = 0; n < CALLS;) {
		uint32_t got = take(s, n, 1 + (uint32_t)(test_rand(&s->seed) % s->in_flight));

		send_some(s, n, got);
		n += got;
		rest(&w, got);
	}
	return NULL;
}

static void call(struct side *s)
{
	struct wait w = WAIT_INIT;
	uint32_t sent = 0, ended = 0;

	while (ended < CALLS) {
		uint32_t room = s->in_flight - (sent - ended), got;

		room = room < CALLS - sent ? room : CALLS - sent;
		send_some(s, sent, room);
		sent += room;
		got = take(s, ended, s->in_flight);
		ended += got;
		rest(&w, got);
	}
}

static void run(uint32_t in_flight)
{
	struct cellring_plan p = cellring_plan_for(WORDS * 8, in_flight, 0);
	AT_END(end_free) unsigned char *rings = aligned_alloc(64, 2 * cellring_bytes(&p));
	struct side a = {.in_flight = in_flight, .seed = test_seed()}, b = a;
	pthread_t t;

	CHECK(rings);
	CHECK_EQ(p.cells, in_flight + 1);
	memset(rings, 0, 2 * cellring_bytes(&p));
	cellring_cursor_init(&a.out, rings, &p);
	cellring_cursor_init(&b.in, rings, &p);
	cellring_cursor_init(&b.out, rings + cellring_bytes(&p), &p);
	cellring_cursor_init(&a.in, rings + cellring_bytes(&p), &p);
	cellring_burst_close(&a.burst);
	cellring_burst_close(&b.burst);
	CHECK_EQ(pthread_create(&t, NULL, answer, &b), 0);
	call(&a);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

TEST_WITH(one_in_flight, run, 1);
TEST_WITH(a_few_in_flight, run, 9);
TEST_WITH(many_in_flight, run, 64);
