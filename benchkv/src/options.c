/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

#define MAX_CLIENTS 1024
#define MAX_DEPTH 4096
#define RING_MIN 4096u
#define RING_MAX (1u << 30)

#define CONTROLS                                                                                   \
	"none, budget:N, threshold:T,N, adaptive-budget, auto or auto:K,B (numbers 1 to 65536)"

static const char usage[] =
	"Usage: benchkv delegation [OPTION]...\n"
	"A distributed key-value store and its load, one rank per process of the job:\n"
	"  mpirun -np 2 benchkv delegation --daemons 2 --clients 4 --queue-depth 32\n"
	"Every reply is checked, and every key that was put is read back at the end. Without a\n"
	"PMIx launcher it is a single rank.\n"
	"\n"
	"Size\n"
	"  --daemons N          daemon threads, one shard each, per rank (1 to 64; 1)\n"
	"  --clients N          client threads per rank (1 to 1024; 2)\n"
	"  --queue-depth N      requests in flight per client (1 to 4096; 8)\n"
	"  --duration S         seconds of a run (0.001 to 86400; 3)\n"
	"  --ops N              instead: operations of a run, over all clients\n"
	"  --runs N             runs, one after the other (1 to 1000; 1)\n"
	"Work\n"
	"  --key-range N        keys 0 to N-1 (1 to 2^32; 1048576)\n"
	"  --read-ratio R       share of gets (0 to 1; 0.5)\n"
	"  --distribution D     uniform, or zipf:THETA (above 0, at most 10; uniform)\n"
	"  --preload yes|no     store every key before the first run (yes)\n"
	"  --seed N             of the operation streams (1)\n"
	"Network\n"
	"  --device NAME        mlx5 device; auto: the first one, else a software HCA (auto)\n"
	"  --ring-size BYTES    of each endpoint: a power of two from 4096 to 2^30; auto: eight\n"
	"                       times what can be in flight to one rank (auto)\n"
	"  --control C          of batching: none, budget:N, threshold:T,N, adaptive-budget,\n"
	"                       auto, auto:K,B (auto)\n"
	"Other\n"
	"  --pin yes|no         a core per thread, when there are enough (yes)\n"
	"  --timeout S          how long to wait for other ranks and for a reply (1 to 86400; 30)\n"
	"  --trace FILE         what daemon 0 of each rank does, every millisecond: FILE.RANK\n"
	"  --json FILE          one JSON object, from rank 0; - is standard output\n"
	"  --dry-run            print what would run where, and stop\n"
	"  --help, --version\n"
	"\n"
	"Status: 0 all replies and keys verified, 1 an error, 2 a bad command line.\n";

enum {
	OPT_DAEMONS = 256,
	OPT_CLIENTS,
	OPT_QUEUE_DEPTH,
	OPT_DURATION,
	OPT_OPS,
	OPT_RUNS,
	OPT_KEY_RANGE,
	OPT_READ_RATIO,
	OPT_DISTRIBUTION,
	OPT_PRELOAD,
	OPT_SEED,
	OPT_DEVICE,
	OPT_RING_SIZE,
	OPT_CONTROL,
	OPT_PIN,
	OPT_TIMEOUT,
	OPT_TRACE,
	OPT_JSON,
	OPT_DRY_RUN,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option long_options[] = {
	{"daemons", required_argument, NULL, OPT_DAEMONS},
	{"clients", required_argument, NULL, OPT_CLIENTS},
	{"queue-depth", required_argument, NULL, OPT_QUEUE_DEPTH},
	{"duration", required_argument, NULL, OPT_DURATION},
	{"ops", required_argument, NULL, OPT_OPS},
	{"runs", required_argument, NULL, OPT_RUNS},
	{"key-range", required_argument, NULL, OPT_KEY_RANGE},
	{"read-ratio", required_argument, NULL, OPT_READ_RATIO},
	{"distribution", required_argument, NULL, OPT_DISTRIBUTION},
	{"preload", required_argument, NULL, OPT_PRELOAD},
	{"seed", required_argument, NULL, OPT_SEED},
	{"device", required_argument, NULL, OPT_DEVICE},
	{"ring-size", required_argument, NULL, OPT_RING_SIZE},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"pin", required_argument, NULL, OPT_PIN},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"trace", required_argument, NULL, OPT_TRACE},
	{"json", required_argument, NULL, OPT_JSON},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"help", no_argument, NULL, OPT_HELP},
	{"version", no_argument, NULL, OPT_VERSION},
	{NULL, 0, NULL, 0},
};

/* Where parsing is: the option's name and argument, and where to say what is wrong, if so. */
struct parse {
	const char *name, *arg;
	char *why;
	int size;
};

static int bad(const struct parse *p, const char *give)
{
	if (p->why)
		snprintf(p->why, (size_t)p->size, "--%s '%s' is not valid: give %s", p->name,
			p->arg, give);
	return -EINVAL;
}

static int parse_u64(const struct parse *p, uint64_t min, uint64_t max, uint64_t *n_p)
{
	unsigned long long n;
	char *end, give[64];

	errno = 0;
	n = strtoull(p->arg, &end, 0);
	if (p->arg[0] >= '0' && p->arg[0] <= '9' && !*end && !errno && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give), "a whole number from %" PRIu64 " to %" PRIu64, min, max);
	return bad(p, give);
}

static int parse_u32(const struct parse *p, uint32_t min, uint32_t max, uint32_t *n_p)
{
	uint64_t n;
	int err = parse_u64(p, min, max, &n);

	if (!err)
		*n_p = (uint32_t)n;
	return err;
}

static int parse_real(const struct parse *p, double min, double max, double *x_p)
{
	bool number = (*p->arg >= '0' && *p->arg <= '9') || *p->arg == '.';
	char *end, give[64];
	double x = strtod(p->arg, &end);

	if (number && end != p->arg && !*end && isfinite(x) && x >= min && x <= max) {
		*x_p = x;
		return 0;
	}
	snprintf(give, sizeof(give), "a number from %g to %.10g", min, max);
	return bad(p, give);
}

static int parse_seconds(const struct parse *p, double min, double max, uint64_t *ns_p)
{
	double s;
	int err = parse_real(p, min, max, &s);

	if (!err)
		*ns_p = (uint64_t)(s * (double)NSEC_PER_SEC);
	return err;
}

static int parse_yes_no(const struct parse *p, bool *yes_p)
{
	bool yes = !strcmp(p->arg, "yes");

	if (!yes && strcmp(p->arg, "no"))
		return bad(p, "yes or no");
	*yes_p = yes;
	return 0;
}

static int parse_distribution(const struct parse *p, double *theta_p)
{
	struct parse number = *p;
	double theta = 0;

	if (!strncmp(p->arg, "zipf:", 5)) {
		number = (struct parse){.name = p->name, .arg = p->arg + 5};
		if (parse_real(&number, 1e-6, 10, &theta))
			return bad(p, "zipf: and a number above 0, at most 10, as zipf:0.99");
	} else if (strcmp(p->arg, "uniform")) {
		return bad(p, "uniform, or zipf:THETA as zipf:0.99");
	}
	*theta_p = theta;
	return 0;
}

static int parse_ring_size(const struct parse *p, uint32_t *size_p)
{
	struct parse number = {.name = p->name, .arg = p->arg};
	uint32_t size = 0;

	if (strcmp(p->arg, "auto") &&
		(parse_u32(&number, RING_MIN, RING_MAX, &size) || !is_pow2(size)))
		return bad(p, "auto, or a power of two from 4096 to 1073741824");
	*size_p = size;
	return 0;
}

static int parse_name(const struct parse *p, const char *what, const char **s_p)
{
	if (!p->arg[0])
		return bad(p, what);
	*s_p = p->arg;
	return 0;
}

static int parse_size_option(int opt, const struct parse *p, struct options *o)
{
	switch (opt) {
	case OPT_DAEMONS:
		return parse_u32(p, 1, OPTIONS_MAX_DAEMONS, &o->daemons);
	case OPT_CLIENTS:
		return parse_u32(p, 1, MAX_CLIENTS, &o->clients);
	case OPT_QUEUE_DEPTH:
		return parse_u32(p, 1, MAX_DEPTH, &o->queue_depth);
	case OPT_DURATION:
		return parse_seconds(p, 0.001, 86400, &o->duration_ns);
	case OPT_OPS:
		return parse_u64(p, 1, 1ull << 48, &o->ops);
	case OPT_RUNS:
		return parse_u32(p, 1, 1000, &o->runs);
	case OPT_KEY_RANGE:
		return parse_u64(p, 1, WORKLOAD_MAX_KEYS, &o->load.key_range);
	case OPT_READ_RATIO:
		return parse_real(p, 0, 1, &o->load.read_ratio);
	case OPT_DISTRIBUTION:
		return parse_distribution(p, &o->load.zipf_theta);
	case OPT_PRELOAD:
		return parse_yes_no(p, &o->preload);
	default:
		return parse_u64(p, 0, INT64_MAX, &o->load.seed);
	}
}

static int parse_option(int opt, const struct parse *p, struct options *o)
{
	switch (opt) {
	case OPT_DEVICE:
		if (parse_name(p, "auto or the name of a device", &o->device))
			return -EINVAL;
		if (!strcmp(o->device, "auto"))
			o->device = NULL;
		return 0;
	case OPT_RING_SIZE:
		return parse_ring_size(p, &o->ring_size);
	case OPT_CONTROL:
		return control_parse(p->arg, &o->control) ? bad(p, CONTROLS) : 0;
	case OPT_PIN:
		return parse_yes_no(p, &o->pin);
	case OPT_TIMEOUT:
		return parse_seconds(p, 1, 86400, &o->timeout_ns);
	case OPT_TRACE:
		return parse_name(p, "a file name, to which .RANK is added", &o->trace);
	case OPT_JSON:
		return parse_name(p, "a file, or - for standard output", &o->json);
	case OPT_DRY_RUN:
		o->dry_run = true;
		return 0;
	default:
		return parse_size_option(opt, p, o);
	}
}

static int parse_backend(int argc, char **argv, struct options *o, char *why, int size)
{
	if (argc - optind > 1) {
		snprintf(why, (size_t)size, "'%s' is too much: give one backend, then options",
			argv[optind + 1]);
		return -EINVAL;
	}
	o->backend = optind < argc ? argv[optind] : NULL;
	if (!o->backend || strcmp(o->backend, "delegation")) {
		snprintf(why, (size_t)size, "%s%s%s: give one of: delegation",
			o->backend ? "unknown backend '" : "no backend",
			o->backend ? o->backend : "", o->backend ? "'" : "");
		return -EINVAL;
	}
	return 0;
}

static int check_together(struct options *o, bool have_duration, char *why, int size)
{
	if (o->ops && have_duration) {
		snprintf(why, (size_t)size, "--ops and --duration exclude each other: give one");
		return -EINVAL;
	}
	if (o->ops)
		o->duration_ns = 0;
	return 0;
}

static int say_unknown(int opt, char **argv, char *why, int size)
{
	snprintf(why, (size_t)size,
		opt == ':' ? "option '%s' needs a value; --help says which" :
			     "unknown option '%s'; --help lists them",
		argv[optind - 1]);
	return -EINVAL;
}

int options_parse(int argc, char **argv, struct options *o_p, char *why, int size)
{
	struct options o = {.daemons = 1,
		.clients = 2,
		.queue_depth = 8,
		.runs = 1,
		.duration_ns = 3 * NSEC_PER_SEC,
		.timeout_ns = 30 * NSEC_PER_SEC,
		.preload = true,
		.pin = true,
		.load = {.key_range = 1u << 20, .read_ratio = 0.5, .seed = 1}};
	bool have_duration = false;
	int opt, at, err;

	control_parse("auto", &o.control);
	opterr = 0;
	optind = 0; /* from the start, with no memory of an earlier call */
	while ((opt = getopt_long(argc, argv, ":", long_options, &at)) != -1) {
		struct parse p = {opt > 255 ? long_options[at].name : "", optarg, why, size};

		if (opt == OPT_HELP || opt == OPT_VERSION) {
			fputs(opt == OPT_HELP ? usage : "benchkv " BENCHKV_VERSION "\n", stdout);
			return 1;
		}
		if (opt == '?' || opt == ':')
			return say_unknown(opt, argv, why, size);
		have_duration |= opt == OPT_DURATION;
		err = parse_option(opt, &p, &o);
		if (err)
			return err;
	}
	err = parse_backend(argc, argv, &o, why, size);
	if (!err)
		err = check_together(&o, have_duration, why, size);
	if (!err)
		*o_p = o;
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
		o->daemons,
		o->clients,
		o->queue_depth,
		o->duration_ns,
		o->ops,
		o->runs,
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
		o->dry_run,
	};
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		sum = digest_add(sum, fields[i]);
	return sum;
}
