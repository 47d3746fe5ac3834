/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/output.h"
#include "hdrlog.h"
#include "place.h"
#include "session.h"
#include "stats.h"

#define MIB (1024. * 1024.)

static double elapsed_s(const struct side *s)
{
	return s->last_ns > s->start_ns ? (double)(s->last_ns - s->start_ns) / 1e9 : 0;
}

/* Returns n per second of the run. */
static double per_s(const struct side *s, uint64_t n)
{
	return elapsed_s(s) > 0 ? (double)n / elapsed_s(s) : 0;
}

/* Returns the peak, or the average if that is larger: a run of less than PEAK_NS (send.c) has no
 * peak. */
static double peak_bytes_per_s(const struct side *s)
{
	double average = per_s(s, s->bytes);

	return s->peak * 1e9 > average ? s->peak * 1e9 : average;
}

static uint64_t bytes_per_message(const struct side *s)
{
	return s->messages ? s->bytes / s->messages : 0;
}

/* Returns the number of requests that belong to the warm-up. */
static uint64_t warmed_up(const struct side *s)
{
	uint64_t most = (uint64_t)s->t.warm_up * s->t.qps * s->n_peers;

	return most < s->messages ? most : s->messages;
}

static void print_bandwidth_head(const struct session *e, const char *more, FILE *out)
{
	const char *unit = e->o->gbits ? "Gb/sec" : "MiB/sec";

	fprintf(out, " #bytes     #iterations    BW peak[%s]    BW average[%s]   MsgRate[Mpps]%s\n",
		unit, unit, more);
}

static void print_bandwidth(const struct session *e, int rate_width, FILE *out)
{
	const struct side *s = &e->side;
	double unit = e->o->gbits ? 1e9 / 8 : MIB;

	fprintf(out, " %-10" PRIu64 " %-14" PRIu64 " %-18.2f %-19.2f %-*.6f", bytes_per_message(s),
		s->messages, peak_bytes_per_s(s) / unit, per_s(s, s->bytes) / unit, rate_width,
		per_s(s, s->messages) / 1e6);
}

#define LATENCY_HEAD                                                                               \
	"   t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "        \
	"99% percentile[usec]   99.9% percentile[usec]"
#define LATENCIES 7

static void print_latencies(const struct latrec_hist *h, const int widths[LATENCIES], FILE *out)
{
	const double ns[LATENCIES] = {(double)latrec_hist_min(h), (double)latrec_hist_max(h),
		(double)latrec_hist_quantile(h, .5), latrec_hist_mean(h), latrec_hist_stddev(h),
		(double)latrec_hist_quantile(h, .99), (double)latrec_hist_quantile(h, .999)};

	for (int i = 0; i < LATENCIES; i++)
		fprintf(out, " %-*.3f", widths[i], ns[i] / 1e3);
}

static void print_latency_head(const char *samples, FILE *out)
{
	fprintf(out, " #bytes %s %s\n", samples, LATENCY_HEAD);
}

static void print_latency(const struct side *s, const struct latrec_hist *h, uint64_t samples,
	const char *what, FILE *out)
{
	static const int widths[LATENCIES] = {14, 14, 15, 14, 15, 21, 19};

	fprintf(out, " %-7" PRIu64 " %-10" PRIu64, bytes_per_message(s), samples);
	print_latencies(h, widths, out);
	fprintf(out, "%s\n", what);
}

/* Prints the row of one size of --all, with the columns of both tables of print_both(). */
static void print_row(const struct session *e, FILE *out)
{
	static const int widths[LATENCIES] = {14, 12, 18, 14, 15, 23, 0};

	if (!e->o->more)
		print_bandwidth_head(e, LATENCY_HEAD, out);
	print_bandwidth(e, 15, out);
	print_latencies(latrec_service(e->side.rec), widths, out);
	fputc('\n', out);
	fflush(out);
}

static void print_both(const struct session *e, FILE *out)
{
	const struct side *s = &e->side;
	const struct latrec_hist *service = latrec_service(s->rec);
	const struct latrec_hist *response = latrec_response(s->rec);

	print_bandwidth_head(e, "", out);
	print_bandwidth(e, 0, out);
	fputc('\n', out);
	print_latency_head("#samples", out);
	print_latency(s, service, latrec_hist_count(service), "  post to completion of a batch",
		out);
	if (response)
		print_latency(s, response, latrec_hist_count(response), "  due time to completion",
			out);
}

/* Prints a row as perftest does; only the first run prints the head. */
static void print_perftest(const struct session *e, FILE *out)
{
	const struct side *s = &e->side;
	bool lat = e->o->command == ENGINE_LAT;

	if (!e->o->more && lat)
		print_latency_head("#iterations", out);
	else if (!e->o->more)
		print_bandwidth_head(e, "", out);
	if (lat) {
		print_latency(s, latrec_service(s->rec), s->messages - warmed_up(s), "", out);
	} else {
		print_bandwidth(e, 0, out);
		fputc('\n', out);
	}
	fflush(out);
}

static void print_histogram(const struct side *s, FILE *out)
{
	struct latrec_range range;

	for (uint32_t at = 0;
		(at = latrec_hist_next(latrec_service(s->rec), at, &range, sizeof(range)));)
		fprintf(out, "%.3f %.3f %" PRIu64 "\n", (double)range.low / 1e3,
			(double)range.high / 1e3, range.count);
}

static void print_sent(const struct session *e, FILE *out)
{
	if (e->o->command != ENGINE_TRAFFIC)
		print_perftest(e, out);
	else if (e->o->all)
		print_row(e, out);
	else
		print_both(e, out);
	if (e->o->histogram)
		print_histogram(&e->side, out);
}

static const char *sample_name(const struct session *e)
{
	if (e->side.t.pingpong)
		return "half of the time between two posts; ";
	return e->o->command == ENGINE_LAT ? "post to completion; " : "";
}

/* Prints the lines that are present only if there is something to report. */
static void print_rest(const struct side *s, FILE *out)
{
	if (s->recv_messages && !s->t.pingpong)
		fprintf(out, "received %" PRIu64 " messages, %" PRIu64 " bytes\n", s->recv_messages,
			s->recv_bytes);
	if (s->t.control)
		fprintf(out,
			"%s: %" PRIu64 " times, typically %.3f usec each, %" PRIu64 " failed\n",
			control_names[s->t.control], latrec_hist_count(s->control.times),
			(double)latrec_hist_quantile(s->control.times, .5) / 1e3,
			s->control.errors);
	if (s->t.inject && s->sends)
		fprintf(out, "%s at message %" PRIu64 ": %u times\n", inject_names[s->t.inject],
			s->t.inject_at, s->injected);
	if (s->overdue)
		fprintf(out,
			"due and not sent within the duration: %" PRIu64
			" batches, which no latency includes\n",
			s->overdue);
	if (s->lost)
		fprintf(out, "lost %" PRIu64 " messages\n", s->lost);
	if (s->t.check)
		fprintf(out, "wrong payloads: %" PRIu64 "\n", s->mismatches);
}

void report_table(const struct session *e, FILE *out)
{
	const struct side *s = &e->side;
	bool last = !s->t.again;

	if (!e->o->more)
		fprintf(out, "%s %s, %u QP%s, depth %u, batches of %u: %s\n",
			mlx5dvl_ctx_device(s->ctx), traffic_type_names[s->t.type], s->t.qps,
			s->t.qps > 1 ? "s" : "", s->t.depth, s->t.send_batch,
			e->o->all ? "all sizes" : s->t.pattern_text);
	if (s->sends)
		print_sent(e, out);
	if (s->sends && e->o->command != ENGINE_BW && (last || !e->o->all))
		fprintf(out,
			"%spercentiles by nearest rank, at most 0.79 %% above the sample; clock: %s\n",
			sample_name(e), side_clock_name(s));
	print_rest(s, out);
}

/* Returns the figures of a histogram; with --report-histogram also its text. */
static json_t *hist_json(const struct session *e, const struct latrec_hist *h)
{
	struct stats f;
	json_t *o;

	stats_of_hist(h, &f);
	o = json_pack("{s:I s:I s:f s:I s:I s:I s:I s:I s:f}", "samples",
		(json_int_t)f.v[STATS_SAMPLES], "min", (json_int_t)f.v[STATS_MIN], "mean",
		latrec_hist_mean(h), "p50", (json_int_t)f.v[STATS_MEDIAN], "p95",
		(json_int_t)f.v[STATS_P95], "p99", (json_int_t)f.v[STATS_P99], "p999",
		(json_int_t)latrec_hist_quantile(h, .999), "max", (json_int_t)f.v[STATS_MAX],
		"stdev", latrec_hist_stddev(h));
	if (e->o->histogram)
		json_object_set_new(o, "histogram", stats_hist_json(h));
	return o;
}

static json_t *traffic_json(const struct session *e)
{
	const struct traffic *t = &e->side.t;

	return json_pack(
		"{s:s s:s s:i s:i s:i s:i s:i s:i s:i s:b s:b s:b s:b s:i s:I s:f s:I s:i s:i s:i s:b s:s s:i s:s s:I s:i s:i s:i s:i}",
		"qp_type", traffic_type_names[t->type], "request", t->pattern_text, "qp_num",
		(int)t->qps, "depth", (int)t->depth, "send_batch", (int)t->send_batch, "recv_batch",
		(int)t->recv_batch, "rx_depth", (int)traffic_rx_depth(t, e->side.n_peers),
		"buf_num", (int)t->buffers, "mr_num", (int)t->regions, "bidirectional",
		t->bidirectional, "check", t->check, "ping_pong", t->pingpong, "rdma_cm", t->cm,
		"warm_up", (int)t->warm_up, "iterations", (json_int_t)t->iterations, "duration_s",
		(double)t->duration_ns / 1e9, "rate", (json_int_t)t->rate, "burst", (int)t->burst,
		"burst_pause_us", (int)t->burst_pause_us, "cq_mod", (int)t->moderation, "cq_events",
		t->sleeps, "control", control_names[t->control], "control_us", (int)t->control_us,
		"inject", inject_names[t->inject], "inject_at", (json_int_t)t->inject_at,
		"retry_count", t->retries, "outs", t->reads, "sl", t->sl, "tclass",
		t->traffic_class);
}

static json_t *sent_json(const struct side *s)
{
	return json_pack("{s:I s:I s:I s:f s:f s:f s:f}", "overdue_batches", (json_int_t)s->overdue,
		"messages", (json_int_t)s->messages, "bytes", (json_int_t)s->bytes, "seconds",
		elapsed_s(s), "gbps", per_s(s, s->bytes) * 8 / 1e9, "peak_gbps",
		peak_bytes_per_s(s) * 8 / 1e9, "messages_per_s", per_s(s, s->messages));
}

static json_t *tally_json(const struct wire_tally *t)
{
	return json_pack("{s:I s:I s:I s:I s:I s:i}", "messages", (json_int_t)t->messages, "bytes",
		(json_int_t)t->bytes, "elapsed_ns", (json_int_t)t->elapsed_ns, "mismatches",
		(json_int_t)t->mismatches, "errors", (json_int_t)t->errors, "first_error",
		(int)t->first_error);
}

static json_t *peers_json(const struct side *s)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < s->n_peers; i++) {
		const struct peer *p = s->peers[i];

		json_array_append_new(list, json_pack("{s:s s:b s:o s:o}", "address", p->conn.peer,
						    "lost", p->gone, "sent", tally_json(&p->theirs),
						    "received", tally_json(&p->result)));
	}
	return list;
}

/* Returns the errors of the times that were converted from the device's time stamps. */
static json_t *hw_ts_json(const struct hwclock *c)
{
	double mean = c->b.converted ? (double)c->b.sum_ns / (double)c->b.converted : 0;

	return json_pack("{s:I s:f s:I s:I}", "error_ns", (json_int_t)c->b.worst_ns,
		"mean_error_ns", mean, "probes", (json_int_t)c->probes, "jumps",
		(json_int_t)c->b.jumps);
}

static json_t *control_json(const struct control *c)
{
	return json_pack("{s:s s:I s:I s:i s:I s:I}", "kind", control_names[c->kind], "count",
		(json_int_t)latrec_hist_count(c->times), "errors", (json_int_t)c->errors,
		"first_error", c->first_error, "p50_ns",
		(json_int_t)latrec_hist_quantile(c->times, .5), "max_ns",
		(json_int_t)latrec_hist_max(c->times));
}

/* Returns the counters that changed, and those that the rules of the search need. */
static json_t *counters_json(const struct session *e)
{
	json_t *o = json_object();

	for (uint32_t i = 0; i < e->after.n; i++) {
		const struct counter *c = &e->after.c[i];
		int has;
		uint64_t before = counters_get(&e->before, c->name, &has);
		bool wanted = strstr(c->name, "vport_rdma_unicast") ||
			      strstr(c->name, "prio3_pause_duration");

		if (has && (wanted || c->value != before))
			json_object_set_new(o, c->name,
				json_integer((json_int_t)(c->value - before)));
	}
	return o;
}

/*
 * Returns a time at which the traffic of this side had ended. A peer sends DONE after its last
 * completion, or never, if it dies.
 */
static uint64_t end_ns(const struct session *e)
{
	const struct side *s = &e->side;
	uint64_t end = s->last_ns;
	bool receives = !s->sends || s->t.bidirectional;

	for (uint32_t i = 0; i < s->n_peers && receives; i++) {
		const struct peer *p = s->peers[i];
		uint64_t done = p->got_done ? p->done_ns : e->after.read_ns;

		end = done > end ? done : end;
	}
	return end;
}

/* Returns when the counters were read, and when the traffic of this side began and ended. */
static json_t *times_json(const struct session *e)
{
	return json_pack("{s:I s:I s:I s:I}", "counters_before", (json_int_t)e->before.read_ns,
		"start", (json_int_t)e->side.start_ns, "end", (json_int_t)end_ns(e),
		"counters_after", (json_int_t)e->after.read_ns);
}

json_t *report_json(const struct session *e)
{
	const struct side *s = &e->side;
	json_t *o = json_pack("{s:s s:s s:s s:s s:s s:o s:s}", "command",
		e->o->program + strlen("rdmabench "), "version", RDMABENCH_VERSION, "role",
		s->is_server ? "server" : "client", "run", e->run, "device",
		mlx5dvl_ctx_device(s->ctx), "traffic", traffic_json(e), "clock",
		side_clock_name(s));

	if (s->sends) {
		json_object_set_new(o, "sent", sent_json(s));
		json_object_set_new(o, "latency_ns", hist_json(e, latrec_service(s->rec)));
		if (s->hw_ts)
			json_object_set_new(o, "hw_ts", hw_ts_json(&s->hw));
		if (latrec_response(s->rec))
			json_object_set_new(o, "response_ns",
				hist_json(e, latrec_response(s->rec)));
	}
	if (e->o->device.cpus || e->o->device.nodes)
		json_object_set_new(o, "place", place_json());
	if (s->t.control)
		json_object_set_new(o, "control", control_json(&s->control));
	if (s->t.sleeps)
		json_object_set_new(o, "wakeups", json_integer((json_int_t)s->wakeups));
	if (s->t.inject && s->sends)
		json_object_set_new(o, "injected", json_integer(s->injected));
	json_object_set_new(o, "received",
		json_pack("{s:I s:I s:I}", "messages", (json_int_t)s->recv_messages, "bytes",
			(json_int_t)s->recv_bytes, "lost", (json_int_t)s->lost));
	json_object_set_new(o, "mismatches", json_integer((json_int_t)s->mismatches));
	json_object_set_new(o, "errors", json_integer((json_int_t)s->errors));
	json_object_set_new(o, "peers", peers_json(s));
	json_object_set_new(o, "counters", counters_json(e));
	json_object_set_new(o, "times_ns", times_json(e));
	json_object_set(o, "events", s->events);
	json_object_set_new(o, "status", json_integer(report_status(s)));
	return o;
}

int report_write(json_t *o, const char *path, bool append)
{
	FILE *out;
	int status = output_open("rdmabench", path, append ? "ae" : "we", &out);

	if (status)
		return status;
	if (json_dumpf(o, out, JSON_COMPACT) && !ferror(out))
		status = output_failed("rdmabench", path, ENOMEM);
	putc('\n', out);
	return output_close("rdmabench", path, out, status);
}

/* Writes a histogram whose interval ended at @now_s. With --all the size follows the tag. */
static int write_hdr_line(const struct session *e, const char *tag, const struct latrec_hist *h,
	double now_s, FILE *out)
{
	char full[40];

	if (e->o->all)
		snprintf(full, sizeof(full), "%s-%" PRIu64, tag, bytes_per_message(&e->side));
	else
		snprintf(full, sizeof(full), "%s", tag);
	return hdrlog_line(full, now_s - elapsed_s(&e->side), elapsed_s(&e->side), h, out);
}

static int write_hdr_log(const struct session *e, FILE *out)
{
	const struct latrec_hist *response = latrec_response(e->side.rec);
	double now_s = (double)clock_of(CLOCK_REALTIME) / 1e9;
	int err;

	if (!e->o->more)
		hdrlog_head("rdmabench " RDMABENCH_VERSION, now_s - elapsed_s(&e->side), out);
	if (!e->side.sends)
		return 0;
	err = write_hdr_line(e, "latency", latrec_service(e->side.rec), now_s, out);
	return err || !response ? err : write_hdr_line(e, "response", response, now_s, out);
}

int report_hdr_log(const struct session *e)
{
	const char *path = e->o->hdr_log;
	int status, err;
	FILE *out;

	status = output_open("rdmabench", path, e->o->more ? "ae" : "we", &out);
	if (status || !out)
		return status;
	err = write_hdr_log(e, out);
	if (err)
		status = output_failed("rdmabench", path, -err);
	return output_close("rdmabench", path, out, status);
}

int report_status(const struct side *s)
{
	bool bad = s->errors || s->mismatches || s->stats_error || s->control.errors;

	for (uint32_t i = 0; i < s->n_peers; i++) {
		const struct peer *p = s->peers[i];

		bad = bad || p->gone || p->theirs.errors || p->theirs.mismatches ||
		      p->result.errors || p->result.mismatches;
	}
	return bad || (s->lost && s->t.type == MLX5DVL_RC);
}
