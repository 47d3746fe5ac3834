/* SPDX-License-Identifier: MIT */
/*
 * The engine accepts the traffic of every point of the search. Also tests the landscapes of
 * model.h.
 */
#include "support/test.h"
#include "mlx5dvl.h"
#include "model.h"
#include "spacefile.h"
#include "usual.h"

static char why[200];

static void check_runs(const struct space *s, const struct point *p)
{
	for (unsigned i = 0; i < 2; i++) {
		struct traffic t;
		uint32_t processes = point_traffic(s, p, i, &t);

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

		point_random(usual(), &p, &rand);
		check_runs(usual(), &p);
		q = p;
		point_settle(usual(), &q);
		CHECK(point_equal(&p, &q));
		point_mutate(usual(), &q, &rand);
		CHECK(!point_equal(&p, &q));
		check_runs(usual(), &q);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
			CHECK(q.at[dim] < space_values(usual(), dim));
			differ += p.at[dim] != q.at[dim];
		}
		CHECK(differ > 0);
		o = point_json(usual(), &p);
		other = point_json(usual(), &q);
		CHECK(!json_equal(o, other));
		json_decref(o);
		json_decref(other);
	}
}

static struct space changed(const char *const *texts)
{
	struct space s = *usual();

	for (; *texts; texts++)
		CHECK_EQ(space_change(&s, *texts, why, sizeof(why)), 0);
	CHECK_EQ(space_prune(&s, why, sizeof(why)), 0);
	return s;
}

/* Every value of every parameter can be fixed, by its name in results. */
TEST(every_value_can_be_fixed)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		for (unsigned at = 0; at < space_values(usual(), dim); at++) {
			char name[SPACE_NAME], value[SPACE_NAME], text[2 * SPACE_NAME + 1];
			const char *texts[] = {text, NULL};
			struct space s;

			space_name(dim, name);
			space_value(usual(), dim, at, value);
			snprintf(text, sizeof(text), "%s=%s", name, value);
			s = changed(texts);
			CHECK(s.given[dim] && s.n[dim] == 1);
			CHECK_EQ(s.value[dim][0], usual()->value[dim][at]);
		}
	}
}

/*
 * Checks that a parameter has the values @want, like "1,4", and that space_json() lists them if
 * they were changed.
 */
static void check_values(const struct space *s, unsigned dim, const char *want)
{
	char name[SPACE_NAME], value[SPACE_NAME], text[300];
	json_t *list = space_json(s);
	size_t n = 0, i = 0;
	bool listed = false;

	for (unsigned at = 0; at < s->n[dim]; at++) {
		space_value(s, dim, at, value);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", at ? "," : "", value);
	}
	if (strcmp(text, want) != 0) {
		fprintf(stderr, "%s instead of %s\n", text, want);
		exit(1);
	}
	space_name(dim, name);
	snprintf(text, sizeof(text), "%s=%s", name, want);
	for (; i < json_array_size(list); i++)
		listed |= !strcmp(json_string_value(json_array_get(list, i)), text);
	CHECK_EQ(listed, s->given[dim]);
	json_decref(list);
}

TEST(values_are_restricted_and_added)
{
	static const struct {
		const char *text, *want;
		enum dimension_kind kind;
		unsigned request;
	} cases[] = {
		{"0.qp_num=1024,3,16,3", "3,16,1024", DIM_QPS, 0},
		{"\t0.qp_num += 1000 , 2 ", "1,2,4,16,64,256,1000,1024", DIM_QPS, 0},
		{"*.qp_num=7", "7", DIM_QPS, 0},
		{"0.rate+=1000", "0,1000,1024,32768,1048576", DIM_RATE, 0},
		{"0.burst=0,1073741824", "0,1073741824", DIM_BURST, 0},
		{"0.control=LKEY,mr", "mr,lkey", DIM_CONTROL, 0},
		{"0.mtu=4096,256", "256,4096", DIM_MTU, 0},
		{"0.request*.op=c,r", "r,c", DIM_OP, 7},
		{"0.request[67].size=8388608", "8388608", DIM_SIZE, 6},
		{"0.request7.size=3",
			"32,64,128,256,512,1024,2048,4096,8192,16384,32768,65536,131072", DIM_SIZE,
			6},
		{"0.inject_at=4294967295", "4294967295", DIM_INJECT_AT, 0},
		{"0.outs=16", "16", DIM_OUTS, 0},
		{"1.qp_num=1", "1,4,16,64,256,1024", DIM_QPS, 0},
		{"1.direction=loopback,reverse", "reverse,loopback", DIM_DIRECTION, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct space s = *usual();

		CHECK_EQ(space_change(&s, cases[i].text, why, sizeof(why)), 0);
		check_values(&s, space_dim(0, cases[i].kind, cases[i].request), cases[i].want);
	}
}

/* Values that are not valid with any value of another parameter are left out. */
TEST(values_that_go_with_no_others_are_left_out)
{
	static const struct {
		const char *texts[4], *want;
		enum dimension_kind kind;
	} cases[] = {
		{{"0.send_batch=64"}, "64,128,256,512,1024", DIM_TX_DEPTH},
		{{"0.mr_num=4"}, "4,16,64,256,1024", DIM_QPS},
		{{"0.tx_depth=1024"}, "1,4,16,64,256", DIM_QPS},
		{{"0.qp_num=1024"}, "1,2,4,8,16,32,64,128,256,512,1024", DIM_TX_DEPTH},
		{{"0.request0.op=w"}, "RC,UC", DIM_TYPE},
		{{"0.request7.op=r"}, "RC", DIM_TYPE},
		{{"0.request7.op=r", "0.requests=1,7"}, "RC,UC,UD", DIM_TYPE},
		{{"0.request0.size=512"}, "RC,UC", DIM_TYPE},
		{{"0.request0.size=512,32"}, "RC,UC,UD", DIM_TYPE},
		{{"0.request0.size=512"}, "256,512,1024,2048,4096", DIM_MTU},
		{{"0.request0.size=512", "0.qp_type=UD"}, "512,1024,2048,4096", DIM_MTU},
		{{"0.qp_type=UD,UC", "*.op=s,w"}, "UC,UD", DIM_TYPE},
	};

	uint64_t rand = test_seed();

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct space s = changed(cases[i].texts);

		s.given[space_dim(0, cases[i].kind, 0)] = true;
		check_values(&s, space_dim(0, cases[i].kind, 0), cases[i].want);
		for (int k = 0; k < 1000; k++) {
			struct point p;

			point_random(&s, &p, &rand);
			check_runs(&s, &p);
			point_mutate(&s, &p, &rand);
			check_runs(&s, &p);
		}
	}
}

TEST(fixed_values_stay)
{
	static const char *const texts[] = {"0.process_num=2", "0.qp_type=UC", "0.mtu=2048",
		"0.request0.op=s", "1.direction=none", "0.burst=16", NULL};
	struct space s = changed(texts);
	uint64_t rand = test_seed();
	bool varied[SPACE_DIMS] = {false};
	struct point first;

	for (int i = 0; i < 1000; i++) {
		struct traffic t;
		struct point p;

		point_random(&s, &p, &rand);
		check_runs(&s, &p);
		first = i ? first : p;
		CHECK_EQ(point_traffic(&s, &p, 0, &t), 2);
		CHECK(t.type == MLX5DVL_UC && t.burst == 16 && t.mtu == 4);
		CHECK(t.pattern_text[0] == 's');
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			varied[dim] |= p.at[dim] != first.at[dim];
	}
	CHECK(varied[space_dim(0, DIM_QPS, 0)] && varied[space_dim(0, DIM_SIZE, 0)]);
}

/* No place of a request is empty, and an atomic has one. */
TEST(places_are_not_empty)
{
	static const char *const texts[] = {"0.qp_type=RC", "0.request0.op=w,a",
		"0.request0.size=1,2", "0.request0.places=4", "0.requests=1", NULL};
	struct space s = changed(texts);
	uint64_t rand = test_seed();
	bool atomic = false, one = false, two = false;

	for (int i = 0; i < 1000; i++) {
		struct traffic t;
		struct point p;

		point_random(&s, &p, &rand);
		check_runs(&s, &p);
		point_traffic(&s, &p, 0, &t);
		atomic |= !strcmp(t.pattern_text, "a_1_8");
		one |= !strcmp(t.pattern_text, "w_1_1");
		two |= !strcmp(t.pattern_text, "w_2_1_1");
	}
	CHECK(atomic && one && two);
}

TEST(changes_that_are_refused)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"0.qp_num=0", "0.qp_num '0' is not valid: give a whole number from 1 to 1024"},
		{"0.qp_num=1025", "from 1 to 1024"},
		{"0.qp_num=1,4x", "0.qp_num '4x' is not valid"},
		{"0.qp_num=1,,4", "0.qp_num '' is not valid"},
		{"0.qp_num=-1", "'-1' is not valid"},
		{"0.qp_num=99999999999999999999", "from 1 to 1024"},
		{"1.direction=up", "give none, reverse or loopback"},
		{"0.mtu=3", "give 256, 512, 1024, 2048 or 4096"},
		{"0.events=2", "from 0 to 1"},
		{"0.process_num=7", "from 1 to 6"},
		{"0.requests=9", "from 1 to 8"},
		{"0.request0.places=5", "from 1 to 4"},
		{"0.request0.size=8388609", "from 1 to 8388608"},
		{"0.inject_at=4294967296", "from 1 to"},
		{"0.inject_at=0", "from 1 to"},
		{"0.rate=1000000001", "to 1000000000"},
		{"0.rx_depth=0", "from 1 to 32767"},
		{"0.qp_timeout=0", "from 1 to 31"},
		{"0.qp_num = 4 16", "0.qp_num '4 16' is not valid"},
		{"0.qp_num =\t4, \t", "0.qp_num '' is not valid"},
		{"0.qp _num=4", "there is no parameter '0.qp _num'"},
		{"0.qp_num=", "0.qp_num '' is not valid"},
		{"0.qp_num+=", "0.qp_num '' is not valid"},
		{"0.sl=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,15", ""},
		{"0.tclass=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
			"0.tclass has too many values: give at most 16"},
		{"qp_num=1", "there is no parameter 'qp_num': give one as 0.qp_num"},
		{"0.direction=none", "there is no parameter"},
		{"2.qp_num=1", "there is no parameter"},
		{"=1", "there is no parameter ''"},
		{"+=1", "there is no parameter ''"},
		{"0.qp_num", "give a parameter and its values"},
		{"", "give a parameter and its values"},
	};
	struct space s = *usual();
	char large[1000];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int err;

		s = *usual();
		err = space_change(&s, cases[i].text, why, sizeof(why));
		CHECK(err < 0 ? strstr(why, cases[i].says) && *cases[i].says : !*cases[i].says);
	}
	memset(large, '1', sizeof(large));
	large[sizeof(large) - 1] = 0;
	memcpy(large, "0.qp_num=", 9);
	CHECK(space_change(&s, large, why, sizeof(why)) < 0);
	CHECK(strstr(why, "too long"));
}

TEST(values_that_exclude_each_other_are_refused)
{
	static const struct {
		const char *texts[3], *says;
	} cases[] = {
		{{"0.tx_depth=1,2", "0.send_batch=4,8"},
			"every 0.tx_depth is less than every 0.send_batch: give a larger tx_depth"},
		{{"1.qp_num=1", "1.mr_num=2"}, "every 1.qp_num is less than every 1.mr_num"},
		{{"0.qp_type=UD", "0.request0.op=w"}, "no 0.qp_type has these operations"},
		{{"1.qp_type=UC,UD", "1.request3.op=r"}, "no 1.qp_type has these operations"},
		{{"0.qp_type=UD", "0.request0.size=8192"}, "every 0.mtu is less than"},
		{{"0.*.size=4000000", "0.requests=8"}, "the requests of flow 0 are too long"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct space s = *usual();

		for (int k = 0; k < 2; k++)
			CHECK_EQ(space_change(&s, cases[i].texts[k], why, sizeof(why)), 0);
		CHECK(space_prune(&s, why, sizeof(why)) < 0);
		CHECK(strstr(why, cases[i].says));
	}
}

/* Random points reach every value of every dimension. */
TEST(random_points_reach_everything)
{
	static bool seen[SPACE_DIMS][256];
	uint64_t rand = 1;

	for (int i = 0; i < 20000; i++) {
		struct point p;

		point_random(usual(), &p, &rand);
		for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
			seen[dim][p.at[dim]] = true;
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		for (unsigned v = 0; v < space_values(usual(), dim); v++)
			CHECK(seen[dim][v]);
}

/* Rare parameters have the engine's default in more than half of the points. */
TEST(unusual_values_are_rare)
{
	static const struct {
		enum dimension_kind kind;
		unsigned usual; /* index */
	} rare[] = {{DIM_RATE, 0}, {DIM_BURST_PAUSE, 1}, {DIM_CONTROL_EVERY, 1}, {DIM_CQ_MOD, 0},
		{DIM_OUTS, 1}, {DIM_QP_TIMEOUT, 0}, {DIM_RETRIES, 2}, {DIM_SL, 0}, {DIM_TCLASS, 0}};
	static const char *const texts[] = {"0.burst=1", "0.control=mr", NULL};
	struct space s =
		changed(texts); /* so that pauses and times between controls have an effect */
	uint64_t rand = 1;

	for (size_t i = 0; i < ARRAY_SIZE(rare); i++) {
		unsigned dim = space_dim(0, rare[i].kind, 0), n = space_values(&s, dim);
		unsigned found = 0;

		for (int k = 0; k < 10000; k++) {
			struct point p;

			point_random(&s, &p, &rand);
			found += p.at[dim] == rare[i].usual;
		}
		CHECK(found > 4700 + 5000 / n && found < 5300 + 5000 / n);
	}
}

static const struct {
	enum dimension_kind kind;
	unsigned values;
	const char *name;
} described[] = {
	{DIM_PROCESSES, 6, "0.process_num"},
	{DIM_QPS, 6, "0.qp_num"},
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
	{DIM_RATE, 4, "0.rate"},
	{DIM_BURST_PAUSE, 3, "0.burst_pause"},
	{DIM_CONTROL_EVERY, 3, "0.control_every"},
	{DIM_CQ_MOD, 4, "0.cq_mod"},
	{DIM_OUTS, 3, "0.outs"},
	{DIM_QP_TIMEOUT, 3, "0.qp_timeout"},
	{DIM_RETRIES, 3, "0.retry_count"},
	{DIM_SL, 2, "0.sl"},
	{DIM_TCLASS, 2, "0.tclass"},
	{DIM_TX_DEPTH, 11, "0.tx_depth"},
	{DIM_SEND_BATCH, 7, "0.send_batch"},
	{DIM_OP, 7, "0.request0.op"},
	{DIM_SIZE, 13, "0.request0.size"},
	{DIM_PLACES, 4, "0.request0.places"},
	{DIM_DIRECTION, 3, "1.direction"},
};

TEST(the_space_is_as_described)
{
	struct point p = {{0}};
	struct traffic t;

	for (size_t i = 0; i < ARRAY_SIZE(described); i++) {
		unsigned dim = space_dim(0, described[i].kind, 0);
		char name[SPACE_NAME];

		space_name(dim, name);
		CHECK_EQ(space_values(usual(), dim), described[i].values);
		CHECK(!strcmp(name, described[i].name));
	}
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++)
		p.at[dim] = (uint8_t)(space_values(usual(), dim) - 1);
	p.at[space_dim(0, DIM_TYPE, 0)] = 0;
	for (unsigned request = 0; request < 8; request++)
		p.at[space_dim(0, DIM_OP, request)] = 2;
	CHECK_EQ(point_traffic(usual(), &p, 0, &t), 6);
	CHECK(t.qps == 1024 && t.sleeps && t.inline_max == 220);
	CHECK(t.mtu == 5 && t.depth == 1024 && t.send_batch == 64 && t.burst == 64);
	CHECK(t.buffers == 4 && t.regions == 4);
	CHECK(t.control == CONTROL_LKEY && t.inject == INJECT_DELAY && t.inject_at == 4096);
	CHECK(t.rx_depth == 1024 && t.recv_batch == 64 && t.bidirectional);
	CHECK(t.rate == 1048576 && t.burst_pause_us == 400 && t.control_us == 4000);
	CHECK(t.moderation == 64 && t.reads == 16 && t.qp_timeout == 16 && t.retries == 7);
	CHECK(t.sl == 3 && t.traffic_class == 104);
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

			point_random(usual(), &p, &rand);
			CHECK_EQ(model_measure(k, usual(), &p, &m), 0);
			hits += measure_judge(&m, &r) != ANOMALY_NONE;
		}
		printf("  %s: %d of 100000\n", model_names[kind], hits);
		CHECK(hits > 100 && hits < 1000);
	}
}

/* Each step towards the corner, in a parameter that matters, increases the energy. */
TEST(the_corner_is_graded)
{
	enum model_kind k = MODEL_CORNER;
	struct point p = {{0}};
	struct measure m;
	struct rules r;
	double before;

	rules_init(&r);
	p.at[space_dim(0, DIM_TX_DEPTH, 0)] = 10; /* so that batches can be large */
	CHECK_EQ(model_measure(k, usual(), &p, &m), 0);
	before = measure_energy(&m, &r);
	for (unsigned i = 0; i < MODEL_DIMS; i++) {
		unsigned dim = model_dim(i);

		while (p.at[dim] + 1u < space_values(usual(), dim)) {
			p.at[dim]++;
			CHECK_EQ(model_measure(k, usual(), &p, &m), 0);
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

/* Traffic that keeps up with its rate does not lack throughput. */
TEST(a_rate_is_no_lack_of_throughput)
{
	struct measure m = {.v = {[MEASURE_TX_GBPS] = 1}};
	struct rules r;

	rules_init(&r);
	CHECK_EQ(measure_judge(&m, &r), ANOMALY_THROUGHPUT);
	CHECK(measure_energy(&m, &r) > .9);
	m.keeps_up = true;
	CHECK_EQ(measure_judge(&m, &r), ANOMALY_NONE);
	CHECK(measure_energy(&m, &r) == .5);
	m.v[MEASURE_RX_PAUSE] = 1;
	CHECK_EQ(measure_judge(&m, &r), ANOMALY_PAUSE);
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
	/* If throughput has no limit, it adds nothing. */
	r = (struct rules){0};
	CHECK(measure_energy(&m, &r) == .25);
	m.v[MEASURE_TX_GBPS] = 2;
	CHECK(measure_energy(&m, &r) == .25);
}
