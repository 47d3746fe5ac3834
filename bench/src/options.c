/* SPDX-License-Identifier: MIT */
/* What the user asks for. */
#include "bench.h"

void rpcbench_die(const char *what, const char *hint)
{
	fprintf(stderr, "%s: %s; %s\n", program_invocation_short_name, what, hint);
	exit(2);
}

void rpcbench_finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		rpcbench_die("cannot write to standard output", "give one that can be written");
}

/* strtoul() and strtod() also take blanks and signs, and names of numbers. */
static bool rpcbench_digit(const char *arg)
{
	return *arg >= '0' && *arg <= '9';
}

/* A comma-separated list of numbers from 1 to max. */
static void rpcbench_list(const char *arg, uint32_t max, struct rpcbench_list *l, const char *hint)
{
	char *end;

	l->n = 0;
	do {
		unsigned long v = strtoul(arg, &end, 10);

		if (!rpcbench_digit(arg) || (*end && *end != ',') || !v || v > max)
			rpcbench_die("bad list of numbers", hint);
		if (l->n == RPCBENCH_LIST)
			rpcbench_die("too many numbers in a list", "give up to 16");
		l->value[l->n++] = (uint32_t)v;
		arg = end + 1;
	} while (*end);
}

static uint32_t rpcbench_count(const char *arg, uint32_t max, const char *hint)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (!rpcbench_digit(arg) || *end || v > max)
		rpcbench_die("bad count", hint);
	return (uint32_t)v;
}

static double rpcbench_seconds(const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if ((!rpcbench_digit(arg) && *arg != '.') || *end || !(v > 0 && v <= 3600))
		rpcbench_die("bad number", "give --seconds more than 0 and at most 3600");
	return v;
}

static uint32_t rpcbench_size(const char *arg, uint32_t max, const char *hint)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (!rpcbench_digit(arg) || *end || v < 16 || v > max || v % 8)
		rpcbench_die("bad size", hint);
	return (uint32_t)v;
}

const char *const rpcbench_loop_names[RPCBENCH_LOOPS] = {"callback", "refill", "single", "many",
	"blocking"};

static void rpcbench_loop_pick(struct rpcbench_options *o, const char *arg)
{
	bool all = !strcmp(arg, "all");

	o->loops = 0;
	for (uint32_t i = 0; i < RPCBENCH_LOOPS; i++)
		if (all || !strcmp(arg, rpcbench_loop_names[i]))
			o->loop[o->loops++] = (enum rpcbench_loop)i;
	if (!o->loops)
		rpcbench_die("--loop names no loop",
			"give callback, refill, single, many, blocking or all");
}

/* "none", "all", or names separated by commas. */
static void rpcbench_peers_pick(struct rpcbench_bench *b, const char *arg)
{
	bool all = !strcmp(arg, "all");
	uint32_t known = 0, named = 1;

	b->impls = b->layers;
	for (const char *s = arg; *s; s++)
		named += *s == ',';
	for (const struct rpcbench_impl *const *at = rpcbench_peers, *p; (p = *at); at++) {
		size_t len = strlen(p->name);

		for (const char *s = arg; s; s = strchr(s, ','), s = s ? s + 1 : s) {
			if (!all && (strncmp(s, p->name, len) || (s[len] && s[len] != ',')))
				continue;
			b->impl[b->impls++] = p;
			known++;
			break;
		}
	}
	if (!all && strcmp(arg, "none") && known != named)
		rpcbench_die("--peer names a peer that is not built in",
			"give all, none, or some of bare,ck,dpdk,dpdk-burst");
}

static void rpcbench_usage(const char *name)
{
	printf("usage: %s-bench [OPTION]...\n"
	       "Closed loops of small calls to one server; each response is checked.\n"
	       "  --clients LIST      client threads, 1 to 64 (1)\n"
	       "  --queue-depth LIST  calls each client keeps outstanding, 1 to 256 (1,8,32)\n"
	       "  --loop NAME         callback, refill, single, many, blocking; all (callback)\n"
	       "  --seconds S         for each queue depth (3)\n"
	       "  --req-size B        bytes, 16 to 56, a multiple of 8 (32)\n"
	       "  --resp-size B       the same (16)\n"
	       "  --peer LIST         bare, ck, dpdk, dpdk-burst; none; all that are built in (all)\n"
	       "                      bare: the rings of shmipc and flux without ids and checks\n"
	       "  --peer-slots N      in the peers' rings, at least (four for each call, 64)\n"
	       "  --wake N            also measure N calls that find the server asleep (0)\n"
	       "  --json FILE         one object per line; - is standard output\n"
	       "loop: callback: a call is made where its predecessor's response is handled;\n"
	       "refill: poll until nothing comes, then call; single: the server takes one and\n"
	       "answers it; many: takes 32, then answers; blocking: both use blocking waits\n"
	       "ratio: time per call of %s over that of this line, paired within rounds\n"
	       "best: this time over that of the fastest of the loops of the run, paired\n"
	       "scale: throughput against the first number of clients\n"
	       "least krps: of the slowest client; line ns: round trip of two cache lines\n"
	       "windows: counted / left out because no response came for 100 us\n",
		name, name);
	rpcbench_finish_output();
	exit(0);
}

static void rpcbench_json_open(struct rpcbench_bench *b, const char *path)
{
	b->opt.json = strcmp(path, "-") ? fopen(path, "w") : stdout;
	if (!b->opt.json)
		rpcbench_die("cannot write the file of --json", "give a path that can be written");
}

static void rpcbench_option(struct rpcbench_bench *b, int c, const char *arg)
{
	struct rpcbench_options *o = &b->opt;

	switch (c) {
	case 'c':
		rpcbench_list(arg, RPCBENCH_CLIENTS, &o->clients, "give --clients 1 to 64");
		break;
	case 'q':
		rpcbench_list(arg, 256, &o->depths, "give --queue-depth 1 to 256");
		break;
	case 'l':
		rpcbench_loop_pick(o, arg);
		break;
	case 's':
		o->seconds = rpcbench_seconds(arg);
		break;
	case 'r':
		o->req_size =
			rpcbench_size(arg, 56, "give --req-size 16 to 56 bytes, a multiple of 8");
		break;
	case 'a':
		o->resp_size =
			rpcbench_size(arg, 56, "give --resp-size 16 to 56 bytes, a multiple of 8");
		break;
	case 'p':
		rpcbench_peers_pick(b, arg);
		break;
	case 'S':
		o->peer_slots = rpcbench_count(arg, 1u << 20, "give --peer-slots 0 to 1048576");
		break;
	case 'w':
		o->wakes = rpcbench_count(arg, 100000, "give --wake 0 to 100000");
		break;
	case 'j':
		rpcbench_json_open(b, arg);
		break;
	case 'h':
		rpcbench_usage(b->impl[0]->name);
		break;
	default:
		rpcbench_die("unknown option, or one without its value", "--help lists them");
	}
}

void rpcbench_options(struct rpcbench_bench *b, int argc, char **argv)
{
	static const struct option longs[] = {{"clients", 1, NULL, 'c'},
		{"queue-depth", 1, NULL, 'q'}, {"loop", 1, NULL, 'l'}, {"seconds", 1, NULL, 's'},
		{"req-size", 1, NULL, 'r'}, {"resp-size", 1, NULL, 'a'}, {"peer", 1, NULL, 'p'},
		{"peer-slots", 1, NULL, 'S'}, {"wake", 1, NULL, 'w'}, {"json", 1, NULL, 'j'},
		{"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	b->opt = (struct rpcbench_options){.clients = {{1}, 1},
		.depths = {{1, 8, 32}, 3},
		.loop = {RPCBENCH_LOOP_CALLBACK},
		.loops = 1,
		.seconds = 3,
		.req_size = RPCBENCH_REQ,
		.resp_size = RPCBENCH_RESP};
	rpcbench_peers_pick(b, "all");
	opterr = 0;
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
		rpcbench_option(b, c, optarg);
	if (optind < argc)
		rpcbench_die("arguments are not taken", "--help lists the options");
	if (b->impls > 1 && (b->opt.req_size > 40 || b->opt.resp_size > 24))
		rpcbench_die("the peers carry requests of 40 and responses of 24 bytes at most",
			"give smaller sizes or --peer none");
}
