/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "gather.h"
#include "remote.h"
#include "text.h"
#include "wire.h"

#define OUTPUT_MAX (1 << 20)
#define GRACE_NS (30 * NSEC_PER_SEC) /* time after the traffic within which engines must end */

/* A script that is being written. */
struct script {
	char *text;
	size_t size;
};

static bool add_line(void *arg, const struct command *c)
{
	struct script *s = arg;

	for (int i = 0; c->argv[i]; i++) {
		if (!remote_quote(s->text, s->size, c->argv[i]))
			return false;
	}
	if (strlen(s->text) + 16 > s->size)
		return false;
	strcat(s->text, " &\n");
	return true;
}

bool trial_script(const struct trial_attr *a, const struct point *p, const char *name, char *script,
	size_t size)
{
	struct script s = {script, size};

	snprintf(script, size, "#!/bin/sh\n");
	if (!commands_of(a, p, name, add_line, &s))
		return false;
	strcat(script, "wait\n");
	return true;
}

/* The engines of a point: their processes and commands, and what their reports say. */
struct engines {
	struct command command[COMMANDS_MAX];
	struct process process[COMMANDS_MAX];
	uint32_t n;
	/* First start and last end of the traffic of near engines; to_ns 0: no report yet. */
	double from_ns, to_ns;
	json_t *port; /* owned: the last report of a client at the measured device, or NULL */
};

static bool start(void *arg, const struct command *c)
{
	struct engines *e = arg;

	/* The standard error of another machine must not reach the terminal as it is. */
	process_start(&e->process[e->n], c->argv, c->host);
	e->command[e->n++] = *c;
	return true;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/*
 * Adds the traffic of an engine, or with @back that of its server. The bytes of a READ go from the
 * other end to the one that requests them. If both ends use the same port, all traffic is counted
 * as sent and as received.
 */
static void add_traffic(struct measure *m, const struct command *e, bool back, double bytes,
	double seconds)
{
	double patterns = bytes / (e->way[0].bytes + e->way[1].bytes);
	double rate = seconds > 0 ? patterns / seconds : 0;

	for (int way = 0; way < 2; way++) {
		bool leaves = way ? back : !back; /* the client's machine */
		double gbps = rate * e->way[way].bytes * 8 / 1e9;
		double packets = rate * e->way[way].packets;

		if (leaves ? e->sends : e->receives) {
			m->v[MEASURE_TX_GBPS] += gbps;
			m->v[MEASURE_TX_PACKETS] += packets;
		}
		if (leaves ? e->receives : e->sends) {
			m->v[MEASURE_RX_GBPS] += gbps;
			m->v[MEASURE_RX_PACKETS] += packets;
		}
	}
}

static void note_times(struct engines *e, const json_t *o)
{
	const json_t *times = json_object_get(o, "times_ns");
	double from = number(times, "start"), to = number(times, "end");

	e->from_ns = e->to_ns > 0 ? fmin(e->from_ns, from) : from;
	e->to_ns = fmax(e->to_ns, to);
}

/*
 * Returns the seconds with traffic between the two readings of the counters. An engine reads them
 * before its own traffic; others may be sending already.
 */
static double counted_s(const struct engines *e)
{
	const json_t *times = json_object_get(e->port, "times_ns");

	return (fmin(number(times, "counters_after"), e->to_ns) -
		       fmax(number(times, "counters_before"), e->from_ns)) /
	       1e9;
}

/*
 * Replaces the sums by the port's counters, which cover all engines. If several clients use the
 * measured device, the last report counts.
 */
static void take_counters(struct measure *m, const struct engines *e)
{
	static const double scale[MEASURE_KEYS] = {8 / 1e9, 8 / 1e9, 1, 1, 1, 1};
	json_t *counters = json_object_get(e->port, "counters");
	double seconds = counted_s(e);

	if (!json_object_get(counters, measure_names[MEASURE_TX_GBPS]) || !(seconds > 0))
		return;
	m->from_port = true;
	for (int k = 0; k < MEASURE_KEYS; k++) {
		m->v[k] = number(counters, measure_names[k]) * scale[k] / seconds;
		json_object_del(counters, measure_names[k]);
	}
	json_decref(m->counters);
	m->counters = json_incref(counters);
}

/*
 * Returns true if the engine has a rate, and has sent at least nine tenths of the requests that
 * were due.
 */
static bool keeps_up(const struct command *e, const json_t *sent)
{
	double missing = number(sent, "overdue_batches") * e->batch;

	return e->has_rate && missing * 9 <= number(sent, "messages");
}

static bool add_report(struct measure *m, struct engines *all, const struct command *e, json_t *o)
{
	const json_t *sent = json_object_get(o, "sent");
	const json_t *back =
		json_object_get(json_array_get(json_object_get(o, "peers"), 0), "sent");

	if (e->is_near)
		note_times(all, o);
	if (!e->is_client)
		return json_object_get(o, "received");
	if (sent) {
		m->keeps_up &= keeps_up(e, sent);
		add_traffic(m, e, false, number(sent, "bytes"), number(sent, "seconds"));
		if (e->bidirectional)
			add_traffic(m, e, true, number(back, "bytes"),
				number(back, "elapsed_ns") / 1e9);
		if (e->sends) { /* the client uses the measured device */
			json_decref(all->port);
			all->port = json_incref(o);
		}
	}
	return sent;
}

/* Adds the latencies of a report to @all. Returns false if they are damaged or missing. */
static bool take_latency(struct latrec_hist *all, const json_t *o)
{
	const json_t *latency = json_object_get(o, "latency_ns");
	struct latrec_hist *one;
	bool good;

	if (!latency || latrec_hist_create(NULL, &one))
		return false;
	good = stats_hist_read(json_object_get(latency, "histogram"),
		       json_object_get(latency, "samples"), one) &&
	       !latrec_hist_merge(all, one);
	latrec_hist_destroy(one);
	return good;
}

/* Returns the reason of the failure in an engine's report @o, or NULL. */
static const char *reason_of(const json_t *o)
{
	const json_t *error = json_object_get(o, "error");

	return json_string_value(error ? error : json_array_get(json_object_get(o, "events"), 0));
}

/* Writes to @why the reason of a command's failure, unless @why has one of an earlier command. */
static void explain(const struct command *e, const struct process *p, const json_t *o, char *why,
	size_t size)
{
	char other[120] = "it gave no reason";
	const char *reason = reason_of(o);

	if (*why)
		return;
	if (process_is_good(p))
		snprintf(other, sizeof(other), "its report is incomplete or damaged");
	else if (e->host)
		remote_explain(p, other, sizeof(other));
	fail(why, size, 0, "an engine%s%.60s failed: %s", e->host ? " on " : "",
		e->host ? e->host : "", reason ? reason : other);
	wire_one_line(why);
}

/*
 * Adds the report of engine i, which has ended, and its latencies to @latency (if that is not
 * NULL). If the engine has failed, or its output is not valid, returns false, and @why has the
 * reason of the first failure.
 */
static bool take_report(struct measure *m, struct engines *e, uint32_t i,
	struct latrec_hist *latency, char *why, size_t size)
{
	const struct process *p = &e->process[i];
	json_t *o = json_loadb(p->out, p->len, 0, NULL);
	bool good = add_report(m, e, &e->command[i], o) && process_is_good(p);

	if (good && latency && json_object_get(o, "sent") && !take_latency(latency, o))
		good = false;
	if (!good)
		explain(&e->command[i], p, o, why, size);
	json_decref(o);
	return good;
}

/* Reads the latencies from the statistics files. */
static int add_latency(struct measure *m, const struct trial_attr *a, const char *name)
{
	struct gather_attr ga = {.compat = a->compat, .run = a->compat ? NULL : name};
	struct gather *g = gather_create(&ga);
	char path[PATH_MAX];

	if (!g)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/%s", a->stats_dir, name);
	if (!access(path, F_OK))
		gather_path(g, path);
	gather_merge(g);
	m->latency = *gather_merged(g);
	gather_destroy(g);
	return 0;
}

/* JSON, and so the journal, has no number for an infinite rate. */
static bool is_finite(const struct measure *m)
{
	for (int k = 0; k < MEASURE_KEYS; k++) {
		if (!isfinite(m->v[k]))
			return false;
	}
	return true;
}

/* Waits for the engines, and adds their reports. Returns 0, or an error of trial_run(). */
static int finish(struct engines *e, const struct trial_attr *a, const char *name,
	struct measure *m, char *why, size_t size)
{
	uint64_t deadline = clock_ns() + (uint64_t)(a->seconds * 1e9) + GRACE_NS;
	struct latrec_hist *latency = NULL;
	bool in_time = true, good = true;
	int err = 0;

	*why = 0;
	process_wait(e->process, e->n, OUTPUT_MAX, deadline);
	if (is_far(a))
		err = latrec_hist_create(NULL, &latency);
	for (uint32_t i = 0; i < e->n; i++) {
		in_time &= e->process[i].err != -ETIMEDOUT;
		good = take_report(m, e, i, latency, why, size) && good;
		free(e->process[i].out);
	}
	if (good && e->port)
		take_counters(m, e);
	json_decref(e->port);
	if (good && !is_finite(m)) {
		fail(why, size, 0, "the rates in a report are not finite");
		good = false;
	}
	if (latency)
		stats_merge_hist(latency, &m->latency);
	latrec_hist_destroy(latency);
	if (!in_time)
		return -ETIMEDOUT;
	if (!good)
		return -EIO;
	return err || is_far(a) ? err : add_latency(m, a, name);
}

int trial_run(const struct trial_attr *a, const struct point *p, const char *name,
	struct measure *m_p, char *why, size_t size)
{
	static struct engines e; /* too large for the stack */
	struct measure m = {.keeps_up = true};
	bool whole;
	int err;

	e.n = 0;
	e.from_ns = e.to_ns = 0;
	e.port = NULL;
	whole = commands_of(a, p, name, start, &e);
	err = finish(&e, a, name, &m, why, size);
	if (!whole)
		err = -E2BIG;
	if (err) {
		if (err != -EIO)
			fail(why, size, 0, "%s",
				err == -ETIMEDOUT ? "an engine did not end" : strerror(-err));
		fprintf(stderr, "rdmabench search: %s: %s\n", name, why);
		json_decref(m.counters);
		return err;
	}
	*m_p = m;
	return 0;
}
