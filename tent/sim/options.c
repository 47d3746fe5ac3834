/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"

#define ALL_MODES (1u << TENT_BASELINE | 1u << TENT_SMART | 1u << TENT_PULL)

static int add_case(void *options, const char *word)
{
	struct sim_options *o = options;
	const struct sim_case *c = case_find(word);

	for (size_t i = 0; i < n_sim_cases && !strcmp(word, "all"); i++)
		add_case(o, sim_cases[i].name);
	if (!strcmp(word, "all"))
		return 0;
	for (uint32_t i = 0; i < o->n_cases; i++) {
		if (o->cases[i] == c)
			return 0;
	}
	if (!c || o->n_cases == OPTIONS_CASES)
		return -EINVAL;
	o->cases[o->n_cases++] = c;
	return 0;
}

static int add_mode(void *options, const char *word)
{
	struct sim_options *o = options;
	enum tent_mode mode;

	if (!strcmp(word, "all"))
		o->modes = ALL_MODES;
	else if (config_mode_parse(word, &mode))
		return -EINVAL;
	else
		o->modes |= 1u << mode;
	return 0;
}

static int read_cases(const struct arg *a, void *options)
{
	return arg_words(a, "names of cases (see --list), or all", add_case, options);
}

static int read_modes(const struct arg *a, void *options)
{
	return arg_words(a, "baseline, smart, pull, or all", add_mode, options);
}

static const char *const no_yes[] = {"no", "yes", NULL};
static const char *const sharings[] = {[NET_FAIR] = "fair", [NET_FIFO] = "fifo", NULL};

#define AT(field) ARG_AT(struct sim_options, field)

static const struct arg_row rows[] = {
	{.help = "Runs"},
	{"case", 0, "NAME,...", ARG_CALL, .read = read_cases, .unset = "all",
		.help = "cases, or all; --list names them"},
	{"mode", 0, "NAME,...", ARG_CALL, .read = read_modes, .unset = "all",
		.help = "baseline, smart, pull, or all"},
	{"seeds", 0, "N", ARG_WHOLE, AT(seeds), .min = 1, .max = 1000, .def = "30",
		.help = "runs per case and mode"},
	{"first-seed", 0, "N", ARG_WHOLE, AT(first_seed), .max = INT64_MAX, .def = "1",
		.help = "seed of the first run"},
	{"config", 0, "FILE", ARG_TEXT, AT(config),
		.help = "configuration of the scheduler (JSON); its mode is not used"},
	{"bytes", 0, "N", ARG_WHOLE, AT(assume.bytes), .min = 1 << 20, .max = 1ull << 40,
		.def = "4000000000", .help = "bytes of a stream"},
	{.help = "Assumptions"},
	{"sharing", 0, NULL, ARG_WORD, AT(assume.sharing), .words = sharings, .def = "fair",
		.help = "how a shared link is shared"},
	{"jitter", 0, "X", ARG_REAL, AT(assume.jitter), .high = 10, .def = "0",
		.help = "each latency is longer by a random part of up to X times the latency"},
	{"told-latency", 0, "X", ARG_REAL, AT(assume.told_latency), .low = .1, .high = 10,
		.def = "1", .help = "the scheduler gets a latency that is X times the real one"},
	{"told-links", 0, NULL, ARG_WORD, AT(assume.told_links), .words = no_yes, .def = "yes",
		.help = "the scheduler knows the rate of the shared link"},
	{"slice-cost", 0, "NS", ARG_REAL, AT(assume.cost_ns), .high = 100000, .def = "50",
		.help = "time that a slice costs its rail"},
	{.help = "Output"},
	{"trace", 0, "FILE", ARG_TEXT, AT(trace),
		.help = "bytes that each rail has sent over time, CSV, of one case, mode and seed"},
	{"json", 0, "FILE", ARG_TEXT, AT(json),
		.help = "one JSON object per case and mode, on a line; - is standard output"},
	{"check", 0, NULL, ARG_FLAG, AT(check),
		.help = "status 1 if the default mode misses a limit"},
	{"decisions", 0, NULL, ARG_FLAG, AT(decisions),
		.help = "run no cases; print the real time per slice for scheduling in each mode"},
	{"list", 0, NULL, ARG_FLAG, AT(list), .help = "name the cases and stop"},
	{"help", .kind = ARG_HELP},
};

static const char usage[] =
	"Usage: tentbench sim [OPTION]...\n"
	"Simulates rails and drives the scheduler over them; prints how long requests take,\n"
	"divided by the shortest possible time. The results are those of a model, not of a network.\n";

int sim_options_parse(int argc, char **argv, struct sim_options *o_p, char *why, size_t size)
{
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "Status: 0, 1 a run failed or --check, 2 a bad command line.\n", .why = why,
		.size = size};
	struct sim_options o = {.n_cases = 0};
	int first = args_read(&args, argc, argv, &o);

	if (first <= 0)
		return first ? first : 1;
	if (!o.n_cases)
		add_case(&o, "all");
	if (!o.modes)
		o.modes = ALL_MODES;
	if (o.trace && (o.n_cases != 1 || !is_pow2(o.modes) || o.seeds != 1))
		return args_fail(&args, "--trace: give one --case, one --mode and --seeds 1");
	*o_p = o;
	return 0;
}
