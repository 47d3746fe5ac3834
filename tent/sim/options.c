/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	{"check", no_argument, NULL, OPT_CHECK},
	{"decisions", no_argument, NULL, OPT_DECISIONS},
	{"list", no_argument, NULL, OPT_LIST},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* The option that is being read, and where to say what is wrong with it. */
struct parse {
	const char *name, *arg;
	char *why;
	size_t size;
};

static int bad(const struct parse *p, const char *give)
{
	snprintf(p->why, p->size, "--%s '%s' is not valid: give %s", p->name, p->arg, give);
	return -EINVAL;
}

static int parse_whole(const struct parse *p, uint64_t min, uint64_t max, uint64_t *n_p)
{
	char *end, give[80];
	unsigned long long n;

	errno = 0;
	n = strtoull(p->arg, &end, 0);
	if (*p->arg >= '0' && *p->arg <= '9' && !*end && !errno && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give), "a whole number from %" PRIu64 " to %" PRIu64, min, max);
	return bad(p, give);
}

static int parse_real(const struct parse *p, double min, double max, double *x_p)
{
	bool number = (*p->arg >= '0' && *p->arg <= '9') || *p->arg == '.';
	char *end, give[80];
	double x = strtod(p->arg, &end);

	if (number && end != p->arg && !*end && x >= min && x <= max) {
		*x_p = x;
		return 0;
	}
	snprintf(give, sizeof(give), "a number from %g to %g", min, max);
	return bad(p, give);
}

/* One of two words. */
static int parse_either(const struct parse *p, const char *yes, const char *no, bool *yes_p)
{
	char give[80];

	*yes_p = !strcmp(p->arg, yes);
	if (*yes_p || !strcmp(p->arg, no))
		return 0;
	snprintf(give, sizeof(give), "%s or %s", yes, no);
	return bad(p, give);
}

static int parse_name(const struct parse *p, const char **name_p)
{
	if (!*p->arg)
		return bad(p, "a file name");
	*name_p = p->arg;
	return 0;
}

typedef int word_fn(struct sim_options *o, const char *word);

static int parse_words(const struct parse *p, struct sim_options *o, word_fn *fn, const char *give)
{
	char copy[1024], *save = NULL, *word;

	if (!*p->arg || strlen(p->arg) >= sizeof(copy))
		return bad(p, give);
	strcpy(copy, p->arg);
	for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
		if (fn(o, word))
			return bad(p, give);
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

static int parse_assumption(int opt, const struct parse *p, struct sim_assume *a)
{
	bool fifo;
	int err;

	switch (opt) {
	case OPT_BYTES:
		return parse_whole(p, 1 << 20, 1ull << 40, &a->bytes);
	case OPT_SHARING:
		err = parse_either(p, "fifo", "fair", &fifo);
		if (!err)
			a->sharing = fifo ? NET_FIFO : NET_FAIR;
		return err;
	case OPT_JITTER:
		return parse_real(p, 0, 10, &a->jitter);
	case OPT_TOLD_LATENCY:
		return parse_real(p, .1, 10, &a->told_latency);
	case OPT_TOLD_LINKS:
		return parse_either(p, "yes", "no", &a->told_links);
	default:
		return parse_real(p, 0, 100000, &a->cost_ns);
	}
}

static int parse_seeds(const struct parse *p, struct sim_options *o)
{
	uint64_t n = 0;
	int err = parse_whole(p, 1, 1000, &n);

	if (!err)
		o->seeds = (uint32_t)n;
	return err;
}

static int parse_option(int opt, const struct parse *p, struct sim_options *o)
{
	switch (opt) {
	case OPT_CASE:
		return parse_words(p, o, add_case, "names of cases (see --list), or all");
	case OPT_MODE:
		return parse_words(p, o, add_mode, "baseline, smart, pull, or all");
	case OPT_SEEDS:
		return parse_seeds(p, o);
	case OPT_FIRST_SEED:
		return parse_whole(p, 0, INT64_MAX, &o->first_seed);
	case OPT_CONFIG:
		return parse_name(p, &o->config);
	case OPT_JSON:
		return parse_name(p, &o->json);
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
		return parse_assumption(opt, p, &o->assume);
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
	struct parse p = {.why = why, .size = size};
	int opt, which = 0, err;

	set_defaults(&o);
	opterr = 0;
	optind = 0;
	while ((opt = getopt_long(argc, argv, "+:", long_options, &which)) != -1) {
		if (opt == ':' || opt == '?') {
			snprintf(why, size, "%s %s: give one of the options of --help",
				argv[optind - 1], opt == ':' ? "needs a value" : "is not valid");
			return -EINVAL;
		}
		p.name = long_options[which].name;
		p.arg = optarg ? optarg : "";
		err = parse_option(opt, &p, &o);
		if (err)
			return err;
	}
	if (optind < argc) {
		snprintf(why, size, "'%s' is too much: give options only", argv[optind]);
		return -EINVAL;
	}
	if (!o.n_cases)
		add_case(&o, "all");
	if (!o.modes[0] && !o.modes[1] && !o.modes[2])
		add_mode(&o, "all");
	*o_p = o;
	return 0;
}
