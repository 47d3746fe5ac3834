/* SPDX-License-Identifier: MIT */
#include "trial.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "gather.h"
#include "remote.h"
#include "text.h"

#define ENGINES_MAX (2 * SPACE_PROCESSES)
#define ENGINE_ARGS_MAX 48
#define ARG_SIZE 320
#define OUTPUT_MAX 65536
#define GRACE_NS (30 * NSEC_PER_SEC) /* time limit beyond that of the traffic */

/* A command line. */
struct words {
	char text[ENGINE_ARGS_MAX][ARG_SIZE];
	const char *argv[ENGINE_ARGS_MAX + 1];
	int n;
};

static void add(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct words *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->text[w->n], ARG_SIZE, format, args);
	va_end(args);
	w->argv[w->n] = w->text[w->n];
	w->argv[++w->n] = NULL;
}

/* Returns the devices at which a traffic begins and ends. */
static void add_devices(struct words *w, const struct trial_attr *a, enum direction direction)
{
	const char *from = direction == DIRECTION_REVERSE && a->peer ? a->peer : a->device;
	const char *to = direction == DIRECTION_LOOPBACK || !a->peer ? NULL :
			 direction == DIRECTION_REVERSE              ? a->device :
								       a->peer;

	if (from)
		add(w, "--ib-dev=%s", from);
	if (to)
		add(w, "--server-dev=%s", to);
}

/* Options that most points do not need. */
static void add_unusual(struct words *w, const struct traffic *t)
{
	static const struct {
		const char *option;
		struct field field;
	} numbers[] = {
		{"rate", FIELD(struct traffic, rate)},
		{"burst", FIELD(struct traffic, burst)},
		{"burst-pause", FIELD(struct traffic, burst_pause_us)},
		{"control-every", FIELD(struct traffic, control_us)},
		{"cq-mod", FIELD(struct traffic, moderation)},
		{"outs", FIELD(struct traffic, reads)},
		{"qp-timeout", FIELD(struct traffic, qp_timeout)},
		{"retry-count", FIELD(struct traffic, retries)},
		{"sl", FIELD(struct traffic, sl)},
		{"tclass", FIELD(struct traffic, traffic_class)},
	};
	struct traffic usual;

	traffic_init(&usual);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		uint64_t n = field_get(t, numbers[i].field);

		if (n != field_get(&usual, numbers[i].field))
			add(w, "--%s=%llu", numbers[i].option, (unsigned long long)n);
	}
}

static void make_words(struct words *w, const struct trial_attr *a, const struct traffic *t,
	enum direction direction, const char *name)
{
	w->n = 0;
	add(w, "%s", a->program);
	add(w, "engine");
	add(w, "--fork");
	add(w, "--qp-type=%s", traffic_type_names[t->type]);
	add(w, "--request=%s", t->pattern_text);
	add(w, "--qp-num=%u", t->qps);
	add(w, "--mtu=%u", 128u << t->mtu);
	add(w, "--tx-depth=%u", t->depth);
	add(w, "--send-batch=%u", t->send_batch);
	add(w, "--rx-depth=%u", t->rx_depth);
	add(w, "--recv-batch=%u", t->recv_batch);
	add(w, "--buf-num=%u", t->buffers);
	add(w, "--mr-num=%u", t->regions);
	add(w, "--inline-size=%u", t->inline_max);
	add(w, "--duration=%g", a->seconds);
	add_unusual(w, t);
	if (t->control)
		add(w, "--control=%s", control_names[t->control]);
	if (t->inject)
		add(w, "--inject=%s@%llu", inject_names[t->inject],
			(unsigned long long)t->inject_at);
	if (t->sleeps)
		add(w, "--events");
	if (t->bidirectional)
		add(w, "--bidirectional");
	add_devices(w, a, direction);
	if (a->compat)
		add(w, "--compat");
	add(w, "--stats-dir=%s", a->stats_dir);
	add(w, "--run=%s", name);
	add(w, "--json=-");
}

/* The first traffic goes forward. */
static enum direction direction_of(const struct trial_attr *a, const struct point *p,
	unsigned traffic)
{
	return traffic ? point_direction(a->space, p) : DIRECTION_NONE;
}

bool trial_script(const struct trial_attr *a, const struct point *p, const char *name, char *script,
	size_t size)
{
	struct words w;
	struct traffic t;
	size_t n = (size_t)snprintf(script, size, "#!/bin/sh\n");

	for (unsigned i = 0; i < 2; i++) {
		for (uint32_t k = point_traffic(a->space, p, i, &t); k; k--) {
			make_words(&w, a, &t, direction_of(a, p, i), name);
			for (int j = 0; j < w.n; j++) {
				if (!remote_quote(script, size, w.argv[j]))
					return false;
			}
			n = strlen(script);
			if (n + 16 > size)
				return false;
			strcat(script, " &\n");
		}
	}
	strcat(script, "wait\n");
	return true;
}

/* The direction of the traffic of a running engine, and its MTU. */
struct engine_process {
	bool bidirectional;
	bool sends, receives; /* traffic goes only in this direction at the measured device */
	uint32_t mtu; /* bytes */
	uint32_t batch; /* requests */
	bool has_rate;
};

static uint32_t start_all(struct engine_process *e, struct process *processes,
	const struct trial_attr *a, const struct point *p, const char *name)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < 2; i++) {
		enum direction direction = direction_of(a, p, i);
		struct traffic t;
		struct words w;

		for (uint32_t k = point_traffic(a->space, p, i, &t); k; k--) {
			make_words(&w, a, &t, direction, name);
			process_start(&processes[n], w.argv, false);
			e[n++] = (struct engine_process){.bidirectional = t.bidirectional,
				.sends = !a->peer || direction != DIRECTION_REVERSE,
				.receives = !a->peer || direction == DIRECTION_REVERSE ||
					    direction == DIRECTION_LOOPBACK,
				.mtu = 128u << t.mtu,
				.batch = t.send_batch,
				.has_rate = t.rate > 0};
		}
	}
	return n;
}

static double number(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

/* Adds the traffic of a direction. @back: from the server to the client. If both ends use one port,
 * all traffic counts in both directions. */
static void add_direction(struct measure *m, const struct engine_process *e, bool back,
	double messages, double bytes, double seconds)
{
	bool out = back ? e->receives : e->sends, in = back ? e->sends : e->receives;
	double gbps = seconds > 0 ? bytes * 8 / seconds / 1e9 : 0;
	double packets = messages > 0 ? messages * fmax(1, ceil(bytes / messages / e->mtu)) : 0;
	double rate = seconds > 0 ? packets / seconds : 0;

	m->v[MEASURE_TX_GBPS] += out ? gbps : 0;
	m->v[MEASURE_RX_GBPS] += in ? gbps : 0;
	m->v[MEASURE_TX_PACKETS] += out ? rate : 0;
	m->v[MEASURE_RX_PACKETS] += in ? rate : 0;
}

/* The port's own counters cover all engines, so the last report's are used. */
static void take_counters(struct measure *m, json_t *counters, double seconds)
{
	static const double scale[MEASURE_KEYS] = {8 / 1e9, 8 / 1e9, 1, 1, 1, 1};

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

/* Has the engine a rate, and sent nine tenths of what was due? */
static bool keeps_up(const struct engine_process *e, const json_t *sent)
{
	double missing = number(sent, "overdue_batches") * e->batch;

	return e->has_rate && missing * 9 <= number(sent, "messages");
}

static bool add_report(struct measure *m, const struct engine_process *e, json_t *o)
{
	const json_t *sent = json_object_get(o, "sent");
	const json_t *back =
		json_object_get(json_array_get(json_object_get(o, "peers"), 0), "sent");

	if (sent) {
		m->keeps_up &= keeps_up(e, sent);
		add_direction(m, e, false, number(sent, "messages"), number(sent, "bytes"),
			number(sent, "seconds"));
		if (e->bidirectional)
			add_direction(m, e, true, number(back, "messages"), number(back, "bytes"),
				number(back, "elapsed_ns") / 1e9);
		if (e->sends) /* the client uses the measured device */
			take_counters(m, json_object_get(o, "counters"), number(sent, "seconds"));
	}
	return sent;
}

/* Returns what an engine gives as the reason of its failure, or NULL. */
static const char *reason_of(const json_t *o)
{
	const json_t *error = json_object_get(o, "error");

	return json_string_value(error ? error : json_array_get(json_object_get(o, "events"), 0));
}

/* Adds the report of an engine that has ended. Returns false, with the reason, if it has failed. */
static bool take_report(struct measure *m, const struct engine_process *e, const struct process *p,
	char *why, size_t size)
{
	json_t *o = json_loadb(p->out, p->len, 0, NULL);
	bool good = add_report(m, e, o) && process_is_good(p);
	const char *reason = reason_of(o);

	if (!good)
		fail(why, size, 0, "an engine failed: %s", reason ? reason : "it gave no reason");
	json_decref(o);
	return good;
}

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

int trial_run(const struct trial_attr *a, const struct point *p, const char *name,
	struct measure *m_p, char *why, size_t size)
{
	uint64_t deadline = clock_ns() + (uint64_t)(a->seconds * 1e9) + GRACE_NS;
	struct engine_process e[ENGINES_MAX];
	struct process running[ENGINES_MAX];
	struct measure m = {.keeps_up = true};
	uint32_t n = start_all(e, running, a, p, name);
	bool in_time = true, good = true;
	int err;

	process_wait(running, n, OUTPUT_MAX, deadline);
	for (uint32_t i = 0; i < n; i++) {
		in_time &= running[i].err != -ETIMEDOUT;
		good = take_report(&m, &e[i], &running[i], why, size) && good;
		free(running[i].out);
	}
	err = !in_time ? -ETIMEDOUT : !good || !n ? -EIO : add_latency(&m, a, name);
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
