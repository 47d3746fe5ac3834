/* SPDX-License-Identifier: MIT */
/* The command line of rdmabench engine: bad lines are refused, good ones are parsed correctly. */
#include <errno.h>

#include "support/test.h"
#include "engine.h"

#define MAX_ARGS 24

static char why[300];

static int parse(const char *line, struct engine_options *o)
{
	static char copy[1000];
	char *argv[MAX_ARGS + 2] = {(char *)"engine"}, *save = NULL;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *a = strtok_r(copy, " ", &save); a && argc <= MAX_ARGS;
		a = strtok_r(NULL, " ", &save))
		argv[argc++] = strcmp(a, "\"\"") ? a : (char *)"";
	if (argc > 1 && (!strcmp(argv[1], "lat") || !strcmp(argv[1], "bw")))
		return engine_options_parse(argc - 1, argv + 1, o, why, sizeof(why));
	return engine_options_parse(argc, argv, o, why, sizeof(why));
}

/* Command lines. Their words are separated by spaces; "" is an empty word. */
static const char *const bad[] = {
	"a b",
	"--frobnicate",
	"-z",
	"-s",
	"-s 0",
	"-s 8388609",
	"-s 64k",
	"-s \n",
	"-a -s 64",
	"-a --request w_1_64",
	"-a --op c",
	"-a -c UD --op s",
	"-a -c UD",
	"-a --stats-dir d",
	"-a --stats-file f",
	"-a --check -t 4096",
	"--retry-count 8",
	"-o 0",
	"-o 17",
	"-S 16",
	"--tclass 256",
	"-Q 0",
	"-Q 4097",
	"-Q x",
	"--control all",
	"--control \"\"",
	"--control-every 0",
	"--inject drop",
	"--inject drop@0",
	"--inject melt@1",
	"-c XRC",
	"-c \"\"",
	"--request \"\"",
	"--request w_1",
	"--request w_1_1 -s 5",
	"--request w_1_1 --op r",
	"--op x",
	"--op \"\"",
	"--op a -s 16",
	"-c UC --op r",
	"-c UD --op w",
	"-q 0",
	"-q 1025",
	"-t 0",
	"-t 4097",
	"-r 0",
	"-r 32768",
	"-l 0",
	"-l 129",
	"--recv-batch 0",
	"--buf-num 0",
	"--buf-num 65",
	"--mr-num 0",
	"--mr-num 2",
	"-n 0",
	"-n 10 -D 1",
	"-n -1",
	"-D 0",
	"-D nan",
	"-D 1e9",
	"--rate 0",
	"--rate 1e6",
	"--burst 0",
	"--burst-pause 0",
	"-I 221",
	"-m 1500",
	"-u 0",
	"-u 32",
	"-d \"\"",
	"-i 0",
	"-x 256",
	"-p 0",
	"-p 65536",
	"--hosts 0",
	"--hosts 65",
	"--hosts 2 server",
	"--serve server",
	"--wait 5 server",
	"--run r server",
	"--serve --wait 5",
	"--serve --hosts 2",
	"--serve --fork",
	"--wait 0",
	"--timeout 0",
	"--fork server",
	"--server-dev mlx5_1",
	"--server-dev \"\" --fork",
	"--fork --hosts 2",
	"--json \"\"",
	"--stats-dir \"\"",
	"--stats-file \"\"",
	"--stats-dir a --stats-file b",
	"--stats-window 5",
	"--compat",
	"--compat --stats-window 5 --stats-dir a",
	"--stats-dir a --stats-window 0",
	"--run ../x",
	"--run \"\"",
	"--check=yes",
	"-q 1024 -t 4096",
	"-q 1024 -t 1023",
	"--check -t 4096 -s 8388608",
	"-n 5 --warm-up 1073741825",
	"lat -t 2",
	"lat -q 2",
	"lat -b",
	"lat --rate 5",
	"lat --hw-ts",
	"lat --request w_1_8",
	"lat --op w -e",
	"lat -c UC --op r",
	"lat --op a -s 4",
	"bw -l 200",
};

TEST(refuses_nonsense)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct engine_options o = {.port = 77};
		int err;

		why[0] = 0;
		err = parse(bad[i], &o);
		printf("  %-36s %s\n", bad[i], why);
		CHECK_EQ(err, -EINVAL);
		CHECK(strstr(why, "give") && !strchr(why, '\n'));
		CHECK_EQ(o.port, 77);
	}
}

/* The reason names the option --op, not the pattern that is made from it. */
TEST(names_op)
{
	static const char *const lines[] = {"--op x", "lat --op x", "bw --op \"w_1\" -s 8",
		"--op x -a"};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		struct engine_options o;

		CHECK_EQ(parse(lines[i], &o), -EINVAL);
		CHECK(strstr(why, "--op") && strstr(why, "give w, wi, r, s, si, a or c"));
		CHECK(!strstr(why, "pattern"));
	}
	for (unsigned i = 0; i < 2; i++) {
		struct engine_options o;

		CHECK_EQ(parse(i ? "lat --op c -s 4" : "--op a -s 16", &o), -EINVAL);
		CHECK(strstr(why, "an atomic has 8 bytes: give no --size"));
	}
}

TEST(understands)
{
	struct engine_options o;

	CHECK_EQ(parse("", &o), 0);
	CHECK(!o.host && o.port == 18515 && o.hosts == 1 && !o.fork && o.timeout_s == 10);
	CHECK(o.t.type == MLX5DVL_RC && o.t.qps == 1 && o.t.depth == 128 && o.t.send_batch == 1);
	CHECK(o.t.iterations == 0 && o.t.duration_ns == NSEC_PER_SEC && o.t.qp_timeout == 14);
	CHECK(!strcmp(o.t.pattern_text, "w_1_65536") && o.t.inline_max == 220);
	CHECK_EQ(parse("-c UC --op si -s 100 -q 3 -t 64 -r 99 -l 8 --recv-batch 5 -b -n 1000 srv",
			 &o),
		0);
	CHECK(!strcmp(o.host, "srv") && o.t.type == MLX5DVL_UC && o.t.qps == 3 && o.t.depth == 64);
	CHECK(o.t.rx_depth == 99 && o.t.send_batch == 8 && o.t.recv_batch == 5);
	CHECK(o.t.bidirectional && o.t.iterations == 1000 && !strcmp(o.t.pattern_text, "si_1_100"));
	CHECK_EQ(parse("--qp-type=rc --msg-size 64 --qp-num 2 --rate 5 --burst 6 --burst-pause 7",
			 &o),
		0);
	CHECK(o.t.type == MLX5DVL_RC && o.t.qps == 2 && o.t.rate == 5 && o.t.burst == 6);
	CHECK(o.t.burst_pause_us == 7 && !strcmp(o.t.pattern_text, "w_1_64"));
	CHECK_EQ(parse("srv -m 4096 -u 10 -I 0 -D .25 --check -d mlx5_1 -i 2 -x 3 -p 5 --op a", &o),
		0);
	CHECK(o.t.mtu == 5 && o.t.qp_timeout == 10 && o.t.inline_max == 0 && o.t.check);
	CHECK(o.t.duration_ns == NSEC_PER_SEC / 4 && !strcmp(o.device.name, "mlx5_1"));
	CHECK(o.device.port == 2 && o.device.gid_index == 3 && o.port == 5);
	CHECK(!strcmp(o.t.pattern_text, "a_1_8") && !strcmp(o.host, "srv"));
	CHECK_EQ(
		parse("--fork --report_gbits --json - --stats-dir d --compat --run r.1 --timeout 3 "
		      "--request w_1_5,r_2_6_7",
			&o),
		0);
	CHECK(o.fork && o.gbits && !strcmp(o.json, "-") && !strcmp(o.stats_dir, "d") && o.compat);
	CHECK(!strcmp(o.run, "r.1") && o.timeout_s == 3 && o.t.pattern.n == 2);
	CHECK_EQ(parse("-q 1024 -t 1022", &o), 0);
	CHECK_EQ(parse("--stats-file f --stats-window 7 --hosts 4 -q 3 --buf-num 5 --mr-num 2", &o),
		0);
	CHECK(o.t.buffers == 5 && o.t.regions == 2);
	CHECK(!strcmp(o.stats_file, "f") && o.stats_window == 7 && o.hosts == 4);
	CHECK_EQ(parse("-Q 50 -e --control lkey --control-every 9 --inject rnr@12 --hw-ts", &o), 0);
	CHECK(o.t.moderation == 50 && o.t.sleeps && o.hw_ts && o.t.control == CONTROL_LKEY);
	CHECK(o.t.control_us == 9 && o.t.inject == INJECT_RNR && o.t.inject_at == 12);
	CHECK_EQ(parse("--retry_count 0 -o 16 -S 15 --tclass 255", &o), 0);
	CHECK(o.t.retries == 0 && o.t.reads == 16 && o.t.sl == 15 && o.t.traffic_class == 255);
}

TEST(understands_sizes_and_commands)
{
	struct engine_options o;

	CHECK_EQ(parse("-a --op r -n 5", &o), 0);
	CHECK(o.all && o.first_size == 2 && o.last_size == PATTERN_LENGTH_MAX);
	CHECK(!strcmp(o.t.pattern_text, "r_1_8388608"));
	engine_options_resize(&o, 2);
	CHECK(!strcmp(o.t.pattern_text, "r_1_2") && o.t.again && !o.more);
	CHECK_EQ(o.t.pattern.largest, 2);
	engine_options_resize(&o, PATTERN_LENGTH_MAX);
	CHECK(!strcmp(o.t.pattern_text, "r_1_8388608") && !o.t.again && o.more);
	CHECK_EQ(parse("-a -c UD --op s -m 2048 --check", &o), 0);
	CHECK(o.first_size == 8 && o.last_size == 2048);
	CHECK_EQ(parse("lat", &o), 0);
	CHECK(o.t.pingpong && o.t.depth == 1 && o.t.iterations == 1000 && o.t.inline_max == 220);
	CHECK(!strcmp(o.t.pattern_text, "w_1_2") && o.t.moderation == 1);
	CHECK_EQ(parse("lat --op si -e -D 2 --warm-up 3 -H", &o), 0);
	CHECK(o.t.pingpong && o.t.sleeps && !o.t.iterations && o.t.warm_up == 3 && o.histogram);
	CHECK_EQ(parse("lat --op c -n 7 --warm-up 5", &o), 0);
	CHECK(!o.t.pingpong && o.t.iterations == 12 && !strcmp(o.t.pattern_text, "c_1_8"));
	CHECK_EQ(parse("bw -Q 7 -I 9", &o), 0);
	CHECK(!o.t.pingpong && o.t.depth == 128 && o.t.moderation == 7 && o.t.inline_max == 9);
	CHECK_EQ(parse("bw", &o), 0);
	CHECK(o.t.iterations == 5000 && o.t.moderation == 100 && !o.t.inline_max);
	CHECK(!strcmp(o.t.pattern_text, "w_1_65536"));
	CHECK_EQ(parse("--help --compat", &o), 1);
}
