/* SPDX-License-Identifier: MIT */
#include "collect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/oldargs.h"
#include "text.h"
#include "engine.h"
#include "gather.h"
#include "remote.h"

#define HOSTS_MAX 256
#define COMMAND_MAX 16384

static const char usage[] =
	"Usage: rdmabench collect [OPTION]... PATH...\n"
	"Merges the statistics files of many processes and machines. A PATH is a file, or a\n"
	"directory, below which all files are taken that end in .jsonl (--compat: in .txt).\n"
	"What cannot be used is named on standard error and skipped.\n"
	"\n"
	"  --host [USER@]HOST   read the paths on this machine too, by ssh; may be repeated\n"
	"  --no-local           read them there only\n"
	"  --timeout S          for all machines together, 1 to 3600 (10)\n"
	"  --run NAME           only files of this run (not with --compat, which does not know)\n"
	"  --max-age S          only files that were written in the last S seconds\n"
	"  --compat             files and rules of older tools: means are averaged, of\n"
	"                       percentiles the largest is taken\n"
	"  --cdf FILE           the distribution: latency in ns, fraction; for scripts/plot cdf\n"
	"  --json FILE          the result as a JSON object on a line; - is standard output\n"
	"  --help\n"
	"\n"
	"Status: 0, 1 there were no statistics, 2 a bad command line.\n";

struct options {
	struct gather_attr attr;
	const char *hosts[HOSTS_MAX];
	size_t n_hosts;
	bool no_local, help;
	uint32_t timeout_s;
	const char *cdf, *json;
	char **paths;
	int n_paths;
};

enum {
	OPT_HOST = 256,
	OPT_NO_LOCAL,
	OPT_TIMEOUT,
	OPT_RUN,
	OPT_MAX_AGE,
	OPT_COMPAT,
	OPT_CDF,
	OPT_JSON,
	OPT_HELP,
};

static const struct option long_options[] = {
	{"host", required_argument, NULL, OPT_HOST},
	{"no-local", no_argument, NULL, OPT_NO_LOCAL},
	{"timeout", required_argument, NULL, OPT_TIMEOUT},
	{"run", required_argument, NULL, OPT_RUN},
	{"max-age", required_argument, NULL, OPT_MAX_AGE},
	{"compat", no_argument, NULL, OPT_COMPAT},
	{"cdf", required_argument, NULL, OPT_CDF},
	{"json", required_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* Who is named twice is asked once. */
static int add_host(const struct arg *a, struct options *o)
{
	if (!remote_is_host(a->value))
		return arg_bad(a, "a host, or user@host");
	for (size_t i = 0; i < o->n_hosts; i++) {
		if (!strcmp(o->hosts[i], a->value))
			return 0;
	}
	if (o->n_hosts == HOSTS_MAX)
		return arg_bad(a, "at most 256 hosts");
	o->hosts[o->n_hosts++] = a->value;
	return 0;
}

static int parse_option(void *arg, int val, const struct arg *a)
{
	struct options *o = arg;

	switch (val) {
	case OPT_HOST:
		return add_host(a, o);
	case OPT_NO_LOCAL:
		o->no_local = true;
		return 0;
	case OPT_TIMEOUT:
		return arg_u32(a, 1, 3600, &o->timeout_s);
	case OPT_RUN:
		return arg_name(a, &o->attr.run);
	case OPT_MAX_AGE:
		return arg_whole(a, 1, 1u << 31, &o->attr.max_age_s);
	case OPT_COMPAT:
		o->attr.compat = true;
		return 0;
	case OPT_CDF:
		return arg_text(a, "a file name", &o->cdf);
	case OPT_JSON:
		return arg_text(a, "a file name, or -", &o->json);
	default:
		o->help = true;
		return 0;
	}
}

static int parse(int argc, char **argv, struct options *o, char *why, size_t size)
{
	int first;

	*o = (struct options){.timeout_s = 10};
	first = args_read(argc, argv, ":", long_options, parse_option, o, why, size);
	if (first < 0 || o->help)
		return first < 0 ? first : 0;
	o->paths = argv + first;
	o->n_paths = argc - first;
	if (!o->n_paths)
		return args_fail(why, size, "no files: give at least one path");
	if (o->attr.compat && (o->attr.run || o->cdf))
		return args_fail(why, size,
			"compatible files have neither run nor distribution: give "
			"--compat without --run and --cdf");
	if (o->attr.compat && o->n_hosts && (o->n_paths > 1 || o->attr.max_age_s))
		return args_fail(why, size,
			"--compat reads one file per host, whose age it does not "
			"see: give one path, and no --max-age");
	if (o->no_local && !o->n_hosts)
		return args_fail(why, size, "nothing is left to read: give --host with --no-local");
	return 0;
}

/* For the shells of the other machines; find(1) takes files and directories alike. */
static bool make_command(const struct options *o, char *command, size_t size)
{
	const char *rest = " -type f -name '*.jsonl' -exec cat -- {} +";

	snprintf(command, size, "%s", o->attr.compat ? "cat --" : "find");
	for (int i = 0; i < o->n_paths; i++) {
		char path[COMMAND_MAX];
		int n = snprintf(path, sizeof(path), "%s%s", o->paths[i][0] == '-' ? "./" : "",
			o->paths[i]);

		if (n >= (int)sizeof(path) || !remote_quote(command, size, path))
			return false;
	}
	if (o->attr.compat)
		return true;
	if (strlen(command) + strlen(rest) >= size)
		return false;
	strcat(command, rest);
	return true;
}

static void gather_hosts(struct gather *g, const struct options *o)
{
	struct remote *r = calloc(o->n_hosts, sizeof(*r));
	char command[COMMAND_MAX];

	if (!r || !make_command(o, command, sizeof(command))) {
		gather_skip(g, "all hosts", r ? "the paths are too long" : "out of memory");
		free(r);
		return;
	}
	for (size_t i = 0; i < o->n_hosts; i++)
		r[i].host = o->hosts[i];
	remote_run(r, o->n_hosts, command, o->timeout_s);
	for (size_t i = 0; i < o->n_hosts; i++) {
		if (r[i].len && !(r[i].why[0] && o->attr.compat))
			gather_add(g, r[i].host, r[i].out, r[i].len);
		if (r[i].why[0] || !r[i].len)
			gather_skip(g, r[i].host, r[i].why[0] ? r[i].why : "it has no files");
		free(r[i].out);
	}
	free(r);
}

static void print_merged(const struct stats_merged *m, FILE *out)
{
	char text[64];

	fprintf(out, "%s:  %" PRIu64 "\n", stats_names[STATS_SAMPLES], m->samples);
	for (int k = STATS_MIN; k < STATS_KEYS; k++) {
		stats_real(m->v[k], text, sizeof(text));
		fprintf(out, "%s:  %s\n", stats_names[k], m->has[k] ? text : "None");
	}
}

static void print_text(const struct gather *g, const struct options *o)
{
	struct stats s;

	if (o->attr.compat) {
		print_merged(gather_merged(g), stdout);
		return;
	}
	stats_of_hist(gather_hist(g), &s);
	stats_print(&s, stdout);
}

static json_t *result_json(const struct gather *g, const struct options *o, bool any)
{
	json_t *j = json_pack("{s:s s:s s:b s:O s:O s:i}", "command", "collect", "version",
		RDMABENCH_VERSION, "compat", o->attr.compat, "sources", gather_sources(g),
		"skipped", gather_skipped(g), "status", !any);
	const struct stats_merged *m = gather_merged(g);
	struct stats s;

	if (!o->attr.compat)
		stats_of_hist(gather_hist(g), &s);
	for (int k = 0; k < STATS_KEYS; k++) {
		json_t *v;

		if (!o->attr.compat)
			v = json_integer((json_int_t)s.v[k]);
		else if (k == STATS_SAMPLES)
			v = json_integer((json_int_t)m->samples);
		else
			v = m->has[k] ? json_real(m->v[k]) : json_null();
		json_object_set_new(j, stats_names[k], v);
	}
	return j;
}

/* Each bucket that holds something: its largest value, and the fraction up to it. */
static int write_cdf(const struct latrec_hist *h, const char *path)
{
	FILE *out = fopen(path, "we");
	uint64_t upto = 0;
	bool bad;

	if (!out) {
		fprintf(stderr, "rdmabench collect: %s: %s\n", path, strerror(errno));
		return 1;
	}
	fprintf(out, "# latency_ns fraction\n");
	for (uint32_t i = 0; i < LATREC_BUCKETS; i++) {
		double fraction;

		if (!h->bucket[i])
			continue;
		upto += h->bucket[i];
		fraction = (double)upto / (double)h->count;
		fprintf(out, "%" PRIu64 " %.9f\n", latrec_hist_quantile(h, fraction), fraction);
	}
	bad = ferror(out);
	bad |= fclose(out) != 0;
	if (bad)
		fprintf(stderr, "rdmabench collect: %s: cannot be written\n", path);
	return bad;
}

static int show(struct gather *g, const struct options *o)
{
	bool any = gather_merge(g);
	int status = !any;
	json_t *j;

	if (!any)
		fprintf(stderr, "rdmabench collect: no statistics\n");
	else if (!o->json || strcmp(o->json, "-"))
		print_text(g, o);
	if (any && o->cdf)
		status |= write_cdf(gather_hist(g), o->cdf);
	if (o->json) {
		j = result_json(g, o, any);
		status |= report_write(j, o->json, false);
		json_decref(j);
	}
	return status;
}

int collect_main(int argc, char **argv)
{
	struct options o;
	struct gather *g;
	char why[300];
	int status;

	if (parse(argc, argv, &o, why, sizeof(why))) {
		fprintf(stderr, "rdmabench collect: %s\n", why);
		return 2;
	}
	if (o.help)
		return fputs(usage, stdout) < 0;
	g = gather_create(&o.attr);
	if (!g) {
		fprintf(stderr, "rdmabench collect: %s\n", strerror(ENOMEM));
		return 1;
	}
	for (int i = 0; i < o.n_paths && !o.no_local; i++)
		gather_path(g, o.paths[i]);
	if (o.n_hosts)
		gather_hosts(g, &o);
	status = show(g, &o);
	gather_destroy(g);
	return status;
}
