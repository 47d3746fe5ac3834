/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/output.h"
#include "base/process.h"
#include "base/tcp.h"
#include "compare.h"
#include "job.h"
#include "options.h"
#include "stop.h"

#define REPORT_MAX (64u << 20) /* longest accepted output of a job, bytes */

static atomic_int group; /* process group of the current job; 0: no job runs */

struct side {
	const char *command;
	json_t *reports;
	char *file; /* receives the reports, one per line; NULL: no file */
};

/*
 * Appends a report to the file. The first report creates the file, so a first job that fails leaves
 * no file.
 */
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

/*
 * Ends the job with SIGTERM, or with SIGKILL if this is a second signal. Not with SIGINT, because
 * srun(1) only prints the state of its tasks at the first SIGINT.
 */
static void on_signal(int sig)
{
	bool again = stop_note(sig);
	/* Relaxed, pairs with run_job(): no other data depends on the number. */
	pid_t job = atomic_load_explicit(&group, memory_order_relaxed);

	if (job)
		kill(-job, again ? SIGKILL : SIGTERM);
}

/* Runs a job in a process group of its own, so that a signal can end the whole job and only it. */
static void run_job(const char *line, struct process *p)
{
	const char *argv[] = {"/bin/sh", "-c", line, NULL};

	process_start(p, argv, false);
	if (p->err)
		return;
	/* Relaxed, here and below: pairs with on_signal(). */
	atomic_store_explicit(&group, p->pid, memory_order_relaxed);
	if (stop_requested())
		kill(-p->pid, SIGTERM); /* the signal came before `group` was set */
	process_wait(p, 1, REPORT_MAX, TCP_FOREVER);
	atomic_store_explicit(&group, 0, memory_order_relaxed);
}

/* Keeps the report of a job that has ended. 0, or < 0 and a line on standard error. */
static int keep(struct side *s, const struct process *p)
{
	json_t *report;
	int err;

	if (p->err)
		return -output_failed("benchkv", s->command, -p->err);
	if (p->status) {
		fprintf(stderr, "benchkv: '%s' has failed (%s %d)\n", s->command,
			WIFSIGNALED(p->status) ? "signal" : "status",
			WIFSIGNALED(p->status) ? WTERMSIG(p->status) : WEXITSTATUS(p->status));
		return -1;
	}
	report = json_loadb(p->out ? p->out : "", p->len, JSON_DISABLE_EOF_CHECK, NULL);
	err = compare_add(s->reports, report, s->command);
	if (!err)
		err = save(s, report);
	json_decref(report);
	return err;
}

/* Runs a job and keeps its report. 0, -EINTR after a signal, or the error of keep(). */
static int run(struct side *s)
{
	struct process p;
	char *line;
	int err;

	/* A job in the background would be stopped if it read from the terminal. */
	if (asprintf(&line, "exec </dev/null; %s --json -", s->command) < 0)
		return -output_failed("benchkv", "run-pair", ENOMEM);
	fflush(NULL);
	run_job(line, &p);
	free(line);
	err = stop_requested() ? -EINTR : keep(s, &p);
	free(p.out);
	return err;
}

/* Every second pair begins with B, so that a steady change of the machine favours neither side. */
static int run_pairs(struct side sides[2], uint32_t pairs)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < 2 * pairs; i++)
		err = run(&sides[(i + i / 2) % 2]);
	return err;
}

/*
 * Names the files, and checks that they can be created. They must be new, because reports of other
 * jobs in them would be compared as well. save() creates them later.
 */
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

/*
 * Called after run_pairs() has failed: returns the exit status of the program. If a signal came,
 * prints which one.
 */
static int failed(void)
{
	int sig = stop_told();

	if (!sig)
		return JOB_ERROR;
	fprintf(stderr, "benchkv: told to stop by SIG%s\n", sigabbrev_np(sig));
	return 128 + sig;
}

int pair_command(const struct options *o)
{
	struct side sides[2] = {
		{.command = o->sides[0], .reports = json_array()},
		{.command = o->sides[1], .reports = json_array()},
	};
	json_t *const reports[2] = {sides[0].reports, sides[1].reports};
	int status = JOB_USAGE;

	stop_catch(on_signal);
	if ((!o->files[FILE_JSON] || output_try("benchkv", "--json", o->files[FILE_JSON])) &&
		!name_files(sides, o->save))
		status = run_pairs(sides, o->pairs) ? failed() : compare_print(reports, o);
	for (int i = 0; i < 2; i++) {
		json_decref(sides[i].reports);
		free(sides[i].file);
	}
	return status;
}
