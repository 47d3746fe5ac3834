/* SPDX-License-Identifier: MIT */
/* benchkv-sim simulates jobs of benchkv with many ranks. It runs benchkv's own control code. */
#include <errno.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/output.h"
#include "output.h"

#define PROGRAM "benchkv-sim"

#define RUN (1u << SIM_RUN)
#define MAP (1u << SIM_MAP)

static int read_machine(const struct arg *a, void *machine_p)
{
	char why[256];
	int err = machine_load(a->value, machine_p, why, sizeof(why));

	if (err)
		snprintf(a->why, a->size, "--machine %s", why);
	return err;
}

static int read_control(const struct arg *a, void *control_p)
{
	return control_parse(a->value, control_p) ? arg_bad(a, "a control of benchkv(1)") : 0;
}

static const char *const states[] = {"high", "low", NULL};
static const char *const backends[] = {"delegation", "meta", NULL};

#define AT(field) ARG_AT(struct sim_options, field)
#define MS(least) ARG_TIME, .low = least, .high = 1e6, .unit = NSEC_PER_MSEC
#define US(most) ARG_TIME, .high = most, .unit = NSEC_PER_USEC

static const struct arg_row rows[] = {
	{"np", 0, "N", ARG_WHOLE, AT(config.ranks), .min = 1, .max = SIM_MAX_RANKS, .def = "8",
		.sets = RUN, .help = "ranks"},
	{"qd", 0, "N", ARG_WHOLE, AT(config.depth), .min = 1, .max = 4096, .def = "32", .sets = RUN,
		.help = "requests in flight per client"},
	{"qd-before", 0, "N", ARG_WHOLE, AT(config.depth_before), .min = 1, .max = 4096,
		.unset = "--qd", .with = "qd-step", .sets = RUN,
		.help = "requests in flight until --qd-step, at most --qd"},
	{"qd-step", 0, "MS", MS(.001), .field = AT(config.step_ns), .with = "qd-before",
		.sets = RUN, .help = "time of the change from --qd-before to --qd"},
	{"clients", 0, "N", ARG_WHOLE, AT(config.clients), .min = 1, .max = 1024, .def = "46",
		.sets = RUN | MAP, .help = "client threads per rank"},
	{"client-waits", 0, "N", ARG_WHOLE, AT(config.client_waits), .min = 1, .max = 4096,
		.def = "1", .sets = RUN,
		.help = "replies that a client must see before its next requests"},
	{"backend", 0, NULL, ARG_WORD, AT(config.meta), .words = backends, .def = "delegation",
		.sets = RUN | MAP, .help = "as in benchkv: the path of a client's requests"},
	{"daemons", 0, "N", ARG_WHOLE, AT(config.daemons), .min = 1, .max = 64, .def = "1",
		.sets = RUN | MAP, .help = "daemons that share a rank's endpoints"},
	{"intake", 0, "N", ARG_WHOLE, AT(config.intake), .min = 1, .max = 1u << 20, .unset = "all",
		.help = "most client requests that a pass of a daemon's loop takes"},
	{"control", 0, "C", ARG_CALL, AT(config.control), .read = read_control, .def = "auto",
		.sets = RUN | MAP, .help = "control of batching, as in benchkv"},
	{"machine", 0, "M", ARG_CALL, AT(config.machine), .read = read_machine, .def = "hdr100",
		.help = "hdr100, cx7, or a JSON file"},
	{"init", 0, NULL, ARG_WORD, AT(config.collapsed), .words = states, .def = "high",
		.sets = RUN, .help = "low: at first each message is sent in its own WRITE"},
	{"disturb", 0, "US", US(1e6), .field = AT(config.collapsed_ns), .def = "1000",
		.help = "how long --init low sends such WRITEs"},
	{"stagger", 0, "US", US(1000), .field = AT(config.stagger_ns), .def = "0",
		.help = "the first requests for rank r are delayed by r x US"},
	{"warmup", 0, "MS", MS(0), .field = AT(config.warmup_ns), .def = "3",
		.help = "time that is not counted"},
	{"duration", 0, "MS", MS(.001), .field = AT(config.duration_ns), .def = "10",
		.help = "time that is counted"},
	{"seed", 0, "N", ARG_WHOLE, AT(config.seed), .max = INT64_MAX, .def = "1",
		.help = "seed of the random choices"},
	{"threads", 0, "N", ARG_WHOLE, AT(config.threads), .min = 1, .max = 64,
		.unset = "cores, at most one per 16 ranks",
		.help = "threads of the simulation, which do not change the results"},
	{"trace", 0, "FILE", ARG_TEXT, AT(trace), .sets = RUN,
		.help = "CSV of rank 0, a line every --trace-step"},
	{"trace-step", 0, "US", US(1e6), .field = AT(config.trace_ns), .def = "10",
		.help = "time between lines; 0: a line per simulated pass of the daemon's loop"},
	{"hgrm", 0, "FILE", ARG_TEXT, AT(hgrm), .sets = RUN,
		.help = "percentiles of the latency in us, in the format of HdrHistogram"},
	{"json", 0, "FILE", ARG_TEXT, AT(json),
		.help = "one JSON object per job; - is standard output"},
	{"help", .kind = ARG_HELP},
	{"version", .kind = ARG_VERSION},
};

static const char usage[] =
	"Usage: benchkv-sim [run] [OPTION]...\n"
	"       benchkv-sim table [--machine M] [--json FILE]\n"
	"       benchkv-sim map [--control C] [OPTION]...\n"
	"Simulates jobs of benchkv, backends delegation and meta, by the control code of benchkv itself.\n"
	"run prints one job, table compares with published figures, map simulates 2 to 64\n"
	"ranks with several queue depths, from both initial states.\n";

static int check(struct args *args, const struct sim_config *c)
{
	if (c->depth_before > c->depth)
		return args_fail(args, "--qd-before: give at most --qd");
	if (c->client_waits > (c->depth_before ? c->depth_before : c->depth))
		return args_fail(args, "--client-waits: give at most %s",
			c->depth_before ? "--qd-before" : "--qd");
	if ((uint64_t)c->clients * c->depth > SIM_MAX_SLOTS)
		return args_fail(args, "--clients x --qd: give at most %u requests in flight",
			SIM_MAX_SLOTS);
	return 0;
}

/* Fills in *o, or ends the program: with status 0 after --help and --version, 2 after an error. */
static void read_options(int argc, char **argv, struct sim_options *o)
{
	static const char *const commands[] = {"run", "table", "map", NULL};
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "Status: 0 done, 1 an error, 2 a bad command line.\n",
		.version = PROGRAM " " BENCHKV_VERSION, .operand = "command"};
	unsigned command = SIM_RUN;
	int first;

	*o = (struct sim_options){.command = SIM_RUN};
	first = args_main(&args, PROGRAM, argc, argv, o);
	if (first < argc && args_word(&args, argv[first], commands, &command))
		args_exit(&args, PROGRAM, -EINVAL);
	o->command = (enum sim_command)command;
	o->control_given = args_given(&args, "control");
	args.set = 1u << command;
	args.command = commands[command];
	if (args_fit(&args) || check(&args, &o->config))
		args_exit(&args, PROGRAM, -EINVAL);
}

int main(int argc, char **argv)
{
	static int (*const commands[])(const struct sim_options *, FILE *) = {
		[SIM_RUN] = output_run,
		[SIM_TABLE] = output_table,
		[SIM_MAP] = output_map,
	};
	struct sim_options o;
	int err, status;
	FILE *json;

	read_options(argc, argv, &o);
	if (output_open(PROGRAM, o.json, "we", &json) ||
		output_open(PROGRAM, o.trace, "we", &o.config.trace) ||
		output_open(PROGRAM, o.hgrm, "we", &o.config.hgrm))
		return 2;
	err = commands[o.command](&o, json);
	status = output_close(PROGRAM, o.trace, o.config.trace, 0);
	status = output_close(PROGRAM, o.hgrm, o.config.hgrm, status);
	status = output_close(PROGRAM, o.json, json, status);
	/* output_close() has printed an error of a file; output_end() prints one of stdout. */
	if (err && !status && !ferror(stdout)) {
		fprintf(stderr, PROGRAM ": %s\n", strerror(-err));
		status = 1;
	}
	return output_end(PROGRAM, status);
}
