/* SPDX-License-Identifier: MIT */
#include "searchlog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "journal.h"
#include "text.h"

#define JOURNAL "journal.jsonl"

static const char *const dirs[] = {"result", "result/again", "result/mfs_help", "reproduce",
	"reproduce/again", "reproduce/mfs_help", "target", "stats"};

/* Measurements that are not tries: the directories of their results, and the beginnings of the
 * names that searchlog_name() gives them. */
static const char *const places[] = {[PURPOSE_AGAIN] = "again", [PURPOSE_FEATURE] = "mfs_help"};
static const char *const prefixes[] = {[PURPOSE_AGAIN] = "again", [PURPOSE_FEATURE] = "mfs"};

struct searchlog {
	char dir[PATH_MAX / 2];
	const struct space *space;
	int lock; /* descriptor of the locked directory; -1: it did not exist */
	long begin; /* position in the journal after the header */
	FILE *journal;
	bool replaying;
	uint32_t tries; /* tries that were measured or replayed */
};

/* Writes the path of @name in the directory of the search to @path, and returns it. */
static const char *in_dir(const struct searchlog *log, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%.300s", log->dir, name);
	return path;
}

/* ---- opening ---- */

static bool is_empty(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool empty = true;

	while (d && (e = readdir(d)))
		empty = empty && (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."));
	if (d)
		closedir(d);
	return d && empty;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static int remove_part(const struct searchlog *log, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	if (lstat(in_dir(log, name, path), &st))
		return 0;
	return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) ? -errno : 0;
}

/* Removes the journal and the directories that a search creates, with all that is in them. Other
 * entries of the directory stay. */
static void remove_parts(const struct searchlog *log)
{
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
		remove_part(log, dirs[i]);
	remove_part(log, JOURNAL);
}

static int make_dir(const char *path)
{
	return mkdir(path, 0777) && errno != EEXIST ? -errno : 0;
}

static int make_dirs(const struct searchlog *log)
{
	int err = make_dir(log->dir);
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(dirs) && !err; i++)
		err = make_dir(in_dir(log, dirs[i], path));
	return err;
}

static int open_new(struct searchlog *log, json_t *header)
{
	char path[PATH_MAX];
	int err = make_dirs(log);

	if (err)
		return err;
	log->journal = fopen(in_dir(log, JOURNAL, path), "w+xe");
	err = log->journal ? journal_append(log->journal, header) : -errno;
	log->begin = err ? 0 : ftell(log->journal);
	return err;
}

static int say(const struct searchlog *log, int err, char *why, size_t size)
{
	return err ? fail(why, size, err, "%.120s: %s", log->dir, strerror(-err)) : 0;
}

static int open_old(struct searchlog *log, json_t *header, char *why, size_t size)
{
	char path[PATH_MAX];
	json_t *was;
	json_int_t version;
	bool same;

	log->journal = fopen(in_dir(log, JOURNAL, path), "r+e");
	if (!log->journal)
		return fail(why, size, -ENOENT,
			"%.120s: there is no search to resume: give no --resume", log->dir);
	same = journal_next(log->journal, &was) > 0 && json_equal(was, header);
	version = json_integer_value(json_object_get(was, "version"));
	json_decref(was);
	if (version && version != SEARCHLOG_VERSION)
		return fail(why, size, -EINVAL,
			"%.120s: that search is of version %lld, this program resumes version %d: give "
			"another --log",
			log->dir, (long long)version, SEARCHLOG_VERSION);
	if (!same)
		return fail(why, size, -EINVAL,
			"%.120s: that search had other options: give the same, or another --log",
			log->dir);
	log->begin = ftell(log->journal);
	log->replaying = true;
	return say(log, make_dirs(log), why, size);
}

/* Only one search at a time may write into a directory. */
static int lock_dir(struct searchlog *log)
{
	if (log->lock < 0)
		log->lock = open(log->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return log->lock >= 0 && flock(log->lock, LOCK_EX | LOCK_NB) ? -EBUSY : 0;
}

static int open_as(struct searchlog *log, enum searchlog_mode mode, json_t *header, char *why,
	size_t size)
{
	char path[PATH_MAX];
	int err = lock_dir(log);

	if (err)
		return fail(why, size, err,
			"%.120s: another search writes there: give another --log, or wait for its "
			"end",
			log->dir);
	if (mode == SEARCHLOG_RESUME)
		return open_old(log, header, why, size);
	if (mode == SEARCHLOG_FORCE && !access(in_dir(log, JOURNAL, path), F_OK))
		remove_parts(log);
	else if (!access(log->dir, F_OK) && !is_empty(log->dir))
		return fail(why, size, -EEXIST,
			"%.120s: it exists already: give --resume, --force if it is an old "
			"search's, or another --log",
			log->dir);
	err = open_new(log, header);
	if (!err)
		err = lock_dir(log);
	return say(log, err, why, size);
}

int searchlog_open(const char *dir, enum searchlog_mode mode, const struct space *space,
	json_t *header, struct searchlog **log_p, char *why, size_t size)
{
	struct searchlog *log = calloc(1, sizeof(*log));
	int err;

	if (!log)
		return fail(why, size, -ENOMEM, "%.120s: %s", dir, strerror(ENOMEM));
	log->lock = -1;
	log->space = space;
	if (snprintf(log->dir, sizeof(log->dir), "%s", dir) >= (int)sizeof(log->dir)) {
		free(log);
		return fail(why, size, -ENAMETOOLONG, "%.120s: give a shorter --log", dir);
	}
	err = open_as(log, mode, header, why, size);
	if (err) {
		searchlog_close(log);
		return err;
	}
	*log_p = log;
	return 0;
}

void searchlog_close(struct searchlog *log)
{
	if (!log)
		return;
	if (log->journal)
		fclose(log->journal);
	if (log->lock >= 0)
		close(log->lock);
	free(log);
}

int searchlog_forget(struct searchlog *log)
{
	if (fseek(log->journal, log->begin, SEEK_SET) ||
		ftruncate(fileno(log->journal), log->begin))
		return -errno;
	return 0;
}

/* ---- the journal ---- */

int searchlog_replay(struct searchlog *log, const struct explore_ask *ask, struct measure *m_p,
	int *err_p)
{
	json_t *o = NULL;
	int got = log->replaying ? journal_next(log->journal, &o) : 0;

	if (got < 0)
		return got;
	if (!got) { /* an incomplete line is removed */
		if (log->replaying && ftruncate(fileno(log->journal), ftell(log->journal)))
			return -errno;
		log->replaying = false;
		return 0;
	}
	got = journal_read(o, ask, m_p, err_p);
	json_decref(o);
	log->tries += ask->purpose == PURPOSE_TRY;
	return got;
}

/* ---- results ---- */

static void print_real(const char *key, double x, FILE *out)
{
	char text[64];

	stats_real(x, text, sizeof(text));
	fprintf(out, "%s:  %s\n", key, text);
}

static void print_counters(const struct measure *m, FILE *out)
{
	const char *key;
	json_t *v;

	json_object_foreach(m->counters, key, v)
		fprintf(out, "%s:  %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(v));
	fputc('\n', out);
}

static void print_bone(const struct measure *m, const struct rules *rules, FILE *out)
{
	for (int k = 0; k < MEASURE_KEYS; k++)
		print_real(measure_names[k], m->v[k], out);
	fprintf(out, "source:  %s\n", m->from_port ? "port" : "engine");
	fprintf(out, "anomaly:  %d\n\n", measure_judge(m, rules));
}

/* Writes the text of a result file. Returns 0 or -EIO. */
static int print_result(const struct searchlog *log, const struct point *p, const struct measure *m,
	const struct rules *rules, FILE *out)
{
	json_t *o = point_json(log->space, p);

	json_dumpf(o, out, 0);
	json_decref(o);
	fputs("\n\n", out);
	print_counters(m, out);
	print_bone(m, rules, out);
	if (m->latency.samples) {
		stats_print_merged(&m->latency, out);
		fputc('\n', out);
	}
	return ferror(out) ? -EIO : 0;
}

int searchlog_clear(const struct searchlog *log, const char *name)
{
	char part[100];

	snprintf(part, sizeof(part), "stats/%s", name);
	return remove_part(log, part);
}

void searchlog_name(const struct searchlog *log, const struct explore_ask *ask, char *name,
	size_t size)
{
	if (ask->purpose == PURPOSE_TRY)
		snprintf(name, size, "%u", log->tries);
	else
		snprintf(name, size, "%s-%u-%u", prefixes[ask->purpose], ask->of, ask->part);
}

/* Opens "result/12", or "result/mfs_help/0/3-0.qp_num", whose directory is created. */
static int open_part(const struct searchlog *log, const char *part, const struct explore_ask *ask,
	const char *end, FILE **out_p)
{
	char name[200], path[PATH_MAX];

	if (ask->purpose == PURPOSE_TRY) {
		snprintf(name, sizeof(name), "%s/%u%s", part, log->tries, end);
	} else {
		const char *place = places[ask->purpose];

		snprintf(name, sizeof(name), "%s/%s/%u", part, place, ask->of);
		make_dir(in_dir(log, name, path));
		snprintf(name, sizeof(name), "%s/%s/%u/%u-%s%s", part, place, ask->of, ask->part,
			ask->what, end);
	}
	*out_p = fopen(in_dir(log, name, path), "we");
	return *out_p ? 0 : -errno;
}

static int write_result(const struct searchlog *log, const struct explore_ask *ask,
	const struct measure *m, const struct rules *rules)
{
	FILE *out;
	int err = open_part(log, "result", ask, "", &out);

	if (err)
		return err;
	err = print_result(log, ask->point, m, rules, out);
	return fclose(out) ? -EIO : err;
}

static int write_script(const struct searchlog *log, const struct explore_ask *ask,
	const char *script)
{
	FILE *out;
	int err = open_part(log, "reproduce", ask, ".sh", &out);

	if (err)
		return err;
	fputs(script, out);
	fchmod(fileno(out), 0755);
	return fclose(out) ? -EIO : 0;
}

int searchlog_write(struct searchlog *log, const struct explore_ask *ask, const struct measure *m,
	int err, const struct rules *rules, const char *script)
{
	json_t *line = journal_line(ask, m, err);
	int failed = write_script(log, ask, script);

	if (!failed && !err)
		failed = write_result(log, ask, m, rules);
	if (!failed)
		failed = journal_append(log->journal, line);
	json_decref(line);
	log->tries += ask->purpose == PURPOSE_TRY;
	return failed;
}

int searchlog_target(struct searchlog *log, uint32_t anomaly, const struct feature_set *f,
	uint32_t found_at)
{
	json_t *o = json_pack("{s:i s:i s:o s:o s:b}", "try", (int)found_at - 1, "anomaly",
		(int)f->kind, "point", point_json(log->space, &f->point), "features",
		features_json(log->space, f), "whole", f->whole);
	char name[40], path[PATH_MAX];
	int err;

	snprintf(name, sizeof(name), "target/%u", anomaly);
	err = json_dump_file(o, in_dir(log, name, path), JSON_COMPACT) ? -EIO : 0;
	json_decref(o);
	return err;
}
