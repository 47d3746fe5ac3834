/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/oldargs.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/output.h"

#define MAX_DAEMONS 64
#define MAX_CLIENTS 1024
#define MAX_DEPTH 4096
#define MAX_THREADS 64
#define MAX_MS 1e6

static const char usage[] =
	"Usage: benchkv-sim [run] [OPTION]...\n"
	"       benchkv-sim table [--machine M] [--json FILE]\n"
	"       benchkv-sim map [--control C] [OPTION]...\n"
	"Simulates jobs of benchkv, backend delegation, by the control code of benchkv itself.\n"
	"run prints one job, table compares with published figures, map goes over ranks and\n"
	"queue depths, from both initial states.\n"
	"\n"
	"  --np N               ranks (1 to 4096; 8)\n"
	"  --qd N               requests in flight per client (1 to 4096; 32)\n"
	"  --qd-before N        requests in flight until --qd-step (1 to --qd; --qd)\n"
	"  --qd-step MS         when the others join them\n"
	"  --clients N          client threads per rank (1 to 1024; 46)\n"
	"  --daemons N          daemons that share a rank's endpoints (1 to 64; 1)\n"
	"  --control C          of batching, as benchkv's (auto)\n"
	"  --machine M          hdr100, cx7, or a JSON file (hdr100)\n"
	"  --init high|low      all requests at once, or then a WRITE per message for a while (high)\n"
	"  --disturb US         how long that is (1000)\n"
	"  --stagger US         first requests for rank r come r x US later (0)\n"
	"  --warmup MS          not counted (3)\n"
	"  --duration MS        counted (10)\n"
	"  --seed N             (1)\n"
	"  --threads N          of the simulation (1 to 64; cores, but one per 16 ranks at most);\n"
	"                       results do not depend on it\n"
	"  --trace FILE         CSV of rank 0, a line every --trace-step\n"
	"  --trace-step US      (10; 0: every loop)\n"
	"  --hgrm FILE          percentiles of the latency in microseconds, as HdrHistogram\n"
	"  --json FILE          one JSON object per job; - is standard output\n"
	"  --help, --version\n"
	"\n"
	"Status: 0 done, 1 an error, 2 a bad command line.\n";

enum {
	OPT_NP = 256,
	OPT_QD,
	OPT_QD_BEFORE,
	OPT_QD_STEP,
	OPT_CLIENTS,
	OPT_DAEMONS,
	OPT_CONTROL,
	OPT_MACHINE,
	OPT_INIT,
	OPT_DISTURB,
	OPT_STAGGER,
	OPT_WARMUP,
	OPT_DURATION,
	OPT_SEED,
	OPT_THREADS,
	OPT_TRACE,
	OPT_TRACE_STEP,
	OPT_HGRM,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option longs[] = {
	{"np", required_argument, NULL, OPT_NP},
	{"qd", required_argument, NULL, OPT_QD},
	{"qd-before", required_argument, NULL, OPT_QD_BEFORE},
	{"qd-step", required_argument, NULL, OPT_QD_STEP},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"daemons", required_argument, NULL, OPT_DAEMONS},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"machine", required_argument, NULL, OPT_MACHINE},
	{"init", required_argument, NULL, OPT_INIT},
	{"disturb", required_argument, NULL, OPT_DISTURB},
	{"stagger", required_argument, NULL, OPT_STAGGER},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"seed", required_argument, NULL, OPT_SEED},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"trace-step", required_argument, NULL, OPT_TRACE_STEP},
	{"hgrm", required_argument, NULL, OPT_HGRM},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int machine_option(const struct arg *a, struct machine *machine_p)
{
	char why[256];
	int err = machine_load(a->value, machine_p, why, sizeof(why));

	if (err)
		snprintf(a->why, a->size, "--machine %s", why);
	return err;
}

/* Milliseconds, but not 0. */
static int some_ms(const struct arg *a, uint64_t *ns_p)
{
	uint64_t ns = 0;
	int err = arg_time(a, 0, MAX_MS, (double)NSEC_PER_MSEC, &ns);

	if (!err && !ns)
		return arg_bad(a, "a number above 0");
	if (!err)
		*ns_p = ns;
	return err;
}

static int control_option(const struct arg *a, struct sim_options *o)
{
	o->control_given = true;
	return control_parse(a->value, &o->config.control) ? arg_bad(a, "one of benchkv(1)'s") : 0;
}

static int config_option(int opt, const struct arg *a, struct sim_config *c)
{
	switch (opt) {
	case OPT_NP:
		return arg_u32(a, 1, SIM_MAX_RANKS, &c->ranks);
	case OPT_QD:
		return arg_u32(a, 1, MAX_DEPTH, &c->depth);
	case OPT_QD_BEFORE:
		return arg_u32(a, 1, MAX_DEPTH, &c->depth_before);
	case OPT_QD_STEP:
		return some_ms(a, &c->step_ns);
	case OPT_CLIENTS:
		return arg_u32(a, 1, MAX_CLIENTS, &c->clients);
	case OPT_DAEMONS:
		return arg_u32(a, 1, MAX_DAEMONS, &c->daemons);
	case OPT_SEED:
		return arg_whole(a, 0, INT64_MAX, &c->seed);
	case OPT_THREADS:
		return arg_u32(a, 1, MAX_THREADS, &c->threads);
	case OPT_MACHINE:
		return machine_option(a, &c->machine);
	case OPT_INIT:
		return arg_either(a, "low", "high", &c->collapsed);
	case OPT_DISTURB:
		return arg_time(a, 0, 1e6, (double)NSEC_PER_USEC, &c->collapsed_ns);
	case OPT_STAGGER:
		return arg_time(a, 0, 1000, (double)NSEC_PER_USEC, &c->stagger_ns);
	case OPT_WARMUP:
		return arg_time(a, 0, MAX_MS, (double)NSEC_PER_MSEC, &c->warmup_ns);
	case OPT_DURATION:
		return some_ms(a, &c->duration_ns);
	default:
		return arg_time(a, 0, 1e6, (double)NSEC_PER_USEC, &c->trace_ns);
	}
}

static int option(void *options, int opt, const struct arg *a)
{
	struct sim_options *o = options;

	o->job_given |= opt == OPT_NP || opt == OPT_INIT || (opt >= OPT_QD && opt <= OPT_QD_STEP);
	switch (opt) {
	case OPT_CONTROL:
		return control_option(a, o);
	case OPT_TRACE:
		return arg_text(a, "a file name", &o->trace);
	case OPT_HGRM:
		return arg_text(a, "a file name", &o->hgrm);
	case OPT_JSON:
		return arg_text(a, "a file name, or -", &o->json);
	case OPT_HELP:
		fputs(usage, stdout);
		exit(output_end("benchkv-sim", 0));
	case OPT_VERSION:
		puts("benchkv-sim " BENCHKV_VERSION);
		exit(output_end("benchkv-sim", 0));
	default:
		return config_option(opt, a, &o->config);
	}
}

static int parse_command(int argc, char **argv, int first, enum sim_command *command_p, char *why,
	size_t size)
{
	static const char *const names[] = {"run", "table", "map"};
	size_t i = 0;

	if (first == argc)
		return 0;
	while (i < ARRAY_SIZE(names) && strcmp(argv[first], names[i]))
		i++;
	if (i == ARRAY_SIZE(names)) {
		snprintf(why, size, "command '%.60s' is not valid: give run, table or map",
			argv[first]);
		return -EINVAL;
	}
	if (argc - first > 1) {
		snprintf(why, size, "argument '%.60s' is too much: give one command, then options",
			argv[first + 1]);
		return -EINVAL;
	}
	*command_p = (enum sim_command)i;
	return 0;
}

/* table and map have jobs of their own. */
static int check_command(const struct sim_options *o, char *why, size_t size)
{
	if (o->command == SIM_RUN)
		return 0;
	if (o->trace || o->hgrm)
		return args_fail(why, size, "--trace and --hgrm: give them with run");
	if (o->job_given)
		return args_fail(why, size, "--np, --qd and --init: give them with run");
	if (o->command == SIM_TABLE && o->control_given)
		return args_fail(why, size, "--control: give it with run or map");
	return 0;
}

/* A step needs the depth before it and the time. */
static int check_step(const struct sim_config *c, char *why, size_t size)
{
	if (!c->depth_before != !c->step_ns)
		return args_fail(why, size, "--qd-before and --qd-step: give both, or none");
	if (c->depth_before > c->depth)
		return args_fail(why, size, "--qd-before: give at most --qd");
	return 0;
}

static int parse(int argc, char **argv, struct sim_options *o, char *why, size_t size)
{
	struct sim_config *c = &o->config;
	int err, first = args_read(argc, argv, ":", longs, option, o, why, size);

	if (first < 0)
		return first;
	err = parse_command(argc, argv, first, &o->command, why, size);
	if (!err)
		err = check_command(o, why, size);
	if (!err)
		err = check_step(c, why, size);
	if (!err && (uint64_t)c->clients * c->depth > SIM_MAX_SLOTS) {
		snprintf(why, size, "--clients x --qd: give at most %u requests in flight",
			SIM_MAX_SLOTS);
		return -EINVAL;
	}
	return err;
}

static int set_defaults(struct sim_config *c, char *why, size_t size)
{
	*c = (struct sim_config){
		.ranks = 8,
		.daemons = 1,
		.clients = 46,
		.depth = 32,
		.collapsed_ns = NSEC_PER_MSEC,
		.warmup_ns = 3 * NSEC_PER_MSEC,
		.duration_ns = 10 * NSEC_PER_MSEC,
		.trace_ns = 10 * NSEC_PER_USEC,
		.seed = 1,
	};
	control_parse("auto", &c->control);
	return machine_load("hdr100", &c->machine, why, size);
}

void sim_options(int argc, char **argv, struct sim_options *o_p)
{
	char why[300];

	*o_p = (struct sim_options){.command = SIM_RUN};
	if (set_defaults(&o_p->config, why, sizeof(why)) ||
		parse(argc, argv, o_p, why, sizeof(why))) {
		fprintf(stderr, "benchkv-sim: %s\n", why);
		exit(2);
	}
}
