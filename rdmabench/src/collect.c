/* SPDX-License-Identifier: MIT */
#include "collect.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/args.h"
#include "base/compiler.h"
#include "base/output.h"
#include "text.h"
#include "engine.h"
#include "gather.h"
#include "remote.h"

#define HOSTS_MAX PROCESSES_MAX
#define COMMAND_MAX 16384

struct hosts {
	const char *name[HOSTS_MAX];
	size_t n;
};

struct options {
	struct gather_attr attr;
	struct hosts hosts;
	bool no_local;
	uint32_t timeout_s;
	const char *cdf, *json;
	char **paths;
	int n_paths;
};

/* Reads a host's name; a host that is named twice is used once. */
static int read_host(const struct arg *a, void *hosts)
{
	struct hosts *h = hosts;

	if (!remote_is_host(a->value))
		return arg_bad(a, "a host, or user@host");
	for (size_t i = 0; i < h->n; i++) {
		if (!strcmp(h->name[i], a->value))
			return 0;
	}
	if (h->n == HOSTS_MAX)
		return arg_bad(a, "at most 256 hosts");
	h->name[h->n++] = a->value;
	return 0;
}

#define AT(field) ARG_AT(struct options, field)

static const struct arg_row rows[] = {
	{"host", 0, "[USER@]HOST", ARG_CALL, AT(hosts), .read = read_host,
		.help = "read the paths on HOST too, by ssh; may be repeated"},
	{"no-local", 0, NULL, ARG_FLAG, AT(no_local), .with = "host",
		.help = "read the paths on the machines of --host only"},
	{"timeout", 0, "S", ARG_WHOLE, AT(timeout_s), .min = 1, .max = 3600, .def = "10",
		.help = "seconds for all machines together"},
	{"run", 0, "NAME", ARG_CALL, AT(attr.run), .read = read_name,
		.help = "only files of this run; files of --compat do not name their run"},
	{"max-age", 0, "S", ARG_WHOLE, AT(attr.max_age_s), .min = 1, .max = 1u << 31,
		.help = "only files that were written in the last S seconds"},
	{"compat", 0, NULL, ARG_FLAG, AT(attr.compat), .not_with = "run cdf",
		.help = "files and rules of older tools: means are averaged, of percentiles the "
			"largest is taken"},
	{"cdf", 0, "FILE", ARG_TEXT, AT(cdf),
		.help = "the distribution: latency in ns, fraction; for scripts/plot cdf"},
	{"json", 0, "FILE", ARG_TEXT, AT(json),
		.help = "the result as a JSON object on a line; - is standard output"},
	{"help", .kind = ARG_HELP},
};

static const char usage[] =
	"Usage: rdmabench collect [OPTION]... PATH...\n"
	"Merges the statistics files of many processes and machines. A PATH is a file, or a\n"
	"directory, in which all files that end in .jsonl (with --compat in .txt) are taken.\n"
	"Files that cannot be used are named on standard error and skipped.\n";

static int check(const struct args *args, const struct options *o)
{
	if (!o->n_paths)
		return args_fail(args, "no files: give at least one path");
	if (o->attr.compat && o->hosts.n && (o->n_paths > 1 || o->attr.max_age_s))
		return args_fail(args, "--compat reads one file per host, whose age it cannot "
				       "see: give one path, and no --max-age");
	return 0;
}

static void parse(int argc, char **argv, struct options *o)
{
	struct args args = {ARGS_ROWS(rows), .usage = usage,
		.tail = "Status: 0, 1 there were no statistics, 2 a bad command line.\n",
		.operands = true};
	int first = args_main(&args, "rdmabench collect", argc, argv, o);

	o->paths = argv + first;
	o->n_paths = argc - first;
	if (check(&args, o))
		args_exit(&args, "rdmabench collect", -EINVAL);
}

/*
 * Prints the files that are its arguments and, for a directory, those that gather_path() would
 * read. sed(1) puts a newline between files that lack one, and $G one after the last, so a torn
 * line spoils no other file.
 */
#define SCRIPT                                                                                     \
	"s=0; for p do if [ -d \"$p\" ]; then "                                                    \
	"find -L \"$p/.\" -maxdepth 4 -name \".?*\" -prune "                                       \
	"-o -type f -name \"*.jsonl\" -exec sed -e \\$G {} +; "                                    \
	"else sed -e \\$G \"$p\"; fi || s=1; done; exit $s"

/* Makes the command for the shells of the other machines, which need not be sh. */
static bool make_command(const struct options *o, char *command, size_t size)
{
	snprintf(command, size, "%s", o->attr.compat ? "cat --" : "sh -c '" SCRIPT "' sh");
	for (int i = 0; i < o->n_paths; i++) {
		char path[COMMAND_MAX];
		int n = snprintf(path, sizeof(path), "%s%s", o->paths[i][0] == '-' ? "./" : "",
			o->paths[i]);

		if (n >= (int)sizeof(path) || !remote_quote(command, size, path))
			return false;
	}
	return true;
}

static void gather_hosts(struct gather *g, const struct options *o)
{
	static struct process p[PROCESSES_MAX];
	char command[COMMAND_MAX], why[120];

	if (!make_command(o, command, sizeof(command))) {
		gather_skip(g, "all hosts", "the paths are too long");
		return;
	}
	remote_run(p, o->hosts.name, o->hosts.n, command, o->timeout_s);
	for (size_t i = 0; i < o->hosts.n; i++) {
		remote_explain(&p[i], why, sizeof(why));
		if (p[i].len && !(why[0] && o->attr.compat))
			gather_add(g, o->hosts.name[i], p[i].out, p[i].len);
		if (why[0] || !p[i].len)
			gather_skip(g, o->hosts.name[i], why[0] ? why : "it has no files");
		free(p[i].out);
	}
}

static void print_text(const struct gather *g, const struct options *o)
{
	struct stats s;

	if (o->attr.compat) {
		stats_print_merged(gather_merged(g), stdout);
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

/* Prints for each used bucket its largest value and the fraction of samples up to it. */
static int write_cdf(const struct latrec_hist *h, const char *path)
{
	struct latrec_range range;
	FILE *out;
	uint64_t upto = 0;

	if (output_open("rdmabench collect", path, "we", &out))
		return 1;
	fprintf(out, "# latency_ns fraction\n");
	for (uint32_t at = 0; (at = latrec_hist_next(h, at, &range, sizeof(range)));) {
		double fraction;

		upto += range.count;
		fraction = (double)upto / (double)latrec_hist_count(h);
		fprintf(out, "%" PRIu64 " %.9f\n", latrec_hist_quantile(h, fraction), fraction);
	}
	return output_close("rdmabench collect", path, out, 0);
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
	struct options o = {0};
	struct gather *g;
	int status;

	parse(argc, argv, &o);
	g = gather_create(&o.attr);
	if (!g) {
		fprintf(stderr, "rdmabench collect: %s\n", strerror(ENOMEM));
		return 1;
	}
	for (int i = 0; i < o.n_paths && !o.no_local; i++)
		gather_path(g, o.paths[i]);
	if (o.hosts.n)
		gather_hosts(g, &o);
	status = show(g, &o);
	gather_destroy(g);
	return status;
}
