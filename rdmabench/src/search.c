/* SPDX-License-Identifier: MIT */
#include "search.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/oldargs.h"
#include "engine.h"
#include "explore.h"
#include "model.h"
#include "searchlog.h"
#include "trial.h"

static const char usage[] =
	"Usage: rdmabench search --log DIR [OPTION]...\n"
	"Looks for traffic that a device handles badly: runs engines on this machine, point after\n"
	"point, and writes what came of each below DIR.\n"
	"\n"
	"  --log DIR            result/N, reproduce/N.sh, target/N; must not be there, or empty\n"
	"  --resume             go on with the search in DIR, which had the same options\n"
	"  --force              remove an earlier search from DIR first, and nothing else\n"
	"  --method NAME        random, sample or anneal (anneal)\n"
	"  --seed N             the same points for the same measurements (1)\n"
	"  --tries N            points, 1 to 1000000 (100)\n"
	"  --anomalies N        stop after so many, 1 to 64 (when the tries are made)\n"
	"  --fix NAME=VALUE     a parameter that is not varied, e.g. 0.qp_num=4; may be given often\n"
	"  --inject             also drop, rnr and delay of the n-th message: software HCA only\n"
	"  --no-features        do not look for minimal feature sets\n"
	"  -D, --duration S     seconds of traffic per point, .01 to 3600 (1)\n"
	"  -d, --ib-dev NAME    device (the first)\n"
	"  --peer-dev NAME      device at the other end (the same)\n"
	"  --compat             statistics as older tools write and merge them\n"
	"  --model NAME         no device, but a known landscape: corner, interior or deceptive\n"
	"What is an anomaly\n"
	"  --tx-pause US        more pauses than that, microseconds per second (1000)\n"
	"  --rx-pause US        (0)\n"
	"  --gbps X             less throughput both ways (90), and\n"
	"  --packets X          fewer packets per second both ways (4000000)\n"
	"  --p99-us X           a higher p99 of the latency (any is good)\n"
	"Output\n"
	"  --dry-run            print the commands of the first points, and run nothing\n"
	"  --json FILE          what was found as a JSON object; - is standard output\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 the search failed, 2 a bad command line.\n";

#define PROBE "probe" /* the run of a point that is measured again */
#define HOPELESS 5 /* first points that cannot be measured: the others would not, either */

struct options {
	struct explore_attr x;
	struct trial_attr trial;
	const char *log, *json;
	unsigned model; /* of model_names */
	bool has_model, inject, resume, force, dry_run, help;
};

enum {
	OPT_LOG = 256,
	OPT_RESUME,
	OPT_FORCE,
	OPT_METHOD,
	OPT_SEED,
	OPT_TRIES,
	OPT_ANOMALIES,
	OPT_NO_FEATURES,
	OPT_INJECT,
	OPT_PEER_DEV,
	OPT_FIX,
	OPT_COMPAT,
	OPT_MODEL,
	OPT_TX_PAUSE,
	OPT_RX_PAUSE,
	OPT_GBPS,
	OPT_PACKETS,
	OPT_P99,
	OPT_DRY_RUN,
	OPT_JSON,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"log", required_argument, NULL, OPT_LOG},
	{"resume", no_argument, NULL, OPT_RESUME},
	{"force", no_argument, NULL, OPT_FORCE},
	{"method", required_argument, NULL, OPT_METHOD},
	{"seed", required_argument, NULL, OPT_SEED},
	{"tries", required_argument, NULL, OPT_TRIES},
	{"anomalies", required_argument, NULL, OPT_ANOMALIES},
	{"inject", no_argument, NULL, OPT_INJECT},
	{"peer-dev", required_argument, NULL, OPT_PEER_DEV},
	{"fix", required_argument, NULL, OPT_FIX},
	{"no-features", no_argument, NULL, OPT_NO_FEATURES},
	{"duration", required_argument, NULL, 'D'},
	{"ib-dev", required_argument, NULL, 'd'},
	{"compat", no_argument, NULL, OPT_COMPAT},
	{"model", required_argument, NULL, OPT_MODEL},
	{"tx-pause", required_argument, NULL, OPT_TX_PAUSE},
	{"rx-pause", required_argument, NULL, OPT_RX_PAUSE},
	{"gbps", required_argument, NULL, OPT_GBPS},
	{"packets", required_argument, NULL, OPT_PACKETS},
	{"p99-us", required_argument, NULL, OPT_P99},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

static int parse_method(const struct arg *a, struct options *o)
{
	unsigned i = 0;
	int err = arg_word(a, explore_methods, &i);

	if (!err)
		o->x.method = (enum explore_method)i;
	return err;
}

static int parse_p99(const struct arg *a, struct rules *r)
{
	double us = 0;
	int err = arg_real(a, .001, 1e9, &us);

	if (!err)
		r->p99_ns = us * 1000;
	return err;
}

static int parse_rule(int val, const struct arg *a, struct rules *r)
{
	switch (val) {
	case OPT_TX_PAUSE:
		return arg_real(a, 0, 1e6, &r->tx_pause);
	case OPT_RX_PAUSE:
		return arg_real(a, 0, 1e6, &r->rx_pause);
	case OPT_GBPS:
		return arg_real(a, 0, 1e6, &r->gbps);
	case OPT_PACKETS:
		return arg_real(a, 0, 1e12, &r->packets);
	default:
		return parse_p99(a, r);
	}
}

static int parse_flag(int val, struct options *o)
{
	o->inject |= val == OPT_INJECT;
	o->resume |= val == OPT_RESUME;
	o->force |= val == OPT_FORCE;
	o->trial.compat |= val == OPT_COMPAT;
	o->dry_run |= val == OPT_DRY_RUN;
	o->help |= val == OPT_HELP;
	if (val == OPT_NO_FEATURES)
		o->x.features = false;
	return 0;
}

static int parse_option(void *arg, int val, const struct arg *a)
{
	struct options *o = arg;

	switch (val) {
	case OPT_LOG:
		return arg_text(a, "a directory", &o->log);
	case OPT_METHOD:
		return parse_method(a, o);
	case OPT_SEED:
		return arg_whole(a, 0, INT64_MAX, &o->x.seed);
	case OPT_TRIES:
		return arg_u32(a, 1, 1000000, &o->x.tries);
	case OPT_ANOMALIES:
		return arg_u32(a, 1, EXPLORE_ANOMALIES, &o->x.anomalies);
	case 'D':
		return arg_real(a, .01, 3600, &o->trial.seconds);
	case 'd':
		return arg_text(a, "a device like mlx5_0", &o->trial.device);
	case OPT_PEER_DEV:
		return arg_text(a, "a device like mlx5_1", &o->trial.peer);
	case OPT_MODEL:
		o->has_model = true;
		return arg_word(a, model_names, &o->model);
	case OPT_FIX:
		return fixed_add(&o->x.fixed, a->value, a->why, a->size);
	case OPT_JSON:
		return arg_text(a, "a file name, or -", &o->json);
	case OPT_TX_PAUSE:
	case OPT_RX_PAUSE:
	case OPT_GBPS:
	case OPT_PACKETS:
	case OPT_P99:
		return parse_rule(val, a, &o->x.rules);
	default:
		return parse_flag(val, o);
	}
}

/* But where --fix asks for one. */
static void leave_out_injection(struct fixed *f)
{
	for (unsigned traffic = 0; traffic < 2; traffic++) {
		unsigned dim = space_dim(traffic, DIM_INJECT, 0);

		f->point.at[dim] = f->on[dim] ? f->point.at[dim] : INJECT_NONE;
		f->on[dim] = true;
	}
}

static int parse(int argc, char **argv, struct options *o, char *why, size_t size)
{
	int first;

	*o = (struct options){
		.x = {.method = EXPLORE_ANNEAL, .seed = 1, .tries = 100, .features = true},
		.trial = {.seconds = 1}};
	rules_init(&o->x.rules);
	first = args_read(argc, argv, ":D:d:", long_options, parse_option, o, why, size);
	if (first < 0 || o->help)
		return first < 0 ? first : 0;
	if (args_end(argc, argv, first, why, size))
		return -EINVAL;
	if (!o->log && !o->dry_run)
		return args_fail(why, size, "where to write: give --log");
	if (o->resume && o->force)
		return args_fail(why, size, "give either --resume or --force");
	if (o->trial.peer && !o->trial.device)
		return args_fail(why, size, "--peer-dev has another end: give --ib-dev, too");
	if (!o->inject)
		leave_out_injection(&o->x.fixed);
	return 0;
}

/* ---- the search ---- */

struct search {
	const struct options *o;
	struct searchlog *log;
	struct trial_attr trial;
	char stats_dir[PATH_MAX], program[PATH_MAX];
	enum model_kind model;
	char script[TRIAL_SCRIPT];
	int err; /* why the search ended */
	bool works; /* a point could be measured: */
	struct point good; /* the last one */
	unsigned failures; /* until then */
};

/* Whether a point that could be measured cannot any more: then it is not the point. */
static bool is_dead(struct search *s)
{
	struct measure m = {0};
	int err = searchlog_clear(s->log, PROBE);

	if (!err)
		err = trial_run(&s->trial, &s->good, PROBE, &m);
	json_decref(m.counters);
	return searchlog_clear(s->log, PROBE) || err;
}

/* Where all measurements come from: the journal, the model, or engines. */
static int measure_new(struct search *s, const struct explore_ask *ask, struct measure *m_p)
{
	char name[64];
	int err;

	searchlog_name(s->log, ask, name, sizeof(name));
	if (!trial_script(&s->trial, ask->point, name, s->script, sizeof(s->script)))
		return -ENAMETOOLONG;
	s->err = searchlog_clear(s->log, name);
	if (s->err)
		return -ECANCELED;
	if (s->o->has_model)
		err = model_measure(&s->model, ask->point, m_p);
	else
		err = trial_run(&s->trial, ask->point, name, m_p);
	if (err && s->works && is_dead(s)) {
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

	if (s->failures == HOPELESS)
		return -ECANCELED;
	err = measure_or_replay(s, ask, m_p);
	if (!err) {
		s->works = true;
		s->good = *ask->point;
	}
	s->failures += err && !s->works;
	return err;
}

static json_t *fixed_json(const struct fixed *f)
{
	json_t *list = json_array();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char name[SPACE_NAME], value[SPACE_NAME];

		space_name(dim, name);
		space_value(dim, f->point.at[dim], value);
		if (f->on[dim])
			json_array_append_new(list, json_sprintf("%s=%s", name, value));
	}
	return list;
}

static json_t *header_json(const struct options *o)
{
	const struct rules *r = &o->x.rules;

	return json_pack("{s:i s:s s:I s:i s:i s:b s:o s:s s:f s:b s:s s:s s:[f,f,f,f,f]}",
		"version", 3, "method", explore_methods[o->x.method], "seed", (json_int_t)o->x.seed,
		"tries", (int)o->x.tries, "anomalies", (int)o->x.anomalies, "features",
		o->x.features, "fixed", fixed_json(&o->x.fixed), "model",
		o->has_model ? model_names[o->model] : "", "duration_s", o->trial.seconds, "compat",
		o->trial.compat, "device", o->trial.device ? o->trial.device : "", "peer",
		o->trial.peer ? o->trial.peer : "", "rules", r->tx_pause, r->rx_pause, r->gbps,
		r->packets, r->p99_ns);
}

static const char *kind_name(enum anomaly kind)
{
	return kind == ANOMALY_PAUSE      ? "pauses" :
	       kind == ANOMALY_THROUGHPUT ? "throughput" :
					    "latency";
}

static json_t *found_json(const struct feature_set *f, uint32_t found_at)
{
	json_t *features = json_array();

	for (unsigned dim = 0; dim < SPACE_DIMS; dim++) {
		char name[SPACE_NAME];

		space_name(dim, name);
		if (f->needed[dim])
			json_array_append_new(features, json_string(name));
	}
	return json_pack("{s:i s:s s:o s:o}", "try", (int)found_at - 1, "anomaly",
		kind_name(f->kind), "features", features, "point", point_json(&f->point));
}

/* Which option to give, so that not every point is an anomaly. */
static void say_blunt(const struct explore_result *r)
{
	static const char *const options[] = {[-ANOMALY_PAUSE] = "--tx-pause or --rx-pause",
		[-ANOMALY_THROUGHPUT] = "--gbps or --packets",
		[-ANOMALY_LATENCY] = "--p99-us"};

	for (int kind = ANOMALY_PAUSE; kind >= ANOMALY_LATENCY; kind--)
		if (r->blunt[-kind])
			fprintf(stderr,
				"rdmabench search: %s: an anomaly stayed with each parameter "
				"changed, so features were not looked for again; give another %s\n",
				kind_name((enum anomaly)kind), options[-kind]);
}

static int report(const struct options *o, const struct explore_result *r)
{
	json_t *found = json_array(), *j;
	int status;

	for (uint32_t i = 0; i < r->n; i++)
		json_array_append_new(found, found_json(&r->found[i], r->found_at[i]));
	for (uint32_t i = 0; i < r->n && (!o->json || strcmp(o->json, "-")); i++)
		printf("anomaly %u (%s) at try %u: see %s/target/%u\n", i,
			kind_name(r->found[i].kind), r->found_at[i] - 1, o->log, i);
	if (!o->json || strcmp(o->json, "-"))
		printf("%u points, %u could not be measured, %u anomalies\n", r->tries, r->failures,
			r->n);
	j = json_pack("{s:s s:s s:i s:i s:o}", "command", "search", "version", RDMABENCH_VERSION,
		"tries", (int)r->tries, "failures", (int)r->failures, "anomalies", found);
	status = o->json ? report_write(j, o->json, false) : 0;
	json_decref(j);
	return status;
}

static const char *why_ended(int err)
{
	switch (err) {
	case -EBADMSG:
		return "the journal is of another search, or damaged";
	case -ENODEV:
		return "what could be measured cannot any more: when the device works again, give "
		       "--resume";
	default:
		return strerror(-err);
	}
}

static int run(struct search *s)
{
	static struct explore_result r;
	int err = explore(&s->o->x, measure, s, &r);

	err = err ? err : s->err;
	for (uint32_t i = 0; i < r.n && !err; i++)
		err = searchlog_target(s->log, i, &r.found[i], r.found_at[i]);
	if (err) {
		fprintf(stderr, "rdmabench search: %s: %s\n", s->o->log, why_ended(err));
		return 1;
	}
	if (r.failures == r.tries) {
		fprintf(stderr, "rdmabench search: no point could be measured\n");
		searchlog_forget(s->log);
		return report(s->o, &r) || 1;
	}
	say_blunt(&r);
	return report(s->o, &r);
}

/* What would be run, of as many random points as there are tries, at most three. */
static int dry_run(struct search *s)
{
	uint64_t rand = s->o->x.seed;

	for (uint32_t i = 0; i < s->o->x.tries && i < 3; i++) {
		struct point p;

		point_random(&p, &rand);
		fixed_apply(&s->o->x.fixed, &p);
		if (!trial_script(&s->trial, &p, "dry", s->script, sizeof(s->script)))
			return 1;
		fputs(s->script, stdout);
	}
	return 0;
}

static int prepare(struct search *s)
{
	ssize_t n = readlink("/proc/self/exe", s->program, sizeof(s->program) - 1);

	s->trial = s->o->trial;
	s->trial.program = n > 0 ? s->program : "rdmabench";
	s->trial.stats_dir = s->stats_dir;
	s->model = (enum model_kind)s->o->model;
	if (snprintf(s->stats_dir, sizeof(s->stats_dir), "%s/stats", s->o->log ? s->o->log : ".") >=
		(int)sizeof(s->stats_dir))
		return -ENAMETOOLONG;
	return 0;
}

static int with_log(struct search *s)
{
	enum searchlog_mode mode = s->o->resume ? SEARCHLOG_RESUME :
				   s->o->force  ? SEARCHLOG_FORCE :
						  SEARCHLOG_NEW;
	json_t *header = header_json(s->o);
	char why[300];
	int err = searchlog_open(s->o->log, mode, header, &s->log, why, sizeof(why)), status;

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
	char why[300];

	if (parse(argc, argv, &o, why, sizeof(why))) {
		fprintf(stderr, "rdmabench search: %s\n", why);
		return 2;
	}
	if (o.help)
		return fputs(usage, stdout) < 0;
	signal(SIGPIPE, SIG_IGN);
	s.o = &o;
	if (prepare(&s)) {
		fprintf(stderr, "rdmabench search: give a shorter --log\n");
		return 2;
	}
	return o.dry_run ? dry_run(&s) : with_log(&s);
}
