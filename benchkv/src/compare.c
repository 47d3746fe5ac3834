/* SPDX-License-Identifier: MIT */
#include "compare.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/order.h"
#include "base/output.h"
#include "job.h"
#include "options.h"

/* The figures that are compared. A figure that a report lacks, or that is 0, is left out. */
static const struct figure {
	const char *name, *group; /* group: the object that contains it, or NULL */
	bool more; /* more is better */
} figures[] = {
	{"ops_per_s", NULL, true},
	{"cpu_us_per_op", NULL, false},
	{"doorbells_per_op", "copyrpc", false},
	{"bytes_per_op", "copyrpc", false},
	{"mean", "latency_ns", false},
	{"p50", "latency_ns", false},
	{"p99", "latency_ns", false},
	{"p999", "latency_ns", false},
};

/* The fields of a report that describe a setting. */
static const char *const parameters[] = {"backend", "np", "daemons", "net_daemons", "clients",
	"queue_depth", "run_count", "key_range", "read_ratio", "rmw", "distribution", "value_size",
	"preload", "seed", "ring_size", "device", "software_hca", "control", "rate", "warmup_s",
	"requested", "version", "host"};

#define BOTH_SIDES "A and B" /* a difference's `jobs`: the first job of each side */

/* One row: the medians of both sides, the ratio B/A (compare.h) and its interval, if any. */
struct row {
	double median[2], ratio, low, high;
	bool there, interval, worse; /* worse: by more than the tolerance */
	char name[40], words[60]; /* name of the figure; the verdict in words */
};

/* Two settings, with the number of pairs of jobs that took turns. */
struct comparison {
	json_t *const *reports;
	const char *const *name;
	double tolerance;
	size_t pairs;
	json_t *differences; /* objects: a parameter, the jobs that differ in it, two values */
	struct row rows[ARRAY_SIZE(figures)];
};

static int bad(const char *name, const char *what)
{
	fprintf(stderr, "benchkv: %s: %s\n", name, what);
	return -EINVAL;
}

static int no_memory(const char *name)
{
	output_failed("benchkv", name, ENOMEM);
	return -ENOMEM;
}

static double value_of(const json_t *report, const struct figure *f)
{
	const json_t *in = f->group ? json_object_get(report, f->group) : report;

	return json_number_value(json_object_get(in, f->name)); /* 0: also if there is none */
}

int compare_add(json_t *reports, json_t *report, const char *name)
{
	json_t *errors = json_object_get(report, "errors");

	if (!(value_of(report, &figures[0]) > 0) || !json_is_integer(errors))
		return bad(name, "not a report: give a file that benchkv --json has written");
	if (json_is_true(json_object_get(report, "partial")))
		return bad(name, "a job ended early: give reports of whole jobs");
	if (json_integer_value(errors))
		return bad(name, "a job had errors: give reports of verified jobs");
	return json_array_append(reports, report) ? no_memory(name) : 0;
}

/* True: the file has more than white space left. */
static bool more_follows(FILE *f)
{
	int c;

	do
		c = getc(f);
	while (isspace(c));
	return ungetc(c, f) != EOF;
}

static int load(FILE *f, const char *name, json_t *reports)
{
	int err = 0;

	while (!err && more_follows(f)) {
		json_t *report = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);

		err = compare_add(reports, report, name);
		json_decref(report);
	}
	if (ferror(f))
		return bad(name, strerror(errno));
	return err || json_array_size(reports) ? err : bad(name, "is empty: give a report");
}

size_t compare_rank(size_t n)
{
	/* Logarithm of the chance that exactly k values are below the median (2^-n can be 0). */
	double chance = -(double)n * M_LN2;
	double below = 0; /* chance that at most k values are below it */
	size_t k = 0;

	for (; k < n; k++) {
		below += exp(chance);
		if (below > .025)
			break;
		chance += log((double)(n - k) / (double)(k + 1));
	}
	return n >= COMPARE_PAIRS ? k : 0;
}

/* Returns true if the jobs took turns. Times are texts, whose order is that of the times. */
static bool took_turns(json_t *const reports[2], size_t n)
{
	const char *last = "";

	for (size_t i = 0; i < n; i++) {
		const char *a =
			json_string_value(json_object_get(json_array_get(reports[0], i), "time"));
		const char *b =
			json_string_value(json_object_get(json_array_get(reports[1], i), "time"));
		bool first = a && b && strcmp(a, b) < 0;

		if (!a || !b || strcmp(first ? a : b, last) < 0)
			return false;
		last = first ? b : a;
	}
	return true;
}

static double median_of(const json_t *reports, const struct figure *f, double *scratch)
{
	size_t n = json_array_size(reports);

	for (size_t i = 0; i < n; i++) {
		scratch[i] = value_of(json_array_get(reports, i), f);
		if (!(scratch[i] > 0) || !isfinite(scratch[i]))
			return 0;
	}
	return order_median(scratch, n);
}

/* Fills in a row, except the verdict. False: in a report the figure is missing or 0. @pairs may be 0. */
static bool row_of(json_t *const reports[2], const struct figure *f, size_t pairs, double *scratch,
	struct row *r)
{
	size_t k = compare_rank(pairs);

	for (int i = 0; i < 2; i++) {
		r->median[i] = median_of(reports[i], f, scratch);
		if (!(r->median[i] > 0))
			return false;
	}
	r->ratio = r->median[1] / r->median[0];
	r->interval = k;
	if (!k)
		return true;
	for (size_t i = 0; i < pairs; i++)
		scratch[i] = value_of(json_array_get(reports[1], i), f) /
			     value_of(json_array_get(reports[0], i), f);
	r->ratio = order_median(scratch, pairs); /* sorts `scratch` */
	r->low = scratch[k - 1];
	r->high = scratch[pairs - k];
	return true;
}

static void judge(struct row *r, bool more, double tolerance)
{
	/* B is at least low times and at most high times as good as A. */
	double low = more ? r->low : 1 / r->high, high = more ? r->high : 1 / r->low;
	const char *how = high < 1 - tolerance ? "worse" : low > 1 + tolerance ? "better" : NULL;

	if (!r->interval)
		snprintf(r->words, sizeof(r->words), "too few pairs");
	else if (how)
		snprintf(r->words, sizeof(r->words), "%s by more than %g %%", how, tolerance * 100);
	else if (low >= 1 - tolerance && high <= 1 + tolerance)
		snprintf(r->words, sizeof(r->words), "the same within %g %%", tolerance * 100);
	else
		snprintf(r->words, sizeof(r->words), "%s",
			high < 1 ? "worse" :
			low > 1  ? "better" :
				   "not decided");
	r->worse = r->interval && high < 1 - tolerance;
}

/* Fills in the rows. 0 or -ENOMEM. */
static int judge_all(struct comparison *c)
{
	size_t n[2] = {json_array_size(c->reports[0]), json_array_size(c->reports[1])};
	size_t pairs = n[0] < n[1] ? n[0] : n[1];
	double *scratch = calloc(n[0] + n[1], sizeof(double));

	if (!scratch)
		return -ENOMEM;
	c->pairs = took_turns(c->reports, pairs) ? pairs : 0;
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		const struct figure *f = &figures[i];
		struct row *r = &c->rows[i];

		snprintf(r->name, sizeof(r->name), "%s%s%s", f->group ? f->group : "",
			f->group ? "." : "", f->name);
		r->there = row_of(c->reports, f, c->pairs, scratch, r);
		if (r->there)
			judge(r, f->more, c->tolerance);
	}
	free(scratch);
	return 0;
}

/* ---- differences in the settings ---- */

/* Returns true if two reports have different values of a parameter, or only one of them has it. */
static bool unequal(const char *name, const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);

	return x != y && !json_equal(x, y);
}

/* Appends a difference. A parameter that a report lacks is null. 0 or -1. */
static int append(json_t *out, const char *of, const char *name, const json_t *a, const json_t *b)
{
	return json_array_append_new(out,
		json_pack("{s:s, s:s, s:[O?, O?]}", "parameter", name, "jobs", of, "values",
			json_object_get(a, name), json_object_get(b, name)));
}

/* Appends the parameters in which jobs of one side differ from its first job. 0 or -1. */
static int append_mixed(json_t *out, const char *of, const json_t *reports)
{
	const json_t *first = json_array_get(reports, 0);
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
		for (size_t j = 1; j < json_array_size(reports); j++) {
			const json_t *r = json_array_get(reports, j);

			if (!unequal(parameters[i], first, r))
				continue;
			err |= append(out, of, parameters[i], first, r);
			break;
		}
	return err;
}

/* Finds the differences between the first jobs of both sides, and among the jobs of each side. */
static int find_differences(struct comparison *c)
{
	const json_t *a = json_array_get(c->reports[0], 0), *b = json_array_get(c->reports[1], 0);
	int err = 0;

	c->differences = json_array();
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++)
		if (unequal(parameters[i], a, b))
			err |= append(c->differences, BOTH_SIDES, parameters[i], a, b);
	err |= append_mixed(c->differences, "A", c->reports[0]);
	err |= append_mixed(c->differences, "B", c->reports[1]);
	return err || !c->differences ? -ENOMEM : 0;
}

/* ---- the table ---- */

static void print_row(const struct row *r)
{
	char interval[40] = "";

	if (r->interval)
		snprintf(interval, sizeof(interval), "%.3f to %.3f", r->low, r->high);
	printf("%-25s %12.6g %12.6g %7.3f  %-16s  %s\n", r->name, r->median[0], r->median[1],
		r->ratio, interval, r->words);
}

static void print_difference(const json_t *d)
{
	const char *of = json_string_value(json_object_get(d, "jobs"));
	const json_t *values = json_object_get(d, "values");

	if (strcmp(of, BOTH_SIDES) != 0)
		printf("the jobs of %s differ in ", of);
	printf("%s: ", json_string_value(json_object_get(d, "parameter")));
	for (size_t i = 0; i < 2; i++) {
		const json_t *value = json_array_get(values, i);
		char *said = json_is_null(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);

		printf("%s%s", said ? said : "none", i ? "\n" : ", ");
		free(said);
	}
}

static bool of_software(const struct comparison *c)
{
	for (int i = 0; i < 2; i++) {
		const json_t *first = json_array_get(c->reports[i], 0);

		if (json_is_true(json_object_get(first, "software_hca")))
			return true;
	}
	return false;
}

static void print_table(const struct comparison *c)
{
	json_t *d;
	size_t i;

	for (i = 0; i < 2; i++)
		printf("%c  %s: jobs: %zu\n", "AB"[i], c -> name[i],
			json_array_size(c->reports[i]));
	json_array_foreach(c->differences, i, d) print_difference(d);
	if (of_software(c))
		printf("on the software HCA: the figures describe software, not a network\n");
	printf("pairs of jobs that took turns: %zu (at least %d are needed)\n", c->pairs,
		COMPARE_PAIRS);
	printf("%-25s %12s %12s %7s  %-16s  %s\n", "median", "A", "B", "B/A", "interval, 95 %",
		"B is");
	for (i = 0; i < ARRAY_SIZE(figures); i++) {
		if (c->rows[i].there)
			print_row(&c->rows[i]);
	}
}

/* ---- for programs ---- */

static json_t *json_row(const struct row *r, bool more)
{
	json_t *row = json_pack("{s:s, s:b, s:f, s:f, s:f, s:s}", "figure", r->name,
		"more_is_better", (int)more, "a", r->median[0], "b", r->median[1], "ratio",
		r->ratio, "verdict", r->words);

	if (r->interval)
		json_object_set_new(row, "interval", json_pack("[f, f]", r->low, r->high));
	return row;
}

static json_t *json_comparison(const struct comparison *c)
{
	json_t *rows = json_array(), *names = json_array();

	for (int i = 0; i < 2; i++)
		json_array_append_new(names, json_text(c->name[i]));
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++) {
		if (c->rows[i].there)
			json_array_append_new(rows, json_row(&c->rows[i], figures[i].more));
	}
	return json_pack("{s:o, s:i, s:f, s:b, s:O, s:o}", "sides", names, "pairs", (int)c->pairs,
		"tolerance", c->tolerance, "software_hca", (int)of_software(c), "differences",
		c->differences, "figures", rows);
}

static int write_json(const struct comparison *c, const char *file)
{
	FILE *out;
	int err, status = output_open("benchkv", file, "we", &out);

	if (status)
		return status;
	err = json_line(json_comparison(c), 12, out);
	return output_close("benchkv", file, out,
		err == -ENOMEM ? output_failed("benchkv", file, ENOMEM) : JOB_OK);
}

static int print(const struct comparison *c, const char *json)
{
	bool worse = false;

	if (!json || strcmp(json, "-") != 0)
		print_table(c);
	if (json && write_json(c, json))
		return JOB_ERROR;
	for (size_t i = 0; i < ARRAY_SIZE(figures); i++)
		worse |= c->rows[i].worse;
	return output_end("benchkv", worse ? COMPARE_WORSE : JOB_OK);
}

int compare_print(json_t *const reports[2], const struct options *o)
{
	struct comparison c = {.reports = reports, .name = o->sides, .tolerance = o->tolerance};
	int status;

	if (judge_all(&c) || find_differences(&c))
		status = output_failed("benchkv", "compare", ENOMEM);
	else
		status = print(&c, o->files[FILE_JSON]);
	json_decref(c.differences);
	return status;
}

int compare_command(const struct options *o)
{
	json_t *reports[2] = {json_array(), json_array()};
	int err = reports[0] && reports[1] ? 0 : no_memory("compare"), status;

	for (int i = 0; !err && i < 2; i++) {
		FILE *f = fopen(o->sides[i], "re");

		err = f ? load(f, o->sides[i], reports[i]) : bad(o->sides[i], strerror(errno));
		if (f)
			fclose(f);
	}
	if (err)
		status = err == -ENOMEM ? JOB_ERROR : JOB_USAGE;
	else
		status = compare_print(reports, o);
	json_decref(reports[0]);
	json_decref(reports[1]);
	return status;
}
