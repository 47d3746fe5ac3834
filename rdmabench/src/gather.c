/* SPDX-License-Identifier: MIT */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "statsfile.h"

#define FILE_MAX (64 << 20) /* bytes of a file of JSON lines */
#define DEPTH_MAX 3 /* directories: of runs, of one run, and one more */
#define NS_PER_S 1000000000ll

/* One line: who wrote it, and what. */
struct line {
	json_t *o;
	const char *run, *host, *role; /* of o */
	json_int_t process, window, written_ns;
	bool cumulative;
};

struct gather {
	const struct gather_attr *attr;
	struct line *lines;
	size_t n_lines;
	struct stats_row *rows;
	size_t n_rows;
	dev_t *devices; /* files that were read, so that none counts twice */
	ino_t *inodes;
	size_t n_files;
	json_t *sources, *skipped;
	struct latrec_hist hist;
	struct stats_merged merged;
};

struct gather *gather_create(const struct gather_attr *attr)
{
	struct gather *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->attr = attr;
	g->sources = json_array();
	g->skipped = json_array();
	return g;
}

void gather_destroy(struct gather *g)
{
	if (!g)
		return;
	for (size_t i = 0; i < g->n_lines; i++)
		json_decref(g->lines[i].o);
	json_decref(g->sources);
	json_decref(g->skipped);
	free(g->lines);
	free(g->rows);
	free(g->devices);
	free(g->inodes);
	free(g);
}

void gather_skip(struct gather *g, const char *source, const char *why)
{
	json_t *o = json_pack("{s:o s:s}", "source", text_json(source), "why", why);

	fprintf(stderr, "rdmabench collect: skipped %.400s: %s\n", source, why);
	json_array_append_new(g->skipped, o);
}

static bool grow(void **array, size_t n, size_t size)
{
	void *larger = n & (n - 1) ? *array : realloc(*array, (n ? 2 * n : 1) * size);

	if (!larger)
		return false;
	*array = larger;
	return true;
}

/* ---- JSON lines ---- */

static bool has_text(const json_t *o, const char *key, const char **text_p)
{
	*text_p = json_string_value(json_object_get(o, key));
	return *text_p && strlen(*text_p) == json_string_length(json_object_get(o, key));
}

static bool has_number(const json_t *o, const char *key, json_int_t *n_p)
{
	const json_t *v = json_object_get(o, key);

	*n_p = json_integer_value(v);
	return json_is_integer(v) && *n_p >= 0;
}

/* Why a line cannot be used, or NULL. */
static const char *read_line(const struct gather_attr *a, json_t *o, struct line *l)
{
	json_int_t version;
	const char *text;

	if (!has_number(o, "version", &version) || !has_text(o, "run", &l->run) ||
		!has_text(o, "host", &l->host) || !has_text(o, "role", &l->role) ||
		!has_number(o, "process", &l->process) || !has_number(o, "window", &l->window) ||
		!has_number(o, "written_ns", &l->written_ns) ||
		!json_is_boolean(json_object_get(o, "cumulative")))
		return "it is no statistics file of rdmabench";
	if (version != STATSFILE_VERSION)
		return "it is of another version";
	if (a->run && strcmp(a->run, l->run))
		return "it is of another run";
	if (a->max_age_s && (int64_t)time(NULL) - l->written_ns / NS_PER_S > (int64_t)a->max_age_s)
		return "it is too old";
	if (!has_text(o, "histogram", &text))
		return "it has no histogram: give --compat";
	l->cumulative = json_is_true(json_object_get(o, "cumulative"));
	l->o = o;
	return NULL;
}

static bool same_writer(const struct line *a, const struct line *b)
{
	return a->process == b->process && !strcmp(a->run, b->run) && !strcmp(a->host, b->host) &&
	       !strcmp(a->role, b->role) && a->cumulative == b->cumulative &&
	       (a->cumulative || a->window == b->window);
}

/* The same writer's line counts once; of cumulative ones the latest. */
static bool keep_line(struct gather *g, const struct line *l)
{
	for (size_t i = 0; i < g->n_lines; i++) {
		struct line *old = &g->lines[i];

		if (!same_writer(old, l))
			continue;
		if (l->written_ns > old->written_ns) {
			json_decref(old->o);
			*old = *l;
		} else {
			json_decref(l->o);
		}
		return true;
	}
	if (!grow((void **)&g->lines, g->n_lines, sizeof(*g->lines)))
		return false;
	g->lines[g->n_lines++] = *l;
	return true;
}

static bool hist_of(const struct line *l, struct latrec_hist *h_p)
{
	const json_t *v = json_object_get(l->o, "histogram");
	FILE *in = fmemopen((void *)json_string_value(v), json_string_length(v), "r");
	json_int_t samples;
	int err;

	if (!in)
		return false;
	err = latrec_hist_import(in, h_p);
	fclose(in);
	return !err && has_number(l->o, "latency_samples", &samples) &&
	       (uint64_t)samples == h_p->count;
}

/* One line, without its end. */
static bool add_line(struct gather *g, const char *source, const char *text, size_t len)
{
	static struct latrec_hist hist;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *why = "it is torn, or no JSON";
	struct line l;

	if (o)
		why = read_line(g->attr, o, &l);
	if (o && !why && !hist_of(&l, &hist))
		why = "its histogram is torn or changed";
	if (!why && keep_line(g, &l))
		return true;
	json_decref(o);
	gather_skip(g, source, why ? why : "out of memory");
	return false;
}

static void add_lines(struct gather *g, const char *source, const char *text, size_t len)
{
	const char *end = text + len;
	bool any = false;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		if (!stop) {
			gather_skip(g, source, "its last line is torn");
			break;
		}
		if (stop > text)
			any |= add_line(g, source, text, (size_t)(stop - text));
		text = stop + 1;
	}
	if (any)
		json_array_append_new(g->sources, text_json(source));
}

/* ---- text ---- */

static void add_text(struct gather *g, const char *source, const char *text, size_t len)
{
	struct stats_row row;
	int err = stats_parse(text, len, &row);

	if (err == -ENODATA) {
		gather_skip(g, source, "it is empty");
	} else if (err) {
		gather_skip(g, source, "it is torn, or no statistics file");
	} else if (!row.samples) {
		gather_skip(g, source, "it has no samples");
	} else if (!grow((void **)&g->rows, g->n_rows, sizeof(*g->rows))) {
		gather_skip(g, source, "out of memory");
	} else {
		g->rows[g->n_rows++] = row;
		json_array_append_new(g->sources, text_json(source));
	}
}

void gather_add(struct gather *g, const char *source, const char *text, size_t len)
{
	if (g->attr->compat)
		add_text(g, source, text, len);
	else if (!len)
		gather_skip(g, source, "it is empty");
	else
		add_lines(g, source, text, len);
}

/* ---- files ---- */

/* True the first time. */
static bool is_new(struct gather *g, const struct stat *st)
{
	for (size_t i = 0; i < g->n_files; i++) {
		if (g->devices[i] == st->st_dev && g->inodes[i] == st->st_ino)
			return false;
	}
	if (!grow((void **)&g->devices, g->n_files, sizeof(*g->devices)) ||
		!grow((void **)&g->inodes, g->n_files, sizeof(*g->inodes)))
		return false;
	g->devices[g->n_files] = st->st_dev;
	g->inodes[g->n_files++] = st->st_ino;
	return true;
}

static ssize_t read_all(int fd, char *text, size_t size)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)len;
}

static void add_open_file(struct gather *g, const char *path, int fd, const struct stat *st)
{
	bool old = g->attr->compat && g->attr->max_age_s &&
		   time(NULL) - st->st_mtime > (time_t)g->attr->max_age_s;
	char *text;
	ssize_t len;

	if (!is_new(g, st))
		return;
	if (!S_ISREG(st->st_mode) || st->st_size > FILE_MAX) {
		gather_skip(g, path, "it is no file, or too large");
		return;
	}
	if (old) {
		gather_skip(g, path, "it is too old");
		return;
	}
	text = malloc((size_t)st->st_size + 1);
	len = text ? read_all(fd, text, (size_t)st->st_size) : -ENOMEM;
	if (len < 0)
		gather_skip(g, path, strerror((int)-len));
	else
		gather_add(g, path, text, (size_t)len);
	free(text);
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

static void add_path(struct gather *g, const char *path, int depth);

static void add_dir(struct gather *g, const char *path, int depth)
{
	const char *end = g->attr->compat ? ".txt" : ".jsonl";
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char below[PATH_MAX];
		struct stat st;
		const char *name = entries[i]->d_name;

		if (name[0] != '.' &&
			snprintf(below, sizeof(below), "%s/%s", path, name) < (int)sizeof(below) &&
			!stat(below, &st) &&
			(S_ISDIR(st.st_mode) ? depth > 0 : ends_with(name, end)))
			add_path(g, below, depth - 1);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	else
		gather_skip(g, path, strerror(errno));
}

static void add_path(struct gather *g, const char *path, int depth)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		gather_skip(g, path, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		add_dir(g, path, depth);
	else
		add_open_file(g, path, fd, &st);
	if (fd >= 0)
		close(fd);
}

void gather_path(struct gather *g, const char *path)
{
	add_path(g, path, DEPTH_MAX);
}

/* ---- all ---- */

bool gather_merge(struct gather *g)
{
	static struct latrec_hist one;

	stats_merge(g->rows, g->n_rows, &g->merged);
	for (size_t i = 0; i < g->n_lines; i++) {
		if (!hist_of(&g->lines[i], &one) || latrec_hist_merge(&g->hist, &one))
			gather_skip(g, g->lines[i].host, "there are too many samples");
	}
	return g->attr->compat ? g->merged.samples > 0 : g->hist.count > 0;
}

const struct latrec_hist *gather_hist(const struct gather *g)
{
	return &g->hist;
}

const struct stats_merged *gather_merged(const struct gather *g)
{
	return &g->merged;
}

json_t *gather_sources(const struct gather *g)
{
	return g->sources;
}

json_t *gather_skipped(const struct gather *g)
{
	return g->skipped;
}
