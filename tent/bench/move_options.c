/* SPDX-License-Identifier: MIT */
#include "move_options.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"

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

/* The peers that are built in, by the bits of move_options.peers. */
#ifdef HAVE_UCX
#define PEERS "memcpy,cma,ucx"
static const char *const peers[] = {"memcpy", "cma", "ucx"};
#else
#define PEERS "memcpy,cma"
static const char *const peers[] = {"memcpy", "cma"};
#endif

static int add_peer(void *options, const char *word)
{
	struct move_options *o = options;

	for (uint32_t i = 0; i < ARRAY_SIZE(peers); i++) {
		if (!strcmp(word, peers[i])) {
			o->peers |= 1u << i;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_peers(const struct arg *a, void *options)
{
	return arg_words(a, "some of " PEERS ", which are built in", add_peer, options);
}

#define SERVER 1u
#define CLIENT 2u
#define AT(field) ARG_AT(struct move_options, field)

static const struct arg_row rows[] = {
	{.help = "Both"},
	{"config", 0, "FILE", ARG_TEXT, AT(config),
		.help = "configuration of the engine (JSON), see tent(7)"},
	{"address", 0, "A", ARG_TEXT, AT(address), .def = "127.0.0.1",
		.help = "address of this host, where the peer reaches the engine"},
	{"port", 0, "N", ARG_WHOLE, AT(port), .min = 1, .max = 65535, .def = "18516",
		.help = "port where client and server meet"},
	{"shm", 0, "N", ARG_WHOLE, AT(shm), .min = 1, .max = 32,
		.help = "N copying threads instead of adapters, on one host"},
	{"tcp", 0, "N", ARG_WHOLE, AT(tcp), .min = 1, .max = 32, .not_with = "shm",
		.help = "N rails over TCP instead of adapters"},
	{"gpu", 0, "N", ARG_WHOLE, AT(gpu), .min = 1, .max = 32, .not_with = "shm tcp",
		.help = "N queues in which GPUs copy instead of adapters, on one host"},
	{"adapters", 0, NULL, ARG_FLAG, AT(adapters), .with = "tcp",
		.help = "adapters as well as rails over TCP"},
	{"location", 0, "WHERE", ARG_TEXT, AT(location),
		.help = "location of the memory: cpu:N, or cuda:N for memory of a GPU"},
	{"alloc", 0, NULL, ARG_FLAG, AT(alloc),
		.help = "memory from tent_alloc(): if both sides use it, copying threads need no kernel"},
	{"memory", 0, "N", ARG_SIZE, AT(memory), .min = 4096, .max = 1ull << 40,
		.unset = "256M; with --fork: what the requests need",
		.help = "bytes that clients may use; only of a server, or with --fork"},
	{.help = "Server", .sets = SERVER},
	{"once", 0, NULL, ARG_FLAG, AT(once), .sets = SERVER,
		.help = "end when the first client has ended"},
	{.help = "Client", .sets = CLIENT},
	{"fork", 0, NULL, ARG_FLAG, AT(fork), .sets = CLIENT,
		.help = "run the server as well, on this host"},
	{"timeout", 0, "N", ARG_WHOLE, AT(timeout_s), .min = 1, .max = 3600, .def = "10",
		.sets = CLIENT, .help = "seconds until a silent server is given up"},
	{"op", 0, NULL, ARG_WORD, AT(op), .words = ops, .def = "write", .sets = CLIENT,
		.help = "kind of the requests"},
	{"size", 0, "N,...", ARG_SIZES, AT(sizes), .min = 1, .max = 1ull << 36, .def = "64K,1M,8M",
		.sets = CLIENT, .help = "bytes of a request"},
	{"batch", 0, "N,...", ARG_SIZES, AT(batches), .min = 1, .max = 1024, .def = "1",
		.sets = CLIENT, .help = "requests of a batch"},
	{"threads", 0, "N", ARG_WHOLE, AT(threads), .min = 1, .max = MOVE_MAX_THREADS, .def = "1",
		.sets = CLIENT, .help = "threads, each with one batch under way"},
	{"priority", 0, "N,...", ARG_LIST, AT(priorities), .max = 2, .most = MOVE_PRIORITIES,
		.def = "0", .sets = CLIENT,
		.help = "priorities of the threads, in turn; a row for each"},
	{"seconds", 0, "X", ARG_REAL, AT(seconds), .low = 0.01, .high = 86400, .def = "1",
		.sets = CLIENT, .help = "duration of each row"},
	{"count", 0, "N", ARG_SIZE, AT(batches_each), .min = 1, .max = 1ull << 40, .sets = CLIENT,
		.help = "batches of each thread, instead of --seconds"},
	{"check", 0, NULL, ARG_FLAG, AT(check), .sets = CLIENT,
		.help = "compare every byte; the bandwidth then includes the comparing"},
	{"peer", 0, "NAME,...", ARG_CALL, .read = read_peers, .sets = CLIENT, .with = "fork",
		.not_with = "op batch threads priority count check stats prometheus trace",
		.help = "compare one write at a time with memcpy in this process, cma "
			"(process_vm_writev) or ucx (put: over posix with --alloc, else over its cma) "
			"(built in: " PEERS ")"},
	{"stats", 0, NULL, ARG_FLAG, AT(stats), .sets = CLIENT,
		.help = "print at the end how much each rail carried"},
	{"prometheus", 0, "FILE", ARG_TEXT, AT(prometheus), .sets = CLIENT,
		.help = "write the statistics as text for Prometheus; - is standard output"},
	{"trace", 0, "FILE", ARG_TEXT, AT(trace), .sets = CLIENT,
		.help = "bytes that each rail has carried over time, CSV, a row per rail and 10 ms"},
	{"json", 0, "FILE", ARG_TEXT, AT(json), .sets = CLIENT,
		.help = "one JSON object per row, on a line; - is standard output"},
	{"help", .kind = ARG_HELP},
};

static const char usage[] =
	"Usage: tentbench server [OPTION]...\n"
	"       tentbench client HOST [OPTION]...\n"
	"       tentbench client --fork [OPTION]...\n"
	"Moves memory between two processes over all rails and prints how fast that was.\n";

static bool is_stdout(const char *name)
{
	return name && !strcmp(name, "-");
}

/* True: the location names this kind, and no number of 1 to 3 digits follows. */
static bool is_misnumbered(const char *location, const char *kind)
{
	size_t n = strlen(kind), digits;

	if (!location || strncmp(location, kind, n))
		return false;
	digits = strspn(location + n, "0123456789");
	return !digits || digits > 3 || location[n + digits];
}

static int check(const struct args *args, const struct move_options *o, bool server)
{
	if (o->threads < o->priorities.n)
		return args_fail(args, "--threads: give %u or more, one for each priority",
			o->priorities.n);
	if (is_misnumbered(o->location, "cuda:") || is_misnumbered(o->location, "cpu:"))
		return args_fail(args, "--location %s: give cpu:N or cuda:N, N from 0 to 999",
			o->location);
	if (o->location && !strncmp(o->location, "cuda:", 5) && (o->alloc || o->peers))
		return args_fail(args, "--location cuda:N: give it without --alloc and --peer");
	if (is_stdout(o->json) && is_stdout(o->prometheus))
		return args_fail(args,
			"--json and --prometheus: give standard output to one of them");
	if (!server && o->memory && !o->fork)
		return args_fail(args, "--memory: give it to the server, or with --fork");
	if (!server && !o->host == !o->fork)
		return args_fail(args, "%s: give either the server's host or --fork",
			o->host ? "a host and --fork" : "no server");
	return 0;
}

int move_options_parse(int argc, char **argv, bool server, struct move_options *o_p, char *why,
	size_t size)
{
	struct args args = {ARGS_ROWS(rows), .set = server ? SERVER : CLIENT,
		.command = server ? "server" : "client", .usage = usage,
		.tail = "Status: 0, 1 a request failed or bytes were wrong, 2 a bad command line.\n",
		.operand = server ? NULL : "host", .why = why, .size = size};
	struct move_options o = {.memory = server ? 256u << 20 : 0};
	int first = args_read(&args, argc, argv, &o), err;

	if (first <= 0)
		return first ? first : 1;
	o.host = first < argc ? argv[first] : NULL;
	err = check(&args, &o, server);
	if (!err)
		*o_p = o;
	return err;
}
