/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"

static double seconds(uint64_t ns)
{
	return (double)ns / (double)NSEC_PER_SEC;
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static void device_name(const struct report *r, char name[96])
{
	snprintf(name, 96, "%s%s", r->node->device ? r->node->device : "none",
		r->node->device && r->software_hca ? " (software HCA)" : "");
}

/* ---- for people ---- */

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

static const char *const latency_names[RESULT_LATENCIES] = {
	[0] = "local_get",
	[RESULT_PUT] = "local_put",
	[RESULT_REMOTE] = "remote_get",
	[RESULT_REMOTE | RESULT_PUT] = "remote_put",
	[RESULT_DUE] = "due",
};

static void print_latencies(const struct report *r, FILE *out)
{
	static struct latrec_hist all;

	result_latency(&r->total, &all);
	print_latency("latency us", &all, out);
	for (int i = 0; i < RESULT_LATENCIES; i++) {
		if (r->total.latency[i].count)
			print_latency(latency_names[i], &r->total.latency[i], out);
	}
	if (r->total.missed)
		fprintf(out,
			"missed        %" PRIu64 " operations were due and not made: the rate is "
			"too high\n",
			r->total.missed);
}

/* Of the runs' operations per second. */
struct spread {
	double min, median, max, stddev;
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct spread spread_of(const struct report *r)
{
	uint32_t n = r->node->o->runs;
	double *rates = calloc(n, sizeof(*rates)), sum = 0, squares = 0;
	struct spread s = {.min = 0};

	if (!rates)
		return s;
	for (uint32_t i = 0; i < n; i++) {
		rates[i] = result_rate(&r->runs[i]);
		sum += rates[i];
	}
	for (uint32_t i = 0; i < n; i++)
		squares += (rates[i] - sum / n) * (rates[i] - sum / n);
	qsort(rates, n, sizeof(*rates), compare);
	s = (struct spread){.min = rates[0],
		.median = (rates[(n - 1) / 2] + rates[n / 2]) / 2,
		.max = rates[n - 1],
		.stddev = n > 1 ? sqrt(squares / (n - 1)) : 0};
	free(rates);
	return s;
}

static void print_spread(const struct report *r, FILE *out)
{
	struct spread s = spread_of(r);

	if (r->node->o->runs > 1)
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
		s->calls, s->replies, s->batches, ratio(s->calls + s->replies, s->batches),
		s->doorbells, s->ring_stalls, s->credit_stalls);
}

static void print_rows(const char *what, const struct result *rows, uint32_t n, FILE *out)
{
	fprintf(out, "\n%-5s %14s %14s %14s %14s %8s %10s %10s\n", what, "ops", "ops/s", "remote",
		"verified", "errors", "p50 us", "p99 us");
	for (uint32_t i = 0; i < n; i++) {
		static struct latrec_hist all;

		result_latency(&rows[i], &all);
		fprintf(out,
			"%-5u %14" PRIu64 " %14.0f %14" PRIu64 " %14" PRIu64 " %8" PRIu64
			" %10.1f %10.1f\n",
			i, rows[i].counts.ops, result_rate(&rows[i]), rows[i].counts.remote,
			rows[i].counts.verified, result_errors(&rows[i]),
			(double)latrec_hist_quantile(&all, 0.5) / 1e3,
			(double)latrec_hist_quantile(&all, 0.99) / 1e3);
	}
}

void report_print(const struct report *r, FILE *out)
{
	const struct options *o = r->node->o;
	const struct result *t = &r->total;
	char device[96], control[CONTROL_NAME_MAX];

	device_name(r, device);
	control_name(&o->control, control);
	fprintf(out,
		"benchkv %s: %u rank%s x %u daemon%s, %u client%s, queue depth %u; "
		"device %s; control %s\n",
		backend_name(o->backend), r->node->ranks, r->node->ranks == 1 ? "" : "s",
		o->daemons, o->daemons == 1 ? "" : "s", o->clients, o->clients == 1 ? "" : "s",
		o->queue_depth, device, control);
	fprintf(out, "operations    %" PRIu64 " in %.3f s: %.0f per second, %.1f %% remote\n",
		t->counts.ops, seconds(t->elapsed_ns), result_rate(t),
		100 * ratio(t->counts.remote, t->counts.ops));
	fprintf(out, "verified      %" PRIu64 "\n", t->counts.verified);
	fprintf(out, "audit         %" PRIu64 " of %" PRIu64 " keys verified in %.3f s\n",
		t->audit.verified, t->audit.ops, seconds(t->audit_ns));
	print_errors(t, out);
	print_latencies(r, out);
	print_spread(r, out);
	if (r->node->ranks > 1 && o->backend != BACKEND_UCX)
		print_net(t, out);
	fprintf(out, "digest        %016" PRIx64 "\n", t->digest);
	if (r->node->ranks > 1)
		print_rows("rank", r->ranks, r->node->ranks, out);
	if (o->runs > 1)
		print_rows("run", r->runs, o->runs, out);
}

/* Of this rank: its daemons' and its clients'. */
static uint32_t endpoints(const struct node *n)
{
	uint32_t links = n->o->clients * n->o->daemons;

	switch (n->o->backend) {
	case BACKEND_DIRECT:
		return 2 * links * (n->ranks - 1);
	case BACKEND_UCX:
		return links * (n->ranks - 1);
	default:
		return n->ranks - 1;
	}
}

/* Which daemon has the endpoint for which rank. */
static void print_owners(const struct node *n, FILE *out)
{
	if (backend_is_direct(n->o->backend) || n->ranks == 1)
		return;
	fprintf(out, "  endpoints by daemon:");
	for (uint32_t r = 0; r < n->ranks; r++) {
		if (r != n->rank)
			fprintf(out, " d%u=r%u", node_owner(n, r), r);
	}
	fputc('\n', out);
}

static void print_plan(const struct node *n, FILE *out)
{
	const struct options *o = n->o;
	char control[CONTROL_NAME_MAX];
	int unit;

	control_name(&o->control, control);
	fprintf(out, "%s: rank %u of %u: %u daemons, %u clients, queue depth %u, control %s\n",
		backend_name(o->backend), n->rank, n->ranks, o->daemons, o->clients, o->queue_depth,
		control);
	fprintf(out, "  device %s, endpoints %u, ring size %u bytes\n",
		n->device ? n->device : "none", endpoints(n), n->ring_size);
	print_owners(n, out);
	fprintf(out, "  threads %u: main, %u daemons, %u clients\n", 1 + o->daemons + o->clients,
		o->daemons, o->clients);
	fprintf(out, "  threads on processing units:");
	for (uint32_t i = 0; i < o->daemons + o->clients; i++) {
		unit = topo_unit(n->topo, i);
		if (unit < 0) {
			fprintf(out, " not pinned, %u units for all", topo_units(n->topo));
			break;
		}
		fprintf(out, " %s%u=%d", i < o->daemons ? "d" : "c",
			i < o->daemons ? i : i - o->daemons, unit);
	}
	fputc('\n', out);
}

/* In one piece: the ranks of a job print at the same time. */
void report_plan(const struct node *n, FILE *out)
{
	size_t len = 0;
	char *text = NULL;
	FILE *whole = open_memstream(&text, &len);

	if (!whole) {
		print_plan(n, out);
		return;
	}
	print_plan(n, whole);
	fclose(whole);
	fwrite(text, 1, len, out);
	free(text);
}

/* ---- for programs ---- */

static json_t *json_u64(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* JSON is UTF-8; what is not is named so, for one such word may not cost the report. */
static json_t *json_text(const char *text)
{
	json_t *string = json_string(text);

	return string ? string : json_string("(not UTF-8)");
}

static json_t *json_latency(const struct latrec_hist *h)
{
	return json_pack("{s:f, s:o, s:o, s:o, s:o}", "mean", latrec_hist_mean(h), "p50",
		json_u64(latrec_hist_quantile(h, 0.5)), "p99",
		json_u64(latrec_hist_quantile(h, 0.99)), "p999",
		json_u64(latrec_hist_quantile(h, 0.999)), "max", json_u64(latrec_hist_max(h)));
}

/* Those that there are: local and remote, get and put apart; and from the due time. */
static json_t *json_latencies(const struct result *r)
{
	json_t *all = json_object();

	for (int i = 0; i < RESULT_LATENCIES; i++) {
		if (r->latency[i].count)
			json_object_set_new(all, latency_names[i], json_latency(&r->latency[i]));
	}
	return all;
}

/* What every row has: of the whole, of a run, of a rank. */
static json_t *json_row(const struct result *r)
{
	static struct latrec_hist all;

	result_latency(r, &all);
	return json_pack("{s:f, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"duration_s", seconds(r->elapsed_ns), "ops", json_u64(r->counts.ops), "ops_per_s",
		result_rate(r), "excluded", json_u64(r->excluded), "missed", json_u64(r->missed),
		"remote_ops", json_u64(r->counts.remote), "verified", json_u64(r->counts.verified),
		"not_found", json_u64(r->counts.not_found), "put_off", json_u64(r->counts.put_off),
		"errors", json_u64(result_errors(r)), "latency_ns", json_latency(&all),
		"latencies_ns", json_latencies(r));
}

/* Of the operations per second of the runs. */
static json_t *json_spread(const struct report *r)
{
	struct spread s = spread_of(r);

	return json_pack("{s:f, s:f, s:f, s:f}", "min", s.min, "median", s.median, "max", s.max,
		"stddev", s.stddev);
}

static json_t *json_rows(const struct result *rows, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_row(&rows[i]));
	return list;
}

static json_t *json_error_kinds(const struct result *t)
{
	struct result_kind kinds[RESULT_KINDS];
	json_t *all = json_object();

	result_kinds(t, kinds);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		json_object_set_new(all, kinds[i].name,
			json_u64(kinds[i].in_runs + kinds[i].in_audit));
	return all;
}

/* The rows of the ranks, with where they ran and what each of their daemons has served. */
static json_t *json_ranks(const struct report *r)
{
	json_t *rows = json_rows(r->ranks, r->node->ranks);

	for (uint32_t i = 0; i < r->node->ranks; i++) {
		json_t *served = json_array();

		for (uint32_t d = 0; d < r->node->o->daemons; d++)
			json_array_append_new(served, json_u64(r->ranks[i].served[d]));
		json_object_set_new(json_array_get(rows, i), "host", json_text(r->hosts[i]));
		json_object_set_new(json_array_get(rows, i), "served", served);
	}
	return rows;
}

/* Keys that were put, read when all was over. */
static json_t *json_audit(const struct result *t)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:f}", "keys", json_u64(t->audit.ops), "remote_keys",
		json_u64(t->audit.remote), "verified", json_u64(t->audit.verified), "errors",
		json_u64(check_errors(&t->audit)), "duration_s", seconds(t->audit_ns));
}

static json_t *json_daemons(const struct daemon_stats *d)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:[o, o, o, o, o]}",
		"loops", json_u64(d->loops), "idle_loops", json_u64(d->idle_loops), "sleeps",
		json_u64(d->sleeps), "local", json_u64(d->local), "remote", json_u64(d->remote),
		"forwarded", json_u64(d->forwarded), "calls", json_u64(d->calls), "responses",
		json_u64(d->responses), "stalled", json_u64(d->stalled), "polls",
		json_u64(d->polls), "batch_loops", json_u64(d->batch[0]), json_u64(d->batch[1]),
		json_u64(d->batch[2]), json_u64(d->batch[3]), json_u64(d->batch[4]));
}

static json_t *json_net(const struct copyrpc_stats *s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "calls",
		json_u64(s->calls), "replies", json_u64(s->replies), "batches",
		json_u64(s->batches), "bytes", json_u64(s->bytes), "wqes", json_u64(s->wqes),
		"doorbells", json_u64(s->doorbells), "credit_only", json_u64(s->credit_only),
		"reads", json_u64(s->reads), "ring_stalls", json_u64(s->ring_stalls),
		"credit_stalls", json_u64(s->credit_stalls), "sq_stalls", json_u64(s->sq_stalls));
}

static json_t *json_parameters(const struct report *r)
{
	const struct options *o = r->node->o;
	char control[CONTROL_NAME_MAX], distribution[40] = "uniform";

	control_name(&o->control, control);
	if (o->load.zipf_theta > 0)
		snprintf(distribution, sizeof(distribution), "zipf:%g", o->load.zipf_theta);
	return json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:f, s:s, s:b, s:o, s:o, s:s, s:b, s:s}",
		"backend", backend_name(o->backend), "np", (int)r->node->ranks, "daemons",
		(int)o->daemons, "clients", (int)o->clients, "queue_depth", (int)o->queue_depth,
		"run_count", (int)o->runs, "key_range", json_u64(o->load.key_range), "read_ratio",
		o->load.read_ratio, "distribution", distribution, "preload", (int)o->preload,
		"seed", json_u64(o->load.seed), "ring_size", json_u64(r->node->ring_size), "device",
		r->node->device ? r->node->device : "none", "software_hca",
		(int)(r->node->device && r->software_hca), "control", control);
}

/* What was run, where and when. */
static void add_occasion(json_t *root, const struct report *r)
{
	const struct options *o = r->node->o;
	json_t *command = json_array();
	struct tm utc;
	char time[32] = "";

	for (char *const *arg = o->command; *arg; arg++)
		json_array_append_new(command, json_text(*arg));
	if (gmtime_r(&r->time, &utc))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_object_set_new(root, "version", json_string(BENCHKV_VERSION));
	json_object_set_new(root, "time", json_string(time));
	json_object_set_new(root, "host", json_text(r->hosts[0]));
	json_object_set_new(root, "command", command);
	json_object_set_new(root, "warmup_s", json_real(seconds(o->warmup_ns)));
	json_object_set_new(root, "rate", json_real(o->rate));
	json_object_set_new(root, "ops_per_s_spread", json_spread(r));
	json_object_set_new(root, "requested",
		o->ops ? json_pack("{s:o}", "ops", json_u64(o->ops)) :
			 json_pack("{s:f}", "duration_s", seconds(o->duration_ns)));
}

static json_t *json_report(const struct report *r)
{
	const struct result *t = &r->total;
	json_t *root = json_parameters(r), *row = json_row(t);
	char digest[20];

	add_occasion(root, r);
	snprintf(digest, sizeof(digest), "%016" PRIx64, t->digest);
	json_object_set_new(root, "net_daemons", json_u64(r->node->o->net_daemons));
	json_object_update(root, row);
	json_decref(row);
	json_object_set_new(root, "digest", json_string(digest));
	json_object_set_new(root, "error_kinds", json_error_kinds(t));
	json_object_set_new(root, "audit", json_audit(t));
	json_object_set_new(root, "runs", json_rows(r->runs, r->node->o->runs));
	json_object_set_new(root, "ranks", json_ranks(r));
	json_object_set_new(root, "daemon", json_daemons(&t->daemons));
	if (r->node->o->backend != BACKEND_UCX)
		json_object_set_new(root, "copyrpc", json_net(&t->net));
	return root;
}

int report_hgrm(const struct report *r, FILE *out)
{
	static struct latrec_hist all;

	result_latency(&r->total, &all);
	return latrec_hist_print_hgrm(r->total.latency[RESULT_DUE].count ?
					      &r->total.latency[RESULT_DUE] :
					      &all,
		1e3, out);
}

int report_json(const struct report *r, FILE *out)
{
	json_t *root = json_report(r);
	int err = root ? 0 : -ENOMEM;

	errno = 0;
	if (root && (json_dumpf(root, out, JSON_COMPACT | JSON_REAL_PRECISION(12)) ||
			    fputc('\n', out) == EOF || fflush(out)))
		err = errno ? -errno : -EIO;
	json_decref(root);
	return err;
}
