/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/order.h"
#include "base/underhca.h"
#include "backend.h"

const char *const report_latency_names[RESULT_LATENCIES] = {
	[0] = "local_get",
	[RESULT_PUT] = "local_put",
	[RESULT_REMOTE] = "remote_get",
	[RESULT_REMOTE | RESULT_PUT] = "remote_put",
	[RESULT_DUE] = "due",
};

/* ---- the table ---- */

static void print_errors(const struct result *t, FILE *out)
{
	struct result_kind kinds[RESULT_KINDS];

	result_kinds(t, kinds);
	fprintf(out, "errors        %" PRIu64, result_errors(t));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].in_runs + kinds[i].in_audit)
			fprintf(out, "  %s %" PRIu64, kinds[i].text,
				kinds[i].in_runs + kinds[i].in_audit);
	}
	if (t->first_errno)
		fprintf(out, "  (first: %s)", strerror((int)t->first_errno));
	fputc('\n', out);
}

static void print_latency(const char *what, const struct latrec_hist *h, FILE *out)
{
	fprintf(out, "%-13s mean %.1f  p50 %.1f  p99 %.1f  p99.9 %.1f  max %.1f\n", what,
		latrec_hist_mean(h) / 1e3, (double)latrec_hist_quantile(h, 0.5) / 1e3,
		(double)latrec_hist_quantile(h, 0.99) / 1e3,
		(double)latrec_hist_quantile(h, 0.999) / 1e3, (double)latrec_hist_max(h) / 1e3);
}

static void print_latencies(const struct job *j, FILE *out)
{
	struct latrec_hist *all = result_latency(&j->total);

	if (all)
		print_latency("latency us", all, out);
	latrec_hist_destroy(all);
	for (int i = 0; i < RESULT_LATENCIES; i++) {
		if (latrec_hist_count(j->total.latency[i]))
			print_latency(report_latency_names[i], j->total.latency[i], out);
	}
	if (j->total.missed)
		fprintf(out,
			"missed        %" PRIu64 " operations were due and not made: the rate is "
			"too high\n",
			j->total.missed);
}

struct spread report_spread(const struct job *j)
{
	uint32_t n = j->begun;
	double *rates = calloc(n, sizeof(*rates)), sum = 0, squares = 0;
	struct spread s = {.min = 0};

	if (!rates)
		return s;
	for (uint32_t i = 0; i < n; i++) {
		rates[i] = result_rate(&j->runs[i]);
		sum += rates[i];
	}
	for (uint32_t i = 0; i < n; i++)
		squares += (rates[i] - sum / n) * (rates[i] - sum / n);
	order_sort(rates, n);
	s = (struct spread){.min = rates[0],
		.median = (rates[(n - 1) / 2] + rates[n / 2]) / 2,
		.max = rates[n - 1],
		.stddev = n > 1 ? sqrt(squares / (n - 1)) : 0};
	free(rates);
	return s;
}

static void print_spread(const struct job *j, FILE *out)
{
	struct spread s = report_spread(j);

	if (j->begun > 1)
		fprintf(out, "runs          ops/s min %.0f  median %.0f  max %.0f  stddev %.0f\n",
			s.min, s.median, s.max, s.stddev);
}

static void print_net(const struct result *t, FILE *out)
{
	const struct copyrpc_stats *s = &t->net;

	fprintf(out,
		"network       %" PRIu64 " calls, %" PRIu64 " replies in %" PRIu64
		" WRITEs (%.1f messages each), %" PRIu64 " doorbells, %" PRIu64
		" stalls for room, %" PRIu64 " for credit\n",
		s->calls, s->replies, s->batches, report_ratio(s->calls + s->replies, s->batches),
		s->doorbells, s->ring_stalls, s->credit_stalls);
}

static void print_rows(const char *what, const struct result *rows, uint32_t n, FILE *out)
{
	fprintf(out, "\n%-5s %14s %14s %14s %14s %8s %10s %10s %8s\n", what, "ops", "ops/s",
		"remote", "verified", "errors", "p50 us", "p99 us", "CPU s");
	for (uint32_t i = 0; i < n; i++) {
		struct latrec_hist *all = result_latency(&rows[i]);

		fprintf(out,
			"%-5u %14" PRIu64 " %14.0f %14" PRIu64 " %14" PRIu64 " %8" PRIu64
			" %10.1f %10.1f %8.3f\n",
			i, rows[i].counts.ops, result_rate(&rows[i]), rows[i].counts.remote,
			rows[i].counts.verified, result_errors(&rows[i]),
			all ? (double)latrec_hist_quantile(all, 0.5) / 1e3 : 0,
			all ? (double)latrec_hist_quantile(all, 0.99) / 1e3 : 0,
			report_seconds(rows[i].cpu_ns));
		latrec_hist_destroy(all);
	}
}

/* Prints the ranks whose results are missing, if any. */
static void print_missing(const struct job *j, FILE *out)
{
	const char *comma = "; no results of rank ";

	for (uint32_t i = 0; i < j->node.ranks; i++) {
		if (!j->heard[i]) {
			fprintf(out, "%s%u", comma, i);
			comma = ", ";
		}
	}
}

/* Prints the reason for a partial report, and what is missing. */
static void print_partial(const struct job *j, FILE *out)
{
	if (!j->partial)
		return;
	fprintf(out, "PARTIAL       %s; run %u of %u", j->partial, j->begun, j->node.o->runs);
	print_missing(j, out);
	fprintf(out, "; %" PRIu64 " operations unfinished\n",
		j->total.counts.unfinished + j->total.audit.unfinished);
}

struct odds report_odds(const struct job *j)
{
	const struct options *o = j->node.o;

	return (struct odds){.load = &o->load,
		.ranks = j->node.ranks,
		.clients = o->clients,
		.depth = o->queue_depth,
		.runs = o->runs,
		.ops = j->total.counts.ops / o->runs,
		.keys = history_keys(o->load.key_range),
		.window = CHECK_WINDOW};
}

static void print_detection(const struct job *j, FILE *out)
{
	struct odds odds = report_odds(j);

	if (!j->partial && odds_known(&j->node.o->load))
		fprintf(out,
			"would find    one lost put: %.1f %%; one in 10,000: %.1f %%; one in 1,000: %.1f %%\n",
			100 * odds_one(&odds), 100 * odds_rate(&odds, 1e-4),
			100 * odds_rate(&odds, 1e-3));
}

static void print_audit(const struct job *j, FILE *out)
{
	const struct result *t = &j->total;

	if (j->partial && !t->audit.ops)
		fprintf(out, "audit         not made\n");
	else
		fprintf(out, "audit         %" PRIu64 " of %" PRIu64 " keys verified in %.3f s\n",
			t->audit.verified, t->audit.ops, report_seconds(t->audit_ns));
}

void report_intervals(const struct job *j, void (*fn)(const struct interval *i, void *arg),
	void *arg)
{
	const struct options *o = j->node.o;

	for (uint32_t run = 0; o->interval_ns && run < j->begun; run++) {
		uint64_t elapsed_ns = j->runs[run].elapsed_ns;
		uint32_t n = series_count(&j->series[run], elapsed_ns, o->interval_ns,
			series_most(o->duration_ns, o->interval_ns));
		size_t at = 0;

		for (uint32_t k = 0; k < n; k++) {
			uint64_t start_ns = k * o->interval_ns;
			uint64_t ns = k + 1 < n ? o->interval_ns : elapsed_ns - start_ns;
			struct interval i = {.run = run,
				.start_s = report_seconds(start_ns),
				.seconds = report_seconds(ns)};

			series_row(&j->series[run], k, &at, &i.row);
			i.ops_per_s = ns ? (double)i.row.ops / i.seconds : 0;
			fn(&i, arg);
		}
	}
}

static void print_interval(const struct interval *i, void *arg)
{
	FILE *out = arg;

	fprintf(out, "%-5u %10.3f %10.3f %14" PRIu64 " %14.0f %10.1f %10.1f %10.1f %10.1f\n",
		i->run, i->start_s, i->seconds, i->row.ops, i->ops_per_s, (double)i->row.p50 / 1e3,
		(double)i->row.p99 / 1e3, (double)i->row.p999 / 1e3, (double)i->row.max / 1e3);
}

static void print_intervals(const struct job *j, FILE *out)
{
	if (!j->node.o->interval_ns)
		return;
	fprintf(out, "\n%-5s %10s %10s %14s %14s %10s %10s %10s %10s\n", "run", "from s",
		"length s", "ops", "ops/s", "p50 us", "p99 us", "p99.9 us", "max us");
	report_intervals(j, print_interval, out);
}

void report_print(const struct job *j, FILE *out)
{
	const struct options *o = j->node.o;
	const struct result *t = &j->total;
	const char *device = j->node.device;
	char control[CONTROL_NAME_MAX];

	control_name(&j->node.control, control);
	fprintf(out,
		"benchkv %s: %u rank%s x %u daemon%s, %u client%s, queue depth %u; "
		"device %s%s; control %s\n",
		o->backend->name, j->node.ranks, j->node.ranks == 1 ? "" : "s", o->daemons,
		o->daemons == 1 ? "" : "s", o->clients, o->clients == 1 ? "" : "s", o->queue_depth,
		device ? device : "none", device && underhca_is_software() ? " (software HCA)" : "",
		control);
	print_partial(j, out);
	if (j->measured.write_ns > 0)
		fprintf(out,
			"measured      round trip %.0f ns, %.0f ns per WRITE, %.0f ns per message\n",
			j->measured.round_trip_ns, j->measured.write_ns, j->measured.message_ns);
	fprintf(out, "operations    %" PRIu64 " in %.3f s: %.0f per second, %.1f %% remote\n",
		t->counts.ops, report_seconds(t->elapsed_ns), result_rate(t),
		100 * report_ratio(t->counts.remote, t->counts.ops));
	fprintf(out, "CPU time      %.3f s of all ranks: %.2f us per operation\n",
		report_seconds(t->cpu_ns), result_cpu_per_op(t) / 1e3);
	fprintf(out, "verified      %" PRIu64 "\n", t->counts.verified);
	if (o->load.rmw)
		fprintf(out,
			"swaps         %" PRIu64 ", %" PRIu64 " of them found another version\n",
			t->counts.swaps, t->counts.conflicts);
	print_audit(j, out);
	print_detection(j, out);
	print_errors(t, out);
	print_latencies(j, out);
	print_spread(j, out);
	if (j->node.ranks > 1 && o->backend->copyrpc)
		print_net(t, out);
	fprintf(out, "digest        %016" PRIx64 "\n", t->digest);
	if (j->node.ranks > 1)
		print_rows("rank", j->ranks, j->node.ranks, out);
	if (j->begun > 1)
		print_rows("run", j->runs, j->begun, out);
	print_intervals(j, out);
}
