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

#define FILE_MAX (64 << 20) /* largest file of JSON lines, bytes */
#define DEPTH_MAX 3 /* levels of directories: all runs, one run, and one more */
#define NS_PER_S 1000000000ll

/* One line: its writer and its figures. */
struct line {
	json_t *o;
	const char *writer, *host; /* borrowed from o */
	json_int_t window, written_ns;
	bool cumulative;
};

struct file {
	dev_t device;
	ino_t inode;
};

/* A hash table that maps keys to indices of an array; at most half of its slots are used. */
struct index {
	struct slot {
		uint64_t hash;
		size_t at; /* the place + 1; 0: the slot is free */
	} * slots;
	size_t size; /* a power of two, or 0 */
};

struct gather {
	const struct gather_attr *attr;
	struct line *lines;
	size_t n_lines;
	struct index line_index;
	struct stats_row *rows;
	size_t n_rows;
	struct file *files; /* files that were read, so that none counts twice */
	size_t n_files;
	struct index file_index;
	uint64_t looks; /* comparisons in both tables */
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
	free(g->files);
	free(g->line_index.slots);
	free(g->file_index.slots);
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

/* ---- indexes ---- */

typedef bool same_fn(const struct gather *g, size_t at, const void *key);

static uint64_t hash_of(uint64_t hash, const void *bytes, size_t n)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ b[i]) * 0x100000001b3ull;
	return hash;
}

/* Returns the slot of an equal key, or a free one. */
static struct slot *find(struct gather *g, const struct index *x, uint64_t hash, same_fn *same,
	const void *key)
{
	size_t i = (hash ^ hash >> 32) & (x->size - 1);

	for (;; i = (i + 1) & (x->size - 1)) {
		struct slot *s = &x->slots[i];

		g->looks++;
		if (!s->at || (s->hash == hash && same(g, s->at - 1, key)))
			return s;
	}
}

static bool none_is_same(const struct gather *g, size_t at, const void *key)
{
	return false;
}

/* Makes room for one more entry. */
static bool index_grow(struct gather *g, struct index *x, size_t n)
{
	struct index larger = {.size = x->size ? 2 * x->size : 64};

	if (2 * (n + 1) <= x->size)
		return true;
	larger.slots = calloc(larger.size, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < x->size; i++) {
		if (x->slots[i].at)
			*find(g, &larger, x->slots[i].hash, none_is_same, NULL) = x->slots[i];
	}
	free(x->slots);
	*x = larger;
	return true;
}

uint64_t gather_looks(const struct gather *g)
{
	return g->looks;
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

/* Returns the reason why a line cannot be used, or NULL. */
static const char *read_line(const struct gather_attr *a, json_t *o, struct line *l)
{
	json_int_t version, process;
	const char *text, *run, *role;

	if (!has_number(o, "version", &version) || !has_text(o, "run", &run) ||
		!has_text(o, "host", &l->host) || !has_text(o, "role", &role) ||
		!has_number(o, "process", &process) || !has_number(o, "window", &l->window) ||
		!has_number(o, "written_ns", &l->written_ns) ||
		!json_is_boolean(json_object_get(o, "cumulative")))
		return "it is no statistics file of rdmabench";
	if (version != STATSFILE_VERSION)
		return "it is of another version";
	if (!has_text(o, "writer", &l->writer) || strlen(l->writer) != STATSFILE_WRITER)
		return "it does not say who wrote it";
	if (a->run && strcmp(a->run, run))
		return "it is of another run";
	if (a->max_age_s && (int64_t)time(NULL) - l->written_ns / NS_PER_S > (int64_t)a->max_age_s)
		return "it is too old";
	if (!has_text(o, "histogram", &text))
		return "it has no histogram: give --compat";
	l->cumulative = json_is_true(json_object_get(o, "cumulative"));
	l->o = o;
	return NULL;
}

static bool same_line(const struct gather *g, size_t at, const void *key)
{
	const struct line *a = &g->lines[at], *b = key;

	return !strcmp(a->writer, b->writer) && a->cumulative == b->cumulative &&
	       (a->cumulative || a->window == b->window);
}

static uint64_t line_hash(const struct line *l)
{
	json_int_t window = l->cumulative ? -1 : l->window;

	return hash_of(hash_of(0, l->writer, STATSFILE_WRITER), &window, sizeof(window));
}

/* Adds a line. Lines of one writer count once; the latest cumulative line replaces earlier ones. */
static bool keep_line(struct gather *g, const struct line *l)
{
	uint64_t hash = line_hash(l);
	struct line *old;
	struct slot *s;

	if (!index_grow(g, &g->line_index, g->n_lines))
		return false;
	s = find(g, &g->line_index, hash, same_line, l);
	if (!s->at) {
		if (!grow((void **)&g->lines, g->n_lines, sizeof(*g->lines)))
			return false;
		g->lines[g->n_lines++] = *l;
		*s = (struct slot){hash, g->n_lines};
		return true;
	}
	old = &g->lines[s->at - 1];
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

/* Adds one line, without its end. */
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

static bool same_file(const struct gather *g, size_t at, const void *key)
{
	const struct file *a = &g->files[at], *b = key;

	return a->device == b->device && a->inode == b->inode;
}

/* Returns true the first time that a file is seen. */
static bool is_new(struct gather *g, const struct stat *st)
{
	const struct file f = {st->st_dev, st->st_ino};
	uint64_t hash = hash_of(hash_of(0, &f.device, sizeof(f.device)), &f.inode, sizeof(f.inode));
	struct slot *s;

	if (!index_grow(g, &g->file_index, g->n_files))
		return false;
	s = find(g, &g->file_index, hash, same_file, &f);
	if (s->at || !grow((void **)&g->files, g->n_files, sizeof(*g->files)))
		return false;
	g->files[g->n_files++] = f;
	*s = (struct slot){hash, g->n_files};
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
