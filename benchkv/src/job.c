/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "base/clock.h"
#include "base/underhca.h"
#include "daemon.h"
#include "gather.h"
#include "meet.h"
#include "node.h"
#include "progress.h"
#include "report.h"
#include "result.h"
#include "stop.h"

#define KEY_TRACE "benchkv.trace"
#define SLOWEST 4
#define PATIENCE_NS (2 * NSEC_PER_SEC) /* of ranks that leave a complaint to rank 0 */

/* How a rank can end besides 0 and -errno: the results are there. */
enum {
	UNVERIFIED = 1, /* all went well, but for an operation */
	UNTRACED, /* a trace could not be written; said in why */
};

/*
 * All ranks have as much to do as this one: with a number of operations even a slow one is
 * through after SLOWEST times our time. Its clients may have waited in vain for a reply,
 * as ours may have.
 */
static int fence_after_run(struct job *j, uint32_t run)
{
	uint64_t ours = j->runs[run].elapsed_ns;
	uint64_t timeout = 2 * j->o->timeout_ns + (j->o->ops ? SLOWEST * ours : 0);
	int err = launch_fence(j->l, timeout);

	if (err)
		launch_explain(j->l, err, timeout, j->why, sizeof(j->why));
	return err;
}

/* ---- running ---- */

static int run_clients(struct job *j, uint32_t run)
{
	int err;

	progress_begin(&j->progress, run);
	err = node_run(&j->node, progress_tick, &j->progress);
	progress_end(&j->progress);
	return err;
}

static int run_all(struct job *j)
{
	int err = 0;

	j->time = time(NULL);
	progress_init(&j->progress, &j->node);
	for (uint32_t run = 0; !err && run < j->o->runs; run++) {
		err = run ? fence_after_run(j, run - 1) : job_fence(j);
		if (!err)
			err = run_clients(j, run);
		if (err && !j->why[0])
			snprintf(j->why, sizeof(j->why), "a client cannot go on: %s",
				strerror(-err));
		if (!err)
			result_of_clients(&j->node, &j->runs[run]);
	}
	return err ? err : fence_after_run(j, j->o->runs - 1);
}

/* Every key that was put is read, when no rank puts any more; afterwards all ranks meet. */
static int audit(struct job *j)
{
	int err = audit_prepare(&j->node, j->why, sizeof(j->why));

	if (!err)
		err = run_clients(j, j->o->runs);
	if (err && !j->why[0])
		snprintf(j->why, sizeof(j->why), "a client cannot go on in the audit: %s",
			strerror(-err));
	return err ? err : fence_after_run(j, j->o->runs - 1);
}

/* ---- reporting ---- */

/* Once; standard output stays open. */
static int close_file(FILE **f)
{
	FILE *file = *f;

	*f = NULL;
	return file && file != stdout ? fclose(file) : 0;
}

static int print_report(struct job *j, const struct report *r)
{
	int table_err = 0, err = 0;

	if (j->json != stdout) {
		report_print(r, stdout);
		table_err = fflush(stdout) ? -errno : 0;
	}
	if (j->json)
		err = report_json(r, j->json);
	if (close_file(&j->json) && !err)
		err = -errno;
	if (err)
		return job_cannot_json(j, err);
	if (j->hgrm)
		err = report_hgrm(r, j->hgrm);
	if (close_file(&j->hgrm) && !err)
		err = -errno;
	if (err)
		return job_cannot_hgrm(j, err);
	return table_err ? job_cannot_write(j, "writing to", "standard output", table_err) : 0;
}

static int report(struct job *j, struct result *daemons)
{
	struct report r = {.node = &j->node,
		.measured = j->measured.write_ns > 0 ? &j->measured : NULL,
		.software_hca = underhca_is_software(),
		.time = j->time,
		.hosts = (const char(*)[HOST_NAME_SIZE])j->hosts,
		.runs = j->runs,
		.ranks = j->ranks};
	int err;

	result_init(&r.total);
	for (uint32_t run = 0; run < j->o->runs; run++)
		result_sequel(&r.total, &j->runs[run]);
	r.total.digest = j->runs[0].digest;
	result_add(&r.total, daemons);
	err = print_report(j, &r);
	if (err)
		return err;
	if (result_verified(&r.total))
		return 0;
	result_explain(&r.total, j->why, sizeof(j->why));
	return UNVERIFIED;
}

/*
 * Before the ranks meet again, because a full disk may not cost the results, and a rank
 * that ends with an error would end those that have not reported yet: rank 0 is told.
 */
static int write_trace(struct job *j)
{
	FILE *out = j->trace;

	j->trace = NULL;
	trace_write_names(out);
	for (uint32_t i = 0; i < j->o->daemons; i++)
		trace_write(&j->node.daemons[i].trace, i, out);
	j->trace_err = trace_close(out);
	return launch_put(j->l, KEY_TRACE, &j->trace_err, sizeof(j->trace_err));
}

/* Rank 0, last of all. 0, or UNTRACED, and why says whose trace it is. */
static int judge_traces(struct job *j)
{
	int32_t err = j->trace_err;
	uint32_t rank = 0;

	while (!err && ++rank < j->node.ranks) {
		if (job_get_struct(j, rank, KEY_TRACE, &err, sizeof(err)))
			err = -EPROTO;
	}
	if (!err)
		return 0;
	job_cannot_trace(j, rank, err);
	return UNTRACED;
}

/* Rank 0 gets everybody's results and reports. 0, UNVERIFIED, UNTRACED or -errno. */
static int conclude(struct job *j)
{
	bool traced = j->trace;
	struct result daemons;
	int err = 0;

	result_of_all(&j->node, &daemons);
	if (traced)
		err = write_trace(j);
	if (!err && j->node.rank)
		err = gather_tell(&j->node, j->runs, &daemons);
	if (!err)
		err = job_fence(j);
	if (err || j->node.rank)
		return err;
	err = gather_hear(&j->node, j->runs, j->ranks, &daemons);
	if (err) {
		snprintf(j->why, sizeof(j->why), "a rank's results: %s", strerror(-err));
		return err;
	}
	err = report(j, &daemons);
	return err || !traced ? err : judge_traces(j);
}

/* ---- all of it ---- */

/*
 * Says why this rank gives up, before it takes anything down: what has failed may keep
 * its threads from ending.
 */
static void give_up(struct job *j, int err)
{
	if (j->said || stop_requested())
		return;
	j->said = true;
	if (!j->why[0])
		snprintf(j->why, sizeof(j->why), "%s", strerror(-err));
	fprintf(stderr, "benchkv: rank %u: %s\n", launch_rank(j->l), j->why);
	stop_guard(j->status);
}

static void abort_job(struct job *j)
{
	if (j->aborted || stop_requested())
		return;
	j->aborted = true;
	launch_abort(j->l, j->status, j->why);
}

/*
 * What every rank has found out ends every rank, without being aborted, and one complaint
 * is enough: rank 0 meets the others when it has made it.
 */
static void end_together(struct job *j, int err)
{
	if (!launch_rank(j->l))
		give_up(j, err);
	j->aborted = !launch_fence(j->l, PATIENCE_NS);
	if (!j->aborted)
		give_up(j, err);
}

static int run_node(struct job *j)
{
	int err = node_start(&j->node, j->why, sizeof(j->why));

	if (err) {
		give_up(j, err);
	} else if ((err = run_all(j)) || (err = audit(j))) {
		give_up(j, err);
		/*
		 * Now, for a rank that hangs may have what the end of our threads, or of the
		 * software HCA, waits for; and nothing of ours has a name any more.
		 */
		abort_job(j);
	}
	node_stop(&j->node);
	if (!err)
		err = conclude(j);
	if (err < 0)
		give_up(j, err);
	node_free(&j->node, err >= 0);
	return err;
}

static int run_job(struct job *j, const char *device, const char *no_device)
{
	int err = topo_open(&j->node.topo);

	if (err)
		return err;
	err = job_meet(j, device);
	if (!err)
		err = job_plan(j, device, no_device);
	if (err)
		return err;
	if (j->o->dry_run) {
		report_plan(&j->node, stdout);
		return fflush(stdout) ?
			       job_cannot_write(j, "writing to", "standard output", -errno) :
			       0;
	}
	j->runs = calloc(j->o->runs, sizeof(*j->runs));
	j->ranks = calloc(j->node.ranks, sizeof(*j->ranks));
	if (!j->runs || !j->ranks)
		return -ENOMEM;
	for (uint32_t i = 0; i < j->node.ranks; i++)
		result_init(&j->ranks[i]);
	return run_node(j);
}

int job_run(const struct options *o, struct launch *l, const char *device, const char *no_device)
{
	struct job j = {.o = o, .l = l, .status = JOB_ERROR};
	int err = run_job(&j, device, no_device);

	if (j.status == JOB_USAGE)
		end_together(&j, err);
	else if (err < 0)
		give_up(&j, err);
	if (err == UNVERIFIED)
		fprintf(stderr, "benchkv: not every operation was verified: %s\n", j.why);
	if (err == UNTRACED)
		fprintf(stderr, "benchkv: %s\n", j.why);
	close_file(&j.json);
	close_file(&j.hgrm);
	close_file(&j.trace);
	topo_close(j.node.topo);
	free(j.ranks);
	free(j.runs);
	free((void *)j.hosts);
	if (!err)
		return JOB_OK;
	if (stop_requested())
		return 128 + atomic_load_explicit(&stop_signal, memory_order_relaxed);
	if (err < 0)
		abort_job(&j);
	return j.status;
}
