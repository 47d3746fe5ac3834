/* SPDX-License-Identifier: MIT */
#include "gather.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define KEY_MAX 48
#define PARTIAL_NS (700 * NSEC_PER_MSEC) /* less than a second, after which mpirun kills the job */

/* The key of a run; the figures of the daemons come under the key after the last run's. */
static void run_key(char key[KEY_MAX], uint32_t run)
{
	snprintf(key, KEY_MAX, "benchkv.result.%u", run);
}

static int tell_result(struct node *n, uint32_t run, const struct result *r)
{
	char key[KEY_MAX];
	void *data;
	size_t len;
	int err = result_encode(r, &data, &len);

	if (err)
		return err;
	run_key(key, run);
	err = launch_put(n->launch, key, data, len);
	free(data);
	return err;
}

int gather_tell(struct node *n, const struct result *runs, const struct result *daemons)
{
	int err = 0;

	for (uint32_t run = 0; !err && run < n->o->runs; run++)
		err = tell_result(n, run, &runs[run]);
	return err ? err : tell_result(n, n->o->runs, daemons);
}

static int send_result(struct lifeline *line, uint32_t run, const struct result *r)
{
	void *data;
	size_t len;
	int err = result_encode(r, &data, &len);

	if (err)
		return err;
	err = lifeline_send(line, run, data, len);
	free(data);
	return err;
}

int gather_send(struct lifeline *line, const struct result *runs, uint32_t n_runs,
	const struct result *daemons)
{
	int err = 0;

	for (uint32_t run = 0; !err && run < n_runs; run++)
		err = send_result(line, run, &runs[run]);
	return err ? err : send_result(line, LIFELINE_DAEMONS, daemons);
}

static int hear_result(struct node *n, uint32_t rank, uint32_t run, struct result *r)
{
	char key[KEY_MAX];
	void *data;
	size_t len;
	int err;

	run_key(key, run);
	err = launch_get(n->launch, rank, key, n->o->timeout_ns, &data, &len);
	if (err)
		return err;
	err = result_decode(data, len, r);
	free(data);
	return err;
}

/* One rank: each run, then its daemons. */
static int hear_rank(struct node *n, uint32_t rank, struct result *runs, struct result *sum,
	struct result *daemons)
{
	struct result r;

	for (uint32_t run = 0; run <= n->o->runs; run++) {
		int err = hear_result(n, rank, run, &r);

		if (err)
			return err;
		result_add(run < n->o->runs ? &runs[run] : daemons, &r);
		if (run < n->o->runs)
			result_sequel(sum, &r);
	}
	memcpy(sum->served, r.served, sizeof(r.served));
	return 0;
}

/* The results of rank 0 itself. */
static void begin(const struct result *runs, uint32_t n_runs, struct result *ranks,
	const struct result *daemons)
{
	result_sequel_all(&ranks[0], runs, n_runs);
	memcpy(ranks[0].served, daemons->served, sizeof(daemons->served));
}

int gather_hear(struct node *n, struct result *runs, struct result *ranks, struct result *daemons)
{
	int err = 0;

	begin(runs, n->o->runs, ranks, daemons);
	for (uint32_t rank = 1; !err && rank < n->ranks; rank++)
		err = hear_rank(n, rank, runs, &ranks[rank], daemons);
	return err;
}

struct partial {
	const struct node *node;
	struct result *runs, *ranks, *daemons;
	uint32_t n_runs;
	bool *heard;
};

static int on_result(void *arg, uint32_t rank, uint32_t run, const void *data, size_t len)
{
	struct partial *p = arg;
	struct result r;
	int err = result_decode(data, len, &r);

	if (err)
		return err;
	if (run == LIFELINE_DAEMONS) { /* the last of this rank */
		result_add(p->daemons, &r);
		memcpy(p->ranks[rank].served, r.served, sizeof(r.served));
		p->heard[rank] = true;
		return 0;
	}
	if (run >= p->node->o->runs)
		return -EBADMSG;
	if (run >= p->n_runs)
		p->n_runs = run + 1;
	result_add(&p->runs[run], &r);
	result_sequel(&p->ranks[rank], &r);
	return 0;
}

void gather_partial(struct node *n, struct lifeline *line, struct result *runs, uint32_t *n_runs_p,
	struct result *ranks, struct result *daemons, bool *heard)
{
	struct partial p = {.node = n,
		.runs = runs,
		.ranks = ranks,
		.daemons = daemons,
		.n_runs = *n_runs_p,
		.heard = heard};

	begin(runs, p.n_runs, ranks, daemons);
	heard[0] = true;
	lifeline_gather(line, PARTIAL_NS, on_result, &p);
	*n_runs_p = p.n_runs;
}
