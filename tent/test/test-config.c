/* SPDX-License-Identifier: MIT */
/* The configuration: defaults, example fragments, and invalid values. */
#include <errno.h>
#include <math.h>
#include <sys/mman.h>

#include "support/test.h"
#include "config.h"
#include "tent.h"

static struct tent_config parsed(const char *text)
{
	struct tent_config c;
	struct tent_why why = {""};
	int err = config_parse(text, strlen(text), &c, &why);

	if (err)
		fprintf(stderr, "%s: %s\n", text, why.text);
	CHECK_EQ(err, 0);
	return c;
}

static struct tent_config loaded(const char *name)
{
	struct tent_config c;
	char path[400];
	struct tent_why why = {""};
	int err;

	snprintf(path, sizeof(path), "%s/%s.json", getenv("TENT_CONFIGS"), name);
	err = config_load(path, &c, &why);
	if (err)
		fprintf(stderr, "%s: %s\n", path, why.text);
	CHECK_EQ(err, 0);
	return c;
}

/* Compares every value: a fragment must change only the values that it contains. */
static void check_same(const struct tent_config *a, const struct tent_config *b)
{
	CHECK_EQ(a->mode, b->mode);
	CHECK_EQ(a->strict_numa, b->strict_numa);
	for (int i = 0; i < TENT_TIERS; i++)
		CHECK(a->numa_penalties[i] == b->numa_penalties[i]);
	CHECK(a->bandwidth_learning_rate == b->bandwidth_learning_rate);
	CHECK(a->ewma_min_bandwidth_multiplier == b->ewma_min_bandwidth_multiplier);
	CHECK(a->ewma_max_bandwidth_multiplier == b->ewma_max_bandwidth_multiplier);
	CHECK(a->score_jitter_range == b->score_jitter_range);
	CHECK(a->score_epsilon == b->score_epsilon);
	CHECK(a->default_bandwidth_gbps == b->default_bandwidth_gbps);
	CHECK(a->min_bandwidth_gbps == b->min_bandwidth_gbps);
	CHECK(a->max_bandwidth_gbps == b->max_bandwidth_gbps);
	CHECK_EQ(a->priorities, b->priorities);
	CHECK(!a->rail_map && !b->rail_map && !a->topology && !b->topology);
}

static void check_fragment(const char *name, const struct tent_config *want)
{
	struct tent_config c = loaded(name);

	check_same(&c, want);
}

TEST(has_the_documented_defaults)
{
	struct tent_config c = parsed("{}"), d;

	CHECK_EQ(c.mode, TENT_MODE_DEFAULT);
	CHECK(!c.strict_numa && c.priorities == 1);
	CHECK(c.numa_penalties[0] == 1 && c.numa_penalties[1] == 5 && c.numa_penalties[2] == 10);
	CHECK(c.bandwidth_learning_rate == 0.01);
	CHECK(c.ewma_min_bandwidth_multiplier == 0.1 && c.ewma_max_bandwidth_multiplier == 10);
	CHECK(c.score_jitter_range == 1e-9 && c.score_epsilon == 1e-12);
	CHECK(c.default_bandwidth_gbps == 400);
	CHECK(c.min_bandwidth_gbps == 10 && c.max_bandwidth_gbps == 800);
	config_init(&d);
	check_same(&c, &d);
}

/* These fragments contain only default values, so they change nothing. */
TEST(fragments_with_defaults)
{
	static const char *const names[] = {"smart", "penalties", "ewma", "scoring", "bandwidth"};
	struct tent_config d;

	config_init(&d);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		check_fragment(names[i], &d);
}

TEST(fragments_with_changes)
{
	struct tent_config want;

	config_init(&want);
	want.numa_penalties[1] = 100;
	want.numa_penalties[2] = 1000;
	want.bandwidth_learning_rate = 0.001;
	check_fragment("latency-sensitive", &want);

	config_init(&want);
	want.numa_penalties[1] = 2;
	want.numa_penalties[2] = 3;
	want.bandwidth_learning_rate = 0.1;
	check_fragment("bulk", &want);

	config_init(&want);
	want.mode = TENT_BASELINE;
	check_fragment("baseline", &want);

	config_init(&want);
	want.bandwidth_learning_rate = 0.001;
	want.numa_penalties[1] = 10;
	want.numa_penalties[2] = 100;
	want.score_jitter_range = 1e-12;
	check_fragment("conservative", &want); /* this file has no wrapper */
}

TEST(own_keys)
{
	struct tent_config c = parsed("{\"strict_numa\": true, \"priorities\": 3,"
				      "\"rail_map\": \"/etc/map\", \"topology\": \"t.json\"}");

	CHECK(c.strict_numa && c.priorities == 3);
	CHECK(!strcmp(c.rail_map, "/etc/map") && !strcmp(c.topology, "t.json"));
	config_fini(&c);
	CHECK(!c.rail_map && !c.topology);
}

TEST(mode_matrix)
{
	static const struct {
		const char *text;
		enum tent_mode mode;
	} rows[] = {
		{"{\"enable_smart_scheduling\": true}", TENT_MODE_DEFAULT},
		{"{\"enable_smart_scheduling\": false}", TENT_BASELINE},
		{"{\"scheduler\": \"smart\"}", TENT_SMART},
		{"{\"scheduler\": \"pull\"}", TENT_PULL},
		{"{\"scheduler\": \"baseline\"}", TENT_BASELINE},
		{"{\"scheduler\": \"smart\", \"enable_smart_scheduling\": false}", TENT_SMART},
		{"{\"enable_smart_scheduling\": true, \"scheduler\": \"baseline\"}", TENT_BASELINE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		CHECK_EQ(parsed(rows[i].text).mode, rows[i].mode);
}

TEST(last_penalty_holds_on)
{
	struct tent_config c = parsed("{\"numa_penalties\": [3]}");

	CHECK(c.numa_penalties[0] == 3 && c.numa_penalties[1] == 3 && c.numa_penalties[2] == 3);
	c = parsed("{\"numa_penalties\": [1, 4]}");
	CHECK(c.numa_penalties[0] == 1 && c.numa_penalties[1] == 4 && c.numa_penalties[2] == 4);
}

/* Invalid texts; the key that the message must name; and the accepted values that it must list. */
static const struct {
	const char *text, *key, *give;
} rows[] = {
	{"", "line 1", "JSON object"},
	{"[]", "configuration", "JSON object"},
	{"{", "line 1", "JSON object"},
	{"{\"strict_numa\": true, \"strict_numa\": true}", "line 1", "JSON object"},
	{"{\"\x7f\n", "line 1", "JSON object"},
	{"{\"numa_penalty\": [1]}", "numa_penalty", "numa_penalties"},
	{"{\"max_slice_count\": 64}", "max_slice_count", "scheduler"},
	{"{\"a\\nb\": 1}", "a?b", "give"},
	{"{\"transports\": {\"rdma\": {}}, \"scheduler\": \"pull\"}", "transports", "beside"},
	{"{\"transports\": {\"tcp\": {}}}", "transports", "rdma"},
	{"{\"transports\": {\"rdma\": {}, \"tcp\": {}}}", "transports", "rdma"},
	{"{\"transports\": {\"rdma\": 1}}", "transports", "rdma"},
	{"{\"transports\": []}", "transports", "object"},
	{"{\"transports\": {\"rdma\": {\"strict_numa\": 1}}}", "transports.rdma.strict_numa",
		"true or false"},
	{"{\"enable_smart_scheduling\": \"yes\"}", "enable_smart_scheduling", "true or false"},
	{"{\"scheduler\": \"Pull\"}", "scheduler", "\"pull\""},
	{"{\"scheduler\": 2}", "scheduler", "\"pull\""},
	{"{\"numa_penalties\": []}", "numa_penalties", "1 to 3 numbers"},
	{"{\"numa_penalties\": [1, 2, 3, 4]}", "numa_penalties", "1 to 3 numbers"},
	{"{\"numa_penalties\": 5}", "numa_penalties", "1 to 3 numbers"},
	{"{\"numa_penalties\": [1, \"5\"]}", "numa_penalties", "1 to 3 numbers"},
	{"{\"numa_penalties\": [1, 0]}", "numa_penalties", "from 0.001"},
	{"{\"numa_penalties\": [1, -5]}", "numa_penalties", "from 0.001"},
	{"{\"numa_penalties\": [1, 1e7]}", "numa_penalties", "to 1000000"},
	{"{\"bandwidth_learning_rate\": 1.01}", "bandwidth_learning_rate", "from 0 to 1"},
	{"{\"bandwidth_learning_rate\": -0.01}", "bandwidth_learning_rate", "from 0 to 1"},
	{"{\"bandwidth_learning_rate\": null}", "bandwidth_learning_rate", "from 0 to 1"},
	{"{\"ewma_min_bandwidth_multiplier\": 0}", "ewma_min_bandwidth_multiplier", "to 1"},
	{"{\"ewma_min_bandwidth_multiplier\": 1.5}", "ewma_min_bandwidth_multiplier", "to 1"},
	{"{\"ewma_max_bandwidth_multiplier\": 0.5}", "ewma_max_bandwidth_multiplier", "from 1 to"},
	{"{\"score_jitter_range\": -1e-9}", "score_jitter_range", "from 0"},
	{"{\"score_epsilon\": 0}", "score_epsilon", "from 1e-30"},
	{"{\"default_bandwidth_gbps\": 0}", "default_bandwidth_gbps", "from 0.001"},
	{"{\"default_bandwidth_gbps\": 900}", "default_bandwidth_gbps", "from 10 to 800"},
	{"{\"min_bandwidth_gbps\": 500}", "default_bandwidth_gbps", "from 500 to 800"},
	{"{\"min_bandwidth_gbps\": 900}", "min_bandwidth_gbps", "from 0.001 to 800"},
	{"{\"min_bandwidth_gbps\": 0}", "min_bandwidth_gbps", "from 0.001 to 1000000"},
	{"{\"max_bandwidth_gbps\": 1e7}", "max_bandwidth_gbps", "from 0.001 to 1000000"},
	{"{\"max_bandwidth_gbps\": \"800\"}", "max_bandwidth_gbps", "a number"},
	{"{\"rail_map\": \"\"}", "rail_map", "a file"},
	{"{\"topology\": {}}", "topology", "a file"},
	{"{\"priorities\": 0}", "priorities", "from 1 to 3"},
	{"{\"priorities\": 4}", "priorities", "from 1 to 3"},
	{"{\"priorities\": 1.5}", "priorities", "from 1 to 3"},
};

TEST(refuses)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tent_config c = {.priorities = 77};
		struct tent_why why = {""};

		CHECK_EQ(config_parse(rows[i].text, strlen(rows[i].text), &c, &why), -EINVAL);
		printf("  %s\n", why.text);
		CHECK(strstr(why.text, rows[i].key) && strstr(why.text, rows[i].give));
		CHECK(!strchr(why.text, '\n'));
		CHECK_EQ(c.priorities, 77);
	}
}

TEST(refusal_frees_what_it_has_read)
{
	static const char text[] = "{\"rail_map\": \"a\", \"topology\": \"b\", \"priorities\": 9}";
	struct tent_config c;

	CHECK_EQ(config_parse(text, sizeof(text) - 1, &c, NULL), -EINVAL);
}

TEST(names_a_file_that_is_not_there)
{
	struct tent_config c;
	struct tent_why why = {""};

	CHECK_EQ(config_load("/nowhere/tent.json", &c, &why), -ENOENT);
	CHECK(strstr(why.text, "/nowhere/tent.json"));
}

/* Each error message of a file begins with the file's name. */
TEST(names_a_file_that_is_wrong)
{
	static const char *const texts[] = {"", "[]", "{\"strict_numa\": 1}", "{\"a\": 1}",
		"{\"transports\": 1}", "{\"min_bandwidth_gbps\": 900}"};
	int fd = memfd_create("config", 0);
	struct tent_why why;
	struct tent_config c;
	char path[32];

	CHECK(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		CHECK_EQ(ftruncate(fd, 0), 0);
		CHECK_EQ(pwrite(fd, texts[i], strlen(texts[i]), 0), strlen(texts[i]));
		CHECK_EQ(config_load(path, &c, &why), -EINVAL);
		CHECK(!strncmp(why.text, path, strlen(path)) && strstr(why.text, "give"));
	}
	close(fd);
	CHECK_EQ(config_load("/", &c, &why), -EINVAL);
	CHECK(!strncmp(why.text, "/: ", 3));
}

TEST(bandwidth_rule)
{
	struct tent_config c = parsed("{}");

	CHECK(config_bandwidth_gbps(&c, 5) == 400);
	CHECK(config_bandwidth_gbps(&c, 100) == 100);
	CHECK(config_bandwidth_gbps(&c, 900) == 400);
	CHECK(config_bandwidth_gbps(&c, 10) == 10 && config_bandwidth_gbps(&c, 800) == 800);
	CHECK(config_bandwidth_gbps(&c, NAN) == 400);
}

TEST(half_life)
{
	struct tent_config c = parsed("{}");

	CHECK(fabs(config_half_life(&c) - 0.1505) < 0.0001);
	c.bandwidth_learning_rate = 0.5;
	CHECK(fabs(config_half_life(&c) - 1) < 1e-12);
	c.bandwidth_learning_rate = 0;
	CHECK(config_half_life(&c) == 0);
	c.bandwidth_learning_rate = 1;
	CHECK(isinf(config_half_life(&c)));
}
