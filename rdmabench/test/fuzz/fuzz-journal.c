/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer: the journal of a search that is resumed. If the first byte is odd, a valid header is
 * put before the rest. After another measurement was appended, all measurements are replayed
 * unchanged.
 */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "searchlog.h"
#include "support/fuzz.h"

#define LINES 8

struct replayed {
	int err;
	struct measure m;
};

static struct space space;
static const struct point point; /* has the first value of each parameter */
static const struct explore_ask ask = {.purpose = PURPOSE_TRY, .point = &point};
static char dir[] = "/tmp/fuzz-journal-XXXXXX";
static int journal = -1;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Makes the directory of a search, with a journal in memory. */
static void prepare(void)
{
	char path[80], target[40];

	space_init(&space);
	journal = memfd_create("journal", MFD_CLOEXEC);
	must(journal >= 0 && mkdtemp(dir) && !atexit(remove_dir));
	snprintf(target, sizeof(target), "/proc/self/fd/%d", journal);
	snprintf(path, sizeof(path), "%s/journal.jsonl", dir);
	must(!symlink(target, path));
}

static void fill(bool header, const uint8_t *data, size_t size)
{
	static const char right[] = "{\"seed\":1}\n";
	off_t at = 0;

	must(!ftruncate(journal, 0));
	if (header)
		at = pwrite(journal, right, sizeof(right) - 1, 0);
	must(pwrite(journal, data, size, at) == (ssize_t)size);
}

static struct searchlog *resume(void)
{
	json_t *header = json_pack("{s:i}", "seed", 1);
	struct searchlog *log = NULL;
	char why[200] = "";
	int err = searchlog_open(dir, SEARCHLOG_RESUME, &space, header, &log, why, sizeof(why));

	must(!err || (err == -EINVAL && *why));
	json_decref(header);
	return log;
}

/* Replays at most LINES measurements. Returns their number, and in *err_p why there are no more. */
static int replay(struct searchlog *log, struct replayed *r, int *err_p)
{
	int n = 0;

	for (*err_p = 1; n < LINES && *err_p == 1; n += *err_p == 1)
		*err_p = searchlog_replay(log, &ask, &r[n].m, &r[n].err);
	must(*err_p == 1 || *err_p == 0 || *err_p == -EBADMSG);
	return n;
}

static void check_one(const struct replayed *a, const struct replayed *b)
{
	must(a->err == b->err && a->err <= 0 && a->err >= -4095);
	if (a->err)
		return;
	must(!memcmp(a->m.v, b->m.v, sizeof(a->m.v)) && a->m.from_port == b->m.from_port);
	must(a->m.keeps_up == b->m.keeps_up && a->m.latency.samples == b->m.latency.samples);
	for (int k = 0; k < MEASURE_KEYS; k++)
		must(isfinite(a->m.v[k]));
	for (int k = STATS_MIN; k < STATS_KEYS; k++)
		must(a->m.latency.has[k] == b->m.latency.has[k] &&
			a->m.latency.v[k] == b->m.latency.v[k]);
}

/* Writes the last measurement again, and replays all. */
static void go_on(struct searchlog *log, struct replayed *r, int n)
{
	struct replayed again[LINES + 1] = {{0}};
	struct rules rules;
	int err;

	rules_init(&rules);
	r[n] = r[n ? n - 1 : 0];
	must(!searchlog_write(log, &ask, &r[n].m, r[n].err, &rules, "true\n"));
	searchlog_close(log);
	log = resume();
	must(log && replay(log, again, &err) == n + 1);
	for (int i = 0; i <= n; i++)
		check_one(&r[i], &again[i]);
	searchlog_close(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct replayed r[LINES + 1] = {{0}};
	struct searchlog *log;
	int n, err;

	if (!size)
		return 0;
	if (journal < 0)
		prepare();
	fill(data[0] % 2, data + 1, size - 1);
	log = resume();
	if (!log)
		return 0;
	n = replay(log, r, &err);
	if (!err && n < LINES)
		go_on(log, r, n);
	else
		searchlog_close(log);
	return 0;
}
