/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/oldargs.h"
#include "text.h"
#include "base/clock.h"
#include "engine.h"
#include "payload.h"

#define FIRST_SIZE 2 /* of all */

const char engine_usage[] =
	"Usage: rdmabench engine [OPTION]...            server: waits for clients\n"
	"       rdmabench engine [OPTION]... HOST       client of that server\n"
	"       rdmabench engine --fork [OPTION]...     both, on this machine\n"
	"Sends RDMA traffic and records latencies. What is sent is the client's choice.\n"
	"\n"
	"Traffic\n"
	"  -c, --connection RC|UC|UD   kind of queue pairs (RC); also --qp-type\n"
	"  --request PATTERN    what a QP sends, over and over: OP_N_LENGTH[_LENGTH...],... with OP\n"
	"                       w, wi, r, s, si, a or c, in N places (w_1_65536)\n"
	"  --op OP              one request of that kind, of --size bytes\n"
	"  -s, --size BYTES     (65536); also --msg-size\n"
	"  -a, --all            one size after another, 2 bytes to 8 MiB; UD: to --mtu\n"
	"  -q, --qp N           queue pairs, 1 to 1024 (1); also --qp-num\n"
	"  -t, --tx-depth N     requests outstanding per QP, 1 to 4096 (128)\n"
	"  -r, --rx-depth N     receives, up to 32767 (as many as fit into 64 MiB, at most 1024)\n"
	"  -l, --send-batch N   requests per doorbell; the last is signaled, and timed (1)\n"
	"  -Q, --cq-mod N       a completion for every N requests, at least one per depth (1: per batch)\n"
	"  -e, --events         sleep on events of completions, instead of polling\n"
	"  --recv-batch N       receives taken per look (64)\n"
	"  -b, --bidirectional  the server sends the same to the client\n"
	"  -n, --iters N        requests per QP, instead of a duration\n"
	"  -D, --duration S     seconds (1)\n"
	"  --rate N             requests per second and side, due at fixed times (no limit)\n"
	"  --burst N            a pause after N batches of a QP (never)\n"
	"  --burst-pause US     of that length (100)\n"
	"  --buf-num N          buffers of a QP, used in turn, 1 to 64 (1; --check: the depth)\n"
	"  --mr-num N           memory regions, at most one per QP (1)\n"
	"  -I, --inline-size N  up to N bytes travel in the request, 0 to 220 (220)\n"
	"  -m, --mtu BYTES      256, 512, 1024, 2048 or 4096 (of the port)\n"
	"  -u, --qp-timeout N   4.096 us * 2^N until a request is repeated (14)\n"
	"  --retry-count N      repetitions after which a QP fails, 0 to 7 (7)\n"
	"  -o, --outs N         READs and atomics outstanding, 1 to 16 (4)\n"
	"  -S, --sl N           service level, 0 to 15 (0)\n"
	"  --tclass N           traffic class, 0 to 255 (0); on RoCE v2 DSCP * 4\n"
	"  --control KIND       beside it, now and then: mr, qp, modify, or a request that must fail:\n"
	"                       rkey, lkey (none)\n"
	"  --control-every US   of that (1000)\n"
	"  --inject KIND@N       drop, rnr or delay of message N of the first QP: software HCA only\n"
	"  --check              generate payloads and compare every one\n"
	"Where\n"
	"  -d, --ib-dev NAME    device (the first)\n"
	"  --server-dev NAME    device of the server, with --fork (the same)\n"
	"  -i, --ib-port N      its port (1)\n"
	"  -x, --gid-index N    GID (RoCE: v2, IPv4 if there is one; InfiniBand: none)\n"
	"  -p, --port N         of TCP, for the set-up (18515)\n"
	"  --hosts N            clients that the server waits for, 1 to 64 (1)\n"
	"  --timeout S          until a silent peer is given up, 1 to 3600 (10)\n"
	"Output\n"
	"  --hw-ts              completions are timed by the device's own time stamps\n"
	"  --report-gbits       Gb/sec instead of MiB/sec\n"
	"  --json FILE          the report as a JSON object on a line; - is standard output\n"
	"  --stats-dir DIR      statistics: DIR/RUN/HOST-PROCESS-ROLE.txt and .jsonl\n"
	"  --stats-file FILE    statistics in this file, and a .jsonl beside it\n"
	"  --stats-window N     of each N samples, not of all\n"
	"  --compat             windows of ten samples, with the arithmetic of older tools\n"
	"  --run NAME           of this run (the server's choice)\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 errors, wrong payloads or a lost peer, 2 a bad command line.\n";

enum {
	OPT_REQUEST = 256,
	OPT_OP,
	OPT_RECV_BATCH,
	OPT_BUFFERS,
	OPT_REGIONS,
	OPT_RATE,
	OPT_BURST,
	OPT_BURST_PAUSE,
	OPT_RETRY_COUNT,
	OPT_TCLASS,
	OPT_CONTROL,
	OPT_CONTROL_EVERY,
	OPT_INJECT,
	OPT_CHECK,
	OPT_SERVER_DEV,
	OPT_HOSTS,
	OPT_TIMEOUT,
	OPT_HW_TS,
	OPT_GBITS,
	OPT_JSON,
	OPT_STATS_DIR,
	OPT_STATS_FILE,
	OPT_STATS_WINDOW,
	OPT_COMPAT,
	OPT_RUN,
	OPT_FORK,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"connection", required_argument, NULL, 'c'},
	{"qp-type", required_argument, NULL, 'c'},
	{"request", required_argument, NULL, OPT_REQUEST},
	{"op", required_argument, NULL, OPT_OP},
	{"all", no_argument, NULL, 'a'},
	{"cq-mod", required_argument, NULL, 'Q'},
	{"events", no_argument, NULL, 'e'},
	{"size", required_argument, NULL, 's'},
	{"msg-size", required_argument, NULL, 's'},
	{"qp", required_argument, NULL, 'q'},
	{"qp-num", required_argument, NULL, 'q'},
	{"tx-depth", required_argument, NULL, 't'},
	{"rx-depth", required_argument, NULL, 'r'},
	{"send-batch", required_argument, NULL, 'l'},
	{"recv-batch", required_argument, NULL, OPT_RECV_BATCH},
	{"buf-num", required_argument, NULL, OPT_BUFFERS},
	{"mr-num", required_argument, NULL, OPT_REGIONS},
	{"bidirectional", no_argument, NULL, 'b'},
	{"iters", required_argument, NULL, 'n'},
	{"duration", required_argument, NULL, 'D'},
	{"rate", required_argument, NULL, OPT_RATE},
	{"burst", required_argument, NULL, OPT_BURST},
	{"burst-pause", required_argument, NULL, OPT_BURST_PAUSE},
	{"retry-count", required_argument, NULL, OPT_RETRY_COUNT},
	{"retry_count", required_argument, NULL, OPT_RETRY_COUNT},
	{"outs", required_argument, NULL, 'o'},
	{"sl", required_argument, NULL, 'S'},
	{"tclass", required_argument, NULL, OPT_TCLASS},
	{"control", required_argument, NULL, OPT_CONTROL},
	{"control-every", required_argument, NULL, OPT_CONTROL_EVERY},
	{"inject", required_argument, NULL, OPT_INJECT},
	{"inline-size", required_argument, NULL, 'I'},
	{"mtu", required_argument, NULL, 'm'},
	{"qp-timeout", required_argument, NULL, 'u'},
	{"check", no_argument, NULL, OPT_CHECK},
	{"ib-dev", required_argument, NULL, 'd'},
	{"server-dev", required_argument, NULL, OPT_SERVER_DEV},
	{"ib-port", required_argument, NULL, 'i'},
	{"gid-index", required_argument, NULL, 'x'},
	{"port", required_argument, NULL, 'p'},
	{"hosts", required_argument, NULL, OPT_HOSTS},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"hw-ts", no_argument, NULL, OPT_HW_TS},
	{"hw_ts", no_argument, NULL, OPT_HW_TS},
	{"report-gbits", no_argument, NULL, OPT_GBITS},
	{"report_gbits", no_argument, NULL, OPT_GBITS},
	{"json", required_argument, NULL, OPT_JSON},
	{"stats-dir", required_argument, NULL, OPT_STATS_DIR},
	{"stats-file", required_argument, NULL, OPT_STATS_FILE},
	{"stats-window", required_argument, NULL, OPT_STATS_WINDOW},
	{"compat", no_argument, NULL, OPT_COMPAT},
	{"run", required_argument, NULL, OPT_RUN},
	{"fork", no_argument, NULL, OPT_FORK},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* What becomes of the options only when all are known. */
struct partial {
	struct engine_options o;
	const char *request, *op;
	uint32_t size;
	bool has_size, has_duration;
};

static int read_word(const struct arg *a, const char *const *words, unsigned add, uint8_t *n_p)
{
	unsigned i = 0;
	int err = arg_word(a, words, &i);

	if (!err)
		*n_p = (uint8_t)(i + add);
	return err;
}

/* As enum ibv_mtu has them: 1 is 256. */
static int read_mtu(const struct arg *a, uint8_t *mtu_p)
{
	static const char *const sizes[] = {"256", "512", "1024", "2048", "4096", NULL};

	return read_word(a, sizes, 1, mtu_p);
}

/* "drop@100" */
static int read_inject(const struct arg *a, struct traffic *t)
{
	const char *at = strchr(a->value, '@');
	char kind[16] = "";
	struct arg number = *a, word = *a;
	int err;

	if (!at || (size_t)(at - a->value) >= sizeof(kind))
		return arg_bad(a, "drop@N, rnr@N or delay@N");
	memcpy(kind, a->value, (size_t)(at - a->value));
	word.value = kind;
	number.value = at + 1;
	err = read_word(&word, inject_names, 0, &t->inject);
	return err ? err : arg_whole(&number, 1, 1ull << 40, &t->inject_at);
}

static int read_gid(const struct arg *a, int *gid_p)
{
	uint8_t n = 0;
	int err = arg_u8(a, 0, 255, &n);

	if (!err)
		*gid_p = n;
	return err;
}

/* Which requests, and how many at once. */
static int parse_requests(struct partial *p, int val, const struct arg *a)
{
	struct traffic *t = &p->o.t;

	switch (val) {
	case OPT_REQUEST:
		return arg_text(a, "a pattern like w_1_65536", &p->request);
	case OPT_OP:
		return arg_text(a, "w, wi, r, s, si, a or c", &p->op);
	case 's':
		p->has_size = true;
		return arg_u32(a, 1, PATTERN_LENGTH_MAX, &p->size);
	case 'a':
		p->o.all = true;
		return 0;
	case 'Q':
		return arg_u32(a, 1, TRAFFIC_DEPTH_MAX, &t->moderation);
	case 'e':
		t->sleeps = true;
		return 0;
	case 'q':
		return arg_u32(a, 1, TRAFFIC_QPS_MAX, &t->qps);
	case 't':
		return arg_u32(a, 1, TRAFFIC_DEPTH_MAX, &t->depth);
	case 'r':
		return arg_u32(a, 1, 32767, &t->rx_depth);
	case 'l':
		return arg_u32(a, 1, TRAFFIC_DEPTH_MAX, &t->send_batch);
	case OPT_RECV_BATCH:
		return arg_u32(a, 1, TRAFFIC_DEPTH_MAX, &t->recv_batch);
	case OPT_BUFFERS:
		return arg_u32(a, 1, TRAFFIC_BUFFERS_MAX, &t->buffers);
	case OPT_REGIONS:
		return arg_u32(a, 1, TRAFFIC_QPS_MAX, &t->regions);
	case 'I':
		return arg_u32(a, 0, MLX5DVL_INLINE_MAX, &t->inline_max);
	case OPT_CHECK:
		t->check = true;
		return 0;
	default:
		t->bidirectional = true;
		return 0;
	}
}

/* How they travel, and when. */
static int parse_course(struct partial *p, int val, const struct arg *a)
{
	struct traffic *t = &p->o.t;

	switch (val) {
	case 'c':
		return read_word(a, traffic_type_names, 0, &t->type);
	case 'n':
		return arg_whole(a, 1, 1ull << 40, &t->iterations);
	case 'D':
		p->has_duration = true;
		return arg_time(a, .001, 86400, (double)NSEC_PER_SEC, &t->duration_ns);
	case OPT_RATE:
		return arg_whole(a, 1, 1000000000, &t->rate);
	case OPT_BURST:
		return arg_u32(a, 1, 1u << 30, &t->burst);
	case OPT_BURST_PAUSE:
		return arg_u32(a, 1, 1000000, &t->burst_pause_us);
	case OPT_RETRY_COUNT:
		return arg_u8(a, 0, 7, &t->retries);
	case 'o':
		return arg_u8(a, 1, 16, &t->reads);
	case 'S':
		return arg_u8(a, 0, 15, &t->sl);
	case OPT_TCLASS:
		return arg_u8(a, 0, 255, &t->traffic_class);
	case OPT_CONTROL:
		return read_word(a, control_names, 0, &t->control);
	case OPT_CONTROL_EVERY:
		return arg_u32(a, 1, 1000000, &t->control_us);
	case OPT_INJECT:
		return read_inject(a, t);
	case 'm':
		return read_mtu(a, &t->mtu);
	default:
		return arg_u8(a, 1, 31, &t->qp_timeout);
	}
}

static int parse_place(struct partial *p, int val, const struct arg *a)
{
	struct engine_options *o = &p->o;

	switch (val) {
	case 'd':
		return arg_text(a, "a device like mlx5_0", &o->device.name);
	case 'i':
		return arg_u8(a, 1, 255, &o->device.port);
	case 'x':
		return read_gid(a, &o->device.gid_index);
	case 'p':
		return arg_u32(a, 1, 65535, &o->port);
	case OPT_SERVER_DEV:
		return arg_text(a, "a device like mlx5_1", &o->server_device);
	case OPT_HOSTS:
		return arg_u32(a, 1, SIDE_PEERS_MAX, &o->hosts);
	case OPT_TIMEOUT:
		return arg_u32(a, 1, 3600, &o->timeout_s);
	default:
		o->fork = true;
		return 0;
	}
}

static int parse_output(struct partial *p, int val, const struct arg *a)
{
	struct engine_options *o = &p->o;

	switch (val) {
	case OPT_HW_TS:
		o->hw_ts = true;
		return 0;
	case OPT_GBITS:
		o->gbits = true;
		return 0;
	case OPT_JSON:
		return arg_text(a, "a file name, or -", &o->json);
	case OPT_STATS_DIR:
		return arg_text(a, "a directory", &o->stats_dir);
	case OPT_STATS_FILE:
		return arg_text(a, "a file name", &o->stats_file);
	case OPT_STATS_WINDOW:
		return arg_whole(a, 1, 1ull << 40, &o->stats_window);
	case OPT_COMPAT:
		o->compat = true;
		return 0;
	case OPT_RUN:
		return arg_name(a, &o->run);
	default:
		o->help = true;
		return 0;
	}
}

static int parse_option(void *arg, int val, const struct arg *a)
{
	if (val < 256 ? !!strchr("saQeqtrlIb", val) : val <= OPT_REGIONS || val == OPT_CHECK)
		return parse_requests(arg, val, a);
	if (val < 256 ? !!strchr("cnDmuoS", val) : val >= OPT_RATE && val <= OPT_INJECT)
		return parse_course(arg, val, a);
	if (val < 256 || val == OPT_SERVER_DEV || val == OPT_HOSTS || val == OPT_TIMEOUT ||
		val == OPT_FORK)
		return parse_place(arg, val, a);
	return parse_output(arg, val, a);
}

/* The first and the last of all sizes. */
static int find_sizes(struct partial *p, char *why, size_t size)
{
	struct traffic *t = &p->o.t;
	bool send = p->op && p->op[0] == 's';

	if (p->request || p->has_size)
		return args_fail(why, size,
			"--all has sizes of its own: give no --size or --request");
	if (p->op && (!strcmp(p->op, "a") || !strcmp(p->op, "c")))
		return args_fail(why, size, "an atomic has 8 bytes: give no --all");
	if (p->o.stats_dir || p->o.stats_file)
		return args_fail(why, size, "statistics are of one size: give no --all");
	if (t->type == MLX5DVL_UD && !t->mtu)
		return args_fail(why, size, "--all on UD ends at the MTU: give --mtu");
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

static int make_pattern(struct partial *p, char *why, size_t size)
{
	const char *op = p->op ? p->op : "w";
	bool atomic = !strcmp(op, "a") || !strcmp(op, "c");
	char *text = p->o.t.pattern_text;
	uint32_t bytes;
	int n = p->o.all ? find_sizes(p, why, size) : 0;

	if (n)
		return n;
	bytes = atomic && !p->has_size ? 8 : p->size;

	if (p->request && (p->op || p->has_size))
		return args_fail(why, size,
			"--request says it all: give it without --op and --size");
	n = p->request ? snprintf(text, PATTERN_TEXT_MAX, "%s", p->request) :
			 snprintf(text, PATTERN_TEXT_MAX, "%s_1_%u", op, bytes);
	if (n >= PATTERN_TEXT_MAX)
		return args_fail(why, size, "--request is too long: give up to 255 letters");
	return traffic_check(&p->o.t, why, size);
}

static int check_together(const struct partial *p, char *why, size_t size)
{
	const struct engine_options *o = &p->o;

	if (o->stats_dir && o->stats_file)
		return args_fail(why, size, "give either --stats-dir or --stats-file");
	if ((o->compat || o->stats_window) && !o->stats_dir && !o->stats_file)
		return args_fail(why, size,
			"--compat and --stats-window: give --stats-dir or "
			"--stats-file too");
	if (o->compat && o->stats_window)
		return args_fail(why, size,
			"--compat has windows of its own: give no --stats-window");
	if (o->fork && (o->host || o->hosts != 1))
		return args_fail(why, size,
			"--fork has its own client: give no host and no --hosts");
	if (o->server_device && !o->fork)
		return args_fail(why, size,
			"--server-dev is of a server that --fork starts: give --ib-dev there");
	if (o->host && o->hosts != 1)
		return args_fail(why, size, "--hosts is the server's: give it there");
	if (o->t.iterations && p->has_duration)
		return args_fail(why, size, "--iters and --duration exclude each other: give one");
	return 0;
}

int engine_options_parse(int argc, char **argv, struct engine_options *o_p, char *why, size_t size)
{
	struct partial p = {.o = {.port = 18515, .hosts = 1, .timeout_s = 10}, .size = 65536};
	int first, err;

	traffic_init(&p.o.t);
	first = args_read(argc, argv, ":c:s:aQ:eq:t:r:l:bn:D:I:m:u:o:S:d:i:x:p:", long_options,
		parse_option, &p, why, size);
	if (first < 0)
		return first;
	if (argc - first > 1)
		return args_fail(why, size, "more than one host: give one, or none for the server");
	p.o.host = argc > first ? argv[first] : NULL;
	err = p.o.help ? 0 : check_together(&p, why, size);
	if (!err)
		err = make_pattern(&p, why, size);
	if (!err)
		*o_p = p.o;
	return err;
}
