/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "backend.h"

/* The commands that take an option. */
#define RUN 1u /* any backend */
#define COPYRPC 2u /* one with endpoints of copyrpc */
#define DAEMONS 4u /* one whose daemons own the endpoints */
#define MEASURE 8u /* the command */

#define USAGE_MAX 1500

#define CONTROLS                                                                                            \
	"none, budget:N, threshold:T,N, adaptive-budget, hold:US, adaptive-hold, little, auto or auto:K,B " \
	"(numbers 1 to 65536)"

static int read_distribution(const struct arg *a, void *theta_p)
{
	struct arg number = *a;

	number.value += 5;
	number.size = 0;
	if (!strncmp(a->value, "zipf:", 5) && !arg_real(&number, 1e-6, 10, theta_p))
		return 0;
	if (strcmp(a->value, "uniform") != 0)
		return arg_bad(a,
			"uniform, or zipf: and a number above 0, at most 10, as zipf:0.99");
	*(double *)theta_p = 0;
	return 0;
}

static int read_control(const struct arg *a, void *control_p)
{
	return control_parse(a->value, control_p) ? arg_bad(a, CONTROLS) : 0;
}

static const char *const no_yes[] = {"no", "yes", NULL}, *const waits[] = {"poll", "event", NULL};

#define AT(field) ARG_AT(struct options, field)
#define RANK_FILE .give = "a file name, to which .RANK is added"

static const struct arg_row rows[] = {
	{.help = "Size", .sets = RUN},
	{"daemons", 0, "N", ARG_WHOLE, AT(daemons), .min = 1, .max = OPTIONS_MAX_DAEMONS,
		.def = "1", .sets = RUN, .help = "daemon threads, one shard each, per rank"},
	{"clients", 0, "N", ARG_WHOLE, AT(clients), .min = 1, .max = 1024, .def = "2", .sets = RUN,
		.help = "client threads per rank"},
	{"queue-depth", 0, "N", ARG_WHOLE, AT(queue_depth), .min = 1, .max = 4096, .def = "8",
		.sets = RUN, .help = "requests in flight per client"},
	{"duration", 0, "S", ARG_TIME, AT(duration_ns), .low = .001, .high = 86400,
		.unit = NSEC_PER_SEC, .def = "3", .sets = RUN, .help = "seconds of a run"},
	{"ops", 0, "N", ARG_WHOLE, AT(ops), .min = 1, .max = 1ull << 48, .not_with = "duration",
		.sets = RUN, .help = "instead: operations of a run, over all clients"},
	{"runs", 0, "N", ARG_WHOLE, AT(runs), .min = 1, .max = 1000, .def = "1", .sets = RUN,
		.help = "runs, one after the other"},
	{"warmup", 0, "S", ARG_TIME, AT(warmup_ns), .high = 86400, .unit = NSEC_PER_SEC, .def = "0",
		.sets = RUN,
		.help = "seconds before those of each run, which are checked but not measured"},
	{"rate", 0, "R", ARG_REAL, AT(rate), .low = 1, .high = 1e12, .sets = RUN,
		.unset = "as fast as replies come",
		.help = "operations per second of all clients together, each made when it is due, "
			"as far as the queue depth permits"},
	{.help = "Work", .sets = RUN},
	{"key-range", 0, "N", ARG_WHOLE, AT(load.key_range), .min = 1, .max = WORKLOAD_MAX_KEYS,
		.def = "1048576", .sets = RUN, .help = "keys 0 to N-1"},
	{"read-ratio", 0, "R", ARG_REAL, AT(load.read_ratio), .high = 1, .def = "0.5", .sets = RUN,
		.help = "share of gets"},
	{"distribution", 0, "D", ARG_CALL, AT(load.zipf_theta), .read = read_distribution,
		.def = "uniform", .sets = RUN,
		.help = "uniform, or zipf:THETA with THETA above 0, at most 10"},
	{"preload", 0, NULL, ARG_WORD, AT(preload), .words = no_yes, .def = "yes", .sets = RUN,
		.help = "store every key before the first run"},
	{"seed", 0, "N", ARG_WHOLE, AT(load.seed), .max = INT64_MAX, .def = "1", .sets = RUN,
		.help = "seed of the operation streams"},
	{.help = "Network"},
	{"device", 0, "NAME", ARG_TEXT, AT(device), .none = "auto",
		.give = "auto or the name of a device", .sets = RUN | MEASURE,
		.help = "mlx5 device; auto: the first one, else a software HCA"},
	{"ring-size", 0, "BYTES", ARG_POWER, AT(ring_size), .min = 4096, .max = 1u << 30,
		.none = "auto", .sets = COPYRPC,
		.help = "bytes of each endpoint, a power of two; auto: eight times what can be in "
			"flight on it"},
	{"wait", 0, NULL, ARG_WORD, AT(wait_event), .words = waits, .def = "poll", .sets = COPYRPC,
		.help = "idle daemons look again after a nap, or sleep on descriptors until there "
			"is something"},
	{"net-daemons", 0, "N", ARG_WHOLE, AT(net_daemons), .min = 1, .max = OPTIONS_MAX_DAEMONS,
		.unset = "1 for delegation, all for meta", .sets = DAEMONS,
		.help = "daemons that own endpoints, that of rank r being daemon r mod N; at most "
			"--daemons"},
	{"control", 0, "C", ARG_CALL, AT(control), .read = read_control, .def = "auto",
		.sets = DAEMONS,
		.help = "control of batching: none, budget:N, threshold:T,N, adaptive-budget, "
			"hold:US, adaptive-hold, little, auto, auto:K,B; US in microseconds"},
	{"stagger", 0, "US", ARG_TIME, AT(stagger_ns), .high = 1e6, .unit = NSEC_PER_USEC,
		.def = "0", .sets = DAEMONS,
		.help = "microseconds by which the first calls to rank r + 1 come later than those "
			"to rank r"},
	{"machine", 0, "FILE", ARG_TEXT, AT(machine), .sets = DAEMONS | MEASURE,
		.give = "a file that benchkv measure has written",
		.help = "the control auto takes K and B from this file instead of measuring; "
			"measure writes it"},
	{"trace", 0, "FILE", ARG_TEXT, AT(trace), RANK_FILE, .sets = DAEMONS,
		.help = "writes every millisecond what the daemons with endpoints do, to FILE.RANK"},
	{"decisions", 0, "FILE", ARG_TEXT, AT(decisions), RANK_FILE, .sets = DAEMONS,
		.help = "writes what the control decided, and why, as CSV to FILE.RANK"},
	{.help = "Other", .sets = RUN},
	{"pin", 0, NULL, ARG_WORD, AT(pin), .words = no_yes, .def = "yes", .sets = RUN,
		.help = "a core per thread, when there are enough"},
	{"timeout", 0, "S", ARG_TIME, AT(timeout_ns), .low = 1, .high = 86400, .unit = NSEC_PER_SEC,
		.def = "30", .sets = RUN,
		.help = "seconds to wait for a reply, and for ranks that start; for their end of a "
			"run twice that"},
	{"hgrm", 0, "FILE", ARG_TEXT, AT(hgrm), .sets = RUN,
		.help = "rank 0 writes percentiles of the latency in microseconds, as HdrHistogram "
			"does"},
	{"json", 0, "FILE", ARG_TEXT, AT(json), .sets = RUN,
		.help = "rank 0 writes one JSON object; - is standard output"},
	{"dry-run", 0, NULL, ARG_FLAG, AT(dry_run), .sets = RUN,
		.help = "print what would run where, and stop"},
	{"help", .kind = ARG_HELP},
	{"version", .kind = ARG_VERSION},
};

static const char usage_measure[] =
	"Usage: benchkv measure [--device NAME] [--machine FILE]\n"
	"Measures, in half a second, what the device and this machine need: the round trip of a lone\n"
	"call, the time per WRITE, and the CPU time per message, and which K and B the control auto\n"
	"derives from them.\n";

static const char usage_all[] =
	"Usage: benchkv [BACKEND] [OPTION]...\n"
	"A distributed key-value store and its load, one rank per process of the job:\n"
	"  mpirun -np 2 benchkv delegation --daemons 2 --clients 4 --queue-depth 32\n"
	"Every reply is checked, and every key that was put is read back at the end. Without a\n"
	"PMIx launcher it is a single rank.\n"
	"\n"
	"Backends: the way of a request to another rank (benchkv BACKEND --help: its options)\n";

static const char usage_commands[] =
	"or a command: measure  what the machine needs (benchkv measure --help)\n";

static void describe_all(char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "%s", usage_all);

	for (const struct backend *const *b = backends; *b && n < size; b++)
		n += (size_t)snprintf(text + n, size - n, "  %-20s %s\n", (*b)->name, (*b)->brief);
	if (n < size)
		snprintf(text + n, size - n, "%s", usage_commands);
}

/* The command line is for this word, a backend or a command. usage[] gets its description. */
static bool set_command(struct args *args, const char *word, struct options *o,
	char usage[USAGE_MAX])
{
	const struct backend *b = backend_find(word);

	o->measure = !strcmp(word, "measure");
	if (!o->measure && !b)
		return false;
	args->command = word;
	args->usage = usage;
	if (o->measure) {
		args->set = MEASURE;
		snprintf(usage, USAGE_MAX, "%s", usage_measure);
		return true;
	}
	o->backend = b;
	args->set = RUN | (b->copyrpc ? COPYRPC : 0) | (b->owned ? DAEMONS : 0);
	snprintf(usage, USAGE_MAX, "Usage: benchkv %s [OPTION]...\n%s", b->name, b->about);
	return true;
}

static int refuse_backend(const struct args *args, const char *word)
{
	char names[128] = "";

	for (const struct backend *const *b = backends; *b; b++) {
		strncat(names, names[0] ? ", " : "", sizeof(names) - strlen(names) - 1);
		strncat(names, (*b)->name, sizeof(names) - strlen(names) - 1);
	}
	return args_fail(args, "unknown backend '%.60s': give one of: %s%s, or the command measure",
		word, names, backends_lacking);
}

static int check_together(const struct args *args, struct options *o)
{
	if (o->ops && o->warmup_ns)
		return args_fail(args, "--ops and --warmup exclude each other: give one");
	if (o->ops)
		o->duration_ns = 0;
	if (o->measure)
		return 0;
	if (!o->backend->owned) {
		o->net_daemons = o->daemons;
		return control_parse("none", &o->control);
	}
	if (!o->net_daemons)
		o->net_daemons = o->backend->all_own ? o->daemons : 1;
	if (o->net_daemons > o->daemons)
		return args_fail(args, "--net-daemons %u is more than there are: give %u or less",
			o->net_daemons, o->daemons);
	if (o->machine && !o->control.derive)
		return args_fail(args,
			"--machine means nothing to this --control: give auto without numbers");
	return 0;
}

/* A copy of argv, because getopt_long() sorts its own. */
static char **copy_line(int argc, char **argv)
{
	char **copy = calloc((size_t)argc + 1, sizeof(char *));

	if (copy)
		memcpy((void *)copy, (void *)argv, (size_t)argc * sizeof(char *));
	return copy;
}

static int parse_line(int argc, char **argv, struct options *o, char *why, size_t size)
{
	char usage[USAGE_MAX];
	struct args args = {.rows = rows,
		.n_rows = ARRAY_SIZE(rows),
		.usage = usage,
		.tail = "Status: 0 all replies and keys verified, 1 an error, 2 a bad command line.\n",
		.version = "benchkv " BENCHKV_VERSION,
		.operand = "backend",
		.why = why,
		.size = size};
	int first, err;

	describe_all(usage, sizeof(usage));
	if (argc > 1)
		set_command(&args, argv[1], o, usage); /* for --help */
	first = args_read(&args, argc, argv, o);
	if (first <= 0)
		return first ? first : 1;
	if (!set_command(&args, first < argc ? argv[first] : backends[0]->name, o, usage))
		return refuse_backend(&args, argv[first]);
	err = args_fit(&args);
	return err ? err : check_together(&args, o);
}

int options_parse(int argc, char **argv, struct options *o_p, char *why, size_t size)
{
	char **copy = copy_line(argc, argv);
	struct options o = {.command = argv};
	int err;

	if (!copy) {
		snprintf(why, size, "no memory: give a shorter command line");
		return -EINVAL;
	}
	err = parse_line(argc, copy, &o, why, size);
	if (!err)
		*o_p = o;
	free((void *)copy);
	return err;
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
		backend_index(o->backend),
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
		sum = mix64_add(sum, fields[i]);
	return sum;
}
