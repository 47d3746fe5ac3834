/* SPDX-License-Identifier: MIT */
/*
 * Compares the probability that a lost put is found, as computed by odds.h, with the share of jobs
 * that find one. In these jobs a store with many clients loses puts, in random schedules.
 */
#include "odds.h"

#include <malloc.h>
#include <math.h>
#include <string.h>

#include "support/test.h"
#include "crowd.h"

#define TRIALS 150
/* Four standard deviations of TRIALS trials, plus the error of the formula. */
#define TOLERANCE(p) (4 * sqrt((p) * (1 - (p)) / TRIALS) + 0.05)

static uint64_t count_puts(const struct crowd_shape *s)
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

static bool by_number(struct crowd *c, bool put)
{
	return put && c->puts == c->lose;
}

static bool by_chance(struct crowd *c, bool put)
{
	return put && test_rand(&c->rng) < c->lose;
}

/*
 * Runs a job whose store loses one random put (rate 0), or puts at this rate, or none (rate < 0).
 * Returns true if the job finds an error.
 */
static bool find(const struct crowd_shape *s, uint64_t seed, double rate)
{
	static struct crowd c;

	memset(&c, 0, sizeof(c));
	c.rng = seed;
	c.shape = s;
	c.fault = CROWD_LOSE;
	c.due = rate > 0 ? by_chance : by_number;
	c.lose = rate > 0 ? (uint64_t)(rate * 0x1p64) :
		 rate < 0 ? UINT64_MAX :
			    test_rand(&c.rng) % count_puts(s);
	return crowd_find(&c);
}

/* Compares the share of trials that find a lost put with the formula. */
static void compare(const struct crowd_shape *s, double rate)
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

static const struct crowd_shape shapes[] = {
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
	{{.key_range = 2000,
		 .read_ratio = 0.5,
		 .keys = KEYS_HOTSPOT,
		 .hot_keys = 0.1,
		 .hot_ops = 0.8,
		 .seed = 1},
		2, 2, 4, 1, 1500, 500},
};

TEST(one_lost_put)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		compare(&shapes[i], 0);
}

TEST(a_rate_of_lost_puts)
{
	static const size_t some[] = {0, 8};

	for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
		compare(&shapes[some[i]], 1e-4);
		compare(&shapes[some[i]], 1e-3);
	}
}

/* In the same jobs no error is found if the store loses nothing. */
TEST(nothing_lost)
{
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		for (uint64_t seed = 1; seed <= TRIALS / 20; seed++)
			CHECK(!find(&shapes[i], seed, -1));
	}
}

/* One rank at depth 1, with 3,000 operations in a run, all of which the audit covers. */
static struct odds odds_of(const struct workload *load, uint32_t clients, uint32_t keys)
{
	return (struct odds){.load = load,
		.ranks = 1,
		.clients = clients,
		.depth = 1,
		.runs = 1,
		.ops = 3000,
		.keys = keys,
		.window = 3000};
}

TEST(no_puts)
{
	const struct workload load = LOAD(1000, 1, 0);
	const struct odds odds = odds_of(&load, 2, 1000);

	CHECK(odds_one(&odds) == 0);
	CHECK(odds_rate(&odds, 1e-3) == 0);
}

/* Cases with a closed solution. */
TEST(closed_forms)
{
	const struct workload puts = LOAD(1000, 0, 0), half = LOAD(1000, 0.5, 0);
	struct odds o = odds_of(&puts, 1, 1000);
	double none = (1 - exp(-3)) / 3;

	/* One client with only puts: the loss of the last put of a key is found. */
	CHECK(fabs(odds_one(&o) - none) < 1e-3);
	CHECK(fabs(odds_rate(&o, 1e-4) - (1 - pow(1 - 1e-4 * none, 3000))) < 1e-3);
	/* The same if the key is not followed (odds.h); */
	o.keys = 0;
	CHECK(fabs(odds_one(&o) - none) < 1e-3);
	/* if the audit covers half of the run, only losses in that half are found; */
	o.window = 1500;
	CHECK(fabs(odds_one(&o) - (1 - exp(-1.5)) / 3) < 1e-3);
	/* and of three runs, only losses in the last one. */
	o.window = 3000;
	o.runs = 3;
	CHECK(fabs(odds_one(&o) - none / 3) < 1e-3);
	CHECK(fabs(odds_rate(&o, 1e-4) - (1 - pow(1 - 1e-4 * none / 3, 9000))) < 1e-3);
	/* If the client also makes gets, the first get finds the loss unless a put comes before. */
	o = odds_of(&half, 1, 1000);
	CHECK(fabs(odds_one(&o) - (0.5 * (1 - none) + none)) < 1e-3);
	/*
	 * Two clients with only puts, keys not followed: an old value of the other client is
	 * accepted.
	 */
	o = odds_of(&puts, 2, 0);
	CHECK(fabs(odds_one(&o) - (none / 2 + exp(-3) / 2)) < 1e-3);
}

/* One client that only puts: a loss is found if the put was the last one of its key. */
TEST(closed_form_of_hot_keys)
{
	const struct workload load = {.key_range = 1000,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 0.1,
		.hot_ops = 0.8,
		.seed = 1};
	const struct odds o = odds_of(&load, 1, 1000);
	double hot = 0.8 * 3000 / 100, cold = 0.2 * 3000 / 900; /* puts of one key */

	CHECK(fabs(odds_one(&o) - (0.8 * (1 - exp(-hot)) / hot + 0.2 * (1 - exp(-cold)) / cold)) <
		1e-3);
}

int main(int argc, char **argv)
{
	/* Thousands of jobs: each reuses the memory of the last one, without new page faults. */
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	return test_main(argc, argv);
}
