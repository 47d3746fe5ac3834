/* SPDX-License-Identifier: MIT */
#include "commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"

#define WAIT_S 10 /* time for which a server waits for its client, and ssh for a host */

#define STATS_DIR "--stats-dir="

bool commands_fit(const char *stats_dir)
{
	return strlen(STATS_DIR) + strlen(stats_dir) < COMMAND_WORD;
}

static void add(struct command *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct command *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	c->fits &= vsnprintf(c->text[c->n], COMMAND_WORD, format, args) < COMMAND_WORD;
	va_end(args);
	c->argv[c->n] = c->text[c->n];
	c->argv[++c->n] = NULL;
}

/* Adds the options in numbers[] whose values are not the defaults. */
static void add_unusual(struct command *c, const struct traffic *t)
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
			add(c, "--%s=%llu", numbers[i].option, (unsigned long long)n);
	}
}

static void add_traffic(struct command *c, const struct trial_attr *a, const struct traffic *t)
{
	add(c, "--qp-type=%s", traffic_type_names[t->type]);
	add(c, "--request=%s", t->pattern_text);
	add(c, "--qp-num=%u", t->qps);
	add(c, "--mtu=%u", 128u << t->mtu);
	add(c, "--tx-depth=%u", t->depth);
	add(c, "--send-batch=%u", t->send_batch);
	add(c, "--rx-depth=%u", t->rx_depth);
	add(c, "--recv-batch=%u", t->recv_batch);
	add(c, "--buf-num=%u", t->buffers);
	add(c, "--mr-num=%u", t->regions);
	add(c, "--inline-size=%u", t->inline_max);
	add(c, "--duration=%g", a->seconds);
	add_unusual(c, t);
	if (t->control)
		add(c, "--control=%s", control_names[t->control]);
	if (t->inject)
		add(c, "--inject=%s@%llu", inject_names[t->inject],
			(unsigned long long)t->inject_at);
	if (t->sleeps)
		add(c, "--events");
	if (t->bidirectional)
		add(c, "--bidirectional");
}

static void begin(struct command *c, const struct trial_attr *a, const char *host)
{
	c->n = 0;
	c->fits = true;
	c->host = host;
	c->is_near = host == a->host;
	add(c, "%s", host ? a->far_program : a->program);
	add(c, "engine");
	if (a->cpus)
		add(c, "--cpu=%s", a->cpus);
	if (a->nodes)
		add(c, "--numa=%s", a->nodes);
}

/* Adds the options of the output. @name: NULL for a client, which learns it from its server. */
static void end(struct command *c, const struct trial_attr *a, const char *name)
{
	if (is_far(a)) {
		add(c, "--report-histogram");
	} else {
		if (a->compat)
			add(c, "--compat");
		add(c, STATS_DIR "%s", a->stats_dir);
	}
	if (name)
		add(c, "--run=%s", name);
	add(c, "--json=-");
}

/* Turns a command for another machine into a command of ssh. */
static void send_away(struct command *c)
{
	c->line[0] = 0;
	for (int i = 0; i < c->n && c->host; i++)
		c->fits &= remote_quote(c->line, sizeof(c->line), c->argv[i]);
	if (c->host)
		remote_words(c->argv, c->timeout, c->host, c->line, WAIT_S);
}

/* A traffic flow between one pair of processes, a client and a server. */
struct leg {
	const struct trial_attr *a;
	const struct traffic *t;
	enum direction direction; /* DIRECTION_NONE: forward */
	const char *name;
	const struct far_end *far; /* NULL: both ends are on the machine of the measured device */
	uint32_t port;
};

static void make_server(struct command *c, const struct leg *l)
{
	bool back = l->direction == DIRECTION_REVERSE;
	const char *device = back ? l->a->device : l->a->peer;

	begin(c, l->a, back ? l->a->host : l->far->host);
	if (device)
		add(c, "--ib-dev=%s", device);
	add(c, "--port=%u", l->port);
	add(c, "--wait=%d", WAIT_S);
	end(c, l->a, l->name);
	c->is_client = false;
	send_away(c);
}

/* Adds the devices at which a flow within a machine begins and ends. */
static void add_devices(struct command *c, const struct leg *l)
{
	const struct trial_attr *a = l->a;
	const char *peer = l->direction == DIRECTION_LOOPBACK ? NULL : a->peer;
	const char *from = l->direction == DIRECTION_REVERSE && peer ? peer : a->device;
	const char *to = l->direction == DIRECTION_REVERSE ? a->device : peer;

	if (from)
		add(c, "--ib-dev=%s", from);
	if (to && peer)
		add(c, "--server-dev=%s", to);
}

/* Sets c->way. */
static void weigh(struct command *c, const struct traffic *t)
{
	uint32_t mtu = 128u << t->mtu;
	struct pattern p = {0};
	char why[200];

	c->fits &= !pattern_parse(t->pattern_text, &p, why, sizeof(why));
	memset(c->way, 0, sizeof(c->way));
	for (uint32_t i = 0; i < p.n; i++) {
		const struct pattern_request *r = &p.request[i];
		int way = r->kind == PATTERN_READ;

		c->way[way].bytes += r->total;
		c->way[way].packets += (r->total + mtu - 1) / mtu;
	}
}

/*
 * Sets c->sends and c->receives: the directions of the flow at the measured device. Both are set if
 * both ends of the flow are at this device.
 */
static void describe(struct command *c, const struct leg *l)
{
	bool apart = l->a->peer || l->a->n_ends;

	c->is_client = true;
	c->bidirectional = l->t->bidirectional;
	c->sends = !apart || l->direction != DIRECTION_REVERSE;
	c->receives =
		!apart || l->direction == DIRECTION_REVERSE || l->direction == DIRECTION_LOOPBACK;
	weigh(c, l->t);
	c->batch = l->t->send_batch;
	c->has_rate = l->t->rate > 0;
}

static void make_client(struct command *c, const struct leg *l)
{
	const struct trial_attr *a = l->a;
	bool back = l->far && l->direction == DIRECTION_REVERSE;
	const char *device = back ? a->peer : a->device;

	begin(c, a, back ? l->far->host : a->host);
	if (!l->far)
		add(c, "--fork");
	add_traffic(c, a, l->t);
	if (!l->far)
		add_devices(c, l);
	else if (device)
		add(c, "--ib-dev=%s", device);
	if (l->far)
		add(c, "--port=%u", l->port);
	end(c, a, l->far ? NULL : l->name);
	if (l->far)
		add(c, "%s", back ? a->address : l->far->address);
	describe(c, l);
	send_away(c);
}

/* Calls fn() for the server, unless --fork or the user starts it, and for the client. */
static bool one_pair(const struct leg *l, bool (*fn)(void *arg, const struct command *c), void *arg)
{
	struct command c;

	if (l->far && (*l->far->host || l->direction == DIRECTION_REVERSE)) {
		make_server(&c, l);
		if (!c.fits || !fn(arg, &c))
			return false;
	}
	make_client(&c, l);
	return c.fits && fn(arg, &c);
}

bool commands_of(const struct trial_attr *a, const struct point *p, const char *name,
	bool (*fn)(void *arg, const struct command *c), void *arg)
{
	uint32_t pair = 0;

	for (unsigned i = 0; i < 2; i++) {
		struct traffic t;
		struct leg l = {.a = a,
			.t = &t,
			.direction = i ? point_direction(a->space, p) : DIRECTION_NONE,
			.name = name};

		for (uint32_t k = point_traffic(a->space, p, i, &t); k; k--, pair++) {
			if (a->n_ends && l.direction != DIRECTION_LOOPBACK)
				l.far = &a->end[pair % a->n_ends];
			l.port = a->port + (l.far && *l.far->host ? pair : 0);
			if (!one_pair(&l, fn, arg))
				return false;
		}
	}
	return true;
}
