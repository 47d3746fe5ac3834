/* SPDX-License-Identifier: MIT */
/* The command line of a layer's bench. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "bench.h"
#include "peer.h"

void rpcbench_die(const char *what, const char *hint)
{
	fprintf(stderr, "%s: %s; %s\n", program_invocation_short_name, what, hint);
	exit(2);
}

const struct rpcbench_impl *const rpcbench_peers[] = {
	&rpcbench_bare,
#ifdef RPCBENCH_CK
	&rpcbench_ck,
#endif
#ifdef RPCBENCH_DPDK
	&rpcbench_dpdk,
	&rpcbench_dpdk_burst,
#endif
	NULL,
};

const char *const rpcbench_loop_names[RPCBENCH_LOOPS + 1] = {"callback", "refill", "single", "many",
	"blocking", NULL};

static int read_loop(const struct arg *a, void *options)
{
	struct rpcbench_options *o = options;
	bool all = !strcmp(a->value, "all");

	o->loops = 0;
	for (uint32_t i = 0; i < RPCBENCH_LOOPS; i++)
		if (all || !strcmp(a->value, rpcbench_loop_names[i]))
			o->loop[o->loops++] = (enum rpcbench_loop)i;
	return o->loops ? 0 : arg_bad(a, "callback, refill, single, many, blocking or all");
}

/* Adds the peer with this name; "all" adds all of them. */
static int add_peer(void *options, const char *word)
{
	struct rpcbench_options *o = options;
	bool all = !strcmp(word, "all"), known = all || !strcmp(word, "none");

	for (uint32_t i = 0; rpcbench_peers[i]; i++) {
		if (!all && strcmp(word, rpcbench_peers[i]->name) != 0)
			continue;
		o->peers |= 1u << i;
		known = true;
	}
	return known ? 0 : -EINVAL;
}

static int read_peers(const struct arg *a, void *options)
{
	((struct rpcbench_options *)options)->peers = 0;
	return arg_words(a, "all, none, or some of bare,ck,dpdk,dpdk-burst that are built in",
		add_peer, options);
}

const char *const rpcbench_pattern_names[RPCBENCH_PATTERNS] = {"turn", "random", "hot", "servers"};

static int read_pattern(const struct arg *a, void *options)
{
	struct rpcbench_options *o = options;

	for (uint32_t i = 0; i < RPCBENCH_PATTERNS; i++) {
		const char *name = rpcbench_pattern_names[i], *rest = a->value + strlen(name);
		unsigned long nodes = 0;
		char *end = "";

		if (strncmp(a->value, name, strlen(name)) != 0)
			continue;
		if (i >= RPCBENCH_PATTERN_HOT && rest[0] == ':' && rest[1] >= '1' && rest[1] <= '9')
			nodes = strtoul(rest + 1, &end, 10);
		if (i >= RPCBENCH_PATTERN_HOT ? !nodes || *end || nodes >= RPCBENCH_CLIENTS : *rest)
			continue;
		o->pattern = (enum rpcbench_pattern)i;
		o->pattern_nodes = (uint32_t)nodes;
		return 0;
	}
	return arg_bad(a, "turn, random, hot:K or servers:K with K from 1 to 63");
}

#define AT(field) ARG_AT(struct rpcbench_options, field)

static const struct arg_row rows[] = {
	{"clients", 0, "N,...", ARG_LIST, AT(clients), .min = 1, .max = RPCBENCH_CLIENTS,
		.def = "1", .help = "numbers of client threads"},
	{"mesh", 0, "N,...", ARG_LIST, AT(mesh), .min = 2, .max = RPCBENCH_CLIENTS,
		.not_with = "clients loop wake req-size resp-size",
		.help = "no server: N threads call each other and serve; for flux, dpdk and bare"},
	{"mesh-pattern", 0, "NAME", ARG_CALL, .read = read_pattern, .def = "turn", .with = "mesh",
		.help = "each node calls the others in turn; random; hot:K, half of the calls go to "
			"K nodes; servers:K, K nodes only serve"},
	{"step", 0, "CALLS", ARG_WHOLE, AT(step), .min = 1, .max = 1u << 30, .not_with = "wake",
		.unset = "a thread for each side",
		.help = "one thread steps all sides in turn, this many calls per window"},
	{"queue-depth", 0, "N,...", ARG_LIST, AT(depths), .min = 1, .max = 256, .def = "1,8,32",
		.help = "calls that each client keeps in flight"},
	{"loop", 0, "NAME", ARG_CALL, .read = read_loop, .def = "callback",
		.help = "callback, refill, single, many, blocking; all"},
	{"seconds", 0, "S", ARG_REAL, AT(seconds), .low = .001, .high = 3600, .def = "3",
		.help = "time of the measurement for each queue depth"},
	{"req-size", 0, "B", ARG_WHOLE, AT(req_size), .min = 16, .max = 56, .multiple = 8,
		.def = "32", .help = "bytes in a request"},
	{"resp-size", 0, "B", ARG_WHOLE, AT(resp_size), .min = 16, .max = 56, .multiple = 8,
		.def = "16", .help = "bytes in a response"},
	{"peer", 0, "NAME,...", ARG_CALL, .read = read_peers, .def = "all",
		.help = "bare, ck, dpdk, dpdk-burst; none; all that are built in; bare: the rings "
			"of shmipc and flux without ids and checks"},
	{"peer-slots", 0, "N", ARG_WHOLE, AT(peer_slots), .max = 1u << 20,
		.unset = "four for each call in flight, and at least 64",
		.help = "least number of slots in the rings of the compared libraries"},
	{"wake", 0, "N", ARG_WHOLE, AT(wakes), .max = 100000, .def = "0",
		.help = "also measure N calls to a server that sleeps"},
	{"json", 0, "FILE", ARG_CALL, AT(json), .read = arg_open,
		.help = "one object per line; - is standard output"},
	{"help", .kind = ARG_HELP},
};

static const char tail[] =
	"Loops:\n"
	"  callback  the client makes each further call in the response function\n"
	"  refill    the client polls until nothing comes, then calls up to its depth\n"
	"  single    the server receives one request, answers it, and polls again\n"
	"  many      the server receives up to 32 requests, then answers them\n"
	"  blocking  client and server use the blocking waits\n"
	"Columns:\n"
	"  ratio       time per call of the layer divided by that of this row\n"
	"  best        time per call divided by that of the fastest loop of the run\n"
	"  scale       calls per second divided by those with the first number of clients; 1 in a mesh\n"
	"  per burst   messages in a published burst; 0 if the bursts are not counted\n"
	"  least krps  thousand calls per second of the slowest client (or node that makes calls)\n"
	"  line ns     round trip of two cache lines between the cores\n"
	"  windows     measured / left out because no response came for 100 us\n"
	"ratio, best and scale are medians over rounds; a round has one window of each row.\n";

/* Replaces the implementation under test by its mesh. */
static int choose_mesh(struct rpcbench_bench *b, const struct args *args)
{
	if (!b->impl[0]->mesh)
		return args_fail(args, "--mesh: %s has one server; use flux-bench",
			b->impl[0]->name);
	b->impl[0] = b->impl[0]->mesh;
	b->opt.clients = b->opt.mesh;
	for (uint32_t i = 0; i < b->opt.mesh.n; i++)
		if (b->opt.mesh.at[i] <= b->opt.pattern_nodes)
			return args_fail(args, "--mesh-pattern: give fewer nodes than --mesh");
	return 0;
}

void rpcbench_options(struct rpcbench_bench *b, int argc, char **argv)
{
	char usage[200];
	struct args args = {ARGS_ROWS(rows), .usage = usage, .tail = tail};
	int err = 0;

	snprintf(usage, sizeof(usage),
		"Usage: %s-bench [OPTION]...\n"
		"Closed loops of small calls to one server; each response is checked.\n",
		b->impl[0]->name);
	b->opt = (struct rpcbench_options){.loops = 0};
	args_main(&args, program_invocation_short_name, argc, argv, &b->opt);
	if (b->opt.mesh.n)
		err = choose_mesh(b, &args);
	for (uint32_t i = 0; rpcbench_peers[i]; i++) {
		const struct rpcbench_impl *peer = rpcbench_peers[i];

		peer = b->opt.mesh.n ? peer->mesh : peer;
		if (b->opt.peers & 1u << i && peer)
			b->impl[b->impls++] = peer;
	}
	if (!err && b->impls > 1 && (b->opt.req_size > 40 || b->opt.resp_size > 24))
		err = args_fail(&args,
			"the peers carry requests of 40 and responses of 24 bytes at most: give "
			"smaller sizes or --peer none");
	if (err)
		args_exit(&args, program_invocation_short_name, err);
}
