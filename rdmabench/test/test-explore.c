/* SPDX-License-Identifier: MIT */
/* The search on landscapes whose anomaly is known. */
#include <errno.h>

#include "base/order.h"
#include "base/rand.h"
#include "support/test.h"
#include "explore.h"
#include "model.h"
#include "spacefile.h"
#include "usual.h"

#define SEEDS 30
#define TRIES 4000

static struct explore_result r;

static int measure_model(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	return model_measure(*(const enum model_kind *)arg, usual(), ask->point, m_p);
}

static struct explore_attr attr_of(enum explore_method method, uint64_t seed)
{
	struct explore_attr a = {.method = method,
		.seed = seed,
		.tries = TRIES,
		.anomalies = 1,
		.error = .01,
		.space = usual()};

	rules_init(&a.rules);
	return a;
}

/* Returns the median of the tries until the first anomaly, over all seeds. */
static double median_tries(enum model_kind kind, enum explore_method method)
{
	double tries[SEEDS];

	for (int i = 0; i < SEEDS; i++) {
		struct explore_attr a = attr_of(method, (uint64_t)i + 1);

		CHECK_EQ(explore(&a, measure_model, &kind, &r), 0);
		tries[i] = r.n ? r.found_at[0] : TRIES;
	}
	return order_median(tries, SEEDS);
}

TEST(annealing_needs_half_the_tries)
{
	int last = getenv("SOAK") ? MODEL_DECEPTIVE : MODEL_INTERIOR;

	for (int kind = MODEL_CORNER; kind <= last; kind++) {
		double anneal = median_tries((enum model_kind)kind, EXPLORE_ANNEAL);
		double random = median_tries((enum model_kind)kind, EXPLORE_RANDOM);
		double sample = median_tries((enum model_kind)kind, EXPLORE_SAMPLE);

		printf("  %-10s median tries: anneal %.1f, random %.1f, sample %.1f\n",
			model_names[kind], anneal, random, sample);
		if (kind == MODEL_CORNER)
			CHECK(2 * anneal <= random);
		CHECK(anneal < TRIES && random < TRIES);
	}
}

/* A worse point is accepted less often as the temperature falls; a better one always. */
TEST(cold_accepts_less)
{
	static const double temperatures[] = {1, .5, .2, .1, .05, .01};
	uint64_t rand = 5;
	int before = 10000;

	for (size_t i = 0; i < ARRAY_SIZE(temperatures); i++) {
		int accepted = 0;

		for (int k = 0; k < 10000; k++) {
			accepted += anneal_accepts(.5, .4, temperatures[i], &rand);
			CHECK(anneal_accepts(.4, .5, temperatures[i], &rand));
			CHECK(anneal_accepts(.4, .4, temperatures[i], &rand));
		}
		printf("  temperature %.2f: %d of 10000\n", temperatures[i], accepted);
		CHECK(accepted < before);
		before = accepted;
	}
	CHECK(before < 10);
	CHECK(!anneal_accepts(.5, .4, 0, &rand));
}

/* A record of the points that the search measures. */
struct log {
	enum model_kind kind;
	uint32_t n, failures;
	uint64_t digest;
};

static int log_and_measure(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	struct log *l = arg;

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		l->digest = l->digest * 1099511628211u + ask->point->at[dim];
	l->n++;
	if (l->failures && l->n % l->failures == 0)
		return -EIO;
	return model_measure(l->kind, usual(), ask->point, m_p);
}

static uint64_t digest_of(enum explore_method method, uint64_t seed)
{
	struct explore_attr a = attr_of(method, seed);
	struct log l = {.kind = MODEL_CORNER};

	a.anomalies = 3;
	a.features = true;
	CHECK_EQ(explore(&a, log_and_measure, &l, &r), 0);
	return l.digest;
}

TEST(a_seed_gives_the_same_search)
{
	for (int method = EXPLORE_RANDOM; method <= EXPLORE_MIXED; method++) {
		enum explore_method m = (enum explore_method)method;

		CHECK(digest_of(m, 1) == digest_of(m, 1));
		CHECK(digest_of(m, 1) != digest_of(m, 2));
	}
}

/* The conditions that are found are those of the model. */
TEST(conditions_are_what_matters)
{
	struct explore_attr a = attr_of(EXPLORE_ANNEAL, 3);
	enum model_kind kind = MODEL_CORNER;

	a.anomalies = 4;
	a.features = true;
	CHECK_EQ(explore(&a, measure_model, &kind, &r), 0);
	/* The whole region is one anomaly. */
	CHECK(r.n == 1 && r.tries == TRIES && r.found[0].whole);
	CHECK_EQ(r.found[0].kind, ANOMALY_PAUSE);
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		unsigned n = space_values(usual(), dim);
		bool matters = false;

		for (unsigned k = 0; k < MODEL_DIMS; k++)
			matters |= dim == model_dim(k);
		CHECK_EQ(r.found[0].values[dim] != 0, matters);
		/* The values in the condition: those of the last third of the range. */
		for (unsigned at = 0; matters && at < n; at++)
			CHECK_EQ(r.found[0].values[dim] >> at & 1, n - 1 - at <= .34 * (n - 1));
	}
}

static int many_qps_are_slow(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	bool slow = ask->point->at[space_dim(0, DIM_QPS, 0)] == 3;

	*m_p = (struct measure){
		.v = {[MEASURE_TX_GBPS] = 100, [MEASURE_TX_PAUSE] = slow ? 5000 : 0}};
	return 0;
}

/* A sixth of the space has the same anomaly, which is found once. */
TEST(a_known_anomaly_is_not_tried_again)
{
	for (int method = EXPLORE_RANDOM; method <= EXPLORE_MIXED; method++) {
		struct explore_attr a = attr_of((enum explore_method)method, 1);

		a.tries = 200;
		a.anomalies = 0;
		a.features = true;
		CHECK_EQ(explore(&a, many_qps_are_slow, NULL, &r), 0);
		CHECK(r.tries == 200 && r.n == 1);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			CHECK_EQ(r.found[0].values[dim],
				dim == space_dim(0, DIM_QPS, 0) ? 1u << 3 : 0);
	}
}

/*
 * Points with 64 QPs have pauses; with UD they have too little throughput instead. Some points are
 * drawn to show that the conditions are sufficient; every `fail`-th of these cannot be measured (0:
 * all can).
 */
struct drawn {
	uint32_t fail, drawn;
};

static int drawn_points_fail(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	bool many = ask->point->at[space_dim(0, DIM_QPS, 0)] == 3;
	bool slow = many && ask->point->at[space_dim(0, DIM_TYPE, 0)] == 2;
	struct drawn *d = arg;

	*m_p = (struct measure){.v = {[MEASURE_TX_GBPS] = slow ? 1 : 100,
					[MEASURE_TX_PAUSE] = many && !slow ? 5000 : 0}};
	if (ask->what && !strcmp(ask->what, "drawn") && d->fail)
		return d->drawn++ / 3 % d->fail ? 0 : -EIO; /* decide() tries a point three times */
	return 0;
}

/*
 * Points that cannot be measured do not show that the conditions are sufficient. Other points are
 * drawn in their place.
 */
TEST(what_cannot_be_decided_shows_nothing)
{
	struct explore_attr a = attr_of(EXPLORE_RANDOM, 1);
	struct drawn d = {.fail = 1};

	a.features = true;
	a.tries = 30;
	CHECK_EQ(explore(&a, drawn_points_fail, &d, &r), 0);
	CHECK(r.n == 1 && !r.found[0].whole);
	d.fail = 7;
	CHECK_EQ(explore(&a, drawn_points_fail, &d, &r), 0);
	CHECK(r.n == 1 && r.found[0].whole);
}

/* Conditions that were not shown to be sufficient do not hide other anomalies. */
TEST(only_shown_conditions_exclude)
{
	struct explore_attr a = attr_of(EXPLORE_RANDOM, 1);
	struct drawn d = {.fail = 1};
	bool kinds[4] = {false};

	a.features = true;
	a.tries = 100;
	a.anomalies = 20;
	CHECK_EQ(explore(&a, drawn_points_fail, &d, &r), 0);
	for (uint32_t i = 0; i < r.n; i++) {
		kinds[-r.found[i].kind] = true;
		CHECK(!r.found[i].whole);
	}
	CHECK(kinds[-ANOMALY_PAUSE] && kinds[-ANOMALY_THROUGHPUT]);
}

/*
 * The space has 18 points, of which three have an anomaly. No conditions are shown to be
 * sufficient, so each of the three points is an anomaly of its own.
 */
TEST(the_point_of_an_anomaly_is_found_once)
{
	struct explore_attr a = attr_of(EXPLORE_RANDOM, 1);
	struct space few = *usual();
	struct drawn d = {.fail = 1};

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		if (dim != space_dim(0, DIM_QPS, 0) && dim != space_dim(0, DIM_TYPE, 0))
			few.n[dim] = 1;
	}
	a.space = &few;
	a.features = true;
	a.tries = 100;
	a.anomalies = 0;
	CHECK_EQ(explore(&a, drawn_points_fail, &d, &r), 0);
	CHECK_EQ(r.n, 3);
}

static int count_and_be_slow(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	uint32_t *asked = (uint32_t *)arg;

	asked[ask->purpose]++;
	*m_p = (struct measure){.v = {[MEASURE_TX_GBPS] = 1}};
	return 0;
}

/* If every point breaks a rule, no conditions are looked for. */
TEST(a_blunt_rule_has_no_conditions)
{
	for (int method = EXPLORE_RANDOM; method <= EXPLORE_MIXED; method++) {
		struct explore_attr a = attr_of((enum explore_method)method, 1);
		uint32_t asked[3] = {0};

		a.anomalies = 5;
		a.features = true;
		CHECK_EQ(explore(&a, count_and_be_slow, asked, &r), 0);
		CHECK(r.n == 5 && asked[PURPOSE_TRY] == 5);
		CHECK_EQ(r.measurements, asked[PURPOSE_TRY] + asked[PURPOSE_AGAIN]);
		CHECK_EQ(asked[PURPOSE_FEATURE], 0);
		for (uint32_t i = 0; i < r.n; i++)
			for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
				CHECK(!r.found[i].values[dim] && !r.found[i].whole);
		CHECK(r.blunt[-ANOMALY_THROUGHPUT] && !r.blunt[-ANOMALY_PAUSE] &&
			!r.blunt[-ANOMALY_LATENCY]);
	}
}

static int fixed_and_measure(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	struct traffic t;

	CHECK(point_traffic(arg, ask->point, 0, &t) && t.qps == 256);
	CHECK_EQ(point_direction(arg, ask->point), DIRECTION_NONE);
	return model_measure(MODEL_CORNER, arg, ask->point, m_p);
}

/* No method varies a fixed parameter, and the parameter never becomes a condition. */
TEST(what_is_fixed_stays)
{
	char why[200];

	for (int method = EXPLORE_RANDOM; method <= EXPLORE_MIXED; method++) {
		struct explore_attr a = attr_of((enum explore_method)method, 1);
		struct space space = *usual();

		CHECK_EQ(space_change(&space, "0.qp_num=256", why, sizeof(why)), 0);
		CHECK_EQ(space_change(&space, "1.direction=none", why, sizeof(why)), 0);
		a.space = &space;
		a.features = true;
		CHECK_EQ(explore(&a, fixed_and_measure, &space, &r), 0);
		CHECK(r.n == 1 && !r.found[0].values[space_dim(0, DIM_QPS, 0)] &&
			r.found[0].values[space_dim(0, DIM_SIZE, 0)]);
	}
}

/* sampled[dim][v]: the number of points whose parameter dim has value number v. */
static uint32_t sampled[SPACE_DIMS][16];

static int count_values(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		sampled[dim][ask->point->at[dim]]++;
	return -EIO;
}

/* Every value of a parameter is tried as often as any other. */
TEST(sample_covers_evenly)
{
	struct explore_attr a = attr_of(EXPLORE_SAMPLE, 1);
	unsigned always[] = {space_dim(0, DIM_QPS, 0), space_dim(0, DIM_RX_DEPTH, 0),
		space_dim(0, DIM_TYPE, 0), space_dim(1, DIM_DIRECTION, 0)};

	a.tries = 6 * 7 * 3;
	CHECK_EQ(explore(&a, count_values, NULL, &r), 0);
	CHECK(r.tries == a.tries && r.failures == a.tries && r.n == 0);
	for (size_t i = 0; i < ARRAY_SIZE(always); i++)
		for (unsigned v = 0; v < space_values(usual(), always[i]); v++)
			CHECK_EQ(sampled[always[i]][v], a.tries / space_values(usual(), always[i]));
}

/* A point that cannot be measured is not an anomaly, and does not stop the search. */
TEST(failures_are_passed_over)
{
	struct explore_attr a = attr_of(EXPLORE_ANNEAL, 1);
	struct log l = {.kind = MODEL_CORNER, .failures = 3};

	CHECK_EQ(explore(&a, log_and_measure, &l, &r), 0);
	CHECK(r.n == 1 && r.failures > 0 && r.failures <= l.n / 3);
}

/* The names of measurements: purpose, number of the try or anomaly, part. */
struct names {
	uint32_t n, purpose[20000], of[20000], part[20000];
	uint64_t rand;
};

static int name_and_measure(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	static struct measure bad = {.v = {[MEASURE_TX_GBPS] = 100, [MEASURE_TX_PAUSE] = 5000}};
	struct names *names = arg;
	uint32_t i = names->n++;

	CHECK(i < ARRAY_SIZE(names->of));
	names->purpose[i] = ask->purpose;
	names->of[i] = ask->of;
	names->part[i] = ask->part;
	if (ask->purpose == PURPOSE_AGAIN)
		CHECK_EQ(ask->of + 1, r.tries);
	if (ask->purpose == PURPOSE_FEATURE)
		CHECK_EQ(ask->of, r.n);
	if (ask->purpose != PURPOSE_TRY && i && names->purpose[i - 1] == names->purpose[i] &&
		names->of[i - 1] == names->of[i])
		CHECK_EQ(ask->part, names->part[i - 1] + 1);
	else
		CHECK_EQ(ask->part, 0);
	if (rand_unit(&names->rand) > .05)
		return many_qps_are_slow(NULL, ask, m_p);
	*m_p = bad;
	return 0;
}

/* Measurements have unique names, even those of candidates that are refuted. */
TEST(each_measurement_has_a_name)
{
	static struct names names;
	struct explore_attr a = attr_of(EXPLORE_RANDOM, 1);

	a.tries = 200;
	a.anomalies = 0;
	a.features = true;
	CHECK_EQ(explore(&a, name_and_measure, &names, &r), 0);
	CHECK(r.refuted > 3 && r.n == 1);
	for (uint32_t i = 0; i < names.n; i++)
		for (uint32_t k = 0; k < i; k++)
			CHECK(names.purpose[i] == PURPOSE_TRY ||
				names.purpose[i] != names.purpose[k] ||
				names.of[i] != names.of[k] || names.part[i] != names.part[k]);
}

/*
 * Every `fails`-th measurement fails (0: none). After a failed measurement, count_and_measure()
 * reports in `others` that it has measured a second time, provided that more measurements are
 * allowed.
 */
struct counted {
	uint32_t fails, asked, more, most;
};

static int count_and_measure(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	struct counted *c = arg;
	bool fails;

	c->asked++;
	fails = c->fails && c->asked % c->fails == 0;
	CHECK_EQ(ask->last, c->asked + c->more == c->most);
	if (fails && !ask->last) {
		++*ask->others;
		c->more++;
	}
	return fails ? -EIO : model_measure(MODEL_CORNER, usual(), ask->point, m_p);
}

static void search_up_to(uint32_t most, uint32_t fails)
{
	struct explore_attr a = attr_of(EXPLORE_MIXED, 1);
	struct counted c = {.fails = fails, .most = most};

	a.anomalies = 0;
	a.features = true;
	a.measurements = most;
	CHECK_EQ(explore(&a, count_and_measure, &c, &r), 0);
	CHECK(c.asked + c.more == most && r.measurements == most && r.tries <= most);
}

/*
 * Measurements of all purposes count towards the limit, and so do those that the measuring function
 * reports in `others`.
 */
TEST(measurements_end_the_search)
{
	for (uint32_t most = 1; most < 400; most += 7) {
		search_up_to(most, 0);
		search_up_to(most, 10);
	}
}

TEST(annealing_anneals)
{
	struct explore_attr a = attr_of(EXPLORE_ANNEAL, 1);
	enum model_kind kind = MODEL_DECEPTIVE;

	a.tries = 500;
	CHECK_EQ(explore(&a, measure_model, &kind, &r), 0);
	printf("  %u worse points accepted, %u rejected\n", r.accepted_worse, r.rejected);
	CHECK(r.accepted_worse > 0 && r.rejected > r.accepted_worse);
}
