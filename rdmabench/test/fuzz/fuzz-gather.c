/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: a statistics file, which rdmabench collect reads from a directory and as the output of
 * another machine. The first byte contains the options, the rest is the file. Printed figures are
 * read back unchanged. Without COMPAT, files that are read twice count once, and figures are in
 * order.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gather.h"
#include "support/fuzz.h"

enum { COMPAT = 1, RUN = 2, AGE = 4 };

static int input = -1; /* the file */
static char dir[] = "/tmp/fuzz-gather-XXXXXX";
static const char *const inside[] = {"run", "run/a.jsonl", "run/a.txt", "run/b.jsonl"};

static void remove_dir(void)
{
	char path[80];

	for (size_t i = sizeof(inside) / sizeof(inside[0]); i--;) {
		snprintf(path, sizeof(path), "%s/%s", dir, inside[i]);
		remove(path);
	}
	remove(dir);
}

/* Makes a directory in which each name is the same file. Skipped files are not reported. */
static void prepare(void)
{
	char path[80], target[40];

	input = memfd_create("input", MFD_CLOEXEC);
	stderr = fopen("/dev/null", "we");
	must(input >= 0 && stderr && mkdtemp(dir) && !atexit(remove_dir));
	snprintf(target, sizeof(target), "/proc/self/fd/%d", input);
	for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, inside[i]);
		must(!(i ? symlink(target, path) : mkdir(path, 0700)));
	}
}

/* Each figure is at least as large as the one before, except the mean. */
static void check_order(const struct stats_merged *m)
{
	double last = m->v[STATS_MIN];

	for (int k = STATS_MEDIAN; k < STATS_KEYS; k++) {
		must(m->v[k] >= last);
		last = m->v[k];
	}
}

/* Reads printed figures. Returns false if they are of too many samples, and only then. */
static bool read_back(const char *text, size_t len, uint64_t samples, struct stats_row *row_p)
{
	int err = stats_parse(text, len, row_p);

	must(err == (samples > STATS_SAMPLES_MAX ? -EBADMSG : 0));
	must(err || row_p->samples == samples);
	return !err;
}

/* Printed figures of merged text files can be read back, if none is absent. */
static void check_print(const struct stats_merged *m)
{
	struct stats_row row = {0};
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	must(out);
	stats_print_merged(m, out);
	must(!fclose(out) && len < STATS_TEXT_MAX);
	if (!strstr(text, "None") && read_back(text, len, m->samples, &row)) {
		for (int k = STATS_MIN; k < STATS_KEYS; k++)
			must(row.v[k] == m->v[k]);
	}
	for (int k = STATS_MIN; k < STATS_KEYS; k++)
		must(isfinite(m->v[k]) && (!m->has[k] || m->v[k] > 0));
	free(text);
}

/* Printed figures of a histogram can be read back. */
static void check_figures(const struct latrec_hist *h)
{
	struct stats_row row;
	char text[STATS_TEXT_MAX];
	FILE *out = fmemopen(text, sizeof(text), "w");
	struct stats s;
	size_t len;

	stats_of_hist(h, &s);
	must(out && !stats_print(&s, out));
	len = (size_t)ftell(out);
	fclose(out);
	if (!read_back(text, len, s.v[STATS_SAMPLES], &row))
		return;
	for (int k = STATS_MIN; k < STATS_KEYS; k++)
		must(row.v[k] == (double)s.v[k]);
}

static bool same(const struct latrec_hist *a, const struct latrec_hist *b)
{
	json_t *text[2] = {stats_hist_json(a), stats_hist_json(b)};
	bool equal = text[0] && text[1] && json_equal(text[0], text[1]);

	json_decref(text[0]);
	json_decref(text[1]);
	return equal;
}

/* Gathers the file by its names, and @times times as a text. */
static struct gather *gather(const struct gather_attr *attr, int times, const char *text,
	size_t len)
{
	struct gather *g = gather_create(attr);

	must(g);
	gather_path(g, dir);
	while (times-- > 0)
		gather_add(g, "host", text, len);
	gather_merge(g);
	must(json_array_size(gather_sources(g)) + json_array_size(gather_skipped(g)) >= 1);
	return g;
}

static void check(const struct gather_attr *attr, const char *text, size_t len)
{
	struct gather *once = gather(attr, 0, text, len), *twice = gather(attr, 2, text, len);

	if (attr->compat) {
		check_print(gather_merged(once));
		check_print(gather_merged(twice));
	} else {
		check_order(gather_merged(once));
		check_figures(gather_hist(once));
		must(same(gather_hist(once), gather_hist(twice)));
	}
	gather_destroy(once);
	gather_destroy(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gather_attr attr = {0};
	char *text;

	if (!size--)
		return 0;
	if (input < 0)
		prepare();
	must(!ftruncate(input, 0) && pwrite(input, data + 1, size, 0) == (ssize_t)size);
	attr.compat = data[0] & COMPAT;
	attr.run = data[0] & RUN ? "run1" : NULL;
	attr.max_age_s = data[0] & AGE ? 1 : 0;
	text = malloc(size ? size : 1); /* of this size, so that the sanitizer detects overruns */
	must(text);
	memcpy(text, data + 1, size);
	check(&attr, text, size);
	free(text);
	return 0;
}
