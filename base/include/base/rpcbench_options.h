/* SPDX-License-Identifier: MIT */
/* The state of a run of the bench, and its options, for rpcbench.h. */
#ifndef BASE_RPCBENCH_OPTIONS_H
#define BASE_RPCBENCH_OPTIONS_H

#include <getopt.h>
#include <pthread.h>
#include <sched.h>

#define RPCBENCH_IMPLS 4
#define RPCBENCH_LIST 8 /* numbers that an option takes */

struct rpcbench_list {
	uint32_t value[RPCBENCH_LIST];
	uint32_t n;
};

struct rpcbench_options {
	struct rpcbench_list clients, depths;
	double seconds;
	uint32_t req_size, resp_size;
	uint32_t peer_slots;
	uint32_t wakes;
	FILE *json;
};

/* An implementation that is set up. */
struct rpcbench_side {
	const struct rpcbench_impl *impl;
	void *state;
	struct rpcbench_server server;
	struct rpcbench_client client[RPCBENCH_CLIENTS];
};

struct rpcbench_thread {
	struct rpcbench_bench *bench;
	uint32_t index; /* client, or the number of clients for the server */
	pthread_t id;
};

struct rpcbench_bench {
	struct rpcbench_run run;
	struct rpcbench_config cfg;
	struct rpcbench_options opt;
	const struct rpcbench_impl *impl[RPCBENCH_IMPLS];
	uint32_t impls;
	struct rpcbench_side side[RPCBENCH_IMPLS];
	uint32_t current; /* side of the window */
	uint32_t cpus;
	int cpu[CPU_SETSIZE];
	double probe_ns;
	uint64_t server_cpu_ns, client_cpu_ns; /* of the last window */
	pthread_barrier_t begin, end;
	struct rpcbench_thread thread[RPCBENCH_CLIENTS + 1];
};

static inline void rpcbench_die(const char *what, const char *hint)
{
	fprintf(stderr, "%s: %s; %s\n", program_invocation_short_name, what, hint);
	exit(2);
}

static inline void rpcbench_finish_output(void)
{
	if (fflush(stdout) || ferror(stdout))
		rpcbench_die("cannot write to standard output", "give one that can be written");
}

/* strtoul() and strtod() also take blanks and signs, and names of numbers. */
static inline bool rpcbench_digit(const char *arg)
{
	return *arg >= '0' && *arg <= '9';
}

/* A comma-separated list of numbers from 1 to max. */
static inline void rpcbench_list(const char *arg, uint32_t max, struct rpcbench_list *l,
	const char *hint)
{
	char *end;

	l->n = 0;
	do {
		unsigned long v = strtoul(arg, &end, 10);

		if (!rpcbench_digit(arg) || (*end && *end != ',') || !v || v > max)
			rpcbench_die("bad list of numbers", hint);
		if (l->n == RPCBENCH_LIST)
			rpcbench_die("too many numbers in a list", "give up to 8");
		l->value[l->n++] = (uint32_t)v;
		arg = end + 1;
	} while (*end);
}

static inline uint32_t rpcbench_count(const char *arg, uint32_t max, const char *hint)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (!rpcbench_digit(arg) || *end || v > max)
		rpcbench_die("bad count", hint);
	return (uint32_t)v;
}

static inline double rpcbench_seconds(const char *arg)
{
	char *end;
	double v = strtod(arg, &end);

	if ((!rpcbench_digit(arg) && *arg != '.') || *end || !(v > 0 && v <= 3600))
		rpcbench_die("bad number", "give --seconds more than 0 and at most 3600");
	return v;
}

static inline uint32_t rpcbench_size(const char *arg, uint32_t max, const char *hint)
{
	char *end;
	unsigned long v = strtoul(arg, &end, 10);

	if (!rpcbench_digit(arg) || *end || v < 16 || v > max || v % 8)
		rpcbench_die("bad size", hint);
	return (uint32_t)v;
}

/* "none", "all", or names separated by commas. */
static inline void rpcbench_peers_pick(struct rpcbench_bench *b, const char *arg)
{
	bool all = !strcmp(arg, "all");
	uint32_t known = 0, named = 1;

	b->impls = 1;
	for (const char *s = arg; *s; s++)
		named += *s == ',';
	for (const struct rpcbench_impl *p = rpcbench_peers; p->name; p++) {
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
			"give all, none, or some of ck,dpdk,dpdk-burst");
}

static inline void rpcbench_usage(const char *name)
{
	printf("usage: %s-bench [OPTION]...\n"
	       "Closed loops of small calls to one server; each response is checked.\n"
	       "  --clients LIST      client threads, 1 to 64 (1)\n"
	       "  --queue-depth LIST  calls each client keeps outstanding, 1 to 256 (1,8,32)\n"
	       "  --seconds S         for each queue depth (3)\n"
	       "  --req-size B        bytes, 16 to 56, a multiple of 8 (32)\n"
	       "  --resp-size B       the same (16)\n"
	       "  --peer LIST         ck, dpdk, dpdk-burst; all that are built in; none (all)\n"
	       "  --peer-slots N      in the peers' rings, at least (four for each call, 64)\n"
	       "  --wake N            also measure N calls that find the server asleep (0)\n"
	       "  --json FILE         one object per line; - is standard output\n"
	       "ratio: time per call of %s over that of this line, paired within rounds\n"
	       "scale: throughput against the first number of clients\n"
	       "least krps: of the slowest client; line ns: round trip of two cache lines\n"
	       "windows: counted / left out because no response came for 100 us\n",
		name, name);
	rpcbench_finish_output();
	exit(0);
}

static inline void rpcbench_json_open(struct rpcbench_bench *b, const char *path)
{
	b->opt.json = strcmp(path, "-") ? fopen(path, "w") : stdout;
	if (!b->opt.json)
		rpcbench_die("cannot write the file of --json", "give a path that can be written");
}

static inline void rpcbench_option(struct rpcbench_bench *b, int c, const char *arg)
{
	struct rpcbench_options *o = &b->opt;

	switch (c) {
	case 'c':
		rpcbench_list(arg, RPCBENCH_CLIENTS, &o->clients, "give --clients 1 to 64");
		break;
	case 'q':
		rpcbench_list(arg, 256, &o->depths, "give --queue-depth 1 to 256");
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

static inline void rpcbench_options(struct rpcbench_bench *b, int argc, char **argv)
{
	static const struct option longs[] = {{"clients", 1, NULL, 'c'},
		{"queue-depth", 1, NULL, 'q'}, {"seconds", 1, NULL, 's'},
		{"req-size", 1, NULL, 'r'}, {"resp-size", 1, NULL, 'a'}, {"peer", 1, NULL, 'p'},
		{"peer-slots", 1, NULL, 'S'}, {"wake", 1, NULL, 'w'}, {"json", 1, NULL, 'j'},
		{"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	b->opt = (struct rpcbench_options){.clients = {{1}, 1},
		.depths = {{1, 8, 32}, 3},
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

#endif
