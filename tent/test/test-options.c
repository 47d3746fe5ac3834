/* SPDX-License-Identifier: MIT */
/* The command line of tentbench sim: bad lines are refused, good ones are understood. */
#include <errno.h>

#include "support/test.h"
#include "options.h"

#define MAX_ARGS 12

static int parse(const char *line, struct sim_options *o, char *why, size_t size)
{
	static char copy[400];
	char *argv[MAX_ARGS + 2] = {(char *)"sim"}, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *a = strtok_r(copy, " ", &save); a && argc <= MAX_ARGS;
		a = strtok_r(NULL, " ", &save))
		argv[argc++] = strcmp(a, "\"\"") ? a : (char *)"";
	return sim_options_parse(argc, argv, o, why, size);
}

TEST(refuses_nonsense)
{
	static const char *const bad[] = {
		"extra",
		"--frobnicate",
		"-x",
		"--case",
		"--case nothing",
		"--case healthy-8m,nothing",
		"--case \"\"",
		"--mode clever",
		"--mode \"\"",
		"--seeds 0",
		"--seeds 1001",
		"--seeds 3x",
		"--seeds -1",
		"--first-seed x",
		"--config \"\"",
		"--json \"\"",
		"--bytes 1000",
		"--bytes 2e9",
		"--sharing equal",
		"--jitter -1",
		"--jitter nan",
		"--jitter 11",
		"--told-latency 0",
		"--told-links maybe",
		"--slice-cost inf",
		"--check=yes",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sim_options o = {.seeds = 77};
		char why[400] = "";

		CHECK_EQ(parse(bad[i], &o, why, sizeof(why)), -EINVAL);
		printf("  %-28s %s\n", bad[i], why);
		CHECK(strstr(why, "give") && !strchr(why, '\n'));
		CHECK_EQ(o.seeds, 77);
	}
}

TEST(understands)
{
	struct sim_options o;
	char why[400];

	CHECK_EQ(parse("", &o, why, sizeof(why)), 0);
	CHECK(o.n_cases == n_sim_cases && o.modes == 7);
	CHECK(o.seeds == 30 && o.first_seed == 1 && o.assume.bytes == 4000000000ull);
	CHECK(o.assume.sharing == NET_FAIR && o.assume.jitter == 0 && o.assume.cost_ns == 50);
	CHECK(o.assume.told_latency == 1 && o.assume.told_links);
	CHECK(!o.config && !o.json && !o.check && !o.list && !o.decisions);
	CHECK_EQ(parse("--case one-1m,mixed,one-1m --mode pull,smart --seeds 5 --first-seed 9", &o,
			 why, sizeof(why)),
		0);
	CHECK(o.n_cases == 2 && o.cases[0] == case_find("one-1m"));
	CHECK_EQ(o.modes, 1u << TENT_SMART | 1u << TENT_PULL);
	CHECK(o.seeds == 5 && o.first_seed == 9);
	CHECK_EQ(
		parse("--bytes 1048576 --sharing fifo --jitter .5 --told-latency 3 --told-links no",
			&o, why, sizeof(why)),
		0);
	CHECK(o.assume.bytes == 1048576 && o.assume.sharing == NET_FIFO);
	CHECK(o.assume.jitter == .5 && o.assume.told_latency == 3 && !o.assume.told_links);
	CHECK_EQ(parse("--slice-cost 0 --json - --config c --check --list --decisions", &o, why,
			 sizeof(why)),
		0);
	CHECK(o.assume.cost_ns == 0 && !strcmp(o.json, "-") && !strcmp(o.config, "c"));
	CHECK(o.check && o.list && o.decisions);
	CHECK_EQ(parse("--help", &o, why, sizeof(why)), 1);
}
