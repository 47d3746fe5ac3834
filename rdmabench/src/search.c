/* SPDX-License-Identifier: MIT */
#include "search.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "engine.h"
#include "explore.h"
#include "model.h"
#include "searchlog.h"
#include "spacefile.h"
#include "text.h"
#include "trial.h"

#define PROBE "probe" /* name of the run that measures the last good point again */
#define HOPELESS 5 /* the search ends if so many of the first points fail */

struct options {
	struct explore_attr x;
	struct space space;
	struct trial_attr trial;
	const char *log, *json;
	uint64_t budget_ns; /* 0: no limit */
	unsigned model; /* index into model_names */
	bool has_model, inject, resume, force, dry_run, no_features;
};

/* Puts the name of the option before the text of the error. */
static int bad_space(const struct arg *a, const char *why, int err)
{
	return err ? fail(a->why, a->size, err, "%s: %s", a->name, why) : 0;
}

static int read_fixed(const struct arg *a, void *space)
{
	char why[200];

	return bad_space(a, why, space_change(space, a->value, why, sizeof(why)));
}

static int read_space(const struct arg *a, void *space)
{
	char why[250];

	return bad_space(a, why, space_read(space, a->value, why, sizeof(why)));
}

static int read_host(const struct arg *a, void *name_p)
{
	if (!remote_is_host(a->value))
		return arg_bad(a, "a host");
	*(const char **)name_p = a->value;
	return 0;
}

/* Adds a machine at the other end. @n: length of @host, which may have no terminating 0 there. */
static int add_end(const struct arg *a, struct trial_attr *t, const char *host, size_t n,
	const char *address)
{
	struct far_end *e = &t->end[t->n_ends];

	if (t->n_ends == ENDS_MAX)
		return arg_bad(a, "at most 16 machines");
	if (n >= sizeof(e->host) || (n && !remote_is_host(host)) || !remote_is_host(address) ||
		strlen(address) >= sizeof(e->address))
		return arg_bad(a, "a host and its address, like user@host or host=192.0.2.1");
	snprintf(e->host, sizeof(e->host), "%.*s", (int)n, host);
	strcpy(e->address, address);
	t->n_ends++;
	return 0;
}

/* The default of ADDRESS is HOST without the user. */
static int read_peer(const struct arg *a, void *trial)
{
	const char *equal = strchr(a->value, '='), *at = strchr(a->value, '@');
	size_t n = equal ? (size_t)(equal - a->value) : strlen(a->value);

	if (!n)
		return arg_bad(a, "a host");
	return add_end(a, trial, a->value, n, equal ? equal + 1 : at ? at + 1 : a->value);
}

static int read_server(const struct arg *a, void *trial)
{
	return add_end(a, trial, "", 0, a->value);
}

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"log", 0, "DIR", ARG_TEXT, AT(log), .give = "a directory",
		.help = "directory for result/N, reproduce/N.sh and target/N; must not exist, or must be empty"},
	{"resume", 0, NULL, ARG_FLAG, AT(resume), .not_with = "force",
		.help = "continue the search in DIR, which must have had the same options"},
	{"force", 0, NULL, ARG_FLAG, AT(force), .help = "remove an earlier search from DIR first"},
	{"method", 0, "NAME", ARG_WORD, AT(x.method), .words = explore_methods, .def = "mixed",
		.help = "method that chooses points"},
	{"seed", 0, "N", ARG_WHOLE, AT(x.seed), .max = INT64_MAX, .def = "1",
		.help = "seed of the points: with the same measurements it gives the same points"},
	{"tries", 0, "N", ARG_WHOLE, AT(x.tries), .min = 1, .max = 1000000, .def = "100",
		.help = "points that are chosen; certainty and conditions need more measurements"},
	{"measurements", 0, "N", ARG_WHOLE, AT(x.measurements), .min = 1, .max = 100000000,
		.unset = "no limit", .help = "stop after N measurements of all kinds"},
	{"seconds", 0, "S", ARG_TIME, AT(budget_ns), .low = .01, .high = 1e7, .unit = NSEC_PER_SEC,
		.unset = "no limit", .help = "stop after this time"},
	{"error", 0, "P", ARG_REAL, AT(x.error), .low = 1e-9, .high = .25, .def = "0.01",
		.help = "probability of a false anomaly in the search, and of a wrong decision about "
			"its conditions, if at most 10 % of measurements are wrong"},
	{"anomalies", 0, "N", ARG_WHOLE, AT(x.anomalies), .min = 1, .max = EXPLORE_ANOMALIES,
		.unset = "64", .help = "stop after N anomalies"},
	{"fix", 0, "NAME=VALUE", ARG_CALL, AT(space), .read = read_fixed,
		.help = "a parameter that is not varied, e.g. 0.qp_num=4, or other values, e.g. "
			"0.rate=0,1000; may be repeated"},
	{"space", 0, "FILE", ARG_CALL, AT(space), .read = read_space,
		.help = "a file of values of parameters, each line as after --fix"},
	{"inject", 0, NULL, ARG_FLAG, AT(inject),
		.help = "also try drop, rnr and delay of a message: software HCA only"},
	{"no-features", 0, NULL, ARG_FLAG, AT(no_features),
		.help = "do not look for the conditions of anomalies"},
	{"duration", 'D', "S", ARG_REAL, AT(trial.seconds), .low = .01, .high = 3600, .def = "1",
		.help = "seconds of traffic per point"},
	{"ib-dev", 'd', "NAME", ARG_TEXT, AT(trial.device), .give = "a device like mlx5_0",
		.unset = "the first", .help = "device"},
	{"peer-dev", 0, "NAME", ARG_TEXT, AT(trial.peer), .give = "a device like mlx5_1",
		.unset = "the same", .with = "ib-dev", .help = "device at the other end"},
	{"cpu", 0, "near|LIST", ARG_TEXT, AT(trial.cpus), .unset = "any",
		.help = "processors of each engine, as those of engine"},
	{"numa", 0, "near|LIST", ARG_TEXT, AT(trial.nodes), .unset = "any",
		.help = "NUMA nodes of the memory of each engine"},
	{"host", 0, "[USER@]HOST", ARG_CALL, AT(trial.host), .read = read_host, .unset = "this one",
		.help = "machine of --ib-dev; engines there are started by ssh"},
	{"address", 0, "ADDRESS", ARG_CALL, AT(trial.address), .read = read_host,
		.unset = "no flow is reverse", .with = "peer",
		.help = "address of --host, to which engines at the other end connect"},
	{"peer", 0, "[USER@]HOST[=ADDRESS]", ARG_CALL, AT(trial), .read = read_peer,
		.help = "machine at the other end, where engines are started by ssh, and the address "
			"to which the first machine connects; may be repeated"},
	{"server", 0, "ADDRESS", ARG_CALL, AT(trial), .read = read_server,
		.help = "machine at the other end, where you have started rdmabench engine --serve; may be "
			"repeated"},
	{"port", 'p', "N", ARG_WHOLE, AT(trial.port), .min = 1, .max = 65000, .def = "18515",
		.help = "TCP port of --server, and the first one of the servers on other machines"},
	{"program", 0, "PATH", ARG_TEXT, AT(trial.far_program), .def = "rdmabench",
		.help = "path of rdmabench on the machines of --host and --peer"},
	{"compat", 0, NULL, ARG_FLAG, AT(trial.compat), .not_with = "host peer server",
		.help = "statistics as older tools write and merge them"},
	{"model", 0, "NAME", ARG_WORD, AT(model), .words = model_names,
		.help = "measure a known landscape instead of a device"},
	{.help = "Anomalies"},
	{"tx-pause", 0, "US", ARG_REAL, AT(x.rules.tx_pause), .high = 1e6, .def = "1000",
		.help = "microseconds of pauses sent per second, above which a point is an anomaly"},
	{"rx-pause", 0, "US", ARG_REAL, AT(x.rules.rx_pause), .high = 1e6, .def = "0",
		.help = "the same for pauses received"},
	{"gbps", 0, "X", ARG_REAL, AT(x.rules.gbps), .high = 1e6, .def = "90",
		.help = "Gb/s; less throughput in both directions, with fewer packets than --packets, is an "
			"anomaly"},
	{"packets", 0, "X", ARG_REAL, AT(x.rules.packets), .high = 1e12, .def = "4000000",
		.help = "packets per second in both directions; see --gbps"},
	{"p99-us", 0, "X", ARG_REAL, AT(x.rules.p99_ns), .low = .001, .high = 1e9, .unit = 1000,
		.unset = "no limit", .help = "a higher p99 of the latency is an anomaly"},
	{.help = "Output"},
	{"dry-run", 0, NULL, ARG_FLAG, AT(dry_run),
		.help = "print the commands of the first points, and run nothing"},
	{"json", 0, "FILE", ARG_TEXT, AT(json),
		.help = "the anomalies as a JSON object; - is standard output"},
	{"help", .kind = ARG_HELP},
};

static const char usage[] =
	"Usage: rdmabench search --log DIR [OPTION]...\n"
	"Looks for traffic that a device handles badly: runs engines for one point (a set of traffic\n"
	"parameters) after another, here or on other machines, and writes each result below DIR.\n";

/* Leaves out all injected events, except those that --fix or --space names. */
static void leave_out_injection(struct space *s)
{
	for (unsigned traffic = 0; traffic < 2; traffic++) {
		unsigned dim = space_dim(traffic, DIM_INJECT, 0);

		s->n[dim] = s->given[dim] ? s->n[dim] : 1; /* INJECT_NONE */
		s->given[dim] = true;
	}
}

/*
 * Leaves out flows from other machines, unless engines there can be started and have an address to
 * connect to.
 */
static int leave_out_reverse(const struct args *args, struct options *o)
{
	const struct trial_attr *t = &o->trial;
	struct space *s = &o->space;
	bool can = t->address || !t->n_ends;

	for (uint32_t i = 0; i < t->n_ends; i++)
		can &= *t->end[i].host != 0;
	for (unsigned at = 0; at < s->n[SPACE_DIRECTION] && !can; at++) {
		if (s->value[SPACE_DIRECTION][at] == DIRECTION_REVERSE)
			space_leave_out(s, SPACE_DIRECTION, at);
	}
	return s->n[SPACE_DIRECTION] ?
		       0 :
		       args_fail(args, "no engine can connect to this machine: give "
				       "--peer and --address, or another 1.direction");
}

/* Completes the options, and leaves out what cannot be measured. */
static int complete(const struct args *args, struct options *o)
{
	if (!o->log && !o->dry_run)
		return args_fail(args, "no directory to write to: give --log");
	o->x.features = !o->no_features;
	o->has_model = args_given(args, "model");
	o->x.space = o->trial.space = &o->space;
	if (!o->inject)
		leave_out_injection(&o->space);
	if (leave_out_reverse(args, o))
		return -EINVAL;
	return space_prune(&o->space, args->why, args->size);
}

static void parse(int argc, char **argv, struct options *o)
{
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "Status: 0, 1 the search failed, 2 a bad command line.\n"};

	*o = (struct options){0};
	rules_init(&o->x.rules);
	space_init(&o->space);
	args_main(&args, "rdmabench search", argc, argv, o);
	if (complete(&args, o))
		args_exit(&args, "rdmabench search", -EINVAL);
}

/* ---- the search ---- */

struct search {
	const struct options *o;
	struct searchlog *log;
	struct trial_attr trial;
	char stats_dir[PATH_MAX], program[PATH_MAX];
	char script[TRIAL_SCRIPT];
	int err; /* the error that ended the search */
	char why[200]; /* why the last point could not be measured */
	bool works; /* at least one point was measured */
	struct point good; /* the last such point */
	unsigned failures; /* failures before the first such point */
	uint64_t end_ns; /* 0: no limit */
	bool late; /* a measurement was due after end_ns */
};

/*
 * Measures the last good point again. Returns true if this fails as well, so that the device is the
 * cause.
 */
static bool is_dead(struct search *s)
{
	struct measure m = {0};
	int err = searchlog_clear(s->log, PROBE);

	if (!err)
		err = trial_run(&s->trial, &s->good, PROBE, &m, s->why, sizeof(s->why));
	json_decref(m.counters);
	return searchlog_clear(s->log, PROBE) || err;
}

/* Measures a point, by the model or by engines, and writes the result to the journal. */
static int measure_new(struct search *s, const struct explore_ask *ask, struct measure *m_p)
{
	char name[64];
	int err;

	searchlog_name(s->log, ask, name, sizeof(name));
	if (!trial_script(&s->trial, ask->point, name, s->script, sizeof(s->script)))
		s->err = -E2BIG;
	else
		s->err = searchlog_clear(s->log, name);
	if (s->err)
		return -ECANCELED;
	if (s->o->has_model)
		err = model_measure(s->o->model, &s->o->space, ask->point, m_p);
	else
		err = trial_run(&s->trial, ask->point, name, m_p, s->why, sizeof(s->why));
	if (err && s->works && !ask->last && is_dead(s)) {
		s->err = -ENODEV;
		return -ECANCELED;
	}
	s->err = searchlog_write(s->log, ask, m_p, err, &s->o->x.rules, s->script);
	return s->err ? -ECANCELED : err;
}

static int measure_or_replay(struct search *s, const struct explore_ask *ask, struct measure *m_p)
{
	int err = 0, got = searchlog_replay(s->log, ask, m_p, &err);

	if (got > 0)
		return err;
	if (got < 0) {
		s->err = got;
		return -ECANCELED;
	}
	return measure_new(s, ask, m_p);
}

static int measure(void *arg, const struct explore_ask *ask, struct measure *m_p)
{
	struct search *s = arg;
	int err;

	s->late = s->end_ns && clock_ns() >= s->end_ns;
	if (s->failures == HOPELESS || s->late)
		return -ECANCELED;
	err = measure_or_replay(s, ask, m_p);
	*ask->others += err && s->works && !ask->last; /* is_dead() */
	if (!err) {
		s->works = true;
		s->good = *ask->point;
	}
	s->failures += err && !s->works;
	return err;
}

static const char *text_or_none(const char *text)
{
	return text ? text : "";
}

/* The machines of a search: that of the device, its address, and the others. */
static json_t *machines_json(const struct trial_attr *t)
{
	json_t *list = json_pack("[s,s]", text_or_none(t->host), text_or_none(t->address));

	for (uint32_t i = 0; i < t->n_ends; i++)
		json_array_append_new(list, json_pack("[s,s]", t->end[i].host, t->end[i].address));
	return list;
}

static json_t *header_json(const struct options *o)
{
	const struct rules *r = &o->x.rules;

	return json_pack(
		"{s:i s:s s:I s:i s:i s:f s:b s:o s:s s:f s:b s:s s:s s:o s:s s:s s:[f,f,f,f,f]}",
		"version", SEARCHLOG_VERSION, "method", explore_methods[o->x.method], "seed",
		(json_int_t)o->x.seed, "tries", (int)o->x.tries, "anomalies", (int)o->x.anomalies,
		"error", o->x.error, "features", o->x.features, "space", space_json(&o->space),
		"model", o->has_model ? model_names[o->model] : "", "duration_s", o->trial.seconds,
		"compat", o->trial.compat, "device", text_or_none(o->trial.device), "peer",
		text_or_none(o->trial.peer), "machines", machines_json(&o->trial), "cpus",
		text_or_none(o->trial.cpus), "nodes", text_or_none(o->trial.nodes), "rules",
		r->tx_pause, r->rx_pause, r->gbps, r->packets, r->p99_ns);
}

static const char *kind_name(enum anomaly kind)
{
	return kind == ANOMALY_PAUSE      ? "pauses" :
	       kind == ANOMALY_THROUGHPUT ? "throughput" :
					    "latency";
}

static json_t *found_json(const struct space *s, const struct feature_set *f, uint32_t found_at)
{
	return json_pack("{s:i s:s s:o s:b s:o}", "try", (int)found_at - 1, "anomaly",
		kind_name(f->kind), "features", features_json(s, f), "whole", f->whole, "point",
		point_json(s, &f->point));
}

/* Names the option to change if no point without an anomaly was found. */
static void say_blunt(const struct explore_result *r)
{
	static const char *const options[] = {[-ANOMALY_PAUSE] = "--tx-pause or --rx-pause",
		[-ANOMALY_THROUGHPUT] = "--gbps or --packets",
		[-ANOMALY_LATENCY] = "--p99-us"};

	for (int kind = ANOMALY_PAUSE; kind >= ANOMALY_LATENCY; kind--)
		if (r->blunt[-kind])
			fprintf(stderr,
				"rdmabench search: %s: no point without an anomaly was found, so "
				"conditions were not looked for; give another %s\n",
				kind_name((enum anomaly)kind), options[-kind]);
}

/* Prints the conditions as --fix accepts them. */
static void print_features(const struct space *s, const struct feature_set *f)
{
	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char name[SPACE_NAME], value[SPACE_NAME];
		char before = '=';

		if (!f->values[dim])
			continue;
		space_name(dim, name);
		printf("  %s", name);
		for (unsigned at = 0; at < space_values(s, dim); at++) {
			if (!(f->values[dim] >> at & 1))
				continue;
			space_value(s, dim, at, value);
			printf("%c%s", before, value);
			before = ',';
		}
		puts("");
	}
	if (!f->whole)
		puts("  the conditions are incomplete: whole is false");
}

static void print_result(const struct search *s, const struct explore_result *r)
{
	const struct options *o = s->o;
	bool full = o->x.measurements && r->measurements >= o->x.measurements;

	for (uint32_t i = 0; i < r->n; i++) {
		printf("anomaly %u (%s) at try %u: see %s/target/%u\n", i,
			kind_name(r->found[i].kind), r->found_at[i] - 1, o->log, i);
		if (o->x.features)
			print_features(&o->space, &r->found[i]);
	}
	printf("%u points, %u measurements, %u could not be measured, %u anomalies, %u not "
	       "confirmed\n",
		r->tries, r->measurements, r->failures, r->n, r->refuted);
	if (s->late || full)
		printf("stopped by --%s: --resume continues\n",
			s->late ? "seconds" : "measurements");
}

static int report(const struct search *s, const struct explore_result *r)
{
	const struct options *o = s->o;
	json_t *found = json_array(), *j;
	int status;

	for (uint32_t i = 0; i < r->n; i++)
		json_array_append_new(found, found_json(&o->space, &r->found[i], r->found_at[i]));
	if (!o->json || strcmp(o->json, "-"))
		print_result(s, r);
	j = json_pack("{s:s s:s s:i s:i s:i s:i s:o}", "command", "search", "version",
		RDMABENCH_VERSION, "tries", (int)r->tries, "measurements", (int)r->measurements,
		"failures", (int)r->failures, "refuted", (int)r->refuted, "anomalies", found);
	status = o->json ? report_write(j, o->json, false) : 0;
	json_decref(j);
	return status;
}

static const char too_long[] =
	"the commands of a point are too long: give shorter values of options, or install rdmabench "
	"in a directory with a shorter name";

static void say_why(const struct search *s, int err)
{
	fprintf(stderr, "rdmabench search: %s: ", s->o->log);
	if (err == -ENODEV)
		fprintf(stderr,
			"points that could be measured before fail now (%s): when the device works "
			"again, give --resume\n",
			s->why);
	else
		fprintf(stderr, "%s\n",
			err == -EBADMSG ? "the journal is of another search, or damaged" :
			err == -E2BIG   ? too_long :
					  strerror(-err));
}

static int run(struct search *s)
{
	static struct explore_result r;
	int err = explore(&s->o->x, measure, s, &r);

	err = err ? err : s->err;
	for (uint32_t i = 0; i < r.n && !err; i++)
		err = searchlog_target(s->log, i, &r.found[i], r.found_at[i]);
	if (err) {
		say_why(s, err);
		return 1;
	}
	if (r.tries && r.failures == r.tries) {
		fprintf(stderr, "rdmabench search: no point could be measured\n");
		searchlog_forget(s->log);
		return report(s, &r) || 1;
	}
	say_blunt(&r);
	return report(s, &r);
}

/* Prints the commands of as many random points as there are tries, at most three. */
static int dry_run(struct search *s)
{
	uint64_t rand = s->o->x.seed;

	for (uint32_t i = 0; i < s->o->x.tries && i < 3; i++) {
		struct point p;

		point_random(&s->o->space, &p, &rand);
		if (!trial_script(&s->trial, &p, "dry", s->script, sizeof(s->script))) {
			fprintf(stderr, "rdmabench search: %s\n", too_long);
			return 1;
		}
		fputs(s->script, stdout);
	}
	return 0;
}

static int prepare(struct search *s)
{
	ssize_t n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);

	s->end_ns = s->o->budget_ns ? clock_ns() + s->o->budget_ns : 0;
	s->trial = s->o->trial;
	s->trial.program = n > 0 ? s->program : "rdmabench";
	s->trial.stats_dir = s->stats_dir;
	if (snprintf(s->stats_dir, sizeof(s->stats_dir), "%s/stats", s->o->log ? s->o->log : ".") >=
		(int)sizeof(s->stats_dir))
		return -ENAMETOOLONG;
	return is_far(&s->trial) || commands_fit(s->stats_dir) ? 0 : -ENAMETOOLONG;
}

static int with_log(struct search *s)
{
	enum searchlog_mode mode = s->o->resume ? SEARCHLOG_RESUME :
				   s->o->force  ? SEARCHLOG_FORCE :
						  SEARCHLOG_NEW;
	json_t *header = header_json(s->o);
	char why[300];
	int err = searchlog_open(s->o->log, mode, &s->o->space, header, &s->log, why, sizeof(why)),
	    status;

	json_decref(header);
	if (err) {
		fprintf(stderr, "rdmabench search: %s\n", why);
		return 2;
	}
	status = run(s);
	searchlog_close(s->log);
	return status;
}

int search_main(int argc, char **argv)
{
	static struct search s;
	struct options o;

	parse(argc, argv, &o);
	signal(SIGPIPE, SIG_IGN);
	s.o = &o;
	if (prepare(&s)) {
		fprintf(stderr, "rdmabench search: %.120s: give a shorter --log\n", o.log);
		return 2;
	}
	return o.dry_run ? dry_run(&s) : with_log(&s);
}
