/* SPDX-License-Identifier: MIT */
#include "gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define KEY_RESULT "result" /* its number: a run, or LIFELINE_DAEMONS for j->daemons */
#define PARTIAL_NS (700 * NSEC_PER_MSEC) /* mpirun sends SIGKILL a second after SIGTERM */

/* Sends a result over the lifeline; if @line is NULL, publishes it for rank 0. */
static int pass_on(struct job *j, struct lifeline *line, uint32_t run, const struct series *s,
	const struct result *r)
{
	void *data;
	size_t len;
	int err = result_encode(s, r, &data, &len);

	if (err)
		return err;
	err = line ? lifeline_send(line, run, data, len) :
		     launch_put(j->l, KEY_RESULT, run, data, len);
	free(data);
	return err;
}

int gather_tell(struct job *j, struct lifeline *line)
{
	const struct series none = {.n = 0};
	int err = 0;

	for (uint32_t run = 0; !err && run < j->begun; run++)
		err = pass_on(j, line, run, &j->series[run], &j->runs[run]);
	return err ? err : pass_on(j, line, LIFELINE_DAEMONS, &none, &j->daemons);
}

static int add_result(struct job *j, uint32_t rank, uint32_t run, const struct result *r,
	const struct series *s)
{
	if (run == LIFELINE_DAEMONS) { /* the last result of this rank */
		result_add(&j->daemons, r);
		memcpy(j->ranks[rank].served, r->served, sizeof(r->served));
		j->heard[rank] = true;
		return 0;
	}
	if (run >= j->o->runs)
		return -EBADMSG;
	if (run >= j->begun)
		j->begun = run + 1;
	result_add(&j->runs[run], r);
	result_sequel(&j->ranks[rank], r);
	return series_add(&j->series[run], s);
}

/* Adds a result of a rank. Is a lifeline_result_fn. */
static int take_result(void *arg, uint32_t rank, uint32_t run, const void *data, size_t len)
{
	struct job *j = arg;
	uint32_t intervals = series_most(j->o->duration_ns, j->o->interval_ns);
	struct series s;
	struct result r;
	int64_t skip = series_unpack(data, len, intervals, &s);
	int err = skip < 0 ? (int)skip : result_init(&r);

	if (err)
		return err;
	err = result_decode((const char *)data + skip, len - (size_t)skip, &r);
	if (!err)
		err = add_result(j, rank, run, &r, &s);
	result_fini(&r);
	return err;
}

/* Enters the results of rank 0 itself into j->ranks; j->runs and j->daemons have them already. */
static void begin(struct job *j)
{
	result_sequel_all(&j->ranks[0], j->runs, j->begun);
	memcpy(j->ranks[0].served, j->daemons.served, sizeof(j->daemons.served));
	j->heard[0] = true;
}

static int hear_result(struct job *j, uint32_t rank, uint32_t run)
{
	void *data;
	size_t len;
	int err = launch_get(j->l, rank, KEY_RESULT, run, j->o->timeout_ns, &data, &len);

	if (err)
		return err;
	err = take_result(j, rank, run, data, len);
	free(data);
	return err;
}

int gather_hear(struct job *j)
{
	int err = 0;

	begin(j);
	for (uint32_t rank = 1; !err && rank < j->node.ranks; rank++) {
		for (uint32_t run = 0; !err && run < j->o->runs; run++)
			err = hear_result(j, rank, run);
		if (!err)
			err = hear_result(j, rank, LIFELINE_DAEMONS);
	}
	return err;
}

void gather_partial(struct job *j)
{
	begin(j);
	lifeline_gather(j->lifeline, PARTIAL_NS, take_result, j);
}
