/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>

#include "base/clock.h"

static const char usage_text[] =
	"usage: copyrpc-bench [OPTION]...         server, for one client\n"
	"       copyrpc-bench [OPTION]... HOST    client\n"
	"       copyrpc-bench --fork [OPTION]...  both on this machine\n"
	"\n"
	"Makes calls in a closed loop and prints how many end per second, how long one takes,\n"
	"and how many work requests and doorbells, of both sides together, a call costs.\n"
	"\n"
	"  -s, --size=BYTES          of a request (32)\n"
	"  -a, --allowance=BYTES     of a response (16)\n"
	"  -q, --queue-depth=N,...   calls under way per endpoint (1,32)\n"
	"  -e, --endpoints=N         connections (1)\n"
	"  -D, --duration=SECONDS    per queue depth (1)\n"
	"      --events              sleep instead of polling, on both sides (copyrpc only)\n"
	"      --rate=N              calls per second (as many as there can be)\n"
	"  -d, --ib-dev=NAME         device (the first mlx5 one, else a software HCA)\n"
	"  -p, --port=PORT           TCP, to introduce the endpoints (18515)\n"
	"  -r, --ring-size=BYTES     a power of two from 4096 to 2^30 (1048576)\n"
#ifdef HAVE_UCX
	"      --peer=ucx            UCX active messages, too, on the same device\n"
#endif
	"      --fork                server and client in two processes here\n"
	"      --json=FILE           one JSON object per line, too; - is stdout\n"
	"  -h, --help                this text\n"
	"\n"
	"The client's sizes, endpoints and rings hold for both sides.\n";

/* What is buffered may still fail to be written. */
static void finish_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return;
	fputs("copyrpc-bench: standard output: give one that can be written\n", stderr);
	exit(1);
}

_Noreturn void refuse(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("copyrpc-bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(2);
}

static uint32_t number(const char *name, const char *s, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long v = strtoull(s, &end, 0);

	if (end == s || *end || *s == '-' || v < min || v > max)
		refuse("--%s=%s: give a number from %llu to %llu", name, s, (unsigned long long)min,
			(unsigned long long)max);
	return (uint32_t)v;
}

/* The list stays whole: a program that executes itself again passes its arguments on. */
static void parse_depths(struct options *o, const char *list)
{
	char *copy = strdup(list), *rest = copy, *s;

	if (!copy)
		refuse("--queue-depth: %s", strerror(errno));
	o->ndepths = o->max_depth = 0;
	while ((s = strsep(&rest, ","))) { /* an empty item is an item, and no number */
		uint32_t depth = number("queue-depth", s, 1, 65536);

		if (o->ndepths == DEPTHS)
			refuse("--queue-depth: at most %d of them", DEPTHS);
		o->depths[o->ndepths++] = depth;
		o->max_depth = depth > o->max_depth ? depth : o->max_depth;
	}
	free(copy);
}

static FILE *open_json(const char *name)
{
	FILE *f = strcmp(name, "-") ? fopen(name, "w") : stdout;

	if (!f)
		refuse("--json=%s: cannot be written", name);
	return f;
}

bool rings_fit(uint64_t endpoints, uint64_t ring_size, uint32_t ends)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return 2 * endpoints * ring_size * ends <= memory;
}

static void check_options(const struct options *o)
{
	uint32_t most = COPYRPC_PAYLOAD_MAX(o->ring_size);

	if (o->ring_size & (o->ring_size - 1))
		refuse("--ring-size=%u: give a power of two", o->ring_size);
	if (o->size > most || o->allowance > most)
		refuse("--size and --allowance: at most %u with this ring size", most);
	if (!rings_fit(o->endpoints, o->ring_size, 1 + o->both))
		refuse("--endpoints and --ring-size: give less, two rings each are more than the "
		       "memory here");
}

static void parse_one(struct options *o, int c)
{
	char *end;

	switch (c) {
	case 's':
		o->size = number("size", optarg, 0, PAYLOAD_MAX);
		break;
	case 'a':
		o->allowance = number("allowance", optarg, 0, PAYLOAD_MAX);
		break;
	case 'q':
		parse_depths(o, optarg);
		break;
	case 'e':
		o->endpoints = number("endpoints", optarg, 1, ENDPOINTS_MAX);
		break;
	case 'D':
		o->duration = strtod(optarg, &end);
		if (end == optarg || *end || !(o->duration > 0) || o->duration > 86400)
			refuse("--duration=%s: give seconds, more than 0 and at most 86400",
				optarg);
		break;
	case 'd':
		o->device = optarg;
		break;
	case 'p':
		o->port = number("port", optarg, 1, 65535);
		break;
	case 'r':
		o->ring_size = number("ring-size", optarg, COPYRPC_RING_MIN, COPYRPC_RING_MAX);
		break;
	}
}

static bool parse_peer(void)
{
#ifdef HAVE_UCX
	if (!strcmp(optarg, "ucx"))
		return true;
	refuse("--peer=%s: the only one is ucx", optarg);
#else
	refuse("--peer: this program was built without UCX");
#endif
}

void options_parse(struct options *o, int argc, char **argv)
{
	enum { FORK = 256, JSON, PEER, EVENTS, RATE };
	static const struct option longs[] = {{"size", 1, NULL, 's'}, {"allowance", 1, NULL, 'a'},
		{"queue-depth", 1, NULL, 'q'}, {"endpoints", 1, NULL, 'e'},
		{"duration", 1, NULL, 'D'}, {"ib-dev", 1, NULL, 'd'}, {"port", 1, NULL, 'p'},
		{"ring-size", 1, NULL, 'r'}, {"fork", 0, NULL, FORK}, {"json", 1, NULL, JSON},
		{"peer", 1, NULL, PEER}, {"events", 0, NULL, EVENTS}, {"rate", 1, NULL, RATE},
		{"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	int c;

	*o = (struct options){.port = 18515,
		.size = 32,
		.allowance = 16,
		.endpoints = 1,
		.ring_size = 1 << 20,
		.depths = {1, 32},
		.ndepths = 2,
		.max_depth = 32,
		.duration = 1};
	opterr = 0;
	while ((c = getopt_long(argc, argv, "s:a:q:e:D:d:p:r:h", longs, NULL)) != -1) {
		if (c == '?')
			refuse("'%s': no such option, or without its value; see --help",
				argv[optind - 1]);
		if (c == 'h') {
			fputs(usage_text, stdout);
			finish_output();
			exit(0);
		}
		if (c == FORK)
			o->both = true;
		else if (c == EVENTS)
			o->events = true;
		else if (c == RATE)
			o->rate = number("rate", optarg, 1, NSEC_PER_SEC);
		else if (c == PEER)
			o->ucx = parse_peer();
		else if (c == JSON)
			o->json = open_json(optarg);
		else
			parse_one(o, c);
	}
	if (optind < argc)
		o->host = argv[optind++];
	if (optind < argc || (o->host && o->both))
		refuse("one HOST, or --fork; see --help");
	check_options(o);
}

/* -------------------------------------------------------------------- results */

static FILE *table(const struct options *o)
{
	return o->json == stdout ? stderr : stdout;
}

void report_begin(const struct options *o)
{
	fprintf(table(o), "%-8s %6s %6s %5s %5s %12s %10s %10s %10s %10s %9s %8s %10s\n", "impl",
		"size", "answer", "eps", "depth", "calls/s", "p50 us", "p99 us", "doorb/call",
		"wqes/call", "msg/batch", "srv cpu%", "sleep/call");
}

void report(const struct options *o, const struct result *r)
{
	double calls = r->calls ? (double)r->calls : 1,
	       rate = (double)r->calls * 1e9 / (double)r->ns;
	double doorbells = (double)r->counts.doorbells / calls,
	       wqes = (double)r->counts.wqes / calls;
	double cpu = 100 * (double)r->counts.cpu_ns / (double)r->ns;
	double sleeps = (double)r->counts.wakes / calls;
	double batch =
		r->counts.batches ? (double)r->counts.messages / (double)r->counts.batches : 0;

	fprintf(table(o),
		"%-8s %6u %6u %5u %5u %12.0f %10.2f %10.2f %10.4f %10.4f %9.1f %8.2f %10.3f\n",
		r->impl, r->plan.size, r->plan.allowance, r->plan.endpoints, r->depth, rate,
		(double)r->p50 / 1e3, (double)r->p99 / 1e3, doorbells, wqes, batch, cpu, sleeps);
	if (!o->json)
		return;
	fprintf(o->json,
		"{\"impl\":\"%s\",\"size\":%u,\"allowance\":%u,\"queue_depth\":%u,\"endpoints\":%u,"
		"\"ring_size\":%u,\"calls\":%llu,\"duration_s\":%.3f,\"calls_per_s\":%.0f,"
		"\"p50_ns\":%llu,\"p99_ns\":%llu,\"doorbells_per_call\":%.5f,"
		"\"wqes_per_call\":%.5f,\"messages_per_batch\":%.2f,"
		"\"server_cpu_percent\":%.3f,\"server_sleeps_per_call\":%.4f}\n",
		r->impl, r->plan.size, r->plan.allowance, r->depth, r->plan.endpoints,
		r->plan.ring_size, (unsigned long long)r->calls, (double)r->ns / 1e9, rate,
		(unsigned long long)r->p50, (unsigned long long)r->p99, doorbells, wqes, batch, cpu,
		sleeps);
	fflush(o->json);
}

void report_end(const struct options *o)
{
	bool failed = false;

	if (o->json && o->json != stdout) {
		failed |= ferror(o->json) != 0;
		failed |= fclose(o->json) != 0;
	}
	if (failed) {
		fputs("copyrpc-bench: --json: give a file that can be written\n", stderr);
		exit(1);
	}
	finish_output();
}
