/* SPDX-License-Identifier: MIT */
/* Every point of the search is traffic that the engine accepts; the landscapes of the model. */
#include "support/test.h"
#include "mlx5dvl.h"
#include "model.h"

static char why[200];

static void check_runs(const struct point *p)
{
	for (unsigned i = 0; i < 2; i++) {
		struct traffic t;
		uint32_t processes = point_traffic(p, i, &t);

		CHECK(processes <= 6 && (processes || i));
		CHECK(p->at[space_dim(i, DIM_INJECT, 0)] || !p->at[space_dim(i, DIM_INJECT_AT, 0)]);
		if (processes && traffic_check(&t, why, sizeof(why))) {
			fprintf(stderr, "%s: %s\n", t.pattern_text, why);
			exit(1);
		}
		CHECK(!processes || t.type != MLX5DVL_UD ||
			t.pattern.largest_send <= 128u << t.mtu);
	}
}

TEST(every_point_can_run)
{
	uint64_t rand = test_seed();

	for (int i = 0; i < 20000; i++) {
		struct point p, q;
		json_t *o, *other;
		unsigned differ = 0;

		point_random(&p, &rand);
		check_runs(&p);
		q = p;
		point_settle(&q);
		CHECK(point_equal(&p, &q));
		point_mutate(&q, &rand);
		CHECK(!point_equal(&p, &q));
		check_runs(&q);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			CHECK(q.at[dim] < space_values(dim));
			differ += p.at[dim] != q.at[dim];
		}
		CHECK(differ > 0);
		o = point_json(&p);
		other = point_json(&q);
		CHECK(!json_equal(o, other));
		json_decref(o);
		json_decref(other);
	}
}

static struct fixed fixed_of(const char *const *texts)
{
	struct fixed f = {{0}, {{0}}};

	for (; *texts; texts++)
		CHECK_EQ(fixed_add(&f, *texts, why, sizeof(why)), 0);
	return f;
}

/* Every value of every parameter can be fixed, by its name in results. */
TEST(every_value_can_be_fixed)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		for (unsigned at = 0; at < space_values(dim); at++) {
			char name[SPACE_NAME], value[SPACE_NAME], text[2 * SPACE_NAME + 1];
			const char *texts[] = {text, NULL};
			struct fixed f;

			space_name(dim, name);
			space_value(dim, at, value);
			snprintf(text, sizeof(text), "%s=%s", name, value);
			f = fixed_of(texts);
			CHECK(f.on[dim] && f.point.at[dim] == at);
		}
	}
}

TEST(fixed_values_stay)
{
	static const char *const texts[] = {"0.process_num=2", "0.qp_type=UC", "0.mtu=2048",
		"0.request0.op=s", "1.direction=none", "0.burst=16", NULL};
	struct fixed f = fixed_of(texts);
	uint64_t rand = test_seed();
	bool varied[SPACE_DIMS] = {false};
	struct point first;

	for (int i = 0; i < 1000; i++) {
		struct point p;

		point_random(&p, &rand);
		fixed_apply(&f, &p);
		check_runs(&p);
		first = i ? first : p;
		CHECK(p.at[space_dim(0, DIM_PROCESSES, 0)] == 1 &&
			p.at[space_dim(0, DIM_TYPE, 0)] == 1);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			CHECK(!f.on[dim] || p.at[dim] == f.point.at[dim]);
			varied[dim] |= p.at[dim] != first.at[dim];
		}
	}
	CHECK(varied[space_dim(0, DIM_QPS, 0)] && varied[space_dim(0, DIM_SIZE, 0)]);
}

/* If fixed values exclude each other, the transport's value stays and the other one changes. */
TEST(fixed_values_are_settled)
{
	static const char *const texts[] = {"0.qp_type=UD", "0.request0.op=w",
		"0.request0.size=131072", NULL};
	struct fixed f = fixed_of(texts);
	struct point p = {{0}};

	fixed_apply(&f, &p);
	check_runs(&p);
	CHECK_EQ(p.at[space_dim(0, DIM_TYPE, 0)], 2);
}

TEST(what_cannot_be_fixed_is_said)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"0.qp_num=5", "--fix: 0.qp_num has no such value: give one of 1, 4, 16, 64, 256"},
		{"1.direction=up", "give one of none, reverse, loopback"},
		{"0.mtu=3", "give one of 256, 512, 1024, 2048, 4096"},
		{"0.qp_num=", "has no such value"},
		{"qp_num=1", "give a parameter and its value"},
		{"0.qp_num", "give a parameter and its value"},
		{"0.direction=none", "give a parameter and its value"},
		{"", "give a parameter and its value"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fixed f = {{0}, {{0}}};

		CHECK(fixed_add(&f, cases[i].text, why, sizeof(why)) < 0);
		CHECK(strstr(why, cases[i].says));
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			CHECK(!f.on[dim]);
	}
}

/* Random points reach every value of every dimension. */
TEST(random_points_reach_everything)
{
	static bool seen[SPACE_DIMS][256];
	uint64_t rand = 1;

	for (int i = 0; i < 20000; i++) {
		struct point p;

		point_random(&p, &rand);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			seen[dim][p.at[dim]] = true;
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		for (unsigned v = 0; v < space_values(dim); v++)
			CHECK(seen[dim][v]);
}

TEST(the_space_is_as_described)
{
	static const struct {
		enum dimension_kind kind;
		unsigned values;
		const char *name;
	} want[] = {
		{DIM_PROCESSES, 6, "0.process_num"},
		{DIM_QPS, 5, "0.qp_num"},
		{DIM_MTU, 5, "0.mtu"},
		{DIM_TYPE, 3, "0.qp_type"},
		{DIM_BURST, 5, "0.burst"},
		{DIM_BUFFERS, 4, "0.buf_num"},
		{DIM_REGIONS, 4, "0.mr_num"},
		{DIM_REQUESTS, 8, "0.requests"},
		{DIM_CONTROL, 6, "0.control"},
		{DIM_INJECT, 4, "0.inject"},
		{DIM_INJECT_AT, 4, "0.inject_at"},
		{DIM_EVENTS, 2, "0.events"},
		{DIM_INLINE, 4, "0.inline"},
		{DIM_TX_DEPTH, 11, "0.tx_depth"},
		{DIM_SEND_BATCH, 7, "0.send_batch"},
		{DIM_OP, 7, "0.request0.op"},
		{DIM_SIZE, 13, "0.request0.size"},
		{DIM_PLACES, 4, "0.request0.places"},
		{DIM_DIRECTION, 3, "1.direction"},
	};
	struct point p = {{0}};
	struct traffic t;

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		unsigned dim = space_dim(0, want[i].kind, 0);
		char name[SPACE_NAME];

		space_name(dim, name);
		CHECK_EQ(space_values(dim), want[i].values);
		CHECK(!strcmp(name, want[i].name));
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		p.at[dim] = (uint8_t)(space_values(dim) - 1);
	p.at[space_dim(0, DIM_TYPE, 0)] = 0;
	for (unsigned request = 0; request < 8; request++)
		p.at[space_dim(0, DIM_OP, request)] = 2;
	CHECK_EQ(point_traffic(&p, 0, &t), 6);
	CHECK(t.qps == 256 && t.sleeps && t.inline_max == 220);
	CHECK(t.mtu == 5 && t.depth == 1024 && t.send_batch == 64 && t.burst == 64);
	CHECK(t.buffers == 4 && t.regions == 4);
	CHECK(t.control == CONTROL_LKEY && t.inject == INJECT_DELAY && t.inject_at == 4096);
	CHECK(t.rx_depth == 1024 && t.recv_batch == 64 && t.bidirectional);
	CHECK(!strncmp(t.pattern_text, "r_4_32768_32768_32768_32768,", 28));
}

/* Between 0.1 % and 1 % of all random points are anomalies. */
TEST(landscapes_hide_their_anomaly)
{
	struct rules r;

	rules_init(&r);
	for (int kind = MODEL_CORNER; kind <= MODEL_DECEPTIVE; kind++) {
		enum model_kind k = (enum model_kind)kind;
		uint64_t rand = 1;
		int hits = 0;

		for (int i = 0; i < 100000; i++) {
			struct point p;
			struct measure m;

			point_random(&p, &rand);
			CHECK_EQ(model_measure(k, &p, &m), 0);
			hits += measure_judge(&m, &r) != ANOMALY_NONE;
		}
		printf("  %s: %d of 100000\n", model_names[kind], hits);
		CHECK(hits > 100 && hits < 1000);
	}
}

/* Each step of a parameter that matters towards the corner increases the energy. */
TEST(the_corner_is_graded)
{
	enum model_kind k = MODEL_CORNER;
	struct point p = {{0}};
	struct measure m;
	struct rules r;
	double before;

	rules_init(&r);
	p.at[space_dim(0, DIM_TX_DEPTH, 0)] = 10; /* so that batches can be large */
	CHECK_EQ(model_measure(k, &p, &m), 0);
	before = measure_energy(&m, &r);
	for (unsigned i = 0; i < MODEL_DIMS; i++) {
		unsigned dim = model_dim(i);

		while (p.at[dim] + 1u < space_values(dim)) {
			p.at[dim]++;
			CHECK_EQ(model_measure(k, &p, &m), 0);
			CHECK(measure_energy(&m, &r) > before);
			before = measure_energy(&m, &r);
		}
	}
	CHECK_EQ(measure_judge(&m, &r), ANOMALY_PAUSE);
}

static enum anomaly judge(double gbps, double packets, double tx_pause, double rx_pause, double p99)
{
	struct measure m = {.v = {gbps, gbps, packets, packets, tx_pause, rx_pause}};
	struct rules r;

	rules_init(&r);
	r.p99_ns = 1000;
	m.latency.has[STATS_P99] = p99 > 0;
	m.latency.v[STATS_P99] = p99;
	return measure_judge(&m, &r);
}

TEST(rules_are_as_documented)
{
	CHECK_EQ(judge(90, 0, 1000, 0, 1000), ANOMALY_NONE);
	CHECK_EQ(judge(0, 4e6, 0, 0, 0), ANOMALY_NONE);
	CHECK_EQ(judge(89.9, 3.9e6, 0, 0, 0), ANOMALY_THROUGHPUT);
	CHECK_EQ(judge(90, 4e6, 1000.1, 0, 0), ANOMALY_PAUSE);
	CHECK_EQ(judge(90, 4e6, 0, .1, 0), ANOMALY_PAUSE);
	CHECK_EQ(judge(90, 4e6, 0, 0, 1001), ANOMALY_LATENCY);
	CHECK_EQ(judge(0, 0, 2000, 0, 1001), ANOMALY_PAUSE);
}

/* Lost throughput, pauses and, if it has a limit, latency add to the energy. */
TEST(energy_has_three_parts)
{
	struct measure m = {.v = {[MEASURE_TX_GBPS] = 90, [MEASURE_RX_GBPS] = 90}};
	struct rules r;

	rules_init(&r);
	m.latency.v[STATS_P99] = 500;
	CHECK(measure_energy(&m, &r) == .5);
	m.v[MEASURE_TX_GBPS] = m.v[MEASURE_RX_GBPS] = 0;
	CHECK(measure_energy(&m, &r) == 1);
	m.v[MEASURE_TX_PAUSE] = 5e5;
	CHECK(measure_energy(&m, &r) == 1.25);
	r.p99_ns = 1000;
	CHECK(measure_energy(&m, &r) == 1.75);
	m.latency.v[STATS_P99] = 5000;
	CHECK(measure_energy(&m, &r) == 2.25);
	/* Without a limit of the throughput. */
	r = (struct rules){0};
	m.v[MEASURE_TX_PAUSE] = 0;
	m.v[MEASURE_TX_GBPS] = 2;
	CHECK(measure_energy(&m, &r) == .5);
}
