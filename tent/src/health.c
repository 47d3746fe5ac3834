/* SPDX-License-Identifier: MIT */
/* The states of rails: deadlines, exclusion, probes, return. */
#include "sched_priv.h"

#include <errno.h>

#include "base/probe.h"

#define BACKOFF_MIN_NS 1000000ull
#define BACKOFF_MAX_NS 1000000000ull
#define STALL_TIMES 16 /* the expected time of the slice at the head */

/* Slices that are bound to the rail but not posted need no fence. */
static void take_bound(struct sched *s, uint32_t rail, uint32_t priority)
{
	struct list *bound = sched_bound(s, rail, priority);
	uint32_t id;

	/* The rail is not in use any more: none of them comes back. */
	while ((id = bound->head) != NO_SLICE) {
		early_unbind(s, id);
		early_rebind(s, id);
	}
}

void rail_fail(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	if (!rail_in_use(r))
		return;
	if (r->state == RAIL_UP) {
		PROBE(tent, rail_excluded, rail, r->inflight);
		r->exclusions++;
		r->backoff = BACKOFF_MIN_NS;
	} else if (r->backoff < BACKOFF_MAX_NS) {
		r->backoff *= 2;
	}
	r->state = RAIL_FENCING;
	r->report_up = false;
	r->epoch++;
	for (uint32_t p = 0; p < s->config.priorities; p++)
		take_bound(s, rail, p);
	s->ops->fence(s->arg, rail, r->epoch);
}

void rail_well(struct sched *s, uint32_t rail)
{
	if (s->rails[rail].state != RAIL_HALF)
		return;
	s->rails[rail].state = RAIL_UP;
	PROBE(tent, rail_back, rail);
}

void sched_rail_down(struct sched *s, uint64_t now, uint32_t rail)
{
	if (rail < s->n_rails)
		rail_fail(s, now, rail);
}

void sched_rail_up(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	if (rail >= s->n_rails)
		return;
	if (r->state == RAIL_FENCING)
		r->report_up = true;
	/* A probe that was sent before the port came back may never be answered. */
	if (r->state == RAIL_PROBING)
		r->state = RAIL_DOWN;
	if (r->state == RAIL_DOWN)
		r->probe_at = now;
}

static void probe(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	r->state = RAIL_PROBING;
	r->probe_at = now + s->probe_timeout_ns;
	r->epoch++;
	s->ops->probe(s->arg, rail, r->epoch);
}

static void probe_failed(struct rail *r, uint64_t now)
{
	if (r->backoff < BACKOFF_MAX_NS)
		r->backoff *= 2;
	r->state = RAIL_DOWN;
	r->probe_at = now + r->backoff;
}

void sched_probed(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status)
{
	struct rail *r = &s->rails[rail];

	if (rail >= s->n_rails || r->state != RAIL_PROBING || epoch != r->epoch)
		return;
	if (status) {
		probe_failed(r, now);
		return;
	}
	r->state = RAIL_HALF;
	rail_reset(r, now);
}

/* How long the rail may be silent while something is posted. */
static double patience(const struct sched *s, uint32_t rail)
{
	const struct rail *r = &s->rails[rail];
	double head = (double)s->slices[s->posted[rail].head].length;
	double ns = STALL_TIMES * (r->latency + head / r->rate);

	if (ns < (double)s->stall_min_ns)
		return (double)s->stall_min_ns;
	return ns < SCHED_STALL_MAX_NS ? ns : SCHED_STALL_MAX_NS;
}

/* When something is to be done about the rail unless a completion or an answer comes. */
static uint64_t rail_deadline(const struct sched *s, uint32_t rail)
{
	const struct rail *r = &s->rails[rail];

	if (r->state == RAIL_DOWN || r->state == RAIL_PROBING)
		return r->probe_at;
	if (rail_in_use(r) && r->posted && s->stall_min_ns != SCHED_NEVER)
		return r->progress_at + (uint64_t)patience(s, rail);
	return SCHED_NEVER;
}

static void rail_overdue(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	if (r->state == RAIL_DOWN)
		probe(s, now, rail);
	else if (r->state == RAIL_PROBING)
		probe_failed(r, now);
	else
		rail_fail(s, now, rail);
}

uint64_t health_run(struct sched *s, uint64_t now)
{
	uint64_t next = SCHED_NEVER, at;

	for (uint32_t r = 0; r < s->n_rails; r++) {
		at = rail_deadline(s, r);
		if (at <= now) {
			rail_overdue(s, now, r);
			at = rail_deadline(s, r);
		}
		if (at < next)
			next = at;
	}
	return next;
}
