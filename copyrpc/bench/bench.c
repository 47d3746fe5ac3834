/* SPDX-License-Identifier: MIT */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/output.h"

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

bool rings_fit(uint64_t endpoints, uint64_t ring_size, uint32_t ends)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return 2 * endpoints * ring_size * ends <= memory;
}

static const char usage[] =
	"Usage: copyrpc-bench [OPTION]...         server, for one client\n"
	"       copyrpc-bench [OPTION]... HOST    client\n"
	"       copyrpc-bench --fork [OPTION]...  both on this machine\n"
	"\n"
	"Makes calls in a closed loop. Prints calls per second, the time that a call takes,\n"
	"and the work requests and doorbells of both sides per call.\n";

#ifdef HAVE_UCX
static const char *const peers[] = {"ucx", NULL};
#endif

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"size", 's', "BYTES", ARG_WHOLE, AT(size), .max = PAYLOAD_MAX, .def = "32",
		.help = "bytes of a request"},
	{"allowance", 'a', "BYTES", ARG_WHOLE, AT(allowance), .max = PAYLOAD_MAX, .def = "16",
		.help = "bytes of a response"},
	{"queue-depth", 'q', "N,...", ARG_LIST, AT(depths), .min = 1, .max = 65536, .def = "1,32",
		.help = "calls pending per endpoint"},
	{"endpoints", 'e', "N", ARG_WHOLE, AT(endpoints), .min = 1, .max = ENDPOINTS_MAX,
		.def = "1", .help = "connections"},
	{"duration", 'D', "S", ARG_REAL, AT(duration), .low = .001, .high = 86400, .def = "1",
		.help = "seconds per queue depth"},
	{"events", 0, NULL, ARG_FLAG, AT(events),
		.help = "sleep instead of polling, on both sides (copyrpc only)"},
	{"rate", 0, "N", ARG_WHOLE, AT(rate), .min = 1, .max = NSEC_PER_SEC,
		.unset = "as many as possible", .help = "calls per second"},
	{"ib-dev", 'd', "NAME", ARG_TEXT, AT(device),
		.unset = "the first mlx5 device, else a software HCA", .help = "device"},
	{"port", 'p', "PORT", ARG_WHOLE, AT(port), .min = 1, .max = 65535, .def = "18515",
		.help = "TCP port over which the endpoints are connected"},
	{"ring-size", 'r', "BYTES", ARG_POWER, AT(ring_size), .min = COPYRPC_RING_MIN,
		.max = COPYRPC_RING_MAX, .def = "1048576",
		.help = "bytes of a ring, a power of two"},
#ifdef HAVE_UCX
	{"peer", 0, NULL, ARG_WORD, AT(ucx), .words = peers, .min = 1,
		.help = "measure UCX active messages, too, on the same device"},
#endif
	{"fork", 0, NULL, ARG_FLAG, AT(both),
		.help = "run server and client in two processes on this host"},
	{"json", 0, "FILE", ARG_CALL, AT(json), .read = arg_open,
		.help = "write each line as a JSON object, too; - is standard output"},
	{"help", 'h', .kind = ARG_HELP},
};

static int check(const struct args *args, struct options *o)
{
	uint32_t most = COPYRPC_PAYLOAD_MAX(o->ring_size);

	for (uint32_t i = 0; i < o->depths.n; i++)
		o->max_depth =
			o->depths.at[i] > o->max_depth ? (uint32_t)o->depths.at[i] : o->max_depth;
	if (o->size > most || o->allowance > most)
		return args_fail(args,
			"--size and --allowance: give at most %u with this ring size", most);
	if (!rings_fit(o->endpoints, o->ring_size, 1 + o->both))
		return args_fail(args,
			"--endpoints and --ring-size: give less: two rings per endpoint need more "
			"memory than there is");
	if (o->host && o->both)
		return args_fail(args, "a host and --fork exclude each other: give one");
	return 0;
}

void options_parse(struct options *o, int argc, char **argv)
{
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "The client sets the sizes, endpoints and rings for both sides.\n",
		.operand = "host"};
	int first;

	*o = (struct options){.host = NULL};
	first = args_main(&args, "copyrpc-bench", argc, argv, o);
	o->host = first < argc ? argv[first] : NULL;
	if (check(&args, o))
		args_exit(&args, "copyrpc-bench", -EINVAL);
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
	int status = output_close("copyrpc-bench", "--json", o->json, 0);

	if (output_end("copyrpc-bench", status))
		exit(1);
}
