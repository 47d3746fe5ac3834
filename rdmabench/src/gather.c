/* SPDX-License-Identifier: MIT */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "text.h"
#include "statsfile.h"

#define FILE_MAX (64 << 20) /* largest file of JSON lines, bytes */
#define DEPTH_MAX 3 /* levels of directories that are read below a given directory */
#define NS_PER_S 1000000000ll

/* One line of a statistics file: its writer and its figures. */
struct line {
	struct gather *g;
	json_t *o;
	const char *writer, *host; /* borrowed from o */
	json_int_t window, written_ns;
	int cumulative;
};

struct file {
	struct gather *g;
	dev_t device;
	ino_t inode;
};

struct gather {
	const struct gather_attr *attr;
	void *lines; /* a tree of tsearch(3): the lines that count */
	void *files; /* a tree, too: files that were read, so that each is counted once */
	struct stats_row *rows;
	size_t n_rows;
	uint64_t looks; /* comparisons in both trees */
	json_t *sources, *skipped;
	struct latrec_hist *hist; /* of all lines */
	struct latrec_hist *line; /* of the line that is being read */
	struct stats_merged merged;
	char why[96]; /* why a line cannot be used, if the text is not a constant */
};

struct gather *gather_create(const struct gather_attr *attr)
{
	struct gather *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	if (latrec_hist_create(NULL, &g->hist) || latrec_hist_create(NULL, &g->line)) {
		gather_destroy(g);
		return NULL;
	}
	g->attr = attr;
	g->sources = json_array();
	g->skipped = json_array();
	return g;
}

static void free_line(void *line)
{
	json_decref(((struct line *)line)->o);
	free(line);
}

void gather_destroy(struct gather *g)
{
	if (!g)
		return;
	tdestroy(g->lines, free_line);
	tdestroy(g->files, free);
	json_decref(g->sources);
	json_decref(g->skipped);
	free(g->rows);
	latrec_hist_destroy(g->hist);
	latrec_hist_destroy(g->line);
	free(g);
}

void gather_skip(struct gather *g, const char *source, const char *why)
{
	json_t *o = json_pack("{s:o s:s}", "source", text_json(source), "why", why);

	fprintf(stderr, "rdmabench collect: skipped %.400s: %s\n", source, why);
	json_array_append_new(g->skipped, o);
}

uint64_t gather_looks(const struct gather *g)
{
	return g->looks;
}

/* ---- JSON lines ---- */

/* Returns the reason why a line cannot be used, or NULL. */
static const char *read_line(struct gather *g, json_t *o, struct line *l)
{
	const struct gather_attr *a = g->attr;
	json_int_t version, process;
	const char *run, *role;

	if (json_unpack(o, "{s:I s:s s:s s:s s:I s:I s:I s:b}", "version", &version, "run", &run,
		    "host", &l->host, "role", &role, "process", &process, "window", &l->window,
		    "written_ns", &l->written_ns, "cumulative", &l->cumulative) ||
		version < 0 || process < 0 || l->window < 0 || l->written_ns < 0)
		return "it is no statistics file of rdmabench";
	if (version != STATSFILE_VERSION) {
		snprintf(g->why, sizeof(g->why),
			"it is of version %lld, this program reads version %d", (long long)version,
			STATSFILE_VERSION);
		return g->why;
	}
	if (json_unpack(o, "{s:s}", "writer", &l->writer) || strlen(l->writer) != STATSFILE_WRITER)
		return "it does not name its writer";
	if (a->run && strcmp(a->run, run))
		return "it is of another run";
	if (a->max_age_s && (int64_t)time(NULL) - l->written_ns / NS_PER_S > (int64_t)a->max_age_s)
		return "it is too old";
	if (!json_is_string(json_object_get(o, "histogram")))
		return "it has no histogram: give --compat";
	l->o = o;
	return NULL;
}

/*
 * Compares lines. Lines of the same writer and window are equal, and so are all cumulative lines of
 * a writer.
 */
static int compare_lines(const void *line, const void *other)
{
	const struct line *a = line, *b = other;
	int by_writer = strcmp(a->writer, b->writer);

	a->g->looks++;
	if (by_writer || a->cumulative != b->cumulative)
		return by_writer ? by_writer : a->cumulative - b->cumulative;
	return a->cumulative ? 0 : (a->window > b->window) - (a->window < b->window);
}

/* Returns an equal entry of the tree, or a copy that was added, or NULL if out of memory. */
static void *find_or_add(void **tree, const void *entry, size_t size, bool *added_p,
	int (*compare)(const void *, const void *))
{
	void **place, *copy = malloc(size);

	if (!copy)
		return NULL;
	memcpy(copy, entry, size);
	place = tsearch(copy, tree, compare);
	*added_p = place && *place == copy;
	if (!*added_p)
		free(copy);
	return place ? *place : NULL;
}

/* Adds a line. Only the latest one of equal lines (see compare_lines()) counts. */
static bool keep_line(struct gather *g, const struct line *l)
{
	bool added;
	struct line *old = find_or_add(&g->lines, l, sizeof(*l), &added, compare_lines);

	if (!old || added)
		return old;
	if (l->written_ns > old->written_ns) {
		json_decref(old->o);
		*old = *l;
	} else {
		json_decref(l->o);
	}
	return true;
}

static bool hist_of(const struct line *l, struct latrec_hist *h_p)
{
	return stats_hist_read(json_object_get(l->o, "histogram"),
		json_object_get(l->o, "latency_samples"), h_p);
}

/* Adds one line. @text does not contain the final newline, which the last line can lack. */
static bool add_line(struct gather *g, const char *source, const char *text, size_t len)
{
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	const char *why = "it is torn, or no JSON";
	struct line l = {.g = g};

	if (o)
		why = read_line(g, o, &l);
	if (o && !why && !hist_of(&l, g->line))
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
	bool any = false, empty = true;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		stop = stop ? stop : end;
		empty = empty && stop == text;
		if (stop > text)
			any |= add_line(g, source, text, (size_t)(stop - text));
		text = stop < end ? stop + 1 : end;
	}
	if (empty)
		gather_skip(g, source, "it is empty");
	if (any)
		json_array_append_new(g->sources, text_json(source));
}

/* ---- text ---- */

static const char *keep_row(struct gather *g, const char *text, size_t len)
{
	struct stats_row row, *rows;
	int err = stats_parse(text, len, &row);

	if (err)
		return err == -ENODATA ? "it is empty" : "it is torn, or no statistics file";
	if (!row.samples)
		return "it has no samples";
	rows = reallocarray(g->rows, g->n_rows + 1, sizeof(*rows));
	if (!rows)
		return "out of memory";
	g->rows = rows;
	rows[g->n_rows++] = row;
	return NULL;
}

static void add_text(struct gather *g, const char *source, const char *text, size_t len)
{
	const char *why = keep_row(g, text, len);

	if (why)
		gather_skip(g, source, why);
	else
		json_array_append_new(g->sources, text_json(source));
}

void gather_add(struct gather *g, const char *source, const char *text, size_t len)
{
	if (g->attr->compat)
		add_text(g, source, text, len);
	else
		add_lines(g, source, text, len);
}

/* ---- files ---- */

static int compare_files(const void *file, const void *other)
{
	const struct file *a = file, *b = other;

	a->g->looks++;
	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return (a->inode > b->inode) - (a->inode < b->inode);
}

/* Returns true the first time that a file is seen. */
static bool is_new(struct gather *g, const struct stat *st)
{
	const struct file f = {g, st->st_dev, st->st_ino};
	bool added;

	return find_or_add(&g->files, &f, sizeof(f), &added, compare_files) && added;
}

/* Returns the reason why a file cannot be used, or NULL. */
static const char *unusable(const struct gather_attr *a, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_size > FILE_MAX)
		return "it is no file, or too large";
	if (a->compat && a->max_age_s && time(NULL) - st->st_mtime > (time_t)a->max_age_s)
		return "it is too old";
	return NULL;
}

static void add_open_file(struct gather *g, const char *path, FILE *in, const struct stat *st)
{
	const char *why = unusable(g->attr, st);
	char *text = why ? NULL : malloc((size_t)st->st_size + 1);
	size_t len = text ? fread(text, 1, (size_t)st->st_size, in) : 0;

	if (why || !text || ferror(in))
		gather_skip(g, path, why ? why : strerror(text ? errno : ENOMEM));
	else
		gather_add(g, path, text, len);
	free(text);
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

static void add_path(struct gather *g, const char *path, int depth);

/* Adds an entry of a directory. */
static void add_entry(struct gather *g, const char *dir, const char *name, int depth)
{
	const char *end = g->attr->compat ? ".txt" : ".jsonl";
	char path[PATH_MAX], why[300];
	struct stat st;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path)) {
		snprintf(why, sizeof(why), "%s: its path is too long", name);
		gather_skip(g, dir, why);
	} else if (!stat(path, &st)) {
		if (S_ISDIR(st.st_mode) ? depth > 0 : ends_with(name, end))
			add_path(g, path, depth - 1);
	} else {
		const char *failed = strerror(errno);

		if (!lstat(path, &st)) /* otherwise its writer has just removed it */
			gather_skip(g, path, failed);
	}
}

static void add_dir(struct gather *g, const char *path, int depth)
{
	struct dirent **entries;
	int n = scandir(path, &entries, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		if (entries[i]->d_name[0] != '.')
			add_entry(g, path, entries[i]->d_name, depth);
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
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	struct stat st;

	if (!in || fstat(fd, &st))
		gather_skip(g, path, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		add_dir(g, path, depth);
	else if (is_new(g, &st))
		add_open_file(g, path, in, &st);
	if (in)
		fclose(in);
	else if (fd >= 0)
		close(fd);
}

void gather_path(struct gather *g, const char *path)
{
	add_path(g, path, DEPTH_MAX);
}

/* ---- all ---- */

static void merge_line(const void *node, VISIT visit, void *gather)
{
	const struct line *l = *(const struct line *const *)node;
	struct gather *g = gather;

	if (visit != postorder && visit != leaf) /* each node once */
		return;
	if (!hist_of(l, g->line) || latrec_hist_merge(g->hist, g->line))
		gather_skip(g, l->host, "there are too many samples");
}

bool gather_merge(struct gather *g)
{
	if (g->attr->compat) {
		stats_merge(g->rows, g->n_rows, &g->merged);
	} else {
		twalk_r(g->lines, merge_line, g);
		stats_merge_hist(g->hist, &g->merged);
	}
	return g->merged.samples > 0;
}

const struct latrec_hist *gather_hist(const struct gather *g)
{
	return g->hist;
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
