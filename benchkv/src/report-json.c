/* SPDX-License-Identifier: MIT */
/* The results as a JSON object. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/json.h"
#include "base/underhca.h"
#include "backend.h"
#include "report.h"

static json_t *json_u64(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* The name of a counter of a struct, and its value, for json_pack(). */
#define COUNT(of, field) #field, json_u64((of)->field)

static json_t *json_latency(const struct latrec_hist *h)
{
	return json_pack("{s:f, s:o, s:o, s:o, s:o}", "mean", latrec_hist_mean(h), "p50",
		json_u64(latrec_hist_quantile(h, 0.5)), "p99",
		json_u64(latrec_hist_quantile(h, 0.99)), "p999",
		json_u64(latrec_hist_quantile(h, 0.999)), "max", json_u64(latrec_hist_max(h)));
}

/* The latencies that have samples: local and remote gets and puts; and those from the due time. */
static json_t *json_latencies(const struct result *r)
{
	json_t *all = json_object();

	for (int i = 0; i < RESULT_LATENCIES; i++) {
		if (latrec_hist_count(r->latency[i]))
			json_object_set_new(all, report_latency_names[i],
				json_latency(r->latency[i]));
	}
	return all;
}

/* The figures of a row: the whole job, a run, or a rank. */
static json_t *json_row(const struct result *r)
{
	struct latrec_hist *all = result_latency(r);
	json_t *latency = all ? json_latency(all) : NULL;

	latrec_hist_destroy(all);
	return json_pack(
		"{s:f, s:f, s:f, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"duration_s", report_seconds(r->elapsed_ns), "cpu_s", report_seconds(r->cpu_ns),
		"cpu_us_per_op", result_cpu_per_op(r) / 1e3, "ops", json_u64(r->counts.ops),
		"ops_per_s", result_rate(r), "excluded", json_u64(r->excluded), "missed",
		json_u64(r->missed), "remote_ops", json_u64(r->counts.remote), "verified",
		json_u64(r->counts.verified), COUNT(&r->counts, swaps),
		COUNT(&r->counts, remote_swaps), COUNT(&r->counts, conflicts), "not_found",
		json_u64(r->counts.not_found), "put_off", json_u64(r->counts.put_off), "unfinished",
		json_u64(r->counts.unfinished), "errors", json_u64(result_errors(r)), "latency_ns",
		latency, "latencies_ns", json_latencies(r));
}

/* The spread of the operations per second of the runs. */
static json_t *json_spread(const struct job *j)
{
	struct spread s = report_spread(j);

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

/*
 * The rows of the ranks, with their hosts and the number of requests that each daemon has served.
 */
static json_t *json_ranks(const struct job *j)
{
	json_t *rows = json_rows(j->ranks, j->node.ranks);

	for (uint32_t i = 0; i < j->node.ranks; i++) {
		json_t *served = json_array();

		for (uint32_t d = 0; d < j->node.o->daemons; d++)
			json_array_append_new(served, json_u64(j->ranks[i].served[d]));
		json_object_set_new(json_array_get(rows, i), "host", json_text(j->hosts[i]));
		json_object_set_new(json_array_get(rows, i), "served", served);
	}
	return rows;
}

/* The figures of the audit. */
static json_t *json_audit(const struct result *t)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:f}", "keys", json_u64(t->audit.ops),
		"put", json_u64(t->keys_put), "compared", json_u64(t->compared), "remote_keys",
		json_u64(t->audit.remote), "verified", json_u64(t->audit.verified), "errors",
		json_u64(check_errors(&t->audit)), "duration_s", report_seconds(t->audit_ns));
}

/* The mean time of each phase, over the timed loops that handled something. */
static json_t *json_phases(const struct daemon_stats *d)
{
	json_t *all = json_object();

	for (int i = 0; i < TRACE_PHASES; i++)
		json_object_set_new(all, trace_phase_names[i],
			json_real(report_ratio(d->phase_ns[i], d->phase_loops)));
	return all;
}

/*
 * The parts of the mean latency of a request to another rank: in the daemon until the call, from
 * the call to the response, and in shared memory, both ways.
 */
static json_t *json_stages(const struct result *t)
{
	const struct latrec_hist *gets = t->latency[RESULT_REMOTE];
	const struct latrec_hist *puts = t->latency[RESULT_REMOTE | RESULT_PUT];
	const struct daemon_stats *d = &t->daemons;
	double n_gets = (double)latrec_hist_count(gets), n_puts = (double)latrec_hist_count(puts);
	double n = n_gets + n_puts;
	double total = latrec_hist_mean(gets) * n_gets + latrec_hist_mean(puts) * n_puts;
	double wait = report_ratio(d->wait_ns, d->stage_calls);
	double network = report_ratio(d->network_ns, d->stage_calls);

	total = n > 0 ? total / n : 0;
	return json_pack("{s:f, s:f, s:f, s:f}", "total", total, "daemon", wait, "network", network,
		"shared_memory", total - wait - network);
}

static json_t *json_daemons(const struct daemon_stats *d)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:[o, o, o, o, o]}",
		COUNT(d, loops), COUNT(d, idle_loops), COUNT(d, sleeps), COUNT(d, overslept),
		COUNT(d, local), COUNT(d, remote), COUNT(d, forwarded), COUNT(d, relayed),
		COUNT(d, calls), COUNT(d, responses), COUNT(d, stalled), COUNT(d, polls),
		"batch_loops", json_u64(d->batch[0]), json_u64(d->batch[1]), json_u64(d->batch[2]),
		json_u64(d->batch[3]), json_u64(d->batch[4]));
}

static json_t *json_ways(const struct result_ways *w)
{
	return json_pack("{s:o, s:o, s:o, s:o}", COUNT(w, ipc), COUNT(w, ring), COUNT(w, flux),
		COUNT(w, relay));
}

/* @ops: the operations of all runs and of the audit, which the counters also include. */
static json_t *json_net(const struct copyrpc_stats *s, uint64_t ops)
{
	return json_pack("{s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
		"doorbells_per_op", report_ratio(s->doorbells, ops), "bytes_per_op",
		report_ratio(s->bytes + s->moved, ops), COUNT(s, calls), COUNT(s, replies),
		COUNT(s, batches), COUNT(s, bytes), COUNT(s, moved), COUNT(s, wqes),
		COUNT(s, doorbells), COUNT(s, credit_only), COUNT(s, reads), COUNT(s, ring_stalls),
		COUNT(s, credit_stalls), COUNT(s, sq_stalls));
}

static json_t *json_interval(const struct interval *i)
{
	return json_pack("{s:i, s:f, s:f, s:o, s:f, s:{s:o, s:o, s:o, s:o}}", "run", (int)i->run,
		"start_s", i->start_s, "duration_s", i->seconds, "ops", json_u64(i->row.ops),
		"ops_per_s", i->ops_per_s, "latency_ns", "p50", json_u64(i->row.p50), "p99",
		json_u64(i->row.p99), "p999", json_u64(i->row.p999), "max", json_u64(i->row.max));
}

static void append_interval(const struct interval *i, void *list)
{
	json_array_append_new(list, json_interval(i));
}

static json_t *json_intervals(const struct job *j)
{
	json_t *list = json_array();

	report_intervals(j, append_interval, list);
	return list;
}

static void write_json_interval(const struct interval *i, void *out)
{
	json_line(json_interval(i), 12, out);
}

static void write_csv_interval(const struct interval *i, void *out)
{
	fprintf(out,
		"%u,%.9g,%.9g,%" PRIu64 ",%.9g,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
		i->run, i->start_s, i->seconds, i->row.ops, i->ops_per_s, i->row.p50, i->row.p99,
		i->row.p999, i->row.max);
}

int report_series(const struct job *j, FILE *out)
{
	const char *suffix = strrchr(j->node.o->files[FILE_SERIES], '.');
	bool csv = suffix && !strcmp(suffix, ".csv");

	errno = 0;
	if (csv)
		fputs("run,start_s,duration_s,ops,ops_per_s,p50_ns,p99_ns,p999_ns,max_ns\n", out);
	report_intervals(j, csv ? write_csv_interval : write_json_interval, out);
	if (fflush(out) || ferror(out))
		return errno ? -errno : -EIO;
	return 0;
}

static json_t *json_parameters(const struct job *j)
{
	const struct options *o = j->node.o;
	char control[CONTROL_NAME_MAX], distribution[WORKLOAD_NAME_MAX], sizes[SIZES_NAME_MAX];

	control_name(&j->node.control, control);
	workload_name(&o->load, distribution);
	sizes_name(&o->sizes, sizes);
	return json_pack(
		"{s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:f, s:b, s:s, s:s, s:b, s:o, s:o, s:s, s:b, s:s}",
		"backend", o->backend->name, "np", (int)j->node.ranks, "daemons", (int)o->daemons,
		"clients", (int)o->clients, "queue_depth", (int)o->queue_depth, "run_count",
		(int)o->runs, "key_range", json_u64(o->load.key_range), "read_ratio",
		o->load.read_ratio, "rmw", (int)o->load.rmw, "distribution", distribution,
		"value_size", sizes, "preload", (int)o->preload, "seed", json_u64(o->load.seed),
		"ring_size", json_u64(j->node.ring_size), "device",
		j->node.device ? j->node.device : "none", "software_hca",
		(int)(j->node.device && underhca_is_software()), "control", control);
}

/* Adds whether the report is partial, the reason, and the ranks whose results are missing. */
static void add_partial(json_t *root, const struct job *j)
{
	json_t *missing = json_array();

	json_object_set_new(root, "partial", json_boolean(j->partial));
	if (j->partial)
		json_object_set_new(root, "partial_reason", json_text(j->partial));
	for (uint32_t i = 0; i < j->node.ranks; i++) {
		if (!j->heard[i])
			json_array_append_new(missing, json_integer(i));
	}
	json_object_set_new(root, "missing_ranks", missing);
}

/* Adds version, time, host and command line, and the measured times of the machine. */
static void add_occasion(json_t *root, const struct job *j)
{
	const struct options *o = j->node.o;
	json_t *command = json_array();
	struct tm utc;
	char time[32] = "";

	for (char *const *arg = o->command; *arg; arg++)
		json_array_append_new(command, json_text(*arg));
	if (gmtime_r(&j->time, &utc))
		strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &utc);
	json_object_set_new(root, "version", json_string(BENCHKV_VERSION));
	json_object_set_new(root, "time", json_string(time));
	json_object_set_new(root, "host", json_text(j->hosts[0]));
	json_object_set_new(root, "command", command);
	if (j->measured.write_ns > 0)
		json_object_set_new(root, "measured",
			json_pack("{s:f, s:f, s:f}", "round_trip_ns", j->measured.round_trip_ns,
				"write_ns", j->measured.write_ns, "message_ns",
				j->measured.message_ns));
	json_object_set_new(root, "warmup_s", json_real(report_seconds(o->warmup_ns)));
	json_object_set_new(root, "rate", json_real(o->rate));
	json_object_set_new(root, "ops_per_s_spread", json_spread(j));
	json_object_set_new(root, "requested",
		o->ops ? json_pack("{s:o}", "ops", json_u64(o->ops)) :
			 json_pack("{s:f}", "duration_s", report_seconds(o->duration_ns)));
}

static json_t *json_detection(const struct job *j)
{
	struct odds odds = report_odds(j);

	return json_pack("{s:f, s:f, s:f}", "one_lost_put", odds_one(&odds), "one_in_10000",
		odds_rate(&odds, 1e-4), "one_in_1000", odds_rate(&odds, 1e-3));
}

static json_t *json_report(const struct job *j)
{
	const struct result *t = &j->total;
	json_t *root = json_parameters(j), *row = json_row(t);
	char digest[20];

	add_occasion(root, j);
	add_partial(root, j);
	snprintf(digest, sizeof(digest), "%016" PRIx64, t->digest);
	json_object_set_new(root, "net_daemons", json_u64(j->node.o->net_daemons));
	json_object_update(root, row);
	json_decref(row);
	json_object_set_new(root, "digest", json_string(digest));
	json_object_set_new(root, "error_kinds", json_error_kinds(t));
	json_object_set_new(root, "audit", json_audit(t));
	if (!j->partial && odds_known(&j->node.o->load))
		json_object_set_new(root, "detection", json_detection(j));
	json_object_set_new(root, "runs", json_rows(j->runs, j->begun));
	json_object_set_new(root, "ranks", json_ranks(j));
	if (j->node.o->interval_ns)
		json_object_set_new(root, "intervals", json_intervals(j));
	json_object_set_new(root, "daemon", json_daemons(&t->daemons));
	json_object_set_new(root, "ways", json_ways(&t->ways));
	json_object_set_new(root, "phases_ns", json_phases(&t->daemons));
	if (t->daemons.stage_calls)
		json_object_set_new(root, "stages_ns", json_stages(t));
	if (j->node.o->backend->copyrpc)
		json_object_set_new(root, "copyrpc",
			json_net(&t->net, t->counts.ops + t->audit.ops));
	return root;
}

int report_hgrm(const struct job *j, FILE *out)
{
	const struct latrec_hist *due = j->total.latency[RESULT_DUE];
	struct latrec_hist *all = result_latency(&j->total);
	int err = all ? latrec_hist_print_hgrm(latrec_hist_count(due) ? due : all, 1e3, out) :
			-ENOMEM;

	latrec_hist_destroy(all);
	return err;
}

int report_json(const struct job *j, FILE *out)
{
	int err = json_line(json_report(j), 12, out);

	return !err && fflush(out) ? -errno : err;
}
