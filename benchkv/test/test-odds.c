/* SPDX-License-Identifier: MIT */
/*
 * How likely is it that a lost put is found? What odds.h says is compared with how often it is: puts
 * are lost by a store with many clients, in schedules that a seed draws.
 */
#include "odds.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "check.h"
#include "store.h"

#define CLIENTS 8
#define DEPTH 64
#define TRIALS 150
/* Four standard deviations of so many trials, and what the formula leaves out. */
#define TOLERANCE(p) (4 * sqrt((p) * (1 - (p)) / TRIALS) + 0.05)

static const struct placement place = {.ranks = 1, .shards = 1};

struct shape {
	struct workload load;
	uint32_t ranks, clients, depth, runs;
	uint64_t ops; /* of each client in a run */
	uint32_t keys; /* that are followed; 0: all */
};

struct request {
	struct kv_req req;
	struct kv_resp resp;
};

/* A client, and its requests in order: those below served are. */
struct side {
	struct stream stream;
	struct checker check;
	struct request request[DEPTH];
	uint32_t open, served;
	uint64_t next;
};

struct job {
	const struct shape *shape;
	struct source source;
	struct store store;
	struct board boards[CLIENTS];
	struct side side[CLIENTS];
	uint32_t n;
	uint64_t rng, lose, puts; /* lose: this put, or each with this probability of 2^64 */
	bool rate;
};

static void job_init(struct job *j, const struct shape *s)
{
	source_init(&j->source, &s->load);
	CHECK_EQ(store_init(&j->store, &place, 0, 0, s->load.key_range), 0);
	CHECK_EQ(store_preload(&j->store, s->load.key_range), 0);
	j->shape = s;
	j->n = s->ranks * s->clients;
	for (uint32_t i = 0; i < s->ranks; i++)
		CHECK_EQ(board_init(&j->boards[i], history_keys(s->load.key_range)), 0);
	for (uint32_t i = 0; i < j->n; i++) {
		const struct history_attr attr = {.source = &j->source,
			.board = s->clients > 1 ? &j->boards[i / s->clients] : NULL,
			.client = i,
			.writers = j->n,
			.ops = s->ops * j->n,
			.preloaded = true};
		struct side *c = &j->side[i];

		stream_init(&c->stream, &j->source, &place, i);
		CHECK_EQ(check_init(&c->check, &attr, &c->stream, 0, s->depth), 0);
		if (s->keys)
			c->check.history.n_keys = s->keys;
	}
}

static void job_fini(struct job *j)
{
	for (uint32_t i = 0; i < j->n; i++)
		check_fini(&j->side[i].check);
	for (uint32_t i = 0; i < j->shape->ranks; i++)
		board_fini(&j->boards[i]);
	store_fini(&j->store);
}

static void serve(struct job *j, struct request *r)
{
	bool put = r->req.type == KV_PUT;

	if (put && (j->rate ? test_rand(&j->rng) < j->lose : j->puts == j->lose))
		r->resp = kv_reply(&r->req, KV_PUT_OK, r->req.value);
	else
		r->resp = store_serve(&j->store, &r->req);
	j->puts += put;
}

static void open_next(struct side *c)
{
	struct request *r = &c->request[c->open++];

	check_open(&c->check, c->next++, 0, &r->req);
	check_sent(&c->check, &r->req);
}

static void answer(struct side *c, uint32_t i)
{
	uint64_t start;

	check_reply(&c->check, c->request[i].req.seq, &c->request[i].resp, &start);
	c->served--;
	c->open--;
	memmove(&c->request[i], &c->request[i + 1], (c->open - i) * sizeof(c->request[0]));
}

/* One of: the client makes a request, the store serves its oldest one, an answer arrives. */
static void step(struct job *j, struct side *c, uint64_t last)
{
	switch (test_rand(&j->rng) % 3) {
	case 0:
		if (c->open < j->shape->depth && c->next < last)
			open_next(c);
		break;
	case 1:
		if (c->served < c->open)
			serve(j, &c->request[c->served++]);
		break;
	default:
		if (c->served)
			answer(c, (uint32_t)(test_rand(&j->rng) % c->served));
	}
}

static bool busy(const struct job *j, uint64_t last)
{
	for (uint32_t i = 0; i < j->n; i++) {
		if (j->side[i].open || j->side[i].next < last)
			return true;
	}
	return false;
}

static uint64_t errors(const struct job *j)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < j->n; i++)
		n += check_errors(&j->side[i].check.n);
	return n;
}

/* What a run finds, with its clients by turns; or, with made, the audit. */
static uint64_t run(struct job *j, uint32_t run, const struct history_made *made)
{
	for (uint32_t i = 0; i < j->n; i++) {
		j->side[i].next = 0;
		if (made)
			CHECK_EQ(check_audit(&j->side[i].check, run, made), 0);
		else
			check_restart(&j->side[i].check, run);
	}
	if (!made) {
		while (busy(j, j->shape->ops))
			step(j, &j->side[test_rand(&j->rng) % j->n], j->shape->ops);
		return errors(j);
	}
	for (uint32_t i = 0; i < j->n; i++) {
		struct side *c = &j->side[i];

		while (c->next < c->check.n_due) {
			open_next(c);
			serve(j, &c->request[c->served++]);
			answer(c, 0);
		}
	}
	return errors(j);
}

static uint64_t count_puts(const struct shape *s)
{
	struct source source;
	uint64_t n = 0;

	source_init(&source, &s->load);
	for (uint32_t i = 0; i < s->ranks * s->clients; i++) {
		for (uint64_t op = 0; op < s->ops; op++)
			n += source_op(&source, i, op).put;
	}
	return n * s->runs;
}

/* A job that loses one put, any one, or puts at that rate; rate < 0: none. Is it found? */
static bool find(const struct shape *s, uint64_t seed, double rate)
{
	static struct job j;
	struct history_made made[CLIENTS];
	uint64_t found = 0;

	memset(&j, 0, sizeof(j));
	j.rng = seed;
	job_init(&j, s);
	j.rate = rate > 0;
	j.lose = rate > 0 ? (uint64_t)(rate * 0x1p64) :
		 rate < 0 ? UINT64_MAX :
			    test_rand(&j.rng) % count_puts(s);
	for (uint32_t i = 0; i < j.n; i++)
		made[i] = (struct history_made){s->ops, s->ops, 0};
	for (uint32_t i = 0; i < s->runs; i++)
		found += run(&j, i, NULL);
	found += run(&j, s->runs, made);
	job_fini(&j);
	return found;
}

/* Shares of trials: found, and what the formula says. */
static void compare(const struct shape *s, double rate)
{
	const struct odds odds = {.load = &s->load,
		.ranks = s->ranks,
		.clients = s->clients,
		.depth = s->depth,
		.runs = s->runs,
		.ops = s->ops * s->ranks * s->clients,
		.keys = s->keys ? s->keys : s->load.key_range,
		.window = CHECK_WINDOW};
	double said = rate > 0 ? odds_rate(&odds, rate) : odds_one(&odds), seen;
	uint32_t found = 0;

	for (uint32_t i = 0; i < TRIALS; i++)
		found += find(s, 1 + i, rate);
	seen = (double)found / TRIALS;
	printf("%llu keys, ratio %g, theta %g, %u x %u clients, depth %u, %llu ops, %u runs, "
	       "followed %u, rate %g: %.3f found, %.3f said\n",
		(unsigned long long)s->load.key_range, s->load.read_ratio, s->load.zipf_theta,
		s->ranks, s->clients, s->depth, (unsigned long long)s->ops, s->runs, s->keys, rate,
		seen, said);
	CHECK(fabs(seen - said) <= TOLERANCE(said));
}

#define LOAD(keys, ratio, theta)                                                                   \
	{                                                                                          \
		.key_range = keys, .read_ratio = ratio, .zipf_theta = theta, .seed = 1             \
	}

static const struct shape shapes[] = {
	{LOAD(2000, 0.5, 0), 1, 2, 4, 1, 1500, 0},
	{LOAD(2000, 0.9, 0), 1, 2, 4, 1, 3000, 0},
	{LOAD(1000, 0, 0), 1, 2, 4, 1, 500, 0},
	{LOAD(200, 0.5, 0), 2, 2, 4, 1, 600, 0},
	{LOAD(1000, 0.5, 0), 4, 1, 8, 1, 700, 0},
	{LOAD(1000, 0.8, 0), 4, 2, 8, 1, 400, 0},
	{LOAD(2000, 0.5, 0), 1, 4, 4, 1, 700, 200},
	{LOAD(3000, 0.5, 0.99), 1, 4, 8, 1, 700, 0},
	{LOAD(3000, 0.5, 0.99), 2, 2, 8, 1, 700, 300},
	{LOAD(2000, 0.5, 0), 1, 2, 4, 2, 1000, 0},
	{LOAD(100, 0.5, 0), 1, 2, 32, 1, 1500, 0},
	{LOAD(3, 0.5, 0), 1, 2, 8, 1, 1000, 0},
};

static void one_lost_put(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		compare(&shapes[i], 0);
}

static void a_rate_of_lost_puts(void)
{
	static const size_t some[] = {0, 8};

	for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
		compare(&shapes[some[i]], 1e-4);
		compare(&shapes[some[i]], 1e-3);
	}
}

/* The same jobs, with a store that loses nothing. */
static void nothing_lost(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (uint64_t seed = 1; seed <= TRIALS / 20; seed++)
			CHECK(!find(&shapes[i], seed, -1));
	}
}

static void no_puts(void)
{
	const struct workload load = LOAD(1000, 1, 0);
	const struct odds odds = {.load = &load,
		.ranks = 1,
		.clients = 2,
		.depth = 8,
		.runs = 1,
		.ops = 1000,
		.keys = 1000,
		.window = CHECK_WINDOW};

	CHECK(odds_one(&odds) == 0);
	CHECK(odds_rate(&odds, 1e-3) == 0);
}

/* Cases that can be solved: the average over t of what is left of exp(). */
static void closed_forms(void)
{
	const struct workload puts = LOAD(1000, 0, 0), half = LOAD(1000, 0.5, 0);
	struct odds o = {.load = &puts,
		.ranks = 1,
		.clients = 1,
		.depth = 1,
		.runs = 1,
		.ops = 3000,
		.keys = 1000,
		.window = 3000};
	double none = (1 - exp(-3)) / 3;

	/* One client that puts only: the last put of a key is found. */
	CHECK(fabs(odds_one(&o) - none) < 1e-3);
	CHECK(fabs(odds_rate(&o, 1e-4) - (1 - pow(1 - 1e-4 * none, 3000))) < 1e-3);
	/* So it is if the key is not followed; */
	o.keys = 0;
	CHECK(fabs(odds_one(&o) - none) < 1e-3);
	/* if the audit goes through half of the run, in the second half only; */
	o.window = 1500;
	CHECK(fabs(odds_one(&o) - (1 - exp(-1.5)) / 3) < 1e-3);
	/* and of three runs, in the last one. */
	o.window = 3000;
	o.runs = 3;
	CHECK(fabs(odds_one(&o) - none / 3) < 1e-3);
	CHECK(fabs(odds_rate(&o, 1e-4) - (1 - pow(1 - 1e-4 * none / 3, 9000))) < 1e-3);
	/* If it gets as well, by the first get unless a put comes before. */
	o = (struct odds){.load = &half,
		.ranks = 1,
		.clients = 1,
		.depth = 1,
		.runs = 1,
		.ops = 3000,
		.keys = 1000,
		.window = 3000};
	CHECK(fabs(odds_one(&o) - (0.5 * (1 - none) + none)) < 1e-3);
	/* Two clients that put, of keys that are not followed: what is left may be the other one's. */
	o = (struct odds){.load = &puts,
		.ranks = 1,
		.clients = 2,
		.depth = 1,
		.runs = 1,
		.ops = 3000,
		.keys = 0,
		.window = 3000};
	CHECK(fabs(odds_one(&o) - (none / 2 + exp(-3) / 2)) < 1e-3);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(one_lost_put),
		TEST(a_rate_of_lost_puts),
		TEST(nothing_lost),
		TEST(closed_forms),
		TEST(no_puts),
	};

	/* Thousands of jobs: what one has freed is the next one's, without a fault for each page. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
