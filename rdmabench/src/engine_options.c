/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "engine.h"
#include "payload.h"
#include "text.h"

#define FIRST_SIZE 2 /* first size of --all */

/* The commands that accept an option, for arg_row.sets. */
enum { ENGINE = 1 << ENGINE_TRAFFIC, LAT = 1 << ENGINE_LAT, BW = 1 << ENGINE_BW };

/* Options while they are being read. The meaning of some depends on others. */
struct partial {
	struct engine_options o;
	const char *request, *op;
	uint32_t size;
};

/* Reads a text like "drop@100". */
static int read_inject(const struct arg *a, void *traffic)
{
	struct traffic *t = traffic;
	const char *at = strchr(a->value, '@');
	char kind[16] = "";
	struct arg number = *a, word = *a;
	unsigned i = 0;

	if (!at || (size_t)(at - a->value) >= sizeof(kind))
		return arg_bad(a, "drop@N, rnr@N or delay@N");
	memcpy(kind, a->value, (size_t)(at - a->value));
	word.value = kind;
	number.value = at + 1;
	if (arg_word(&word, inject_names, &i))
		return -EINVAL;
	t->inject = (uint8_t)i;
	return arg_whole(&number, 1, 1ull << 40, &t->inject_at);
}

/* The values of enum ibv_mtu, from 1. */
static const char *const mtus[] = {"256", "512", "1024", "2048", "4096", NULL};

#define AT(field) ARG_AT(struct partial, field)
#define DEVICE .give = "a device like mlx5_0"
#define OPS "w, wi, r, s, si, a or c"

static const struct arg_row rows[] = {
	{.help = "Traffic"},
	{"connection", 'c', NULL, ARG_WORD, AT(o.t.type), .words = traffic_type_names, .def = "RC",
		.also = "qp-type", .help = "kind of queue pairs"},
	{"request", 0, "PATTERN", ARG_TEXT, AT(request), .give = "a pattern like w_1_65536",
		.unset = "w_1_65536", .not_with = "op size", .sets = ENGINE | BW,
		.help = "requests that a QP sends, over and over: OP_N_LENGTH[_LENGTH...],... with "
			"OP " OPS ", in N places"},
	{"op", 0, "OP", ARG_TEXT, AT(op), .give = OPS,
		.help = "one request of that kind, of --size bytes"},
	{"size", 's', "BYTES", ARG_WHOLE, AT(size), .min = 1, .max = PATTERN_LENGTH_MAX,
		.unset = "65536; lat: 2; an atomic: 8", .also = "msg-size",
		.help = "bytes of the request of --op"},
	{"all", 'a', NULL, ARG_FLAG, AT(o.all), .not_with = "size request stats-dir stats-file",
		.help = "one size after another, 2 bytes to 8 MiB; UD: to --mtu"},
	{"qp", 'q', "N", ARG_WHOLE, AT(o.t.qps), .min = 1, .max = TRAFFIC_QPS_MAX, .def = "1",
		.also = "qp-num", .sets = ENGINE | BW, .help = "queue pairs"},
	{"tx-depth", 't', "N", ARG_WHOLE, AT(o.t.depth), .min = 1, .max = TRAFFIC_DEPTH_MAX,
		.def = "128", .sets = ENGINE | BW, .help = "requests outstanding per QP"},
	{"rx-depth", 'r', "N", ARG_WHOLE, AT(o.t.rx_depth), .min = 1, .max = 32767,
		.unset = "as many as fit into 64 MiB, at least 16, at most 1024; lat: few",
		.help = "receives that are posted"},
	{"send-batch", 'l', "N", ARG_WHOLE, AT(o.t.send_batch), .min = 1, .max = TRAFFIC_DEPTH_MAX,
		.def = "1", .sets = ENGINE | BW,
		.help = "requests per doorbell; the last is signaled, and timed"},
	{"cq-mod", 'Q', "N", ARG_WHOLE, AT(o.t.moderation), .min = 1, .max = TRAFFIC_DEPTH_MAX,
		.unset = "1; bw: 100", .sets = ENGINE | BW,
		.help = "a completion for every N requests, at least one per --tx-depth; 1: one per batch"},
	{"events", 'e', NULL, ARG_FLAG, AT(o.t.sleeps),
		.help = "both sides sleep until a completion event, instead of polling"},
	{"recv-batch", 0, "N", ARG_WHOLE, AT(o.t.recv_batch), .min = 1, .max = TRAFFIC_DEPTH_MAX,
		.def = "64", .sets = ENGINE | BW, .help = "receives taken per poll"},
	{"bidirectional", 'b', NULL, ARG_FLAG, AT(o.t.bidirectional), .sets = ENGINE | BW,
		.help = "the server sends the same traffic to the client"},
	{"iters", 'n', "N", ARG_WHOLE, AT(o.t.iterations), .min = 1, .max = 1ull << 40,
		.unset = "bw: 5000; lat: 1000", .not_with = "duration",
		.help = "requests per QP, instead of a duration"},
	{"warm-up", 0, "N", ARG_WHOLE, AT(o.t.warm_up), .max = 1u << 30, .def = "0",
		.help = "requests per QP before the --iters, without a latency"},
	{"duration", 'D', "S", ARG_TIME, AT(o.t.duration_ns), .low = .001, .high = 86400,
		.unit = NSEC_PER_SEC, .unset = "engine: 1", .help = "seconds of traffic"},
	{"rate", 0, "N", ARG_WHOLE, AT(o.t.rate), .min = 1, .max = 1000000000, .unset = "no limit",
		.sets = ENGINE | BW, .help = "requests per second and side, due at fixed times"},
	{"burst", 0, "N", ARG_WHOLE, AT(o.t.burst), .min = 1, .max = 1u << 30, .unset = "never",
		.sets = ENGINE | BW, .help = "a QP pauses after N batches"},
	{"burst-pause", 0, "US", ARG_WHOLE, AT(o.t.burst_pause_us), .min = 1, .max = 1000000,
		.def = "100", .sets = ENGINE | BW, .help = "microseconds of a pause"},
	{"buf-num", 0, "N", ARG_WHOLE, AT(o.t.buffers), .min = 1, .max = TRAFFIC_BUFFERS_MAX,
		.unset = "1; --check: the depth", .sets = ENGINE | BW,
		.help = "buffers of a QP, used in turn"},
	{"mr-num", 0, "N", ARG_WHOLE, AT(o.t.regions), .min = 1, .max = TRAFFIC_QPS_MAX, .def = "1",
		.sets = ENGINE | BW, .help = "memory regions, at most one per QP"},
	{"inline-size", 'I', "N", ARG_WHOLE, AT(o.t.inline_max), .max = MLX5DVL_INLINE_MAX,
		.unset = "220; bw: 0",
		.help = "payloads of up to N bytes in one place are copied into the work request, "
			"except those of UD"},
	{"mtu", 'm', "BYTES", ARG_WORD, AT(o.t.mtu), .words = mtus, .min = 1,
		.unset = "that of the port", .help = "path MTU"},
	{"qp-timeout", 'u', "N", ARG_WHOLE, AT(o.t.qp_timeout), .min = 1, .max = 31, .def = "14",
		.help = "4.096 us * 2^N until a request is repeated"},
	{"retry-count", 0, "N", ARG_WHOLE, AT(o.t.retries), .max = 7, .def = "7",
		.also = "retry_count", .help = "repetitions after which a QP fails"},
	{"outs", 'o', "N", ARG_WHOLE, AT(o.t.reads), .min = 1, .max = 16, .def = "4",
		.sets = ENGINE | BW, .help = "READs and atomics outstanding"},
	{"sl", 'S', "N", ARG_WHOLE, AT(o.t.sl), .max = 15, .def = "0", .help = "service level"},
	{"tclass", 0, "N", ARG_WHOLE, AT(o.t.traffic_class), .max = 255, .def = "0",
		.help = "traffic class; on RoCE v2 DSCP * 4"},
	{"rdma-cm", 'R', NULL, ARG_FLAG, AT(o.t.cm), .also = "rdma_cm",
		.help = "QPs are connected by rdma_cm, at the address of the TCP connection"},
	{"control", 0, "KIND", ARG_WORD, AT(o.t.control), .words = control_names, .def = "none",
		.help = "verbs during the traffic; rkey and lkey are requests that must fail"},
	{"control-every", 0, "US", ARG_WHOLE, AT(o.t.control_us), .min = 1, .max = 1000000,
		.def = "1000", .help = "microseconds between two such operations"},
	{"inject", 0, "KIND@N", ARG_CALL, AT(o.t), .read = read_inject,
		.help = "drop, rnr or delay of message N of the first QP: software HCA only"},
	{"check", 0, NULL, ARG_FLAG, AT(o.t.check),
		.help = "generate payloads and compare every one"},
	{.help = "Where"},
	{"fork", 0, NULL, ARG_FLAG, AT(o.fork), .help = "server and client, both on this machine"},
	{"ib-dev", 'd', "NAME", ARG_TEXT, AT(o.device.name), DEVICE, .unset = "the first",
		.help = "device"},
	{"server-dev", 0, "NAME", ARG_TEXT, AT(o.server_device), DEVICE, .unset = "the same",
		.with = "fork", .help = "device of the server that --fork starts"},
	{"ib-port", 'i', "N", ARG_WHOLE, AT(o.device.port), .min = 1, .max = 255, .def = "1",
		.help = "port of the device"},
	{"gid-index", 'x', "N", ARG_WHOLE, AT(o.device.gid_index), .max = 255,
		.unset = "RoCE: v2, IPv4 if there is one; InfiniBand: none",
		.help = "index of the GID"},
	{"cpu", 0, "near|LIST", ARG_TEXT, AT(o.device.cpus), .give = "near, or a list like 0-3,8",
		.unset = "any",
		.help = "processors of the engine, near the device or given by number"},
	{"numa", 0, "near|LIST", ARG_TEXT, AT(o.device.nodes), .give = "near, or a list like 0,1",
		.unset = "any", .help = "NUMA nodes of its memory"},
	{"port", 'p', "N", ARG_WHOLE, AT(o.port), .min = 1, .max = 65535, .def = "18515",
		.help = "TCP port, for the set-up"},
	{"serve", 0, NULL, ARG_FLAG, AT(o.serve), .not_with = "fork hosts all wait",
		.help = "serve each client in a process of its own, without end"},
	{"wait", 0, "S", ARG_WHOLE, AT(o.wait_s), .min = 1, .max = 86400, .unset = "no limit",
		.not_with = "fork", .help = "seconds that the server waits for its first client"},
	{"hosts", 0, "N", ARG_WHOLE, AT(o.hosts), .min = 1, .max = SIDE_PEERS_MAX, .def = "1",
		.help = "clients that the server waits for"},
	{"timeout", 0, "S", ARG_WHOLE, AT(o.timeout_s), .min = 1, .max = 3600, .def = "10",
		.help = "seconds until a silent peer is given up"},
	{.help = "Output"},
	{"hw-ts", 0, NULL, ARG_FLAG, AT(o.hw_ts), .also = "hw_ts", .sets = ENGINE | BW,
		.help = "completions are timed by the device's own time stamps"},
	{"report-gbits", 0, NULL, ARG_FLAG, AT(o.gbits), .also = "report_gbits",
		.help = "Gb/sec instead of MiB/sec"},
	{"json", 0, "FILE", ARG_TEXT, AT(o.json),
		.help = "the report as a JSON object on a line; - is standard output"},
	{"hdr-log", 0, "FILE", ARG_TEXT, AT(o.hdr_log),
		.help = "the histograms as a log of HdrHistogram; - is standard output"},
	{"stats-dir", 0, "DIR", ARG_TEXT, AT(o.stats_dir), .not_with = "stats-file",
		.help = "statistics: DIR/RUN/HOST-PROCESS-WRITER-ROLE.txt and .jsonl"},
	{"stats-file", 0, "FILE", ARG_TEXT, AT(o.stats_file),
		.help = "statistics in this file, and a .jsonl beside it"},
	{"stats-window", 0, "N", ARG_WHOLE, AT(o.stats_window), .min = 1, .max = 1ull << 40,
		.with = "stats-dir stats-file", .not_with = "compat",
		.help = "statistics of each N samples, not of all"},
	{"compat", 0, NULL, ARG_FLAG, AT(o.compat), .with = "stats-dir stats-file",
		.help = "windows of ten samples, with the arithmetic of older tools"},
	{"run", 0, "NAME", ARG_CALL, AT(o.run), .read = read_name, .unset = "time and process",
		.help = "name of this run, which its clients use, too"},
	{"report-histogram", 'H', NULL, ARG_FLAG, AT(o.histogram),
		.help = "also print the histogram: lower us, upper us, samples; --json: as text of latrec"},
	{"help", .kind = ARG_HELP},
};

const struct arg_row *engine_option_row(const char *name)
{
	const struct arg_row *row = rows;

	while (!row->name || strcmp(row->name, name) != 0)
		row++;
	return row;
}

static const char *const programs[] = {"rdmabench engine", "rdmabench lat", "rdmabench bw"};
static const char *const usages[] = {
	"Usage: rdmabench engine [OPTION]...            server: waits for clients\n"
	"       rdmabench engine [OPTION]... HOST       client of that server\n"
	"       rdmabench engine --fork [OPTION]...     both, on this machine\n"
	"Sends RDMA traffic and records latencies. The client chooses the traffic.\n",
	"Usage: rdmabench lat [OPTION]...            server: waits for clients\n"
	"       rdmabench lat [OPTION]... HOST       client of that server\n"
	"       rdmabench lat --fork [OPTION]...     both, on this machine\n"
	"Measures half the round trip of a WRITE or SEND that the server answers by the same, or the\n"
	"latency of a READ or an atomic, one at a time.\n",
	"Usage: rdmabench bw [OPTION]...            server: waits for clients\n"
	"       rdmabench bw [OPTION]... HOST       client of that server\n"
	"       rdmabench bw --fork [OPTION]...     both, on this machine\n"
	"Measures throughput. The client chooses the traffic.\n",
};

/* Sets the first and the last size of --all. */
static int find_sizes(const struct args *args, struct partial *p)
{
	struct traffic *t = &p->o.t;
	bool send = p->op && p->op[0] == 's';

	if (p->op && (!strcmp(p->op, "a") || !strcmp(p->op, "c")))
		return args_fail(args, "an atomic has 8 bytes: give no --all");
	if (t->type == MLX5DVL_UD && !t->mtu)
		return args_fail(args, "--all on UD ends at the MTU: give --mtu");
	p->o.first_size = t->check && t->type != MLX5DVL_RC && send ? PAYLOAD_NUMBER : FIRST_SIZE;
	p->o.last_size = t->type == MLX5DVL_UD ? 128u << t->mtu : PATTERN_LENGTH_MAX;
	p->size = p->o.last_size;
	return 0;
}

void engine_options_resize(struct engine_options *o, uint32_t bytes)
{
	char *length = strrchr(o->t.pattern_text, '_') + 1, why[200];

	snprintf(length, (size_t)(o->t.pattern_text + PATTERN_TEXT_MAX - length), "%u", bytes);
	o->more = bytes > o->first_size;
	o->t.again = bytes < o->last_size;
	traffic_check(&o->t, why, sizeof(why));
}

static int make_pattern(const struct args *args, struct partial *p)
{
	const char *op = p->op ? p->op : "w";
	bool atomic = !strcmp(op, "a") || !strcmp(op, "c");
	char *text = p->o.t.pattern_text, why[200];
	struct pattern made;
	int n = p->o.all ? find_sizes(args, p) : 0;

	if (n)
		return n;
	if (atomic && !args_given(args, "size"))
		p->size = 8;
	n = p->request ? snprintf(text, PATTERN_TEXT_MAX, "%s", p->request) :
			 snprintf(text, PATTERN_TEXT_MAX, "%s_1_%u", op, p->size);
	if (n >= PATTERN_TEXT_MAX)
		return args_fail(args, "--request is too long: give up to 255 letters");
	if (!p->request && pattern_parse(text, &made, why, sizeof(why)))
		return atomic ? args_fail(args, "an atomic has 8 bytes: give no --size") :
				args_fail(args, "--op '%.20s' is not valid: give " OPS, op);
	return traffic_check(&p->o.t, args->why, args->size);
}

/* Sets the defaults that depend on the command. */
static void set_defaults(const struct args *args, struct partial *p)
{
	struct traffic *t = &p->o.t;
	enum engine_command c = p->o.command;

	if (!args_given(args, "size"))
		p->size = c == ENGINE_LAT ? 2 : 65536;
	if (!t->iterations && !args_given(args, "duration"))
		t->iterations = c == ENGINE_LAT ? 1000 : c == ENGINE_BW ? 5000 : 0;
	if (t->iterations)
		t->iterations += t->warm_up;
	if (c == ENGINE_BW && !args_given(args, "cq-mod"))
		t->moderation = 100;
	if (c == ENGINE_BW && !args_given(args, "inline-size"))
		t->inline_max = 0;
	if (c == ENGINE_LAT)
		t->depth = 1;
	t->pingpong = c == ENGINE_LAT && !(p->op && strchr("rac", *p->op));
}

static int check_host(const struct args *args, const struct engine_options *o)
{
	if (o->fork && (o->host || o->hosts != 1))
		return args_fail(args, "--fork has its own client: give no host and no --hosts");
	if (o->host && (o->hosts != 1 || o->serve || o->wait_s || o->run))
		return args_fail(args,
			"--hosts, --serve, --wait and --run are the server's: give them there");
	return 0;
}

static enum engine_command command_of(const char *name)
{
	return !strcmp(name, "lat") ? ENGINE_LAT : !strcmp(name, "bw") ? ENGINE_BW : ENGINE_TRAFFIC;
}

int engine_options_parse(int argc, char **argv, struct engine_options *o_p, char *why, size_t size)
{
	enum engine_command command = command_of(argv[0]);
	struct args args = {ARGS_ROWS(rows), .set = 1u << command, .command = programs[command],
		.usage = usages[command],
		.tail = "Status: 0, 1 errors, wrong payloads or a lost peer, 2 a bad command line.\n",
		.operand = "host", .why = why, .size = size};
	struct partial p = {
		.o = {.command = command, .program = programs[command], .device.gid_index = -1}};
	int first, err;

	traffic_init(&p.o.t);
	first = args_read(&args, argc, argv, &p);
	if (first <= 0)
		return first ? first : 1;
	p.o.host = argc > first ? argv[first] : NULL;
	set_defaults(&args, &p);
	err = check_host(&args, &p.o);
	if (!err)
		err = make_pattern(&args, &p);
	if (!err)
		*o_p = p.o;
	return err;
}
