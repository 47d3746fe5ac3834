/* SPDX-License-Identifier: MIT */
/*
 * The search on planted anomalies: the number of tries that each method needs until the first
 * anomaly, and how often decisions are wrong if some measurements are wrong.
 */
#include <stdlib.h>

#include "base/order.h"
#include "base/rand.h"
#include "support/test.h"
#include "explore.h"
#include "usual.h"

#define SEEDS 30
#define TRIES 6000
#define CONDITIONS 4
#define REGIONS 2

struct condition {
	unsigned dim;
	uint16_t values;
};

enum shape {
	FLAT, /* throughput is the same everywhere */
	SLOPE, /* throughput falls towards the anomaly */
	DECEPTIVE, /* throughput falls with the distance from the anomaly */
};

struct landscape {
	const char *name;
	enum shape shape;
	double flips; /* share of measurements that are wrong */
	double spread; /* of the measured throughput, relative */
	double drift; /* throughput that is lost over a thousand measurements, relative */
	bool busy; /* 9 of 200 measurements show the anomaly, whatever the point is */
	struct condition region[REGIONS][CONDITIONS];
	/* State of a run. */
	uint64_t rand;
	uint32_t measured;
};

#define SIZE0 (DIM_OP + 1) /* the size of the first request */
#define FROM(value) ((uint16_t) ~((1u << (value)) - 1))
#define UPTO(value) ((uint16_t)((2u << (value)) - 1))
#define ONLY(value) ((uint16_t)(1u << (value)))

static const struct landscape landscapes[] = {
	{.name = "cliff", .region = {{{DIM_TYPE, ONLY(1)}, {DIM_QPS, FROM(2)}, {SIZE0, UPTO(3)}}}},
	{.name = "narrow cliff",
		.region = {{{DIM_TX_DEPTH, FROM(8)}, {DIM_SEND_BATCH, UPTO(1)}, {DIM_MTU, ONLY(1)},
			{DIM_RX_DEPTH, UPTO(2)}}}},
	{.name = "slope",
		.shape = SLOPE,
		.region = {{{DIM_TX_DEPTH, FROM(9)}, {DIM_RX_DEPTH, UPTO(1)}, {SIZE0, UPTO(2)},
			{DIM_RECV_BATCH, FROM(6)}}}},
	{.name = "long slope",
		.shape = SLOPE,
		.region = {{{DIM_TX_DEPTH, FROM(10)}, {DIM_RX_DEPTH, UPTO(0)}, {SIZE0, UPTO(0)},
			{DIM_RECV_BATCH, FROM(5)}}}},
	{.name = "noisy slope",
		.shape = SLOPE,
		.spread = .02,
		.region = {{{DIM_TX_DEPTH, FROM(9)}, {DIM_RX_DEPTH, UPTO(1)}, {SIZE0, UPTO(2)},
			{DIM_RECV_BATCH, FROM(6)}}}},
	{.name = "plateau", .region = {{{DIM_TYPE, ONLY(0)}, {SIZE0, UPTO(5)}}}},
	{.name = "two regions",
		.region = {{{DIM_TYPE, ONLY(2)}, {DIM_QPS, ONLY(3)}, {DIM_RX_DEPTH, UPTO(1)}},
			{{DIM_TX_DEPTH, UPTO(1)}, {DIM_PROCESSES, FROM(4)}}}},
	{.name = "interplay of two",
		.region = {{{DIM_BIDIRECTIONAL, ONLY(1)}, {DIM_RX_DEPTH, UPTO(0)}}}},
	{.name = "interplay of three",
		.region = {{{DIM_BURST, FROM(4)}, {DIM_BUFFERS, ONLY(3)}, {DIM_CONTROL, ONLY(2)}}}},
	{.name = "deceptive",
		.shape = DECEPTIVE,
		.region = {{{DIM_TX_DEPTH, FROM(8)}, {DIM_RX_DEPTH, UPTO(2)}, {SIZE0, UPTO(3)},
			{DIM_RECV_BATCH, FROM(4)}}}},
	{.name = "wrong results",
		.flips = .05,
		.region = {{{DIM_TYPE, ONLY(1)}, {DIM_QPS, FROM(2)}, {SIZE0, UPTO(3)}}}},
	{.name = "drifting",
		.shape = SLOPE,
		.drift = .05,
		.region = {{{DIM_TX_DEPTH, FROM(9)}, {DIM_RX_DEPTH, UPTO(1)}, {SIZE0, UPTO(2)},
			{DIM_RECV_BATCH, FROM(6)}}}},
};

static struct explore_result r;

/* The distance of a value from those of the condition, from 0 to 1. */
static double distance(const struct condition *c, unsigned at)
{
	unsigned n = space_values(usual(), c->dim), least = n;

	for (unsigned v = 0; v < n; v++) {
		unsigned d = v > at ? v - at : at - v;

		if (c->values >> v & 1 && d < least)
			least = d;
	}
	return (double)least / n;
}

static bool inside(const struct landscape *l, const struct point *p)
{
	for (int i = 0; i < REGIONS; i++) {
		bool all = l->region[i][0].values;

		for (int k = 0; k < CONDITIONS && l->region[i][k].values; k++)
			all &= l->region[i][k].values >> p->at[l->region[i][k].dim] & 1;
		if (all)
			return true;
	}
	return false;
}

/*
 * Returns how bad throughput is, from 0 to 1 (1: 40 % is lost). SLOPE: 1 in the first region;
 * DECEPTIVE: 0 in the first region, and more with the distance from it.
 */
static double badness(const struct landscape *l, const struct point *p)
{
	double sum = 0, n = 0;

	for (int k = 0; k < CONDITIONS && l->region[0][k].values; k++, n++)
		sum += distance(&l->region[0][k], p->at[l->region[0][k].dim]);
	if (l->shape == FLAT || !(n > 0))
		return 0;
	return l->shape == SLOPE ? 1 - sum / n : sum / n;
}

static int measure(void *arg, const struct explore_ask *ask, struct measure *m)
{
	struct landscape *l = arg;
	bool spell = l->busy && l->measured % 200 > 190;
	bool bad = spell || inside(l, ask->point) != (rand_unit(&l->rand) < l->flips);
	double lost = l->drift * l->measured++ / 1000 + l->spread * (rand_unit(&l->rand) - .5);
	double gbps = 200 * (1 - .4 * badness(l, ask->point)) * (1 - lost);

	*m = (struct measure){.v = {[MEASURE_TX_GBPS] = gbps, [MEASURE_TX_PAUSE] = bad ? 5000 : 0}};
	return 0;
}

static void search(const struct landscape *of, struct explore_attr *a, uint64_t seed)
{
	struct landscape l = *of;
	struct space space = *usual();

	a->seed = seed;
	a->error = .01;
	l.rand = seed << 32;
	rules_init(&a->rules);
	for (unsigned flow = 0; flow < 2; flow++)
		space.n[space_dim(flow, DIM_INJECT, 0)] = 1;
	a->space = &space;
	CHECK_EQ(explore(a, measure, &l, &r), 0);
}

/* The median of the tries until the first anomaly. */
static double median_tries(const struct landscape *l, enum explore_method method)
{
	double tries[SEEDS];

	for (int i = 0; i < SEEDS; i++) {
		struct explore_attr a = {.method = method, .tries = TRIES, .anomalies = 1};

		search(l, &a, (uint64_t)i + 1);
		tries[i] = r.n ? r.found_at[0] : TRIES;
	}
	return order_median(tries, SEEDS);
}

static void compare_methods(const struct landscape *l)
{
	double random = median_tries(l, EXPLORE_RANDOM), anneal = median_tries(l, EXPLORE_ANNEAL);
	double mixed = median_tries(l, EXPLORE_MIXED);

	printf("  %-20s median tries: random %6.1f, anneal %6.1f, mixed %6.1f (%.2f of random)\n",
		l->name, random, anneal, mixed, mixed / random);
	CHECK(mixed <= (l->shape == SLOPE ? .5 : 1.3) * random);
}

TEST(the_default_is_never_much_slower)
{
	for (size_t i = 0; i < ARRAY_SIZE(landscapes); i++)
		compare_methods(&landscapes[i]);
}

/*
 * Draws conditions on ordered parameters. Each requires the first or the last values of its
 * parameter, at most half of them. Returns the share of all combinations that fit; some
 * combinations are not valid points.
 */
static double draw_corner(struct landscape *l, unsigned n, uint64_t *rand)
{
	static const unsigned dims[] = {DIM_PROCESSES, DIM_QPS, DIM_BURST, DIM_BUFFERS,
		DIM_TX_DEPTH, DIM_RX_DEPTH, DIM_RECV_BATCH, SIZE0};
	double share = 1;

	for (unsigned i = 0; i < n;) {
		unsigned dim = dims[rand_next(rand) % ARRAY_SIZE(dims)],
			 values = space_values(usual(), dim);
		unsigned fit = 1 + (unsigned)(rand_next(rand) % (values / 2));
		bool last = rand_next(rand) % 2, again = false;

		for (unsigned k = 0; k < i; k++)
			again |= l->region[0][k].dim == dim;
		if (again)
			continue;
		l->region[0][i++] =
			(struct condition){dim, last ? FROM(values - fit) : UPTO(fit - 1)};
		share *= (double)fit / values;
	}
	return share;
}

static double share_inside(const struct landscape *l, uint64_t *rand)
{
	const int points = l->shape == SLOPE ? 200000 : 20000;
	int hits = 0;

	for (int i = 0; i < points; i++) {
		struct point p;

		point_random(usual(), &p, rand);
		hits += inside(l, &p);
	}
	return (double)hits / points;
}

/*
 * Draws a landscape. A random point hits the region of a slope with a probability of less than
 * 1/2000. If random points hit it more often, random search would find it before annealing.
 */
static void draw_landscape(struct landscape *l, enum shape shape, uint64_t seed)
{
	static const char *const names[] = {"drawn cliff", "drawn slope", "drawn deceptive"};
	uint64_t rand = seed;
	double share;

	do {
		*l = (struct landscape){.name = names[shape], .shape = shape};
		share = draw_corner(l, shape == FLAT ? 2 + rand_next(&rand) % 2 : CONDITIONS,
			&rand);
		if (shape != SLOPE || (share > .0001 && share < .001))
			share = share_inside(l, &rand);
	} while (shape == SLOPE ? share > .0005 || share < .0002 : share < .002);
}

/* These landscapes are drawn at random, and the methods were not tuned on them. */
TEST(the_default_on_drawn_landscapes)
{
	uint64_t last = getenv("SOAK") ? 42 : 3;

	for (uint64_t seed = 1; seed <= last; seed++) {
		struct landscape l;

		draw_landscape(&l, (enum shape)(seed % 3), seed);
		compare_methods(&l);
	}
}

static bool same_conditions(const struct landscape *l, const struct feature_set *f)
{
	uint16_t planted[SPACE_DIMS] = {0};

	for (int k = 0; k < CONDITIONS && l->region[0][k].values; k++)
		planted[l->region[0][k].dim] =
			l->region[0][k].values &
			(uint16_t)((1u << space_values(usual(), l->region[0][k].dim)) - 1);
	return f->whole && !memcmp(planted, f->values, sizeof(planted));
}

static void print_found(void)
{
	for (uint32_t i = 0; i < r.n; i++) {
		json_t *j = features_json(usual(), &r.found[i]);
		char *text = json_dumps(j, 0);

		printf("    %s%s\n", text, r.found[i].whole ? "" : " (not whole)");
		free(text);
		json_decref(j);
	}
}

/*
 * Returns the number of seeds with which exactly the planted conditions were found, and nothing
 * else.
 */
static int exact(const struct landscape *l, uint32_t tries)
{
	int n = 0;

	for (int i = 0; i < SEEDS; i++) {
		struct explore_attr a = {.method = EXPLORE_MIXED, .tries = tries, .features = true};
		bool good;

		search(l, &a, (uint64_t)i + 1);
		good = l->region[0][0].values ? r.n == 1 && same_conditions(l, &r.found[0]) : !r.n;
		n += good;
		if (!good) {
			printf("  %s, seed %d: %u found\n", l->name, i + 1, r.n);
			print_found();
		}
	}
	printf("  %s, %.0f %% of measurements wrong: exact with %d of %d seeds, the last with %u "
	       "measurements for %u tries\n",
		l->name, l->flips * 100, n, SEEDS, r.measurements, r.tries);
	return n;
}

TEST(conditions_are_found_exactly)
{
	static const double flips[] = {0, .05, .1};

	for (size_t i = 0; i < ARRAY_SIZE(flips); i++) {
		struct landscape three = landscapes[0], one, nothing = {.name = "nothing"};

		one = (struct landscape){.name = "size alone", .region = {{{SIZE0, FROM(11)}}}};
		three.flips = one.flips = nothing.flips = flips[i];
		CHECK(exact(&three, 1000) >= 28);
		CHECK(exact(&one, 300) >= 28);
		CHECK(exact(&nothing, 1000) >= 29);
		three.busy = nothing.busy = true;
		CHECK(exact(&three, 1000) >= 28);
		CHECK(exact(&nothing, 1000) >= 29);
	}
}

/*
 * Values that are valid at some points only: datagrams up to the MTU, the largest depth with up to
 * 256 QPs, a pause only with bursts, and an interval only with control operations. To try such a
 * value, the search also changes the parameters on which its validity depends. The new point may
 * violate another condition.
 */
TEST(values_that_are_not_valid_everywhere)
{
	static const struct landscape all[] = {
		{.name = "not RC", .region = {{{DIM_TYPE, FROM(1)}, {SIZE0, FROM(6)}}}},
		{.name = "deep", .region = {{{DIM_QPS, FROM(4)}, {DIM_TX_DEPTH, FROM(8)}}}},
		{.name = "bursts", .region = {{{DIM_BURST, FROM(1)}}}},
		{.name = "control", .region = {{{DIM_CONTROL, FROM(1)}}}},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		CHECK(exact(&all[i], 1000) >= SEEDS - 1);
}

/* Draws one to three conditions: the first values, the last ones, or a single one. */
static void draw_region(struct landscape *l, uint64_t *rand)
{
	static const unsigned dims[] = {DIM_PROCESSES, DIM_QPS, DIM_MTU, DIM_TYPE,
		DIM_BIDIRECTIONAL, DIM_BURST, DIM_BUFFERS, DIM_REGIONS, DIM_CONTROL, DIM_TX_DEPTH,
		DIM_SEND_BATCH, DIM_RX_DEPTH, DIM_RECV_BATCH, DIM_OP, SIZE0};
	unsigned n = 1 + rand_next(rand) % 3;

	for (unsigned i = 0; i < n;) {
		struct condition c = {.dim = dims[rand_next(rand) % ARRAY_SIZE(dims)]};
		unsigned values = space_values(usual(), c.dim), at = rand_next(rand) % values;
		bool again = false;

		for (unsigned k = 0; k < i; k++)
			again |= l->region[0][k].dim == c.dim;
		c.values = !space_is_ordered(c.dim) ? ONLY(at) :
			   at < values / 2          ? UPTO(at) :
						      FROM(at);
		if (!again && c.values)
			l->region[0][i++] = c;
	}
}

/*
 * Returns true if @f has exactly the planted conditions of the landscape: each point that fits one
 * of the two sets fits the other, and @f has no conditions on other parameters.
 */
static bool mean_the_same(const struct landscape *l, const struct feature_set *f, uint64_t *rand)
{
	struct feature_set planted = {.whole = true};
	uint32_t fit = 0;

	for (int k = 0; k < CONDITIONS && l->region[0][k].values; k++)
		planted.values[l->region[0][k].dim] = l->region[0][k].values;
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (f->values[dim] && !planted.values[dim])
			return false;
	}
	for (int i = 0; i < 200000 && fit < 100; i++) {
		const struct feature_set *from = i % 2 ? &planted : f;
		struct point p;

		point_random(usual(), &p, rand);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			while (from->values[dim] && !(from->values[dim] >> p.at[dim] & 1))
				p.at[dim] = (uint8_t)(rand_next(rand) % space_values(usual(), dim));
		}
		point_settle(usual(), &p);
		if (!feature_fits(from, &p))
			continue;
		if (!feature_fits(i % 2 ? f : &planted, &p))
			return false;
		fit++;
	}
	return fit > 0;
}

/* The conditions of landscapes that are drawn at random. */
TEST(drawn_landscapes)
{
	int found = 0, right = 0;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		struct explore_attr a = {.method = EXPLORE_MIXED,
			.tries = 2000,
			.anomalies = 1,
			.features = true};
		struct landscape l = {.name = "drawn", .flips = .05};
		uint64_t rand = seed;

		draw_region(&l, &rand);
		search(&l, &a, seed);
		found += r.n;
		if (r.n && mean_the_same(&l, &r.found[0], &rand)) {
			right++;
		} else if (r.n) {
			struct feature_set planted = {.whole = true};

			for (int k = 0; k < CONDITIONS && l.region[0][k].values; k++)
				planted.values[l.region[0][k].dim] = l.region[0][k].values;
			r.found[1] = r.found[0];
			r.found[0] = planted;
			r.n = 2;
			printf("  seed %d: planted, found\n", (int)seed);
			print_found();
		}
	}
	printf("  %d found, %d with just the planted conditions\n", found, right);
	CHECK(found >= 80 && right == found);
}
