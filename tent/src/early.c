/* SPDX-License-Identifier: MIT */
/* Modes baseline and smart: each rail posts the slices that are bound to it. */
#include <errno.h>

#include "sched_priv.h"

/* Binds the slices that waited for a rail, and drops slices whose request has failed meanwhile. */
static void bind_waiting(struct sched *s, struct queue *q, bool reachable)
{
	uint32_t id, next;

	for (id = q->again.head; id != NO_SLICE; id = next) {
		bool failed = s->requests[s->slices[id].request].status;

		next = s->slices[id].next;
		if (!failed && !reachable)
			continue;
		slice_unwait(s, id);
		if (failed)
			slice_end(s, id);
		else
			bind_again(s, id);
	}
}

static bool may_post(const struct sched *s, uint32_t rail)
{
	const struct rail *r = &s->rails[rail];

	if (r->full || r->posted >= r->depth)
		return false;
	return r->state == RAIL_UP || (r->state == RAIL_HALF && !r->posted);
}

/*
 * Returns the first slice that is bound to the rail in the class whose turn it is, see turns.c, or
 * in the next class that has one. NO_SLICE: no slice is bound to the rail.
 */
static uint32_t next_bound(struct sched *s, uint32_t rail)
{
	uint32_t without = 0, p;

	while ((p = class_next(s, without)) < SCHED_PRIORITIES) {
		if (sched_bound(s, rail, p)->head != NO_SLICE)
			return sched_bound(s, rail, p)->head;
		without |= 1u << p;
	}
	return NO_SLICE;
}

/* Drops a slice whose request has failed. False: the request has not failed. */
static bool drop(struct sched *s, uint32_t id)
{
	if (!s->requests[s->slices[id].request].status)
		return false;
	bind_undo(s, id);
	slice_end(s, id);
	return true;
}

static int post(struct sched *s, uint64_t now, uint32_t rail, uint32_t id)
{
	uint32_t priority = slice_priority(s, id);
	int err = slice_post(s, now, id, sched_bound(s, rail, priority));

	if (!err)
		class_shrink(s, priority, 1);
	return err;
}

static void run_rail(struct sched *s, uint64_t now, uint32_t rail)
{
	uint32_t id;

	while (may_post(s, rail) && (id = next_bound(s, rail)) != NO_SLICE) {
		int err = drop(s, id) ? 0 : post(s, now, rail, id);

		if (err && err != -EAGAIN)
			rail_fail(s, now, rail);
	}
}

void early_run(struct sched *s, uint64_t now)
{
	for (uint32_t l = 0; l < s->n_locations; l++) {
		bool reachable = sched_reachable(s, l);

		for (uint32_t p = 0; p < s->config.priorities; p++)
			bind_waiting(s, sched_queue(s, l, p), reachable);
	}
	for (uint32_t r = 0; r < s->n_rails; r++)
		run_rail(s, now, r);
}
