/* SPDX-License-Identifier: MIT */
#include "move_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/oldargs.h"

const char move_usage[] =
	"Usage: tentbench server [OPTION]...\n"
	"       tentbench client HOST [OPTION]...\n"
	"       tentbench client --fork [OPTION]...\n"
	"Moves memory between two processes over all rails and prints how fast that was.\n"
	"\n"
	"Both\n"
	"  --config FILE      configuration of the engine (JSON), see tent(7)\n"
	"  --address A        of this host, where the peer reaches the engine (127.0.0.1)\n"
	"  --port N           where client and server meet (18516)\n"
	"  --shm N            N copying threads instead of adapters, on one host\n"
	"  --memory N         of a server, or with --fork: bytes that clients may use (256M; with\n"
	"                     --fork what the requests need)\n"
	"Server\n"
	"  --once             end when the first client has\n"
	"Client\n"
	"  --fork             run the server as well, on this host\n"
	"  --timeout N        seconds until a silent server is given up, 1 to 3600 (10)\n"
	"  --op OP            write, read or mixed (write)\n"
	"  --size N,...       bytes of a request (64K,1M,8M)\n"
	"  --batch N,...      requests of a batch (1)\n"
	"  --threads N        each with one batch under way (1)\n"
	"  --priority N,...   of the threads, in turn; a row for each (0)\n"
	"  --seconds X        of each row (1)\n"
	"  --count N          instead: batches of each thread\n"
	"  --check            compare every byte; the times then hold the comparing as well\n"
	"  --stats            what each rail carried, at the end\n"
	"  --prometheus FILE  the same as text for Prometheus; - is standard output\n"
	"  --trace FILE       what each rail has carried over time, CSV, a row per rail and 10 ms\n"
	"  --json FILE        one JSON object per row, on a line; - is standard output\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 a request failed or bytes were wrong, 2 a bad command line.\n";

static const char *const ops[] = {
	[MOVE_WRITE] = "write",
	[MOVE_READ] = "read",
	[MOVE_MIXED] = "mixed",
	NULL,
};

const char *move_op_name(enum move_op op)
{
	return ops[op];
}

/* A whole number, with K, M or G (2^10, 2^20, 2^30) behind it; where it ends. */
static int number(const char *text, const char **end_p, uint64_t *n_p)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;
	unsigned long long n;
	int shift = 0;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || errno)
		return -EINVAL;
	unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		shift = 10 * (int)(unit - units + 1);
		end++;
	}
	if (n > UINT64_MAX >> shift)
		return -EINVAL;
	*n_p = (uint64_t)n << shift;
	*end_p = end;
	return 0;
}

static int parse_number(const struct arg *a, uint64_t min, uint64_t max, uint64_t *n_p)
{
	const char *end = "x";
	char give[100];
	uint64_t n = 0;

	if (!number(a->value, &end, &n) && !*end && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give),
		"a whole number from %" PRIu64 " to %" PRIu64 ", or with K, M, G", min, max);
	return arg_bad(a, give);
}

static int parse_list(const struct arg *a, uint64_t max, uint64_t *list, uint32_t *n_p)
{
	const char *at = a->value;
	uint64_t x = 0;
	char give[100];
	uint32_t n = 0;

	snprintf(give, sizeof(give), "1 to %d whole numbers from 1 to %" PRIu64 ", commas between",
		MOVE_LIST, max);
	do {
		if (n == MOVE_LIST || number(at, &at, &x) || !x || x > max)
			return arg_bad(a, give);
		list[n++] = x;
	} while (*at++ == ',');
	if (at[-1])
		return arg_bad(a, give);
	*n_p = n;
	return 0;
}

static int parse_priorities(const struct arg *a, struct move_options *o)
{
	const char *at = a->value;

	o->n_priorities = 0;
	do {
		if (o->n_priorities == MOVE_PRIORITIES || *at < '0' || *at > '2')
			return arg_bad(a, "1 to 3 of 0, 1 and 2, commas between");
		o->priorities[o->n_priorities++] = (uint8_t)(*at++ - '0');
	} while (*at++ == ',');
	return at[-1] ? arg_bad(a, "1 to 3 of 0, 1 and 2, commas between") : 0;
}

static int parse_op(const struct arg *a, enum move_op *op_p)
{
	unsigned i = 0;
	int err = arg_word(a, ops, &i);

	if (!err)
		*op_p = (enum move_op)i;
	return err;
}

static int parse_name(const struct arg *a, const char **text_p)
{
	return arg_text(a, "a text that is not empty", text_p);
}

enum {
	OPT_CONFIG = 256,
	OPT_ADDRESS,
	OPT_PORT,
	OPT_SHM,
	OPT_HELP,
	OPT_MEMORY,
	OPT_ONCE,
	OPT_FORK,
	OPT_TIMEOUT,
	OPT_OP,
	OPT_SIZE,
	OPT_BATCH,
	OPT_THREADS,
	OPT_PRIORITY,
	OPT_SECONDS,
	OPT_COUNT,
	OPT_CHECK,
	OPT_STATS,
	OPT_JSON,
	OPT_PROMETHEUS,
	OPT_TRACE,
};

#define BOTH                                                                                       \
	{"config", required_argument, NULL, OPT_CONFIG},                                           \
		{"address", required_argument, NULL, OPT_ADDRESS},                                 \
		{"port", required_argument, NULL, OPT_PORT},                                       \
		{"shm", required_argument, NULL, OPT_SHM},                                         \
		{"memory", required_argument, NULL, OPT_MEMORY},                                   \
	{                                                                                          \
		"help", no_argument, NULL, OPT_HELP                                                \
	}

static const struct option server_options[] = {
	BOTH,
	{"once", no_argument, NULL, OPT_ONCE},
	{NULL, 0, NULL, 0},
};

static const struct option client_options[] = {
	BOTH,
	{"fork", no_argument, NULL, OPT_FORK},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"op", required_argument, NULL, OPT_OP},
	{"size", required_argument, NULL, OPT_SIZE},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"priority", required_argument, NULL, OPT_PRIORITY},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"count", required_argument, NULL, OPT_COUNT},
	{"check", no_argument, NULL, OPT_CHECK},
	{"stats", no_argument, NULL, OPT_STATS},
	{"json", required_argument, NULL, OPT_JSON},
	{"prometheus", required_argument, NULL, OPT_PROMETHEUS},
	{"trace", required_argument, NULL, OPT_TRACE},
	{NULL, 0, NULL, 0},
};

static int parse_timeout(const struct arg *a, struct move_options *o)
{
	uint32_t s;
	int err = arg_u32(a, 1, 3600, &s);

	if (!err)
		o->timeout_ms = (int)s * 1000;
	return err;
}

static int parse_both(int opt, const struct arg *a, struct move_options *o)
{
	switch (opt) {
	case OPT_CONFIG:
		return parse_name(a, &o->config);
	case OPT_ADDRESS:
		return parse_name(a, &o->address);
	case OPT_PORT:
		return arg_u16(a, 1, 65535, &o->port);
	case OPT_SHM:
		return arg_u32(a, 1, 32, &o->shm);
	case OPT_MEMORY:
		return parse_number(a, 4096, 1ull << 40, &o->memory);
	case OPT_ONCE:
		o->once = true;
		return 0;
	default:
		o->help = true;
		return 0;
	}
}

static int parse_option(void *options, int opt, const struct arg *a)
{
	struct move_options *o = options;

	switch (opt) {
	case OPT_FORK:
		o->fork = true;
		return 0;
	case OPT_TIMEOUT:
		return parse_timeout(a, o);
	case OPT_OP:
		return parse_op(a, &o->op);
	case OPT_SIZE:
		return parse_list(a, 1ull << 36, o->sizes, &o->n_sizes);
	case OPT_BATCH:
		return parse_list(a, 1024, o->batches, &o->n_batches);
	case OPT_THREADS:
		return arg_u32(a, 1, MOVE_MAX_THREADS, &o->threads);
	case OPT_PRIORITY:
		return parse_priorities(a, o);
	case OPT_SECONDS:
		return arg_real(a, 0.01, 86400, &o->seconds);
	case OPT_COUNT:
		return parse_number(a, 1, 1ull << 40, &o->batches_each);
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_STATS:
		o->stats = true;
		return 0;
	case OPT_JSON:
		return parse_name(a, &o->json);
	case OPT_PROMETHEUS:
		return parse_name(a, &o->prometheus);
	case OPT_TRACE:
		return parse_name(a, &o->trace);
	default:
		return parse_both(opt, a, o);
	}
}

/* What is left of the command line: a client's server. */
static int parse_rest(int argc, char **argv, int first, bool server, struct move_options *o,
	char *why, size_t size)
{
	if (!server && first < argc)
		o->host = argv[first++];
	if (args_end(argc, argv, first, why, size))
		return -EINVAL;
	if (o->threads < o->n_priorities) {
		snprintf(why, size, "--threads: give %u or more, one for each priority",
			o->n_priorities);
		return -EINVAL;
	}
	if (o->json && o->prometheus && !strcmp(o->json, "-") && !strcmp(o->prometheus, "-")) {
		snprintf(why, size, "--json and --prometheus: give standard output to one of them");
		return -EINVAL;
	}
	if (!server && o->memory && !o->fork) {
		snprintf(why, size, "--memory: give it to the server, or with --fork");
		return -EINVAL;
	}
	if (!server && !o->help && !o->host == !o->fork) {
		snprintf(why, size, "%s: give either the server's host or --fork",
			o->host ? "a host and --fork" : "no server");
		return -EINVAL;
	}
	return 0;
}

int move_options_parse(int argc, char **argv, bool server, struct move_options *o_p, char *why,
	size_t size)
{
	const struct option *list = server ? server_options : client_options;
	struct move_options o = {
		.address = "127.0.0.1",
		.port = 18516,
		.memory = server ? 256u << 20 : 0,
		.sizes = {64 << 10, 1 << 20, 8 << 20},
		.n_sizes = 3,
		.batches = {1},
		.n_batches = 1,
		.threads = 1,
		.n_priorities = 1,
		.seconds = 1,
		.timeout_ms = 10000,
	};
	int first, err;

	first = args_read(argc, argv, ":", list, parse_option, &o, why, size);
	if (first < 0)
		return first;
	err = parse_rest(argc, argv, first, server, &o, why, size);
	if (!err)
		*o_p = o;
	return err;
}
