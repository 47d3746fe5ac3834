/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

#define MAX_RANKS 4096
#define MAX_DAEMONS 64
#define MAX_CLIENTS 1024
#define MAX_DEPTH 4096
#define MAX_SLOTS (1u << 20) /* clients x depth */
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
	"  --clients N          client threads per rank (1 to 1024; 46)\n"
	"  --daemons N          daemons that share a rank's endpoints (1 to 64; 1)\n"
	"  --control C          of batching, as benchkv's (auto)\n"
	"  --machine M          hdr100, cx7, or a JSON file (hdr100)\n"
	"  --init high|low      all requests at once, or 1 ms with a WRITE per message (high)\n"
	"  --stagger US         first requests for rank r come r x US later (0)\n"
	"  --warmup MS          not counted (3)\n"
	"  --duration MS        counted (10)\n"
	"  --seed N             (1)\n"
	"  --trace FILE         CSV of rank 0, a line every --trace-step\n"
	"  --trace-step US      (10; 0: every loop)\n"
	"  --json FILE          one JSON object per job; - is standard output\n"
	"  --help, --version\n"
	"\n"
	"Status: 0 done, 1 an error, 2 a bad command line.\n";

enum {
	OPT_NP = 256,
	OPT_QD,
	OPT_CLIENTS,
	OPT_DAEMONS,
	OPT_CONTROL,
	OPT_MACHINE,
	OPT_INIT,
	OPT_STAGGER,
	OPT_WARMUP,
	OPT_DURATION,
	OPT_SEED,
	OPT_TRACE,
	OPT_TRACE_STEP,
	OPT_JSON,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option longs[] = {
	{"np", required_argument, NULL, OPT_NP},
	{"qd", required_argument, NULL, OPT_QD},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"daemons", required_argument, NULL, OPT_DAEMONS},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"machine", required_argument, NULL, OPT_MACHINE},
	{"init", required_argument, NULL, OPT_INIT},
	{"stagger", required_argument, NULL, OPT_STAGGER},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"seed", required_argument, NULL, OPT_SEED},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"trace-step", required_argument, NULL, OPT_TRACE_STEP},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static _Noreturn void refuse(const char *what, const char *arg, const char *give)
{
	fprintf(stderr, "benchkv-sim: %s '%s': %s\n", what, arg, give);
	exit(2);
}

static uint64_t integer(const char *option, const char *arg, uint64_t max)
{
	char give[64], *end;
	unsigned long long n = strtoull(arg, &end, 10);

	if (*arg < '0' || *arg > '9' || *end || n > max || (n < 1 && max != UINT64_MAX)) {
		snprintf(give, sizeof(give), "give a number from 1 to %llu",
			(unsigned long long)max);
		refuse(option, arg, give);
	}
	return n;
}

/* A time in units of unit_ns. */
static uint64_t duration(const char *option, const char *arg, double max, double unit_ns)
{
	char give[64], *end;
	double x = strtod(arg, &end);

	if (end == arg || *end || !(x >= 0 && x <= max)) {
		snprintf(give, sizeof(give), "give a number from 0 to %g", max);
		refuse(option, arg, give);
	}
	return (uint64_t)llround(x * unit_ns);
}

static void machine_option(struct sim_config *c, const char *arg)
{
	char why[256];

	if (machine_load(arg, &c->machine, why, sizeof(why))) {
		fprintf(stderr, "benchkv-sim: --machine %s\n", why);
		exit(2);
	}
}

static void init_option(struct sim_config *c, const char *arg)
{
	c->collapsed = !strcmp(arg, "low");
	if (!c->collapsed && strcmp(arg, "high") != 0)
		refuse("--init", arg, "give high or low");
}

static void time_option(struct sim_config *c, int opt, const char *arg)
{
	switch (opt) {
	case OPT_STAGGER:
		c->stagger_ns = duration("--stagger", arg, 1000, NSEC_PER_USEC);
		break;
	case OPT_WARMUP:
		c->warmup_ns = duration("--warmup", arg, MAX_MS, NSEC_PER_MSEC);
		break;
	case OPT_DURATION:
		c->duration_ns = duration("--duration", arg, MAX_MS, NSEC_PER_MSEC);
		if (!c->duration_ns)
			refuse("--duration", arg, "give a number above 0");
		break;
	case OPT_TRACE_STEP:
		c->trace_ns = duration("--trace-step", arg, 1e6, NSEC_PER_USEC);
		break;
	}
}

static void size_option(struct sim_config *c, int opt, const char *arg)
{
	switch (opt) {
	case OPT_NP:
		c->ranks = (uint32_t)integer("--np", arg, MAX_RANKS);
		break;
	case OPT_QD:
		c->depth = (uint32_t)integer("--qd", arg, MAX_DEPTH);
		break;
	case OPT_CLIENTS:
		c->clients = (uint32_t)integer("--clients", arg, MAX_CLIENTS);
		break;
	case OPT_DAEMONS:
		c->daemons = (uint32_t)integer("--daemons", arg, MAX_DAEMONS);
		break;
	case OPT_SEED:
		c->seed = integer("--seed", arg, UINT64_MAX);
		break;
	}
}

static void option(struct sim_options *o, int opt, const char *arg)
{
	switch (opt) {
	case OPT_CONTROL:
		if (control_parse(arg, &o->config.control))
			refuse("--control", arg, "give one of benchkv(1)'s");
		o->control_given = true;
		break;
	case OPT_MACHINE:
		machine_option(&o->config, arg);
		break;
	case OPT_INIT:
		init_option(&o->config, arg);
		break;
	case OPT_TRACE:
		o->trace = arg;
		break;
	case OPT_JSON:
		o->json = arg;
		break;
	case OPT_HELP:
		fputs(usage, stdout);
		exit(fflush(stdout) ? 1 : 0);
	case OPT_VERSION:
		puts("benchkv-sim " BENCHKV_VERSION);
		exit(fflush(stdout) ? 1 : 0);
	case '?':
		exit(2); /* getopt_long() has said why */
	default:
		size_option(&o->config, opt, arg);
		time_option(&o->config, opt, arg);
	}
}

static enum sim_command command(const char *arg)
{
	static const char *const names[] = {"run", "table", "map"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(arg, names[i]))
			return (enum sim_command)i;
	refuse("command", arg, "give run, table or map");
}

static void set_defaults(struct sim_config *c)
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
	machine_option(c, "hdr100");
}

void sim_options(int argc, char **argv, struct sim_options *o_p)
{
	int opt;

	*o_p = (struct sim_options){.command = SIM_RUN};
	set_defaults(&o_p->config);
	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1)
		option(o_p, opt, optarg);
	if (optind < argc)
		o_p->command = command(argv[optind++]);
	if (optind < argc)
		refuse("argument", argv[optind], "there is one command at most");
	if ((uint64_t)o_p->config.clients * o_p->config.depth > MAX_SLOTS) {
		fprintf(stderr,
			"benchkv-sim: --clients x --qd: give at most %u requests in flight\n",
			MAX_SLOTS);
		exit(2);
	}
}
