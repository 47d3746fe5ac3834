/* SPDX-License-Identifier: MIT */
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit.h"
#include "base/clock.h"
#include "daemon.h"
#include "gather.h"
#include "hca.h"
#include "node.h"
#include "progress.h"
#include "report.h"
#include "result.h"
#include "stop.h"

#define HELLO_MAGIC 0x62656e63686b7604ull
#define KEY_HELLO "benchkv.hello"
#define KEY_TRACE "benchkv.trace"
#define WHY_MAX 320
#define SLOWEST 4
#define PATIENCE_NS (2 * NSEC_PER_SEC) /* of ranks that leave a complaint to rank 0 */

/* How a rank can end besides 0 and -errno: the results are there. */
enum {
	UNVERIFIED = 1, /* all went well, but for an operation */
	UNTRACED, /* a trace could not be written; said in why */
};

/* What ranks tell each other first. */
struct hello {
	uint64_t magic; /* the program, and its version */
	uint64_t options; /* options_digest() */
	uint64_t cores; /* topo_cores_id() */
	uint64_t json_errno, hgrm_errno, trace_errno; /* 0: it can write the file, or need not */
	char host[HOST_NAME_SIZE]; /* launch_host() */
};

struct job {
	const struct options *o;
	struct launch *l;
	struct node node;
	struct progress progress;
	uint32_t index, sharers; /* among the ranks with the same cores */
	struct result *runs; /* of this rank; then, at rank 0, of all */
	struct result *ranks; /* rank 0 only: of all runs */
	char (*hosts)[HOST_NAME_SIZE]; /* of all ranks */
	time_t time; /* when the first run began */
	FILE *json, *hgrm; /* rank 0 only */
	FILE *trace;
	int32_t trace_err; /* 0 or -errno: what became of it */
	int status; /* to end with after an error */
	char why[WHY_MAX];
	bool said; /* why */
	bool aborted; /* or need not be */
};

static int cannot_write(struct job *j, const char *what, const char *file, int err)
{
	snprintf(j->why, sizeof(j->why), "%s '%.200s': %s: give what can be written", what, file,
		strerror(-err));
	return err;
}

/* What is wrong is the command line, and every rank finds it out. */
static int refuse(struct job *j, int err)
{
	j->status = JOB_USAGE;
	return err;
}

static int fence(struct job *j)
{
	int err = launch_fence(j->l, j->o->timeout_ns);

	if (err)
		launch_explain(j->l, err, j->o->timeout_ns, j->why, sizeof(j->why));
	return err;
}

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

/* ---- meeting ---- */

static int get_struct(struct job *j, uint32_t rank, const char *key, void *to, size_t size)
{
	void *data;
	size_t len;
	int err = launch_get(j->l, rank, key, j->o->timeout_ns, &data, &len);

	if (err)
		return err;
	if (len == size)
		memcpy(to, data, size);
	free(data);
	return len == size ? 0 : -EPROTO;
}

/* The options may differ from rank to rank in their files. */
static int cannot_json(struct job *j, int err)
{
	return cannot_write(j, "--json", j->o->json ? j->o->json : "of rank 0", err);
}

static int cannot_hgrm(struct job *j, int err)
{
	return cannot_write(j, "--hgrm", j->o->hgrm ? j->o->hgrm : "of rank 0", err);
}

static int cannot_trace(struct job *j, uint32_t rank, int err)
{
	char name[TRACE_NAME_MAX];

	trace_name(j->o->trace ? j->o->trace : "", rank, name);
	return cannot_write(j, "--trace", name, err);
}

static int judge(struct job *j, const struct hello *mine, const struct hello *theirs, uint32_t rank)
{
	if (theirs->options != mine->options) {
		snprintf(j->why, sizeof(j->why), "rank %u has other options: give all the same",
			rank);
		return refuse(j, -EINVAL);
	}
	if (theirs->json_errno)
		return refuse(j, cannot_json(j, -(int)theirs->json_errno));
	if (theirs->hgrm_errno)
		return refuse(j, cannot_hgrm(j, -(int)theirs->hgrm_errno));
	if (theirs->trace_errno)
		return refuse(j, cannot_trace(j, rank, -(int)theirs->trace_errno));
	j->sharers += theirs->cores == mine->cores;
	j->index += theirs->cores == mine->cores && rank < launch_rank(j->l);
	return 0;
}

static int hear(struct job *j, const struct hello *mine, uint32_t rank)
{
	struct hello theirs;
	int err = get_struct(j, rank, KEY_HELLO, &theirs, sizeof(theirs));

	if (!err && theirs.magic != mine->magic)
		err = -EPROTO;
	if (err) {
		snprintf(j->why, sizeof(j->why), "rank %u is not this benchkv", rank);
		return err;
	}
	memcpy(j->hosts[rank], theirs.host, HOST_NAME_SIZE - 1);
	return judge(j, mine, &theirs, rank);
}

/*
 * Before anything runs: an hour's results are not to be lost by a mistyped name. And
 * before the ranks meet, so that all know it if one of them cannot.
 */
static void open_files(struct job *j, struct hello *mine)
{
	if (j->o->json && !j->o->dry_run && !launch_rank(j->l)) {
		j->json = strcmp(j->o->json, "-") ? fopen(j->o->json, "w") : stdout;
		mine->json_errno = j->json ? 0 : (uint64_t)errno;
	}
	if (j->o->hgrm && !j->o->dry_run && !launch_rank(j->l)) {
		j->hgrm = fopen(j->o->hgrm, "w");
		mine->hgrm_errno = j->hgrm ? 0 : (uint64_t)errno;
	}
	if (j->o->trace && !j->o->dry_run && launch_size(j->l) > 1)
		mine->trace_errno =
			(uint64_t)-trace_open(j->o->trace, launch_rank(j->l), &j->trace);
}

static int meet(struct job *j)
{
	struct hello mine = {.magic = HELLO_MAGIC,
		.options = options_digest(j->o),
		.cores = topo_cores_id(j->node.topo)};
	int err;

	open_files(j, &mine);
	snprintf(mine.host, sizeof(mine.host), "%s", launch_host(j->l));
	j->hosts = calloc(launch_size(j->l), sizeof(*j->hosts));
	if (!j->hosts)
		return -ENOMEM;
	memcpy(j->hosts[launch_rank(j->l)], mine.host, sizeof(mine.host));
	if (launch_alone(j->l))
		return judge(j, &mine, &mine, 0);
	err = launch_put(j->l, KEY_HELLO, &mine, sizeof(mine));
	if (!err)
		err = fence(j);
	for (uint32_t i = 0; !err && i < launch_size(j->l); i++)
		err = hear(j, &mine, i);
	return err;
}

static int plan(struct job *j, const char *device, const char *no_device)
{
	struct node *n = &j->node;
	uint64_t clients = (uint64_t)launch_size(j->l) * j->o->clients;

	if (clients > KV_MAX_WRITERS) {
		snprintf(j->why, sizeof(j->why), "%llu clients in all: at most %u are possible",
			(unsigned long long)clients, KV_MAX_WRITERS);
		return refuse(j, -EINVAL);
	}
	if (workload_share(j->o->ops, 0, (uint32_t)clients) > KV_MAX_OPS) {
		snprintf(j->why, sizeof(j->why),
			"--ops %llu is more than %llu for each client: give less, or more clients",
			(unsigned long long)j->o->ops, KV_MAX_OPS);
		return refuse(j, -EINVAL);
	}
	n->nap_ns = node_nap_ns(j->sharers * (j->o->daemons + j->o->clients), topo_units(n->topo));
	n->o = j->o;
	n->launch = j->l;
	n->rank = launch_rank(j->l);
	n->ranks = launch_size(j->l);
	if (n->ranks > 1) {
		n->ring_size = node_ring_size(j->o);
		n->device = device;
	}
	if (n->ranks > 1 && !device) {
		snprintf(j->why, sizeof(j->why), "%s", no_device);
		return refuse(j, -ENODEV);
	}
	if (j->o->pin)
		topo_plan(n->topo, n->device, j->index, j->sharers, j->o->daemons + j->o->clients);
	return 0;
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
		err = run ? fence_after_run(j, run - 1) : fence(j);
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
		return cannot_json(j, err);
	if (j->hgrm)
		err = report_hgrm(r, j->hgrm);
	if (close_file(&j->hgrm) && !err)
		err = -errno;
	if (err)
		return cannot_hgrm(j, err);
	return table_err ? cannot_write(j, "writing to", "standard output", table_err) : 0;
}

static int report(struct job *j, struct result *daemons)
{
	struct report r = {.node = &j->node,
		.software_hca = hca_is_software(),
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
		if (get_struct(j, rank, KEY_TRACE, &err, sizeof(err)))
			err = -EPROTO;
	}
	if (!err)
		return 0;
	cannot_trace(j, rank, err);
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
		err = fence(j);
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
	err = meet(j);
	if (!err)
		err = plan(j, device, no_device);
	if (err)
		return err;
	if (j->o->dry_run) {
		report_plan(&j->node, stdout);
		return fflush(stdout) ? cannot_write(j, "writing to", "standard output", -errno) :
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
