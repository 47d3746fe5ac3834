/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/oldargs.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "help.h"
#include "values.h"

#define MAX_CLIENTS 1024
#define MAX_DEPTH 4096

#define CONTROLS                                                                                            \
	"none, budget:N, threshold:T,N, adaptive-budget, hold:US, adaptive-hold, little, auto or auto:K,B " \
	"(numbers 1 to 65536)"

#ifdef HAVE_UCX
#define BACKENDS "delegation, meta, direct, ucx"
#else
#define BACKENDS "delegation, meta, direct (ucx is left out of this build)"
#endif

enum {
	OPT_DAEMONS = 256,
	OPT_NET_DAEMONS,
	OPT_CLIENTS,
	OPT_QUEUE_DEPTH,
	OPT_DURATION,
	OPT_OPS,
	OPT_RUNS,
	OPT_WARMUP,
	OPT_RATE,
	OPT_KEY_RANGE,
	OPT_READ_RATIO,
	OPT_DISTRIBUTION,
	OPT_PRELOAD,
	OPT_SEED,
	OPT_DEVICE,
	OPT_RING_SIZE,
	OPT_CONTROL,
	OPT_MACHINE,
	OPT_STAGGER,
	OPT_PIN,
	OPT_WAIT,
	OPT_TIMEOUT,
	OPT_TRACE,
	OPT_DECISIONS,
	OPT_JSON,
	OPT_HGRM,
	OPT_DRY_RUN,
	OPT_HELP,
	OPT_VERSION,
	OPT_END,
};

static const struct option long_options[] = {
	{"daemons", required_argument, NULL, OPT_DAEMONS},
	{"net-daemons", required_argument, NULL, OPT_NET_DAEMONS},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"queue-depth", required_argument, NULL, OPT_QUEUE_DEPTH},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"ops", required_argument, NULL, OPT_OPS},
	{"runs", required_argument, NULL, OPT_RUNS},
	{"warmup", required_argument, NULL, OPT_WARMUP},
	{"rate", required_argument, NULL, OPT_RATE},
	{"key-range", required_argument, NULL, OPT_KEY_RANGE},
	{"read-ratio", required_argument, NULL, OPT_READ_RATIO},
	{"distribution", required_argument, NULL, OPT_DISTRIBUTION},
	{"preload", required_argument, NULL, OPT_PRELOAD},
	{"seed", required_argument, NULL, OPT_SEED},
	{"device", required_argument, NULL, OPT_DEVICE},
	{"ring-size", required_argument, NULL, OPT_RING_SIZE},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"pin", required_argument, NULL, OPT_PIN},
	{"machine", required_argument, NULL, OPT_MACHINE},
	{"stagger", required_argument, NULL, OPT_STAGGER},
	{"wait", required_argument, NULL, OPT_WAIT},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"decisions", required_argument, NULL, OPT_DECISIONS},
	{"json", required_argument, NULL, OPT_JSON},
	{"hgrm", required_argument, NULL, OPT_HGRM},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

static int parse_size_option(int opt, const struct arg *a, struct options *o)
{
	switch (opt) {
	case OPT_DAEMONS:
		return arg_u32(a, 1, OPTIONS_MAX_DAEMONS, &o->daemons);
	case OPT_NET_DAEMONS:
		return arg_u32(a, 1, OPTIONS_MAX_DAEMONS, &o->net_daemons);
	case OPT_CLIENTS:
		return arg_u32(a, 1, MAX_CLIENTS, &o->clients);
	case OPT_QUEUE_DEPTH:
		return arg_u32(a, 1, MAX_DEPTH, &o->queue_depth);
	case OPT_DURATION:
		return arg_time(a, 0.001, 86400, (double)NSEC_PER_SEC, &o->duration_ns);
	case OPT_OPS:
		return arg_whole(a, 1, 1ull << 48, &o->ops);
	case OPT_RUNS:
		return arg_u32(a, 1, 1000, &o->runs);
	case OPT_WARMUP:
		return arg_time(a, 0, 86400, (double)NSEC_PER_SEC, &o->warmup_ns);
	case OPT_RATE:
		return arg_real(a, 1, 1e12, &o->rate);
	case OPT_KEY_RANGE:
		return arg_whole(a, 1, WORKLOAD_MAX_KEYS, &o->load.key_range);
	case OPT_READ_RATIO:
		return arg_real(a, 0, 1, &o->load.read_ratio);
	case OPT_DISTRIBUTION:
		return value_distribution(a, &o->load.zipf_theta);
	case OPT_PRELOAD:
		return arg_either(a, "yes", "no", &o->preload);
	default:
		return arg_whole(a, 0, INT64_MAX, &o->load.seed);
	}
}

static int parse_option(int opt, const struct arg *a, struct options *o)
{
	switch (opt) {
	case OPT_DEVICE:
		if (arg_text(a, "auto or the name of a device", &o->device))
			return -EINVAL;
		if (!strcmp(o->device, "auto"))
			o->device = NULL;
		return 0;
	case OPT_RING_SIZE:
		return value_ring_size(a, &o->ring_size);
	case OPT_CONTROL:
		return control_parse(a->value, &o->control) ? arg_bad(a, CONTROLS) : 0;
	case OPT_PIN:
		return arg_either(a, "yes", "no", &o->pin);
	case OPT_MACHINE:
		return arg_text(a, "a file that benchkv measure has written", &o->machine);
	case OPT_STAGGER:
		return arg_time(a, 0, 1e6, (double)NSEC_PER_USEC, &o->stagger_ns);
	case OPT_WAIT:
		return arg_either(a, "event", "poll", &o->wait_event);
	case OPT_TIMEOUT:
		return arg_time(a, 1, 86400, (double)NSEC_PER_SEC, &o->timeout_ns);
	case OPT_TRACE:
		return arg_text(a, "a file name, to which .RANK is added", &o->trace);
	case OPT_DECISIONS:
		return arg_text(a, "a file name, to which .RANK is added", &o->decisions);
	case OPT_JSON:
		return arg_text(a, "a file, or - for standard output", &o->json);
	case OPT_HGRM:
		return arg_text(a, "a file name", &o->hgrm);
	case OPT_DRY_RUN:
		o->dry_run = true;
		return 0;
	default:
		return parse_size_option(opt, a, o);
	}
}

const char *backend_name(enum backend b)
{
	static const char *const names[] = {
		[BACKEND_DELEGATION] = "delegation",
		[BACKEND_META] = "meta",
		[BACKEND_DIRECT] = "direct",
		[BACKEND_UCX] = "ucx",
	};

	return names[b];
}

static bool find_backend(const char *name, enum backend *backend_p)
{
#ifdef HAVE_UCX
	const enum backend last = BACKEND_UCX;
#else
	const enum backend last = BACKEND_DIRECT;
#endif

	for (enum backend b = BACKEND_DELEGATION; b <= last; b++) {
		if (!strcmp(name, backend_name(b))) {
			*backend_p = b;
			return true;
		}
	}
	return false;
}

static int parse_backend(int argc, char **argv, int first, struct options *o, char *why,
	size_t size)
{
	if (argc - first > 1) {
		snprintf(why, size, "'%s' is too much: give one backend, then options",
			argv[first + 1]);
		return -EINVAL;
	}
	if (first < argc && !strcmp(argv[first], "measure")) {
		o->measure = true;
		return 0;
	}
	if (first < argc && !find_backend(argv[first], &o->backend)) {
		snprintf(why, size,
			"unknown backend '%s': give one of: " BACKENDS ", or the command measure",
			argv[first]);
		return -EINVAL;
	}
	return 0;
}

static const char *option_name(int opt)
{
	const struct option *o = long_options;

	while (o->val != opt)
		o++;
	return o->name;
}

/* The first of these options that was given; 0: none. */
static int first_given(const bool *given, const int *opts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (given[opts[i] - OPT_DAEMONS])
			return opts[i];
	}
	return 0;
}

/* Of a backend whose clients go to the network by themselves. */
static int check_direct(struct options *o, const bool *given, char *why, size_t size)
{
	static const int unfit[] = {OPT_CONTROL, OPT_MACHINE, OPT_NET_DAEMONS, OPT_STAGGER,
		OPT_TRACE, OPT_DECISIONS};
	static const int unfit_ucx[] = {OPT_RING_SIZE, OPT_WAIT};
	int found = first_given(given, unfit, ARRAY_SIZE(unfit));

	if (!found && o->backend == BACKEND_UCX)
		found = first_given(given, unfit_ucx, ARRAY_SIZE(unfit_ucx));
	if (found) {
		snprintf(why, size, "--%s means nothing to %s: give another backend",
			option_name(found), backend_name(o->backend));
		return -EINVAL;
	}
	o->net_daemons = o->daemons;
	return control_parse("none", &o->control);
}

static int check_measure(const bool *given, char *why, size_t size)
{
	for (int opt = OPT_DAEMONS; opt < OPT_HELP; opt++) {
		if (given[opt - OPT_DAEMONS] && opt != OPT_DEVICE && opt != OPT_MACHINE) {
			snprintf(why, size,
				"--%s means nothing to measure: give --device and --machine only",
				option_name(opt));
			return -EINVAL;
		}
	}
	return 0;
}

static int check_together(struct options *o, const bool *given, char *why, size_t size)
{
	if (o->measure)
		return check_measure(given, why, size);
	if (o->ops && given[OPT_DURATION - OPT_DAEMONS]) {
		snprintf(why, size, "--ops and --duration exclude each other: give one");
		return -EINVAL;
	}
	if (o->ops && o->warmup_ns) {
		snprintf(why, size, "--ops and --warmup exclude each other: give one");
		return -EINVAL;
	}
	if (o->ops)
		o->duration_ns = 0;
	if (backend_is_direct(o->backend))
		return check_direct(o, given, why, size);
	if (!o->net_daemons)
		o->net_daemons = o->backend == BACKEND_META ? o->daemons : 1;
	if (o->net_daemons > o->daemons) {
		snprintf(why, size, "--net-daemons %u is more than there are: give %u or less",
			o->net_daemons, o->daemons);
		return -EINVAL;
	}
	if (o->machine && !o->control.derive) {
		snprintf(why, size,
			"--machine means nothing to this --control: give auto without numbers");
		return -EINVAL;
	}
	return 0;
}

/* Of argv, whose order stays as it is: getopt_long() sorts what it gets. */
static char **copy_line(int argc, char **argv)
{
	char **copy = calloc((size_t)argc + 1, sizeof(char *));

	if (copy)
		memcpy((void *)copy, (void *)argv, (size_t)argc * sizeof(char *));
	return copy;
}

/* Of the backend that the first argument names, if it does. */
static void help(const char *first)
{
	enum backend b;

	if (!strcmp(first, "measure"))
		help_measure(stdout);
	else if (find_backend(first, &b))
		help_backend(b, stdout);
	else
		help_all(stdout);
}

/* What is known of a command line while it is read. */
struct line {
	struct options o;
	bool given[OPT_END - OPT_DAEMONS];
	const char *first; /* word */
	bool shown; /* help or version: reading has ended there */
};

static int read_option(void *line, int opt, const struct arg *a)
{
	struct line *l = line;

	l->shown = opt == OPT_HELP || opt == OPT_VERSION;
	if (opt == OPT_HELP)
		help(l->first);
	if (opt == OPT_VERSION)
		puts("benchkv " BENCHKV_VERSION);
	if (l->shown)
		return -ECANCELED;
	l->given[opt - OPT_DAEMONS] = true;
	return parse_option(opt, a, &l->o);
}

static int parse_line(int argc, char **argv, struct options *o_p, char *why, size_t size)
{
	struct line l = {.first = argc > 1 ? argv[1] : "",
		.o = {.daemons = 1,
			.clients = 2,
			.queue_depth = 8,
			.runs = 1,
			.duration_ns = 3 * NSEC_PER_SEC,
			.timeout_ns = 30 * NSEC_PER_SEC,
			.preload = true,
			.pin = true,
			.load = {.key_range = 1u << 20, .read_ratio = 0.5, .seed = 1}}};
	int first, err;

	control_parse("auto", &l.o.control);
	first = args_read(argc, argv, ":", long_options, read_option, &l, why, size);
	if (first < 0)
		return l.shown ? 1 : first;
	err = parse_backend(argc, argv, first, &l.o, why, size);
	if (!err)
		err = check_together(&l.o, l.given, why, size);
	if (!err)
		*o_p = l.o;
	return err;
}

int options_parse(int argc, char **argv, struct options *o_p, char *why, size_t size)
{
	char **copy = copy_line(argc, argv);
	int err;

	if (!copy) {
		snprintf(why, size, "no memory: give a shorter command line");
		return -EINVAL;
	}
	err = parse_line(argc, copy, o_p, why, size);
	if (!err)
		o_p->command = argv;
	free((void *)copy);
	return err;
}

static uint64_t digest_add(uint64_t sum, uint64_t x)
{
	return mix64(sum ^ x) + 0x9e3779b97f4a7c15ull;
}

static uint64_t real_bits(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

uint64_t options_digest(const struct options *o)
{
	const uint64_t fields[] = {
		o->backend,
		o->daemons,
		o->net_daemons,
		o->clients,
		o->queue_depth,
		o->duration_ns,
		o->ops,
		o->runs,
		o->warmup_ns,
		real_bits(o->rate),
		o->stagger_ns,
		o->load.key_range,
		real_bits(o->load.read_ratio),
		real_bits(o->load.zipf_theta),
		o->load.seed,
		o->preload,
		o->ring_size,
		o->control.kind,
		o->control.n,
		o->control.threshold,
		o->control.window,
		o->control.full,
		o->control.hold_us,
		o->dry_run,
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sum = digest_add(sum, fields[i]);
	return sum;
}
