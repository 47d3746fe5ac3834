/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "backend.h"
#include "series.h"

/* The commands and backends that accept an option. */
#define RUN 1u /* benchkv with any backend */
#define COPYRPC 2u /* a backend with endpoints of copyrpc */
#define DAEMONS 4u /* a backend whose daemons own the endpoints */
#define MEASURE 8u
#define COMPARE 16u
#define PAIR 32u

#define USAGE_MAX 1500
#define SIDES 2 /* number of operands of compare and run-pair */
#define STATUS_OF_COMPARISON                                                                        \
	"Status: 0 B is not worse by more than the tolerance, or there are too few pairs; 3 B is\n" \
	"worse; 1 an error; 2 a bad command line or file.\n"

#define CONTROLS                                                                                            \
	"none, budget:N, threshold:T,N, adaptive-budget, hold:US, adaptive-hold, little, auto or auto:K,B " \
	"(numbers 1 to 65536)"

#define YCSB_THETA 0.99 /* the exponent of YCSB's zipfian and latest */

/* Reads the numbers after "name:", with commas between. Returns true if there are exactly @n. */
static bool read_numbers(const struct arg *a, const char *name, double low, double high, double *x,
	int n)
{
	size_t len = strlen(name);
	char copy[64], *rest = copy;
	struct arg number = *a;

	if (strncmp(a->value, name, len) != 0 || a->value[len] != ':' ||
		strlen(a->value) >= sizeof(copy))
		return false;
	strcpy(copy, a->value + len + 1);
	number.size = 0;
	for (int i = 0; i < n; i++) {
		number.value = strsep(&rest, ",");
		if (!number.value || arg_real(&number, low, high, &x[i]))
			return false;
	}
	return !rest;
}

static int read_distribution(const struct arg *a, void *load_p)
{
	struct workload *w = load_p;
	double x[2] = {0};
	enum keys keys = KEYS_DRAWN;

	if (read_numbers(a, "hotspot", 0, 1, x, 2)) {
		w->hot_keys = x[0];
		w->hot_ops = x[1];
		x[0] = 0;
		keys = KEYS_HOTSPOT;
	} else if (!strcmp(a->value, "latest")) {
		x[0] = YCSB_THETA;
		keys = KEYS_LATEST;
	} else if (read_numbers(a, "latest", 1e-6, 10, x, 1)) {
		keys = KEYS_LATEST;
	} else if (!strcmp(a->value, "sequential")) {
		keys = KEYS_SEQUENTIAL;
	} else if (strcmp(a->value, "uniform") != 0 && !read_numbers(a, "zipf", 1e-6, 10, x, 1)) {
		return arg_bad(a, "uniform, zipf:THETA, hotspot:KEYS,OPS (two shares), latest or "
				  "latest:THETA, or sequential (THETA above 0, at most 10)");
	}
	w->zipf_theta = x[0];
	w->keys = keys;
	return 0;
}

/* The workloads of YCSB. */
static int read_workload(const struct arg *a, void *load_p)
{
	static const struct {
		const char *name;
		double read_ratio;
		enum keys keys;
		bool rmw;
	} ycsb[] = {{"ycsb-a", 0.5, KEYS_DRAWN, false}, {"ycsb-b", 0.95, KEYS_DRAWN, false},
		{"ycsb-c", 1, KEYS_DRAWN, false}, {"ycsb-d", 0.95, KEYS_LATEST, false},
		{"ycsb-f", 0.5, KEYS_DRAWN, true}};
	struct workload *w = load_p;

	for (size_t i = 0; i < ARRAY_SIZE(ycsb); i++) {
		if (strcmp(a->value, ycsb[i].name) != 0)
			continue;
		w->read_ratio = ycsb[i].read_ratio;
		w->keys = ycsb[i].keys;
		w->rmw = ycsb[i].rmw;
		w->zipf_theta = YCSB_THETA;
		return 0;
	}
	return arg_bad(a, !strcmp(a->value, "ycsb-e") ?
				  "ycsb-a, -b, -c, -d or -f: e scans, which a hash store cannot" :
				  "ycsb-a, ycsb-b, ycsb-c, ycsb-d or ycsb-f");
}

static int read_sizes(const struct arg *a, void *sizes_p)
{
	return sizes_parse(a->value, sizes_p) ?
		       arg_bad(a, "N, A-B, or up to eight of these with weights, as in "
				  "64:90,1000-9000:10 (bytes from 8 to 65536)") :
		       0;
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
		.sets = RUN,
		.help = "instead of a duration: operations of a run, over all clients"},
	{"runs", 0, "N", ARG_WHOLE, AT(runs), .min = 1, .max = 1000, .def = "1", .sets = RUN,
		.help = "runs, one after the other"},
	{"warmup", 0, "S", ARG_TIME, AT(warmup_ns), .high = 86400, .unit = NSEC_PER_SEC, .def = "0",
		.sets = RUN,
		.help = "seconds of warm-up before each run: its operations are checked, but not "
			"measured"},
	{"rate", 0, "R", ARG_REAL, AT(rate), .low = 1, .high = 1e12, .sets = RUN,
		.unset = "as fast as replies come",
		.help = "operations per second of all clients together; each is made when it is "
			"due, or later if the queue depth is reached"},
	{.help = "Work", .sets = RUN},
	{"key-range", 0, "N", ARG_WHOLE, AT(load.key_range), .min = 1, .max = WORKLOAD_MAX_KEYS,
		.def = "1048576", .sets = RUN, .help = "keys 0 to N-1"},
	{"read-ratio", 0, "R", ARG_REAL, AT(load.read_ratio), .high = 1, .def = "0.5", .sets = RUN,
		.help = "share of gets"},
	{"rmw", 0, NULL, ARG_WORD, AT(load.rmw), .words = no_yes, .def = "no", .sets = RUN,
		.help = "the operations that are not gets are read-modify-writes instead of puts: "
			"a get, then a compare-and-swap until it succeeds"},
	{"distribution", 0, "D", ARG_CALL, AT(load), .read = read_distribution, .def = "uniform",
		.sets = RUN,
		.help = "uniform, zipf:THETA, hotspot:KEYS,OPS (a share of the keys gets a share of the "
			"operations), latest[:THETA] (zipf of the last puts), sequential"},
	{"workload", 0, "W", ARG_CALL, AT(load), .read = read_workload, .sets = RUN,
		.not_with = "distribution read-ratio rmw",
		.help = "instead of these three: ycsb-a, ycsb-b, ycsb-c, ycsb-d or ycsb-f"},
	{"value-size", 0, "S", ARG_CALL, AT(sizes), .read = read_sizes, .def = "8", .sets = RUN,
		.help = "bytes of a value: N, A-B (each equally often), or sizes with weights, "
			"as in 64:90,1000-9000:10; 8 to 65536"},
	{"preload", 0, NULL, ARG_WORD, AT(preload), .words = no_yes, .def = "yes", .sets = RUN,
		.help = "store every key before the first run"},
	{"seed", 0, "N", ARG_WHOLE, AT(load.seed), .max = INT64_MAX, .def = "1", .sets = RUN,
		.help = "seed of the operation streams"},
	{.help = "Network", .sets = RUN | MEASURE},
	{"device", 0, "NAME", ARG_TEXT, AT(device), .none = "auto",
		.give = "auto or the name of a device", .sets = RUN | MEASURE,
		.help = "mlx5 device; auto: the first one, or the software HCA if there is none"},
	{"ring-size", 0, "BYTES", ARG_POWER, AT(ring_size), .min = 4096, .max = 1u << 30,
		.none = "auto", .sets = COPYRPC,
		.help = "bytes of each of an endpoint's two rings, a power of two; auto: eight "
			"times the bytes that can be in flight"},
	{"wait", 0, NULL, ARG_WORD, AT(wait_event), .words = waits, .def = "poll", .sets = COPYRPC,
		.help = "idle daemons poll again after a short sleep, or sleep on descriptors "
			"until a message arrives"},
	{"net-daemons", 0, "N", ARG_WHOLE, AT(net_daemons), .min = 1, .max = OPTIONS_MAX_DAEMONS,
		.unset = "1 for delegation, all for meta", .sets = DAEMONS,
		.help = "number of daemons that own endpoints, at most --daemons; daemon r mod N "
			"owns that for rank r"},
	{"control", 0, "C", ARG_CALL, AT(control), .read = read_control, .def = "auto",
		.sets = DAEMONS,
		.help = "control of batching: none, budget:N, threshold:T,N, adaptive-budget, "
			"hold:US, adaptive-hold, little, auto, auto:K,B; US in microseconds"},
	{"stagger", 0, "US", ARG_TIME, AT(stagger_ns), .high = 1e6, .unit = NSEC_PER_USEC,
		.def = "0", .sets = DAEMONS,
		.help = "microseconds between the first calls to rank r and those to rank r + 1"},
	{"machine", 0, "FILE", ARG_TEXT, AT(machine), .sets = DAEMONS | MEASURE,
		.give = "a file that benchkv measure has written",
		.help = "the control auto derives K and B from this file instead of measuring; "
			"benchkv measure writes it"},
	{"trace", 0, "FILE", ARG_TEXT, AT(files[FILE_TRACE]), RANK_FILE, .sets = DAEMONS,
		.help = "writes a trace of the daemons with endpoints, with meta of all daemons, as "
			"CSV to FILE.RANK, a line per millisecond"},
	{"decisions", 0, "FILE", ARG_TEXT, AT(files[FILE_DECISIONS]), RANK_FILE, .sets = DAEMONS,
		.help = "writes the decisions of the control, with reasons, as CSV to FILE.RANK"},
	{.help = "Comparison", .sets = COMPARE | PAIR},
	{"tolerance", 0, "R", ARG_REAL, AT(tolerance), .high = 1, .def = "0.05",
		.sets = COMPARE | PAIR,
		.help = "accepted difference, as a fraction; status 3 if B is worse by more"},
	{"pairs", 0, "N", ARG_WHOLE, AT(pairs), .min = 1, .max = 10000, .def = "10", .sets = PAIR,
		.help = "number of times that each command is run"},
	{"save", 0, "PREFIX", ARG_TEXT, AT(save), .give = "the beginning of two file names",
		.sets = PAIR,
		.help = "writes the reports to the new files PREFIX.A.json and PREFIX.B.json"},
	{.help = "Other", .sets = RUN},
	{"pin", 0, NULL, ARG_WORD, AT(pin), .words = no_yes, .def = "yes", .sets = RUN,
		.help = "pins each thread to a hardware thread of its own, if there are enough"},
	{"timeout", 0, "S", ARG_TIME, AT(timeout_ns), .low = 1, .high = 86400, .unit = NSEC_PER_SEC,
		.def = "30", .sets = RUN,
		.help = "seconds to wait for a reply, and for other ranks at the start; at the end "
			"of a run twice as long"},
	{"hgrm", 0, "FILE", ARG_TEXT, AT(files[FILE_HGRM]), .sets = RUN,
		.help = "rank 0 writes percentiles of the latency in microseconds, in the format "
			"of HdrHistogram"},
	{"interval", 0, "S", ARG_TIME, AT(interval_ns), .low = .001, .high = 86400,
		.unit = NSEC_PER_SEC, .sets = RUN,
		.help = "throughput and latency for every S seconds of a run, in the report"},
	{"series", 0, "FILE", ARG_TEXT, AT(files[FILE_SERIES]), .with = "interval", .sets = RUN,
		.help = "rank 0 writes the intervals, as CSV if the name ends with .csv, otherwise "
			"as one JSON object per line"},
	{"json", 0, "FILE", ARG_TEXT, AT(files[FILE_JSON]), .sets = RUN | COMPARE | PAIR,
		.help = "rank 0 writes a JSON object about the job, compare and run-pair about the "
			"comparison; - is standard output"},
	{"dry-run", 0, NULL, ARG_FLAG, AT(dry_run), .sets = RUN,
		.help = "print the plan of each rank, with reasons, and exit"},
	{"help", .kind = ARG_HELP},
	{"version", .kind = ARG_VERSION},
};

static const struct command_line {
	const char *name;
	enum command does;
	unsigned set;
	int sides;
	const char *brief, *usage;
} commands[] = {
	{"measure", COMMAND_MEASURE, MEASURE, 0,
		"measures the times from which auto derives K and B",
		"Usage: benchkv measure [--device NAME] [--machine FILE]\n"
		"Measures for half a second, on the device, the round trip of a single call, the\n"
		"time per WRITE, and the CPU time per message. Prints these times, and the K and B\n"
		"that the control auto derives from a machine file with these times.\n"},
	{"compare", COMMAND_COMPARE, COMPARE, SIDES, "compares two settings by their reports",
		"Usage: benchkv compare [--tolerance R] A.json B.json\n"
		"Compares the jobs of two files that --json or run-pair has written.\n"},
	{"run-pair", COMMAND_PAIR, PAIR, SIDES, "runs two settings in turn and compares them",
		"Usage: benchkv run-pair [OPTION]... 'COMMAND A' 'COMMAND B'\n"
		"Runs two command lines of benchkv in turn, with --json - added to each, and compares "
		"them:\n"
		"  benchkv run-pair 'mpirun -np 2 benchkv direct' 'mpirun -np 2 benchkv meta'\n"},
};

static const char usage_all[] =
	"Usage: benchkv [BACKEND] [OPTION]...\n"
	"A distributed key-value store and its load, one rank per process of the job:\n"
	"  mpirun -np 2 benchkv delegation --daemons 2 --clients 4 --queue-depth 32\n"
	"Every reply is checked, and every key that was put is read back at the end. Without a\n"
	"PMIx launcher the job is a single rank.\n"
	"\n"
	"Backends: the path of a request to another rank (benchkv BACKEND --help: its options)\n";

static void describe_all(char *text, size_t size)
{
	size_t n = (size_t)snprintf(text, size, "%s", usage_all);

	for (const struct backend *const *b = backends; *b && n < size; b++)
		n += (size_t)snprintf(text + n, size - n, "  %-20s %s\n", (*b)->name, (*b)->brief);
	if (n < size)
		n += (size_t)snprintf(text + n, size - n,
			"or a command (benchkv COMMAND --help: its options)\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands) && n < size; i++)
		n += (size_t)snprintf(text + n, size - n, "  %-20s %s\n", commands[i].name,
			commands[i].brief);
}

static const struct command_line *find_command(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(word, commands[i].name))
			return &commands[i];
	}
	return NULL;
}

/*
 * Handles the first operand: the name of a backend or a command. Writes its description to usage[].
 * False: there is no such backend or command.
 */
static bool set_command(struct args *args, const char *word, struct options *o,
	char usage[USAGE_MAX])
{
	const struct command_line *c = find_command(word);
	const struct backend *b = backend_find(word);

	if (!c && !b)
		return false;
	args->command = word;
	args->usage = usage;
	if (c) {
		o->does = c->does;
		args->set = c->set;
		args->operands = c->sides;
		if (c->sides)
			args->tail = STATUS_OF_COMPARISON;
		snprintf(usage, USAGE_MAX, "%s", c->usage);
		return true;
	}
	o->backend = b;
	args->set = RUN | (b->copyrpc ? COPYRPC : 0) | (b->owned ? DAEMONS : 0);
	snprintf(usage, USAGE_MAX, "Usage: benchkv %s [OPTION]...\n%s", b->name, b->about);
	return true;
}

/* Stores the operands after the name of the command, and checks their number. */
static int take_sides(const struct args *args, int n, char **operands, struct options *o)
{
	const struct command_line *c = find_command(args->command);

	if (!c || n == c->sides) {
		for (int i = 0; c && i < n; i++)
			o->sides[i] = operands[i];
		return 0;
	}
	return args_fail(args, "%s needs %d operands, not %d: see benchkv %s --help", c->name,
		c->sides, n, c->name);
}

static int refuse_backend(const struct args *args, const char *word)
{
	char names[128] = "";

	for (const struct backend *const *b = backends; *b; b++) {
		strncat(names, names[0] ? ", " : "", sizeof(names) - strlen(names) - 1);
		strncat(names, (*b)->name, sizeof(names) - strlen(names) - 1);
	}
	return args_fail(args,
		"unknown backend '%.60s': give one of: %s%s, or a command: "
		"measure, compare, run-pair",
		word, names, backends_lacking);
}

static int check_together(const struct args *args, struct options *o)
{
	if (o->ops && o->warmup_ns)
		return args_fail(args, "--ops and --warmup exclude each other: give one");
	if (o->ops)
		o->duration_ns = 0;
	if (!o->backend)
		return 0;
	if (o->interval_ns && o->duration_ns / SERIES_MAX > o->interval_ns)
		return args_fail(args, "--interval makes more than %u intervals: give %g or more",
			SERIES_MAX, ceil((double)o->duration_ns / SERIES_MAX / 1e6) / 1e3);
	if (o->sizes.parts && !o->backend->copyrpc)
		return args_fail(args,
			"--value-size must be 8 with %s, whose requests have a fixed size: "
			"give another backend",
			o->backend->name);
	if (!o->backend->owned) {
		o->net_daemons = o->daemons;
		return control_parse("none", &o->control);
	}
	if (!o->net_daemons)
		o->net_daemons = o->backend->all_own ? o->daemons : 1;
	if (o->net_daemons > o->daemons)
		return args_fail(args, "--net-daemons %u is more than --daemons: give %u or less",
			o->net_daemons, o->daemons);
	if (o->machine && !o->control.derive)
		return args_fail(args,
			"--machine does not apply to this --control: give auto without numbers");
	return 0;
}

/* Copies argv, because getopt_long() reorders it. */
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
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "Status: 0 all replies and keys verified, 1 an error, 2 a bad command line.\n",
		.version = "benchkv " BENCHKV_VERSION, .operand = "backend", .why = why,
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
	if (!err)
		err = take_sides(&args, argc - first - 1, argv + first + 1, o);
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

enum { OF_BACKEND = 0, OF_SIZES = 21 }; /* indices of numbers that options_fields() computes */

const struct option_field option_fields[OPTIONS_FIELDS] = {
	[OF_BACKEND] = {"backend", {0, 0}},
	{"--daemons", AT(daemons)},
	{"--net-daemons", AT(net_daemons)},
	{"--clients", AT(clients)},
	{"--queue-depth", AT(queue_depth)},
	{"--duration", AT(duration_ns)},
	{"--ops", AT(ops)},
	{"--runs", AT(runs)},
	{"--warmup", AT(warmup_ns)},
	{"--interval", AT(interval_ns)},
	{"--rate", AT(rate)},
	{"--stagger", AT(stagger_ns)},
	{"--key-range", AT(load.key_range)},
	{"--read-ratio", AT(load.read_ratio)},
	{"--rmw", AT(load.rmw)},
	{"--distribution", AT(load.keys)},
	{"--distribution", AT(load.zipf_theta)},
	{"--distribution", AT(load.hot_keys)},
	{"--distribution", AT(load.hot_ops)},
	{"--seed", AT(load.seed)},
	{"--preload", AT(preload)},
	[OF_SIZES] = {"--value-size", {0, 0}},
	{"--ring-size", AT(ring_size)},
	{"--control", AT(control.kind)},
	{"--control", AT(control.n)},
	{"--control", AT(control.threshold)},
	{"--control", AT(control.window)},
	{"--control", AT(control.full)},
	{"--control", AT(control.hold_us)},
	{"--dry-run", AT(dry_run)},
};

void options_fields(const struct options *o, uint64_t fields[OPTIONS_FIELDS])
{
	for (unsigned i = 0; i < OPTIONS_FIELDS; i++)
		fields[i] = field_get(o, option_fields[i].field);
	fields[OF_BACKEND] = backend_index(o->backend);
	fields[OF_SIZES] = sizes_mark(&o->sizes);
}
