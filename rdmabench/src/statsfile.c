/* SPDX-License-Identifier: MIT */
#include "statsfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "text.h"
#include "stats.h"

struct statsfile {
	char path[PATH_MAX], json_path[PATH_MAX];
	struct statsfile_attr attr;
	char host[64];
	char writer[STATSFILE_WRITER + 1]; /* random, hexadecimal */
	uint64_t samples[STATS_COMPAT_WINDOW];
	size_t n; /* number of samples */
	struct stats last; /* of the last complete window, if attr.compat is set */
	struct latrec_hist *hist; /* histogram of the window, or of all samples */
	uint64_t windows; /* number of windows that have ended; in a cumulative file, of writes */
	bool has_line; /* the file of JSON lines has a line of this run */
	uint64_t written_ns, written_count; /* last write of a cumulative file */
};

static int stream_error(void)
{
	return errno ? -errno : -EIO;
}

/* Writes a text and closes the file. Returns 0 or -errno. */
static int write_and_close(int fd, const char *text, size_t len)
{
	int err = 0;

	while (len && !err) {
		ssize_t n = write(fd, text, len);

		if (n < 0 && errno != EINTR)
			err = -errno;
		text += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return close(fd) && !err ? -errno : err;
}

struct temporary {
	char path[PATH_MAX + 32];
	int fd;
};

/* Creates a temporary file in the directory of @path. Returns 0 or -errno. */
static int make_temporary(const char *path, struct temporary *t)
{
	snprintf(t->path, sizeof(t->path), "%s.%d.tmp", path, (int)getpid());
	unlink(t->path); /* a killed process with the same number may have left this file */
	t->fd = open(t->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	return t->fd < 0 ? -errno : 0;
}

/* Checks that a file can be written at @path, before a run that may take hours. Returns 0 or
 * -errno. */
static int try_path(const char *path)
{
	struct temporary t;
	struct stat st;
	int err = make_temporary(path, &t);

	if (err)
		return err;
	close(t.fd);
	unlink(t.path);
	return !stat(path, &st) && S_ISDIR(st.st_mode) ? -EISDIR : 0;
}

/* Replaces the file at @path as a whole. */
static int replace(const char *path, const char *text, size_t len)
{
	struct temporary t;
	int err = make_temporary(path, &t);

	if (err)
		return err;
	err = write_and_close(t.fd, text, len);
	if (!err && rename(t.path, path))
		err = -errno;
	if (err)
		unlink(t.path);
	return err;
}

/* Appends with one write(2), so that a killed process leaves whole lines. */
static int append(const char *path, bool first, const char *text, size_t len)
{
	int fd;

	if (first)
		return replace(path, text, len);
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	return fd < 0 ? -errno : write_and_close(fd, text, len);
}

static int write_text(const struct statsfile *f, const struct stats *s)
{
	char text[STATS_TEXT_MAX];
	FILE *out = fmemopen(text, sizeof(text), "w");
	long len;
	int err;

	if (!out)
		return stream_error();
	err = stats_print(s, out);
	len = ftell(out);
	fclose(out);
	return err ? err : replace(f->path, text, (size_t)len);
}

static const char *method(bool compat)
{
	return compat ? "sorted window: n/2, (size_t)(n*p), truncated mean" :
			"nearest rank of a histogram, at most 0.79 % above the sample";
}

static json_t *make_json(const struct statsfile *f, const struct stats *s)
{
	json_t *o = json_pack("{s:i s:s s:s s:i s:s s:s s:s s:s s:I s:b s:b s:I}", "version",
		STATSFILE_VERSION, "run", f->attr.run, "host", f->host, "process", (int)getpid(),
		"writer", f->writer, "role", f->attr.role, "clock", f->attr.clock, "method",
		method(f->attr.compat), "written_ns", (json_int_t)clock_of(CLOCK_REALTIME),
		"cumulative", !f->attr.compat && !f->attr.window, "compat", f->attr.compat,
		"window", (json_int_t)f->windows);

	for (int k = 0; o && k < STATS_KEYS; k++)
		json_object_set_new(o, stats_names[k], json_integer((json_int_t)s->v[k]));
	if (o && !f->attr.compat)
		json_object_set_new(o, "histogram", stats_hist_json(f->hist));
	return o;
}

static int write_json(struct statsfile *f, const struct stats *s)
{
	json_t *o = make_json(f, s);
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0;
	int err = -ENOMEM;

	if (text) {
		text[len] = '\n'; /* replaces the terminating 0; the length is passed on */
		err = append(f->json_path, !f->attr.window || !f->has_line, text, len + 1);
		f->has_line |= !err;
	}
	free(text);
	json_decref(o);
	return err;
}

static int write_compat(struct statsfile *f)
{
	stats_of_window(f->samples, f->n, &f->last);
	f->n = 0;
	f->windows++;
	return write_text(f, &f->last);
}

static int write_hist(struct statsfile *f)
{
	struct stats s;
	int err, json_err;

	stats_of_hist(f->hist, &s);
	err = write_text(f, &s);
	json_err = write_json(f, &s);
	f->windows++;
	f->written_count = latrec_hist_count(f->hist);
	if (f->attr.window)
		latrec_hist_clear(f->hist);
	return err ? err : json_err;
}

static int make_dir(const char *path)
{
	return mkdir(path, 0777) && errno != EEXIST ? -errno : 0;
}

static int set_paths(struct statsfile *f)
{
	const struct statsfile_attr *a = &f->attr;
	char base[PATH_MAX];
	int n, err;

	if (a->path) {
		n = snprintf(f->path, sizeof(f->path), "%s", a->path);
	} else {
		n = snprintf(base, sizeof(base), "%s/%s", a->dir, a->run);
		if (n >= (int)sizeof(base))
			return -ENAMETOOLONG;
		err = make_dir(a->dir);
		if (!err)
			err = make_dir(base);
		if (err)
			return err;
		n = snprintf(f->path, sizeof(f->path), "%s/%s-%d-%.8s-%s.txt", base, f->host,
			(int)getpid(), f->writer, a->role);
	}
	if (n >= (int)sizeof(f->path) - 8)
		return -ENAMETOOLONG;
	n -= n > 4 && !strcmp(f->path + n - 4, ".txt") ? 4 : 0;
	snprintf(f->json_path, sizeof(f->json_path), "%.*s.jsonl", n, f->path);
	return 0;
}

static int name_writer(struct statsfile *f)
{
	uint64_t number[2];

	if (getrandom(number, sizeof(number), 0) != sizeof(number))
		return -errno;
	snprintf(f->writer, sizeof(f->writer), "%016" PRIx64 "%016" PRIx64, number[0], number[1]);
	return 0;
}

int statsfile_open(const struct statsfile_attr *a, struct statsfile **f_p)
{
	struct statsfile *f;
	int err;

	if (!a->dir == !a->path || (a->window && a->compat) || !name_is_safe(a->run) ||
		!name_is_safe(a->role))
		return -EINVAL;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->attr = *a;
	snprintf(f->host, sizeof(f->host), "unknown");
	gethostname(f->host, sizeof(f->host) - 1);
	err = latrec_hist_create(NULL, &f->hist);
	if (!err)
		err = name_writer(f);
	if (!err)
		err = set_paths(f);
	if (!err)
		err = try_path(f->path);
	if (!err)
		err = try_path(f->json_path);
	if (err) {
		latrec_hist_destroy(f->hist);
		free(f);
		return err;
	}
	*f_p = f;
	return 0;
}

int statsfile_add(struct statsfile *f, uint64_t latency_ns, uint64_t now_ns)
{
	if (f->attr.compat) {
		f->samples[f->n++] = latency_ns;
		return f->n < STATS_COMPAT_WINDOW ? 0 : write_compat(f);
	}
	latrec_hist_record(f->hist, latency_ns);
	if (f->attr.window)
		return latrec_hist_count(f->hist) < f->attr.window ? 0 : write_hist(f);
	if (!f->written_ns)
		f->written_ns = now_ns;
	if (now_ns - f->written_ns < STATSFILE_INTERVAL_NS)
		return 0;
	f->written_ns = now_ns;
	return write_hist(f);
}

int statsfile_close(struct statsfile *f)
{
	int err = 0;

	if (!f)
		return 0;
	if (f->attr.compat && f->windows)
		err = write_json(f, &f->last);
	else if (!f->attr.compat && latrec_hist_count(f->hist) &&
		 latrec_hist_count(f->hist) != (f->attr.window ? 0 : f->written_count))
		err = write_hist(f);
	latrec_hist_destroy(f->hist);
	free(f);
	return err;
}

const char *statsfile_path(const struct statsfile *f)
{
	return f->path;
}
