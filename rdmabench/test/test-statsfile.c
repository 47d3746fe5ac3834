/* SPDX-License-Identifier: MIT */
/* Writing of statistics files: windows, names, replacement as a whole. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <sys/stat.h>

#include "../../subprojects/softhca/test/tmpdir.h"
#include "support/test.h"
#include "stats.h"
#include "statsfile.h"

static char *in_dir(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", tmpdir, name);
	return path;
}

static struct statsfile *open_file(const char *name, uint64_t window, bool compat)
{
	struct statsfile_attr a = {.path = in_dir(name),
		.run = "r",
		.role = "client",
		.clock = "c",
		.window = window,
		.compat = compat};
	struct statsfile *f;

	CHECK_EQ(statsfile_open(&a, &f), 0);
	return f;
}

static int read_file(const char *path, struct stats_row *r)
{
	char text[STATS_TEXT_MAX];
	FILE *in = fopen(path, "re");
	size_t len;

	if (!in)
		return -errno;
	len = fread(text, 1, sizeof(text), in);
	fclose(in);
	return stats_parse(text, len, r);
}

static json_t *read_json(const char *path, int *lines_p)
{
	FILE *in = fopen(path, "re");
	json_t *o = NULL, *next;

	CHECK(in);
	*lines_p = 0;
	while ((next = json_loadf(in, JSON_DISABLE_EOF_CHECK, NULL))) {
		json_decref(o);
		o = next;
		++*lines_p;
	}
	CHECK(feof(in));
	fclose(in);
	return o;
}

static int64_t number(const json_t *o, const char *key)
{
	CHECK(json_is_integer(json_object_get(o, key)));
	return json_integer_value(json_object_get(o, key));
}

static const char *string(const json_t *o, const char *key)
{
	CHECK(json_is_string(json_object_get(o, key)));
	return json_string_value(json_object_get(o, key));
}

/* 25 samples are two windows; the last five samples are not written. */
TEST(compatible_windows_are_of_ten)
{
	struct statsfile *f = open_file("ten.txt", 0, true);
	struct stats_row r;
	json_t *o;
	int lines;

	CHECK_EQ(STATS_COMPAT_WINDOW, 10);
	for (uint64_t i = 1; i <= 25; i++) {
		CHECK_EQ(statsfile_add(f, i * 100, i), 0);
		if (i < 10)
			CHECK_EQ(read_file(in_dir("ten.txt"), &r), -ENOENT);
	}
	CHECK_EQ(statsfile_close(f), 0);
	CHECK_EQ(read_file(in_dir("ten.txt"), &r), 0);
	CHECK(r.samples == 10 && r.v[STATS_MIN] == 1100 && r.v[STATS_MAX] == 2000);
	CHECK(r.v[STATS_AVG] == 1550 && r.v[STATS_MEDIAN] == 1600 && r.v[STATS_P95] == 2000);
	o = read_json(in_dir("ten.jsonl"), &lines);
	CHECK(lines == 1 && number(o, "latency_min_ns") == 1100 &&
		json_is_true(json_object_get(o, "compat")));
	json_decref(o);
}

TEST(windows_have_a_line_each)
{
	struct statsfile *f = open_file("windows", 4, false);
	struct stats_row r;
	json_t *o;
	int lines;

	for (uint64_t i = 1; i <= 10; i++)
		CHECK_EQ(statsfile_add(f, i, i), 0);
	CHECK_EQ(statsfile_close(f), 0);
	CHECK_EQ(read_file(in_dir("windows"), &r), 0);
	CHECK(r.samples == 2 && r.v[STATS_MIN] == 9 && r.v[STATS_MAX] == 10);
	o = read_json(in_dir("windows.jsonl"), &lines);
	CHECK(lines == 3 && number(o, "window") == 2 && number(o, "latency_samples") == 2);
	CHECK(json_is_false(json_object_get(o, "cumulative")));
	json_decref(o);
}

TEST(cumulative_has_all_and_names_its_source)
{
	struct statsfile *f = open_file("all.txt", 0, false);
	struct latrec_hist *h;
	struct stats_row r;
	json_t *o;
	FILE *in;
	int lines;

	for (uint64_t i = 1; i <= 100; i++) /* ten seconds */
		CHECK_EQ(statsfile_add(f, i, i * NSEC_PER_SEC / 10), 0);
	CHECK_EQ(read_file(in_dir("all.txt"), &r), 0);
	CHECK(r.samples == 91 && r.v[STATS_MIN] == 1);
	CHECK_EQ(statsfile_close(f), 0);
	CHECK_EQ(read_file(in_dir("all.txt"), &r), 0);
	CHECK(r.samples == 100 && r.v[STATS_P95] == 95);
	o = read_json(in_dir("all.jsonl"), &lines);
	CHECK(lines == 1 && number(o, "version") == STATSFILE_VERSION);
	CHECK(number(o, "process") == getpid() && strlen(string(o, "host")));
	CHECK_EQ(strlen(string(o, "writer")), 32);
	CHECK(!strcmp(string(o, "run"), "r") && !strcmp(string(o, "role"), "client"));
	CHECK(!strcmp(string(o, "clock"), "c") && strstr(string(o, "method"), "nearest rank"));
	in = fmemopen((void *)string(o, "histogram"), strlen(string(o, "histogram")), "r");
	CHECK(in);
	CHECK_EQ(latrec_hist_create(NULL, &h), 0);
	CHECK_EQ(latrec_hist_import(in, h), 0);
	CHECK_EQ(latrec_hist_count(h), 100);
	latrec_hist_destroy(h);
	fclose(in);
	json_decref(o);
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	CHECK(d);
	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

TEST(directory_has_a_file_per_process_and_role)
{
	char host[64] = "", want[400];
	struct statsfile_attr a = {.dir = in_dir("runs"),
		.run = "r1",
		.role = "client",
		.clock = ""};
	struct statsfile *client, *server;

	gethostname(host, sizeof(host) - 1);
	CHECK_EQ(statsfile_open(&a, &client), 0);
	a.role = "server";
	CHECK_EQ(statsfile_open(&a, &server), 0);
	CHECK_EQ(statsfile_add(client, 5, 1), 0);
	snprintf(want, sizeof(want), "%s/r1/%s-%d-", in_dir("runs"), host, (int)getpid());
	CHECK(!strncmp(statsfile_path(client), want, strlen(want)));
	CHECK(!strcmp(statsfile_path(client) + strlen(want) + 8, "-client.txt"));
	/* A process in another container may have the same host name and number. */
	CHECK(strncmp(statsfile_path(client), statsfile_path(server), strlen(want) + 8));
	snprintf(want, sizeof(want), "%s", statsfile_path(client));
	CHECK_EQ(statsfile_close(client), 0);
	CHECK_EQ(statsfile_close(server), 0); /* without a sample: no file */
	CHECK_EQ(entries(in_dir("runs/r1")), 2);
	CHECK_EQ(access(want, R_OK), 0);
}

TEST(bad_attributes_are_refused)
{
	const struct statsfile_attr bad[] = {
		{.path = tmpdir, .dir = tmpdir, .run = "r", .role = "client", .clock = ""},
		{.run = "r", .role = "client", .clock = ""},
		{.path = tmpdir, .run = "../r", .role = "client", .clock = ""},
		{.path = tmpdir, .run = "r", .role = "", .clock = ""},
		{.path = tmpdir, .run = "r", .role = "c", .clock = "", .compat = true, .window = 5},
	};
	struct statsfile_attr a;
	struct statsfile *f;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_EQ(statsfile_open(&bad[i], &f), -EINVAL);
	a = (struct statsfile_attr){.dir = "/nowhere/x", .run = "r", .role = "client", .clock = ""};
	CHECK_EQ(statsfile_open(&a, &f), -ENOENT);
}

TEST(what_cannot_be_written_is_refused_before_the_run)
{
	struct statsfile_attr a = {.path = in_dir("none/x"),
		.run = "r",
		.role = "client",
		.clock = ""};
	struct statsfile *f;

	CHECK_EQ(statsfile_open(&a, &f), -ENOENT);
	CHECK_EQ(mkdir(in_dir("folder"), 0777), 0);
	a.path = in_dir("folder");
	CHECK_EQ(statsfile_open(&a, &f), -EISDIR);
	CHECK_EQ(entries(in_dir("folder")), 0);
	CHECK_EQ(mkdir(in_dir("lines.jsonl"), 0777), 0);
	a.path = in_dir("lines.txt");
	CHECK_EQ(statsfile_open(&a, &f), -EISDIR);
	CHECK_EQ(rmdir(in_dir("lines.jsonl")), 0);
	CHECK_EQ(rmdir(in_dir("folder")), 0);
}

TEST(failures_are_told)
{
	struct statsfile *f;

	CHECK_EQ(mkdir(in_dir("gone"), 0777), 0);
	f = open_file("gone/x.txt", 2, false);
	CHECK_EQ(rmdir(in_dir("gone")), 0);
	CHECK_EQ(statsfile_add(f, 1, 1), 0);
	CHECK_EQ(statsfile_add(f, 1, 1), -ENOENT);
	CHECK_EQ(mkdir(in_dir("gone"), 0777), 0);
	CHECK_EQ(statsfile_add(f, 7, 1), 0);
	CHECK_EQ(statsfile_add(f, 7, 1), 0);
	CHECK_EQ(unlink(in_dir("gone/x.jsonl")), 0);
	CHECK_EQ(statsfile_add(f, 7, 1), 0);
	CHECK_EQ(statsfile_close(f), -ENOENT); /* the line before has gone */
	CHECK_EQ(entries(in_dir("gone")), 1);
}

/* The first window whose line can be written replaces the file of an old run. */
TEST(a_failed_line_does_not_prevent_the_next)
{
	struct statsfile *f = open_file("later.txt", 1, false);
	FILE *old;
	json_t *o;
	int lines;

	CHECK_EQ(mkdir(in_dir("later.jsonl"), 0777), 0);
	CHECK_EQ(statsfile_add(f, 5, 1), -EISDIR);
	CHECK_EQ(rmdir(in_dir("later.jsonl")), 0);
	old = fopen(in_dir("later.jsonl"), "we");
	CHECK(old && fputs("{}\n", old) > 0 && !fclose(old));
	CHECK_EQ(statsfile_add(f, 6, 1), 0);
	CHECK_EQ(statsfile_add(f, 7, 1), 0);
	CHECK_EQ(statsfile_close(f), 0);
	o = read_json(in_dir("later.jsonl"), &lines);
	CHECK(lines == 2 && number(o, "window") == 2);
	json_decref(o);
}

struct reader {
	const char *path;
	uint32_t stop;
	uint64_t reads;
};

static void *read_on(void *arg)
{
	struct reader *me = arg;

	/* Pairs with the store in readers_never_see_torn_files(). */
	while (!__atomic_load_n(&me->stop, __ATOMIC_ACQUIRE)) {
		struct stats_row r;
		int err = read_file(me->path, &r);

		if (err == -ENOENT)
			continue;
		CHECK_EQ(err, 0);
		/* Ten samples with the same value. */
		CHECK(r.samples == 10 && r.v[STATS_MIN] == r.v[STATS_MAX]);
		__atomic_fetch_add(&me->reads, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST(readers_never_see_torn_files)
{
	uint64_t writes = getenv("SOAK") ? 100000 : 1000;
	struct statsfile *f = open_file("torn", 0, true);
	char path[200];
	struct reader r = {.path = path};
	pthread_t thread;

	snprintf(path, sizeof(path), "%s", in_dir("torn"));
	CHECK_EQ(pthread_create(&thread, NULL, read_on, &r), 0);
	for (uint64_t i = 0; i < writes || __atomic_load_n(&r.reads, __ATOMIC_RELAXED) < 100; i++)
		for (int k = 0; k < 10; k++)
			CHECK_EQ(statsfile_add(f, i % 2 ? 1000000000 : 1, 0), 0);
	/* Pairs with the load in read_on(). */
	__atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(statsfile_close(f), 0);
}

int main(int argc, char **argv)
{
	tmpdir_make();
	return test_main(argc, argv);
}
