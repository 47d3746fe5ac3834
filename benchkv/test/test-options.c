/* SPDX-License-Identifier: MIT */
/* The command line: bad lines are refused, good ones are understood. */
#include <errno.h>

#include "support/test.h"
#include "backend.h"
#include "options.h"
#include "result.h"

#define MAX_ARGS 12

/* The options of the last line that was parsed, or the reason for which it was refused. */
static struct options o;
static char why[400];

/* Splits a line at blanks; "" stands for an empty argument. */
static int parse(const char *line)
{
	static char copy[400], *argv[MAX_ARGS + 2]; /* o.command refers to them */
	char *save = NULL;
	int argc = 1;

	memset((void *)argv, 0, sizeof(argv));
	argv[0] = (char *)"benchkv";
	snprintf(copy, sizeof(copy), "%s", line);
	for (char *a = strtok_r(copy, " ", &save); a && argc <= MAX_ARGS;
		a = strtok_r(NULL, " ", &save))
		argv[argc++] = strcmp(a, "\"\"") ? a : (char *)"";
	why[0] = 0;
	return options_parse(argc, argv, &o, why, sizeof(why));
}

static const char *const bad[] = {
	"Delegation",
	"delegation meta",
	"delegation --net-daemons 0",
	"delegation --net-daemons 2",
	"meta --daemons 2 --net-daemons 3",
	"direct --control auto",
	"direct --net-daemons 1",
	"direct --trace x",
	"delegation delegation",
	"delegation --frobnicate",
	"delegation -x",
	"delegation --daemons",
	"delegation --daemons 0",
	"delegation --daemons -1",
	"delegation --daemons 65",
	"delegation --daemons 2x",
	"delegation --daemons \"\"",
	"delegation --clients 0",
	"delegation --clients 1025",
	"delegation --queue-depth 0",
	"delegation --queue-depth 4097",
	"delegation --duration 0",
	"delegation --duration -3",
	"delegation --duration nan",
	"delegation --duration inf",
	"delegation --duration 3s",
	"delegation --ops 0",
	"delegation --ops 1.5",
	"delegation --ops 10 --duration 1",
	"delegation --runs 0",
	"delegation --warmup -1",
	"delegation --warmup 1 --ops 10",
	"delegation --interval 0",
	"delegation --interval .001 --duration 3.7",
	"delegation --series x",
	"delegation --rate 0",
	"delegation --rate fast",
	"delegation --hgrm \"\"",
	"delegation --key-range 0",
	"delegation --key-range 4294967297",
	"delegation --read-ratio 1.01",
	"delegation --read-ratio -0.1",
	"delegation --distribution zipf",
	"delegation --distribution zipf:0",
	"delegation --distribution zipf:x",
	"delegation --distribution pareto",
	"delegation --distribution zipf:1,2",
	"delegation --distribution hotspot:0.2",
	"delegation --distribution hotspot:0.2,1.1",
	"delegation --distribution hotspot:-0.1,1",
	"delegation --distribution hotspot:0.2,0.8,1",
	"delegation --distribution hotspot:0.1,,0.9",
	"delegation --distribution hotspot:0.1,0.9,",
	"delegation --distribution zipf:,0.9",
	"delegation --distribution zipf:0.9,",
	"delegation --distribution latest:,0.9",
	"delegation --distribution latest:0",
	"delegation --distribution latest:11",
	"delegation --distribution sequential:1",
	"delegation --workload ycsb-e",
	"delegation --workload ycsb",
	"delegation --workload ycsb-g",
	"delegation --workload ycsb-f --rmw no",
	"delegation --rmw maybe",
	"delegation --rmw",
	"delegation --workload ycsb-a --read-ratio 0.5",
	"delegation --workload ycsb-a --distribution uniform",
	"delegation --preload maybe",
	"delegation --value-size 7",
	"delegation --value-size 65537",
	"delegation --value-size 64:",
	"delegation --seed x",
	"delegation --seed 9223372036854775808",
	"delegation --duration +1",
	"delegation --ring-size 0",
	"delegation --ring-size 2048",
	"delegation --ring-size 5000",
	"delegation --ring-size 2147483648",
	"delegation --ring-size big",
	"delegation --control hold:0",
	"delegation --control budget:0",
	"delegation --device \"\"",
	"delegation --json \"\"",
	"delegation --timeout 0",
	"delegation --pin 1",
	"delegation --wait never",
	"delegation --stagger -1",
	"direct --stagger 1",
	"direct --machine x",
	"delegation --machine x --control none",
	"meta --control auto:3,9 --machine x",
	"measure --clients 3",
	"measure --json -",
	"measure now",
	"delegation --dry-run=yes",
};

TEST(refuses_nonsense)
{
	o = (struct options){.daemons = 77};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(parse(bad[i]), -EINVAL);
		CHECK(strstr(why, "give") || strstr(why, "--help"));
		CHECK(!strchr(why, '\n') && !strstr(why, "'benchkv'"));
		CHECK_EQ(o.daemons, 77);
		printf("  %-44s %s\n", bad[i], why);
	}
}

TEST(understands)
{
	CHECK_EQ(parse("delegation"), 0);
	CHECK(o.daemons == 1 && o.clients == 2 && o.queue_depth == 8 && o.runs == 1);
	CHECK(o.duration_ns == 3000000000ull && !o.ops && o.preload && o.pin && !o.device);
	CHECK(o.control.kind == CONTROL_AUTO && !o.ring_size && !o.files[FILE_JSON] && !o.dry_run);
	CHECK_EQ(parse("delegation --daemons 2 --clients 46 --queue-depth 32 --ops 0x100 "
		       "--runs 3"),
		0);
	CHECK(!strcmp(o.command[1], "delegation") && !strcmp(o.command[2], "--daemons"));
	CHECK(o.daemons == 2 && o.clients == 46 && o.queue_depth == 32 && o.runs == 3);
	CHECK(o.ops == 256 && o.duration_ns == 0);
	CHECK_EQ(parse("--distribution zipf:0.99 --device mlx5_3 --ring-size 8192 --json - "
		       "--dry-run delegation"),
		0);
	CHECK(!strcmp(o.command[1], "--distribution") && !strcmp(o.command[10], "delegation"));
	CHECK(!strcmp(o.command[0], "benchkv") && !o.command[11]);
	CHECK(o.load.zipf_theta > 0.98 && !strcmp(o.device, "mlx5_3") && o.ring_size == 8192);
	CHECK(!strcmp(o.files[FILE_JSON], "-") && o.dry_run);
}

TEST(backends_have_their_defaults)
{
	CHECK_EQ(parse("--daemons 3"), 0);
	CHECK(o.backend == backend_find("delegation") && o.net_daemons == 1);
	CHECK_EQ(parse("delegation --daemons 3 --net-daemons 3"), 0);
	CHECK_EQ(o.net_daemons, 3);
	CHECK_EQ(parse("meta --daemons 3"), 0);
	CHECK(o.backend == backend_find("meta") && o.net_daemons == 3);
	CHECK_EQ(parse("meta --daemons 3 --net-daemons 2"), 0);
	CHECK_EQ(o.net_daemons, 2);
	CHECK_EQ(parse("direct --daemons 3 --ring-size 8192"), 0);
	CHECK(o.backend == backend_find("direct") && o.control.kind == CONTROL_NONE);
}

/* --distribution and --workload, and the name of the distribution in the report. */
TEST(workloads_by_name)
{
	static const struct {
		const char *line, *name;
		enum keys keys;
		double read_ratio, theta;
		bool rmw;
	} cases[] = {
		{"delegation", "uniform", KEYS_DRAWN, 0.5, 0, false},
		{"delegation --distribution zipf:0.5", "zipf:0.5", KEYS_DRAWN, 0.5, 0.5, false},
		{"delegation --distribution hotspot:0.25,0.75", "hotspot:0.25,0.75", KEYS_HOTSPOT,
			0.5, 0, false},
		{"delegation --distribution latest", "latest:0.99", KEYS_LATEST, 0.5, 0.99, false},
		{"delegation --distribution latest:2", "latest:2", KEYS_LATEST, 0.5, 2, false},
		{"delegation --distribution sequential", "sequential", KEYS_SEQUENTIAL, 0.5, 0,
			false},
		{"delegation --distribution zipf:2 --distribution uniform", "uniform", KEYS_DRAWN,
			0.5, 0, false},
		{"delegation --workload ycsb-a", "zipf:0.99", KEYS_DRAWN, 0.5, 0.99, false},
		{"delegation --workload ycsb-b", "zipf:0.99", KEYS_DRAWN, 0.95, 0.99, false},
		{"delegation --workload ycsb-c", "zipf:0.99", KEYS_DRAWN, 1, 0.99, false},
		{"delegation --workload ycsb-d", "latest:0.99", KEYS_LATEST, 0.95, 0.99, false},
		{"delegation --workload ycsb-f", "zipf:0.99", KEYS_DRAWN, 0.5, 0.99, true},
		{"delegation --rmw yes --read-ratio 0.25", "uniform", KEYS_DRAWN, 0.25, 0, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char name[WORKLOAD_NAME_MAX];

		CHECK_EQ(parse(cases[i].line), 0);
		workload_name(&o.load, name);
		CHECK(!strcmp(name, cases[i].name) && o.load.keys == cases[i].keys);
		CHECK(o.load.read_ratio == cases[i].read_ratio &&
			o.load.zipf_theta == cases[i].theta);
		CHECK_EQ(o.load.rmw, cases[i].rmw);
	}
	CHECK_EQ(parse("delegation --distribution hotspot:0.25,0.75"), 0);
	CHECK(o.load.hot_keys == 0.25 && o.load.hot_ops == 0.75);
	CHECK_EQ(parse("delegation --workload ycsb-e"), -EINVAL);
	CHECK(strstr(why, "ycsb-e") && strstr(why, "-f") && strstr(why, "scans"));
}

TEST(ring_holds_what_is_in_flight)
{
	static const struct {
		const char *line;
		uint32_t size;
	} cases[] = {
		{"delegation --clients 1 --queue-depth 1", 4096},
		{"delegation --clients 46 --queue-depth 256", 1u << 23}, /* slack 8, 64 bytes */
		{"delegation --clients 1024 --queue-depth 4096", 1u << 30},
		{"delegation --ring-size 16384", 16384},
		{"delegation --clients 4 --queue-depth 8 --value-size 9-100",
			1u << 16}, /* 4 x 8 requests, slack 8, 128 + 100 bytes */
		{"delegation --clients 4 --queue-depth 8 --value-size 65536",
			1u << 19}, /* 4 x 8 requests, slack 8, 128 + 960 bytes */
		{"direct --clients 46 --queue-depth 256", 1u << 17}, /* an endpoint of one client */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CHECK_EQ(parse(cases[i].line), 0);
		CHECK_EQ(node_ring_size(&o), cases[i].size);
	}
}

TEST(naps_are_longer_in_a_crowd)
{
	CHECK_EQ(node_nap_ns(3, 16), 50000);
	CHECK_EQ(node_nap_ns(12, 2), 50000);
	CHECK_EQ(node_nap_ns(256, 2), 1024000);
	CHECK_EQ(node_nap_ns(514, 2), 2056000);
	CHECK_EQ(node_nap_ns(1u << 20, 1), 5000000);
	CHECK_EQ(node_nap_ns(7, 0), 56000);
}

TEST(fields_tell_lines_apart)
{
	static const char *const lines[] = {"delegation", "delegation --daemons 2",
		"delegation --clients 3", "delegation --rate 10", "delegation --warmup 1",
		"delegation --interval 1", "delegation --seed 2", "delegation --ops 7",
		"delegation --control none", "delegation --distribution zipf:1",
		"delegation --distribution latest:1", "delegation --distribution sequential",
		"delegation --distribution hotspot:0.1,0.5",
		"delegation --distribution hotspot:0.1,0.6",
		"delegation --distribution hotspot:0.2,0.5", "delegation --preload no",
		"delegation --value-size 9", "delegation --value-size 8-9", "delegation --rmw yes",
		"delegation --ring-size 4096", "meta", "direct", "meta --daemons 2",
		"meta --daemons 2 --net-daemons 1"};
	uint64_t fields[ARRAY_SIZE(lines)][OPTIONS_FIELDS], more[OPTIONS_FIELDS];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		CHECK_EQ(parse(lines[i]), 0);
		options_fields(&o, fields[i]);
		for (size_t k = 0; k < i; k++)
			CHECK(memcmp(fields[i], fields[k], sizeof(more)) != 0);
	}
	CHECK_EQ(parse("delegation --json x --timeout 9"), 0);
	options_fields(&o, more);
	CHECK(!memcmp(more, fields[0], sizeof(more))); /* these options do not describe the run */
}

TEST(results_travel)
{
	struct result a, b;
	uint64_t rng = test_seed();
	unsigned char *data, *again;
	size_t len, len_again;
	char text[80];

	CHECK(!result_init(&a) && !result_init(&b));
	a.counts.ops = 5;
	a.counts.verified = 4;
	a.counts.lost = 1;
	a.elapsed_ns = 17;
	a.digest = test_rand(&rng);
	for (uint32_t i = 0; i < 1000; i++)
		latrec_hist_record(a.latency[i % RESULT_LATENCIES], test_rand(&rng) >> (i % 64));
	CHECK_EQ(result_encode(NULL, &a, (void **)&data, &len), 0);
	CHECK_EQ(result_decode(data, len, &b), 0);
	CHECK_EQ(result_encode(NULL, &b, (void **)&again, &len_again), 0);
	CHECK(len_again == len && !memcmp(again, data, len));
	free(again);
	CHECK_EQ(result_decode(data, len - 1, &b), -EBADMSG);
	CHECK_EQ(result_decode(data, 3, &b), -EBADMSG);
	CHECK_EQ(result_decode(data, 0, &b), -EBADMSG);
	data[len - 2] ^= 1; /* the check sum of the histogram */
	CHECK_EQ(result_decode(data, len, &b), -EBADMSG);
	data[len - 2] ^= 1;
	CHECK_EQ(result_decode(data, len, &b), 0);
	data[0] ^= 1;
	CHECK_EQ(result_decode(data, len, &b), -EBADMSG);
	free(data);

	result_clear(&b);
	result_add(&b, &a);
	result_add(&b, &a);
	CHECK(b.counts.ops == 10 && b.elapsed_ns == 17);
	CHECK_EQ(latrec_hist_count(b.latency[1]), 400);
	result_sequel(&b, &a);
	CHECK(b.counts.ops == 15 && b.elapsed_ns == 34 && result_errors(&b) == 3);
	result_explain(&b, text, sizeof(text));
	CHECK(!strcmp(text, "3 lost"));
	result_clear(&b);
	result_explain(&b, text, sizeof(text));
	CHECK(!*text);
	result_fini(&a);
	result_fini(&b);
}
