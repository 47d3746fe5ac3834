/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "gather.h"
#include "node.h"
#include "plan.h"
#include "progress.h"
#include "report.h"
#include "result.h"
#include "stop.h"

#define KEY_CSV "csv"
#define KEY_MADE "made"
/*
 * Another rank's death can cause errors in this rank before the lifeline reports the death. This is
 * how long a rank with an error waits for such a report.
 */
#define NEWS_NS (2 * NSEC_PER_SEC)
#define REPORT_NS (1500 * NSEC_PER_MSEC) /* time for rank 0 to print a partial report */
#define SLOWEST 4
#define PATIENCE_NS (NEWS_NS + 2 * NSEC_PER_SEC) /* wait until rank 0 has printed the error */

/* Results of a rank besides 0 and -errno. The rank's figures are complete. */
enum {
	UNVERIFIED = 1, /* an operation was not verified */
	UNWRITTEN, /* a trace or decisions could not be written, see `why` */
};

/*
 * Waits for the other ranks. With --ops all ranks have equal work, and even a slow rank should be
 * done after SLOWEST times our time. In addition, another rank's clients may have waited timeout_ns
 * for a reply.
 */
static int fence_after_run(struct job *j, uint32_t run)
{
	uint64_t ours = j->runs[run].elapsed_ns;
	uint64_t timeout = 2 * j->o->timeout_ns + (j->o->ops ? SLOWEST * ours : 0);

	return launch_meet(j->l, timeout, j->why, sizeof(j->why));
}

/* ---- running ---- */

/* Called repeatedly while the clients work. */
static void tick(void *arg)
{
	struct job *j = arg;

	progress_tick(&j->progress);
	lifeline_look(j->lifeline);
}

static int run_clients(struct job *j, uint32_t run)
{
	int err;

	progress_begin(&j->progress, run);
	err = node_run(&j->node, tick, j);
	progress_end(&j->progress);
	return err;
}

/* Stores the result of the last run. The clients wait for the next run, or have ended. */
static int take_result(struct job *j)
{
	uint32_t run = j->measured_runs++;
	uint64_t cpu_ns = clock_cpu_ns() - j->cpu_ns;

	result_of_clients(&j->node, &j->runs[run]);
	j->runs[run].cpu_ns = cpu_ns;
	return series_of_clients(&j->node, &j->series[run]);
}

static int measure_run(struct job *j, uint32_t run)
{
	int err;

	j->begun = run + 1;
	j->cpu_ns = clock_cpu_ns();
	err = run_clients(j, run);
	return err ? err : take_result(j);
}

static int run_all(struct job *j)
{
	int err = 0;

	j->time = time(NULL);
	progress_init(&j->progress, &j->node);
	for (uint32_t run = 0; !err && run < j->o->runs; run++) {
		err = run ? fence_after_run(j, run - 1) : job_fence(j);
		if (!err)
			err = measure_run(j, run);
		if (err && !j->why[0])
			snprintf(j->why, sizeof(j->why), "a client cannot go on: %s",
				strerror(-err));
	}
	return err ? err : fence_after_run(j, j->o->runs - 1);
}

/*
 * Fills n->made with the numbers of operations of every client of the job. Waits for all ranks, so
 * that no put is under way when it returns.
 */
static int exchange_made(struct job *j)
{
	struct node *n = &j->node;
	uint32_t clients = n->o->clients;
	size_t of_rank = clients * sizeof(*n->made);
	int err = launch_put(j->l, KEY_MADE, 0, &n->made[(size_t)n->rank * clients], of_rank);

	if (!err)
		err = job_fence(j);
	else
		snprintf(j->why, sizeof(j->why), "the launcher failed");
	for (uint32_t i = 0; !err && i < n->ranks; i++) {
		if (i == n->rank)
			continue;
		err = launch_get_struct(j->l, i, KEY_MADE, 0, n->o->timeout_ns,
			&n->made[(size_t)i * clients], of_rank);
		if (err)
			snprintf(j->why, sizeof(j->why),
				"rank %u did not publish its operation counts: %s", i,
				strerror(-err));
	}
	return err;
}

/* Runs the audit when no rank makes puts any more. Afterwards waits for all ranks. */
static int audit(struct job *j)
{
	int err = exchange_made(j);

	if (!err)
		err = run_clients(j, j->o->runs);
	if (err && !j->why[0])
		snprintf(j->why, sizeof(j->why), "a client cannot go on in the audit: %s",
			strerror(-err));
	return err ? err : fence_after_run(j, j->o->runs - 1);
}

/* ---- reporting ---- */

static int print_report(struct job *j)
{
	static int (*const reports[])(const struct job *j, FILE *out) = {
		[FILE_JSON] = report_json,
		[FILE_HGRM] = report_hgrm,
		[FILE_SERIES] = report_series,
	};
	int table_err = 0;

	if (j->files[FILE_JSON] != stdout) {
		report_print(j, stdout);
		table_err = fflush(stdout) ? -errno : 0;
	}
	for (enum file f = 0; f < ARRAY_SIZE(reports); f++) {
		int err = j->files[f] ? reports[f](j, j->files[f]) : 0;
		int close_err = file_close(&j->files[f]);

		err = err ? err : close_err;
		if (err)
			return job_cannot_file(j, f, 0, err);
	}
	return table_err ? job_cannot_write(j, "writing to", "standard output", table_err) : 0;
}

/* @partial: why the job ended early, or NULL. 0, UNVERIFIED or -errno. */
static int report(struct job *j, const char *partial)
{
	int err = result_init(&j->total);

	if (err)
		return err;
	j->partial = partial;
	result_sequel_all(&j->total, j->runs, j->begun);
	j->total.digest = j->runs[0].digest;
	result_add(&j->total, &j->daemons);
	if (!partial)
		result_compare_views(&j->total);
	err = print_report(j);
	if (!err && !result_verified(&j->total)) {
		result_explain(&j->total, j->why, sizeof(j->why));
		err = UNVERIFIED;
	}
	result_fini(&j->total);
	return err;
}

/* Writes the first row of the decisions: the control's parameters and the reason for them. */
static void write_control(const struct node *n, FILE *out)
{
	char name[CONTROL_NAME_MAX], why[256];

	control_name(&n->control, name);
	control_explain(&n->control, &n->origin, why, sizeof(why));
	fprintf(out,
		",0,1,control,,round_trip_ns=%.17g write_ns=%.17g message_ns=%.17g,\"%s\",%s\n",
		n->origin.times.round_trip_ns, n->origin.times.write_ns, n->origin.times.message_ns,
		name, why);
}

static void write_trace(const struct node *n, FILE *out)
{
	trace_write_names(out);
	for (uint32_t i = 0; i < n->o->daemons; i++)
		trace_write(&n->daemons[i].trace, i, out);
}

static void write_decisions(const struct node *n, FILE *out)
{
	decisions_write_names(out);
	write_control(n, out);
	for (uint32_t i = 0; i < n->o->daemons; i++)
		decisions_write(&n->daemons[i].decisions, i, out);
}

/*
 * Writes the files, and publishes the errors for rank 0. An error, such as a full disk, must not
 * end this rank here, because the launcher would then end ranks that have not reported yet.
 */
static int write_csvs(struct job *j)
{
	if (j->files[FILE_TRACE])
		write_trace(&j->node, j->files[FILE_TRACE]);
	j->csv_err[FILE_TRACE] = file_close(&j->files[FILE_TRACE]);
	if (j->files[FILE_DECISIONS])
		write_decisions(&j->node, j->files[FILE_DECISIONS]);
	j->csv_err[FILE_DECISIONS] = file_close(&j->files[FILE_DECISIONS]);
	return launch_put(j->l, KEY_CSV, 0, j->csv_err, sizeof(j->csv_err));
}

/* Called by rank 0 at the end. 0, or UNWRITTEN; j->why then names the rank and the file. */
static int judge_csvs(struct job *j)
{
	int32_t err[FILES];

	memcpy(err, j->csv_err, sizeof(err));
	for (uint32_t rank = 0; rank < j->node.ranks; rank++) {
		if (rank && launch_get_struct(j->l, rank, KEY_CSV, 0, j->o->timeout_ns, err,
				    sizeof(err)))
			err[0] = -EPROTO;
		for (enum file f = 0; f < FILES; f++) {
			if (!err[f])
				continue;
			job_cannot_file(j, f, rank, err[f]);
			return UNWRITTEN;
		}
	}
	return 0;
}

/* Rank 0 collects the results of all ranks and reports. 0, UNVERIFIED, UNWRITTEN or -errno. */
static int conclude(struct job *j)
{
	bool csv = j->files[FILE_TRACE] || j->files[FILE_DECISIONS];
	int err = 0;

	result_of_all(&j->node, j->runs, &j->daemons);
	if (csv)
		err = write_csvs(j);
	if (!err && j->node.rank)
		err = gather_tell(j, NULL);
	if (!err)
		err = job_fence(j);
	if (err || j->node.rank)
		return err;
	err = gather_hear(j);
	if (err) {
		snprintf(j->why, sizeof(j->why), "a rank's results: %s", strerror(-err));
		return err;
	}
	err = report(j, NULL);
	return err || !csv ? err : judge_csvs(j);
}

/* Describes why a job ends early. */
static void explain_end(const struct job *j, char *text, size_t size)
{
	int sig = stop_told();

	if (sig)
		snprintf(text, size, "told to stop by SIG%s", sigabbrev_np(sig));
	else
		snprintf(text, size, "%s", j->why);
}

/*
 * Reports the measurements of a job that ends early; the threads of the node have ended. The other
 * ranks send their measurements to rank 0.
 */
static void conclude_partial(struct job *j)
{
	char partial[WHY_MAX];
	uint64_t ops = 0;

	if (!j->begun)
		return;
	if (j->measured_runs < j->begun)
		(void)take_result(j); /* on failure the report has no series */
	result_of_all(&j->node, j->runs, &j->daemons);
	if (j->node.rank) {
		gather_tell(j, j->lifeline);
		/* Waits while rank 0 reports: when this rank ends, the launcher may end rank 0. */
		lifeline_await(j->lifeline, REPORT_NS);
		return;
	}
	gather_partial(j);
	explain_end(j, partial, sizeof(partial));
	for (uint32_t run = 0; run < j->begun; run++)
		ops += j->runs[run].counts.ops;
	if (ops && report(j, partial) < 0)
		fprintf(stderr, "benchkv: %s\n", j->why);
}

/* ---- the whole job ---- */

/*
 * If another rank has died or requested the stop, which may have caused the error of this rank,
 * writes that reason to j->why.
 */
static void blame_the_dead(struct job *j)
{
	int64_t lost;

	lifeline_wait(j->lifeline, NEWS_NS);
	lost = lifeline_lost(j->lifeline);
	if (lost >= 0)
		snprintf(j->why, sizeof(j->why), "rank %u (%s) has died", (uint32_t)lost,
			j->hosts[lost]);
	else if (lifeline_told(j->lifeline))
		snprintf(j->why, sizeof(j->why), "another rank cannot go on");
	/* Rank 0 prints the death of a rank, or rank 1 if rank 0 has died. */
	if (lifeline_told(j->lifeline) || (lost >= 0 && j->l->rank > 1))
		j->said = true;
}

/*
 * Prints why this rank gives up. Must be called before anything is destroyed, because the failure
 * may prevent the threads from ending.
 */
static void give_up(struct job *j, int err)
{
	if (j->said || stop_told())
		return;
	if (j->status != JOB_USAGE) /* the death of a rank does not cause that status */
		blame_the_dead(j);
	if (j->said)
		return;
	j->said = true;
	if (!j->why[0])
		snprintf(j->why, sizeof(j->why), "%s", strerror(-err));
	fprintf(stderr, "benchkv: rank %u: %s\n", j->l->rank, j->why);
	stop_guard(j->status);
}

static void abort_job(struct job *j)
{
	if (j->aborted || stop_told())
		return;
	j->aborted = true;
	launch_abort(j->l, j->status, j->why);
}

/*
 * Ends the rank after an error that every rank has found. Rank 0 prints the error, then meets the
 * other ranks; if they meet, no rank need abort the job, and the others print nothing.
 */
static void end_together(struct job *j, int err)
{
	if (!j->l->rank)
		give_up(j, err);
	j->aborted = !launch_fence(j->l, PATIENCE_NS);
	if (!j->aborted)
		give_up(j, err);
}

static int run_node(struct job *j)
{
	int err = node_start(&j->node, j->why, sizeof(j->why));

	if (!err && !(err = run_all(j)))
		err = audit(j);
	if (err) {
		give_up(j, err);
		stop_raise(STOP_FAILED);
		lifeline_stop(j->lifeline, stop_told() ? stop_told() : STOP_FAILED);
	}
	node_stop(&j->node);
	if (err) {
		conclude_partial(j);
		lifeline_leave(j->lifeline);
		/*
		 * Aborts before the node is freed, because the end of the software HCA may wait for
		 * a rank that hangs. This leaves no shared memory behind: its names are removed.
		 */
		abort_job(j);
	} else {
		err = conclude(j);
		lifeline_leave(j->lifeline);
	}
	if (err < 0)
		give_up(j, err);
	node_free(&j->node, err >= 0);
	return err;
}

/* @results may be NULL. */
static void free_results(struct result *results, uint32_t n)
{
	for (uint32_t i = 0; results && i < n; i++)
		result_fini(&results[i]);
	free(results);
}

/* Returns n empty results, or NULL if there is no memory. */
static struct result *new_results(uint32_t n)
{
	struct result *results = calloc(n, sizeof(*results));
	int err = results ? 0 : -ENOMEM;

	for (uint32_t i = 0; !err && i < n; i++)
		err = result_init(&results[i]);
	if (!err)
		return results;
	free_results(results, n);
	return NULL;
}

static int run_job(struct job *j, const char *device)
{
	int err = topo_open(&j->node.topo);

	if (err)
		return err;
	err = job_meet(j, device);
	if (!err)
		err = job_plan(j, device);
	if (err)
		return err;
	if (j->o->dry_run) {
		plan_print(&j->node, stdout);
		return fflush(stdout) ?
			       job_cannot_write(j, "writing to", "standard output", -errno) :
			       0;
	}
	j->runs = new_results(j->o->runs);
	j->series = calloc(j->o->runs, sizeof(*j->series));
	j->ranks = new_results(j->node.ranks);
	j->heard = calloc(j->node.ranks, sizeof(*j->heard));
	if (!j->runs || !j->series || !j->ranks || !j->heard || result_init(&j->daemons))
		return -ENOMEM;
	return run_node(j);
}

int job_run(const struct options *o, struct launch *l, const char *device, const char *no_device)
{
	struct job j = {.o = o, .l = l, .status = JOB_ERROR, .no_device = no_device};
	int err = run_job(&j, device);

	if (j.status == JOB_USAGE)
		end_together(&j, err);
	else if (err < 0)
		give_up(&j, err);
	if (err == UNVERIFIED)
		fprintf(stderr, "benchkv: not every operation was verified: %s\n", j.why);
	if (err == UNWRITTEN)
		fprintf(stderr, "benchkv: %s\n", j.why);
	for (enum file f = 0; f < FILES; f++)
		file_close(&j.files[f]);
	l->watch = NULL;
	lifeline_close(j.lifeline);
	topo_close(j.node.topo);
	free(j.heard);
	free_results(j.ranks, j.node.ranks);
	for (uint32_t i = 0; j.series && i < o->runs; i++)
		series_fini(&j.series[i]);
	free(j.series);
	free_results(j.runs, o->runs);
	result_fini(&j.daemons);
	free((void *)j.hosts);
	if (!err)
		return JOB_OK;
	if (stop_told())
		return 128 + stop_told();
	if (err < 0)
		abort_job(&j);
	return j.status;
}
