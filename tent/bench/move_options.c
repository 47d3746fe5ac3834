/* SPDX-License-Identifier: MIT */
#include "move_options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

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
	"Server\n"
	"  --memory N         bytes that clients may use (256M)\n"
	"  --once             end when the first client has\n"
	"Client\n"
	"  --fork             run the server as well, on this host\n"
	"  --op OP            write, read or mixed (write)\n"
	"  --size N,...       bytes of a request (64K,1M,8M)\n"
	"  --batch N,...      requests of a batch (1)\n"
	"  --threads N        each with one batch under way (1)\n"
	"  --seconds X        of each row (1)\n"
	"  --count N          instead: batches of each thread\n"
	"  --check            compare every byte; the times then hold the comparing as well\n"
	"  --stats            what each rail carried, at the end\n"
	"  --json FILE        one JSON object per row, on a line; - is standard output\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 a request failed or bytes were wrong, 2 a bad command line.\n";

static const char *const ops[] = {
	[MOVE_WRITE] = "write",
	[MOVE_READ] = "read",
	[MOVE_MIXED] = "mixed",
};

const char *move_op_name(enum move_op op)
{
	return ops[op];
}

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

static int parse_number(const struct parse *p, uint64_t min, uint64_t max, uint64_t *n_p)
{
	const char *end = "x";
	char give[100];
	uint64_t n = 0;

	if (!number(p->arg, &end, &n) && !*end && n >= min && n <= max) {
		*n_p = n;
		return 0;
	}
	snprintf(give, sizeof(give),
		"a whole number from %" PRIu64 " to %" PRIu64 ", or with K, M, G", min, max);
	return bad(p, give);
}

static int parse_list(const struct parse *p, uint64_t max, uint64_t *list, uint32_t *n_p)
{
	const char *at = p->arg;
	uint64_t x = 0;
	char give[100];
	uint32_t n = 0;

	snprintf(give, sizeof(give), "1 to %d whole numbers from 1 to %" PRIu64 ", commas between",
		MOVE_LIST, max);
	do {
		if (n == MOVE_LIST || number(at, &at, &x) || !x || x > max)
			return bad(p, give);
		list[n++] = x;
	} while (*at++ == ',');
	if (at[-1])
		return bad(p, give);
	*n_p = n;
	return 0;
}

static int parse_op(const struct parse *p, enum move_op *op_p)
{
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (!strcmp(p->arg, ops[i])) {
			*op_p = (enum move_op)i;
			return 0;
		}
	}
	return bad(p, "write, read or mixed");
}

static int parse_seconds(const struct parse *p, double *x_p)
{
	char *end;
	double x = strtod(p->arg, &end);

	if (*p->arg < '0' || *p->arg > '9' || *end || !(x >= 0.01 && x <= 86400))
		return bad(p, "a number of seconds from 0.01 to 86400");
	*x_p = x;
	return 0;
}

static int parse_text(const struct parse *p, const char **text_p)
{
	if (!*p->arg)
		return bad(p, "a text that is not empty");
	*text_p = p->arg;
	return 0;
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
	OPT_OP,
	OPT_SIZE,
	OPT_BATCH,
	OPT_THREADS,
	OPT_SECONDS,
	OPT_COUNT,
	OPT_CHECK,
	OPT_STATS,
	OPT_JSON,
};

#define BOTH                                                                                       \
	{"config", required_argument, NULL, OPT_CONFIG},                                           \
		{"address", required_argument, NULL, OPT_ADDRESS},                                 \
		{"port", required_argument, NULL, OPT_PORT},                                       \
		{"shm", required_argument, NULL, OPT_SHM},                                         \
	{                                                                                          \
		"help", no_argument, NULL, OPT_HELP                                                \
	}

static const struct option server_options[] = {
	BOTH,
	{"memory", required_argument, NULL, OPT_MEMORY},
	{"once", no_argument, NULL, OPT_ONCE},
	{NULL, 0, NULL, 0},
};

static const struct option client_options[] = {
	BOTH,
	{"fork", no_argument, NULL, OPT_FORK},
	{"op", required_argument, NULL, OPT_OP},
	{"size", required_argument, NULL, OPT_SIZE},
	{"batch", required_argument, NULL, OPT_BATCH},
	{"threads", required_argument, NULL, OPT_THREADS},
	{"seconds", required_argument, NULL, OPT_SECONDS},
	{"count", required_argument, NULL, OPT_COUNT},
	{"check", no_argument, NULL, OPT_CHECK},
	{"stats", no_argument, NULL, OPT_STATS},
	{"json", required_argument, NULL, OPT_JSON},
	{NULL, 0, NULL, 0},
};

static int parse_both(int opt, const struct parse *p, struct move_options *o)
{
	uint64_t n = 0;
	int err;

	switch (opt) {
	case OPT_CONFIG:
		return parse_text(p, &o->config);
	case OPT_ADDRESS:
		return parse_text(p, &o->address);
	case OPT_PORT:
		err = parse_number(p, 1, 65535, &n);
		o->port = (uint16_t)n;
		return err;
	case OPT_SHM:
		err = parse_number(p, 1, 32, &n);
		o->shm = (uint32_t)n;
		return err;
	case OPT_MEMORY:
		return parse_number(p, 4096, 1ull << 40, &o->memory);
	case OPT_ONCE:
		o->once = true;
		return 0;
	default:
		o->help = true;
		return 0;
	}
}

static int parse_client(int opt, const struct parse *p, struct move_options *o)
{
	uint64_t n = 0;
	int err;

	switch (opt) {
	case OPT_FORK:
		o->fork = true;
		return 0;
	case OPT_OP:
		return parse_op(p, &o->op);
	case OPT_SIZE:
		return parse_list(p, 1ull << 36, o->sizes, &o->n_sizes);
	case OPT_BATCH:
		return parse_list(p, 1024, o->batches, &o->n_batches);
	case OPT_THREADS:
		err = parse_number(p, 1, MOVE_MAX_THREADS, &n);
		o->threads = (uint32_t)n;
		return err;
	case OPT_SECONDS:
		return parse_seconds(p, &o->seconds);
	case OPT_COUNT:
		return parse_number(p, 1, 1ull << 40, &o->batches_each);
	case OPT_CHECK:
		o->check = true;
		return 0;
	case OPT_STATS:
		o->stats = true;
		return 0;
	case OPT_JSON:
		return parse_text(p, &o->json);
	default:
		return parse_both(opt, p, o);
	}
}

/* What is left of the command line: a client's server. */
static int parse_rest(int argc, char **argv, bool server, struct move_options *o, char *why,
	size_t size)
{
	if (!server && optind < argc)
		o->host = argv[optind++];
	if (optind < argc) {
		snprintf(why, size, "'%s' is too much: give options only", argv[optind]);
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
		.memory = 256u << 20,
		.sizes = {64 << 10, 1 << 20, 8 << 20},
		.n_sizes = 3,
		.batches = {1},
		.n_batches = 1,
		.threads = 1,
		.seconds = 1,
	};
	struct parse p = {.why = why, .size = size};
	int opt, which = 0, err;

	opterr = 0;
	optind = 0;
	while ((opt = getopt_long(argc, argv, ":", list, &which)) != -1) {
		if (opt == ':' || opt == '?') {
			snprintf(why, size, "%s %s: give one of the options of --help",
				argv[optind - 1], opt == ':' ? "needs a value" : "is not valid");
			return -EINVAL;
		}
		p.name = list[which].name;
		p.arg = optarg ? optarg : "";
		err = parse_client(opt, &p, &o);
		if (err)
			return err;
	}
	err = parse_rest(argc, argv, server, &o, why, size);
	if (!err)
		*o_p = o;
	return err;
}
