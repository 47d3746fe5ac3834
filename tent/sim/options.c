/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <string.h>

#include "base/oldargs.h"

const char sim_usage[] =
	"Usage: tentbench sim [OPTION]...\n"
	"Simulates rails and drives the scheduler over them; prints how long requests take\n"
	"over what is possible. Figures are of a model, not of a network.\n"
	"\n"
	"What\n"
	"  --case NAME,...      cases, or all (all); --list names them\n"
	"  --mode NAME,...      baseline, smart, pull, or all (all)\n"
	"  --seeds N            runs per case and mode (1 to 1000; 30)\n"
	"  --first-seed N       seed of the first run (1)\n"
	"  --config FILE        configuration of the scheduler (JSON); its mode is not used\n"
	"  --bytes N            of a stream (1048576 to 2^40; 4000000000)\n"
	"Assumptions\n"
	"  --sharing HOW        of a shared link: fair, or fifo (fair)\n"
	"  --jitter X           latencies are longer by up to so many times each (0 to 10; 0)\n"
	"  --told-latency X     the scheduler is told so many times the latency (0.1 to 10; 1)\n"
	"  --told-links yes|no  the scheduler knows the rate of the shared link (yes)\n"
	"  --slice-cost NS      that a slice costs its rail (0 to 100000; 50)\n"
	"Output\n"
	"  --trace FILE         what each rail has sent over time, CSV, of one case, mode and seed\n"
	"  --json FILE          one JSON object per case and mode, on a line; - is standard output\n"
	"  --check              status 1 if the default mode misses a limit\n"
	"  --decisions          instead: nanoseconds per decision of each mode, in real time\n"
	"  --list               name the cases and stop\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 a run failed or --check, 2 a bad command line.\n";

enum {
	OPT_CASE = 256,
	OPT_MODE,
	OPT_SEEDS,
	OPT_FIRST_SEED,
	OPT_CONFIG,
	OPT_BYTES,
	OPT_SHARING,
	OPT_JITTER,
	OPT_TOLD_LATENCY,
	OPT_TOLD_LINKS,
	OPT_SLICE_COST,
	OPT_JSON,
	OPT_TRACE,
	OPT_CHECK,
	OPT_DECISIONS,
	OPT_LIST,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"case", required_argument, NULL, OPT_CASE},
	{"mode", required_argument, NULL, OPT_MODE},
	{"seeds", required_argument, NULL, OPT_SEEDS},
	{"first-seed", required_argument, NULL, OPT_FIRST_SEED},
	{"config", required_argument, NULL, OPT_CONFIG},
	{"bytes", required_argument, NULL, OPT_BYTES},
	{"sharing", required_argument, NULL, OPT_SHARING},
	{"jitter", required_argument, NULL, OPT_JITTER},
	{"told-latency", required_argument, NULL, OPT_TOLD_LATENCY},
	{"told-links", required_argument, NULL, OPT_TOLD_LINKS},
	{"slice-cost", required_argument, NULL, OPT_SLICE_COST},
	{"json", required_argument, NULL, OPT_JSON},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"check", no_argument, NULL, OPT_CHECK},
	{"decisions", no_argument, NULL, OPT_DECISIONS},
	{"list", no_argument, NULL, OPT_LIST},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

typedef int word_fn(struct sim_options *o, const char *word);

static int parse_words(const struct arg *a, struct sim_options *o, word_fn *fn, const char *give)
{
	char copy[1024], *save = NULL, *word;

	if (strlen(a->value) >= sizeof(copy))
		return arg_bad(a, give);
	strcpy(copy, a->value);
	word = strtok_r(copy, ",", &save);
	if (!word)
		return arg_bad(a, give);
	for (; word; word = strtok_r(NULL, ",", &save)) {
		if (fn(o, word))
			return arg_bad(a, give);
	}
	return 0;
}

static int add_case(struct sim_options *o, const char *word)
{
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

static int add_mode(struct sim_options *o, const char *word)
{
	enum tent_mode mode;
	bool all = !strcmp(word, "all");

	if (!all && config_mode_parse(word, &mode))
		return -EINVAL;
	for (int i = 0; i < 3; i++)
		o->modes[i] |= all || (int)mode == i;
	return 0;
}

static int parse_sharing(const struct arg *a, struct sim_assume *assume)
{
	bool fifo = false;
	int err = arg_either(a, "fifo", "fair", &fifo);

	if (!err)
		assume->sharing = fifo ? NET_FIFO : NET_FAIR;
	return err;
}

static int parse_assumption(int opt, const struct arg *a, struct sim_assume *assume)
{
	switch (opt) {
	case OPT_BYTES:
		return arg_whole(a, 1 << 20, 1ull << 40, &assume->bytes);
	case OPT_SHARING:
		return parse_sharing(a, assume);
	case OPT_JITTER:
		return arg_real(a, 0, 10, &assume->jitter);
	case OPT_TOLD_LATENCY:
		return arg_real(a, .1, 10, &assume->told_latency);
	case OPT_TOLD_LINKS:
		return arg_either(a, "yes", "no", &assume->told_links);
	default:
		return arg_real(a, 0, 100000, &assume->cost_ns);
	}
}

static int parse_option(void *options, int opt, const struct arg *a)
{
	struct sim_options *o = options;

	switch (opt) {
	case OPT_CASE:
		return parse_words(a, o, add_case, "names of cases (see --list), or all");
	case OPT_MODE:
		return parse_words(a, o, add_mode, "baseline, smart, pull, or all");
	case OPT_SEEDS:
		return arg_u32(a, 1, 1000, &o->seeds);
	case OPT_FIRST_SEED:
		return arg_whole(a, 0, INT64_MAX, &o->first_seed);
	case OPT_CONFIG:
		return arg_text(a, "a file name", &o->config);
	case OPT_JSON:
		return arg_text(a, "a file name", &o->json);
	case OPT_TRACE:
		return arg_text(a, "a file name", &o->trace);
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_DECISIONS:
		o->decisions = true;
		return 0;
	case OPT_LIST:
		o->list = true;
		return 0;
	case OPT_HELP:
		o->help = true;
		return 0;
	default:
		return parse_assumption(opt, a, &o->assume);
	}
}

static void set_defaults(struct sim_options *o)
{
	*o = (struct sim_options){
		.seeds = 30,
		.first_seed = 1,
		.assume = {.told_latency = 1,
			.told_links = true,
			.cost_ns = 50,
			.bytes = 4000000000ull},
	};
}

int sim_options_parse(int argc, char **argv, struct sim_options *o_p, char *why, size_t size)
{
	struct sim_options o;
	int first;

	set_defaults(&o);
	first = args_read(argc, argv, "+:", long_options, parse_option, &o, why, size);
	if (first < 0)
		return first;
	if (args_end(argc, argv, first, why, size))
		return -EINVAL;
	if (!o.n_cases)
		add_case(&o, "all");
	if (!o.modes[0] && !o.modes[1] && !o.modes[2])
		add_mode(&o, "all");
	if (o.trace &&
		(o.n_cases != 1 || o.modes[0] + o.modes[1] + o.modes[2] != 1 || o.seeds != 1)) {
		snprintf(why, size, "--trace: give one --case, one --mode and --seeds 1");
		return -EINVAL;
	}
	*o_p = o;
	return 0;
}
