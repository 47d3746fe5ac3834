/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "compare.h"
#include "job.h"
#include "options.h"

struct side {
	const char *command;
	json_t *reports;
	char *file; /* receives the reports, a line each; NULL: no file */
};

/* The first report creates the file, so that a command which fails at once leaves none. */
static int save(const struct side *s, const json_t *report)
{
	const char *mode = json_array_size(s->reports) == 1 ? "wxe" : "ae";
	FILE *f = s->file ? fopen(s->file, mode) : NULL;
	bool failed;

	if (!s->file)
		return 0;
	failed = !f || json_dumpf(report, f, JSON_COMPACT | JSON_REAL_PRECISION(12)) ||
		 fputc('\n', f) == EOF;
	if (f && fclose(f))
		failed = true;
	return failed ? -output_failed("benchkv", s->file, errno) : 0;
}

/* Runs a job and keeps its report. 0, or a negative number after a line on standard error. */
static int run(struct side *s)
{
	json_t *report;
	char *line;
	FILE *f;
	int err, status;

	if (asprintf(&line, "%s --json -", s->command) < 0)
		return -output_failed("benchkv", "run-pair", ENOMEM);
	fflush(NULL);
	f = popen(line, "re");
	free(line);
	if (!f)
		return -output_failed("benchkv", s->command, errno);
	report = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL);
	while (getc(f) != EOF) {
	}
	status = pclose(f);
	if (status) {
		fprintf(stderr, "benchkv: '%s' has failed (%s %d)\n", s->command,
			WIFSIGNALED(status) ? "signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		err = -1;
	} else {
		err = compare_add(s->reports, report, s->command);
	}
	if (!err)
		err = save(s, report);
	json_decref(report);
	return err;
}

/* Every second pair begins with B, so that what changes steadily favours neither. */
static int run_pairs(struct side sides[2], uint32_t pairs)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < 2 * pairs; i++)
		err = run(&sides[(i + i / 2) % 2]);
	return err;
}

/* The files must be new: reports of other jobs would be compared as well. They are not kept yet. */
static int name_files(struct side sides[2], const char *prefix)
{
	for (int i = 0; prefix && i < 2; i++) {
		FILE *f;

		if (asprintf(&sides[i].file, "%s.%c.json", prefix, "AB"[i]) < 0) {
			sides[i].file = NULL;
			return -output_failed("benchkv", prefix, ENOMEM);
		}
		f = fopen(sides[i].file, "wxe");
		if (!f)
			return -output_failed("benchkv", sides[i].file, errno);
		fclose(f);
		unlink(sides[i].file);
	}
	return 0;
}

int pair_command(const struct options *o)
{
	struct side sides[2] = {
		{.command = o->sides[0], .reports = json_array()},
		{.command = o->sides[1], .reports = json_array()},
	};
	json_t *const reports[2] = {sides[0].reports, sides[1].reports};
	int status = JOB_USAGE;

	if ((!o->json || output_try("benchkv", "--json", o->json)) && !name_files(sides, o->save))
		status = run_pairs(sides, o->pairs) ? JOB_ERROR : compare_print(reports, o);
	for (int i = 0; i < 2; i++) {
		json_decref(sides[i].reports);
		free(sides[i].file);
	}
	return status;
}
