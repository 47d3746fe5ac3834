/* SPDX-License-Identifier: MIT */
/*
 * The states of rails: deadlines, exclusion, probes, return to use. No other file changes a state.
 */
#include "sched_priv.h"

#include <assert.h>
#include <errno.h>

#include "base/probe.h"

#define BACKOFF_MIN_NS 1000000ull
#define BACKOFF_MAX_NS 1000000000ull
#define STALL_TIMES 16 /* a rail may be silent for so many times the expected time of a slice */

/* Binds slices of the rail to other rails. These slices were not posted, so they need no fence. */
static void take_bound(struct sched *s, uint32_t rail, uint32_t priority)
{
	struct list *bound = sched_bound(s, rail, priority);
	uint32_t id;

	/* The rail is not in use any more, so bind_again() does not choose it. */
	while ((id = bound->head) != NO_SLICE) {
		bind_undo(s, id);
		bind_again(s, id);
	}
}

/*
 * Binds a slice of a failed rail to another rail, or lets the slice wait for one; ends the slice if
 * its request has failed. The caller must have called slice_unpost().
 */
static void slice_again(struct sched *s, uint32_t id)
{
	struct slice *sl = &s->slices[id];

	sl->generation++;
	sl->posted = false;
	sl->again = true;
	s->stats.resent++;
	if (s->requests[sl->request].status)
		slice_end(s, id);
	else if (s->config.mode == TENT_PULL)
		slice_wait(s, id);
	else
		bind_again(s, id);
}

/*
 * Removes the posted slices and marks from a fenced rail, and ends the marks. If @status is not 0,
 * ends the slices with it, else gives them to other rails.
 */
static void take_posted(struct sched *s, uint32_t rail, int status)
{
	uint32_t id;

	while ((id = s->posted[rail].head) != NO_SLICE) {
		struct slice *sl = &s->slices[id];

		slice_unpost(s, id);
		if (slice_is_mark(sl)) {
			mark_end(s, id, sl->status ? sl->status : -ENOTCONN);
		} else if (status) {
			request_fail(s, s->slices[id].request, status);
			slice_end(s, id);
		} else {
			slice_again(s, id);
		}
	}
}

/* ---- transitions: see the diagram in sched.h ---- */

enum rail_event {
	EVENT_FAILED, /* an error, a silent stall, a loss that was reported */
	EVENT_FENCED,
	EVENT_OPENED, /* our end exists */
	EVENT_CONNECTED, /* both ends exist */
	EVENT_REACHED, /* the first probe of the rail has arrived */
	EVENT_RETURNED, /* a later probe has arrived */
	EVENT_GIVEN_UP,
	EVENT_ARRIVED, /* a slice or a mark has arrived */
	RAIL_EVENTS,
};

static const uint8_t transitions[RAIL_STATES][RAIL_EVENTS] = {
	[RAIL_UP] = {[EVENT_FAILED] = RAIL_FENCING},
	[RAIL_HALF] = {[EVENT_FAILED] = RAIL_FENCING, [EVENT_ARRIVED] = RAIL_UP},
	[RAIL_FENCING] = {[EVENT_FENCED] = RAIL_DOWN},
	[RAIL_DOWN] = {[EVENT_OPENED] = RAIL_CONNECTING},
	[RAIL_CONNECTING] = {[EVENT_CONNECTED] = RAIL_PROBING, [EVENT_GIVEN_UP] = RAIL_DOWN},
	[RAIL_PROBING] = {[EVENT_REACHED] = RAIL_UP,
		[EVENT_RETURNED] = RAIL_HALF,
		[EVENT_GIVEN_UP] = RAIL_DOWN},
};

static void rail_step(struct sched *s, struct rail *r, enum rail_event event)
{
	uint8_t to = transitions[r->state][event];

	assert(to != RAIL_NONE);
	if (to == RAIL_NONE)
		return;
	s->n_up -= r->state == RAIL_UP;
	s->n_up += to == RAIL_UP;
	r->state = (enum sched_rail_state)to;
}

bool sched_all_up(const struct sched *s)
{
	return s->n_up == s->n_rails;
}

void rail_begin(struct rail *r, bool closed)
{
	r->state = closed ? RAIL_DOWN : RAIL_UP;
	r->fresh = closed;
}

/* The time to the next open doubles with each failure, up to a limit. */
static void back_off(struct rail *r)
{
	if (!r->backoff)
		r->backoff = BACKOFF_MIN_NS;
	else if (r->backoff < BACKOFF_MAX_NS)
		r->backoff *= 2;
}

static bool opening(const struct rail *r)
{
	return r->state == RAIL_CONNECTING || r->state == RAIL_PROBING;
}

void rail_fail(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	if (!rail_in_use(r))
		return;
	if (r->state == RAIL_UP) {
		PROBE(tent, rail_excluded, rail, r->inflight);
		r->exclusions++;
		r->backoff = 0;
	}
	back_off(r);
	rail_step(s, r, EVENT_FAILED);
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
	rail_step(s, &s->rails[rail], EVENT_ARRIVED);
	PROBE(tent, rail_back, rail);
}

/* Closes the rail's link. The next open is due at @open_at. */
static void close_rail(struct sched *s, uint32_t rail, enum rail_event event, uint64_t open_at)
{
	struct rail *r = &s->rails[rail];

	rail_step(s, r, event);
	r->open_at = open_at;
	s->ops->close(s->arg, rail);
}

/* Schedules another open after one that has failed. */
static void open_later(struct rail *r, uint64_t now)
{
	back_off(r);
	r->open_at = now + r->backoff;
}

static void give_up(struct sched *s, uint64_t now, uint32_t rail)
{
	close_rail(s, rail, EVENT_GIVEN_UP, SCHED_NEVER);
	open_later(&s->rails[rail], now);
}

static void open_rail(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	r->epoch++;
	if (s->ops->open(s->arg, rail, r->epoch)) {
		open_later(r, now);
		return;
	}
	rail_step(s, r, EVENT_OPENED);
	r->open_at = now + (r->fresh ? s->first_open_ns : s->probe_timeout_ns);
}

/* ---- reports of the caller ---- */

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
	if (opening(r))
		close_rail(s, rail, EVENT_GIVEN_UP, now);
	else if (r->state == RAIL_DOWN)
		r->open_at = now;
}

/* True: the rail is in this state and waits for a reply with this epoch. */
static bool awaited(const struct sched *s, uint32_t rail, enum sched_rail_state state,
	uint32_t epoch)
{
	return rail < s->n_rails && s->rails[rail].state == state && s->rails[rail].epoch == epoch;
}

void sched_fenced(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status)
{
	struct rail *r = &s->rails[rail];

	if (!awaited(s, rail, RAIL_FENCING, epoch))
		return;
	close_rail(s, rail, EVENT_FENCED, r->report_up ? now : now + r->backoff);
	take_posted(s, rail, status);
	rail_reset(r, now);
}

void sched_connected(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status)
{
	if (!awaited(s, rail, RAIL_CONNECTING, epoch))
		return;
	if (status)
		give_up(s, now, rail);
	else
		rail_step(s, &s->rails[rail], EVENT_CONNECTED);
}

void sched_probed(struct sched *s, uint64_t now, uint32_t rail, uint32_t epoch, int status)
{
	struct rail *r = &s->rails[rail];

	if (!awaited(s, rail, RAIL_PROBING, epoch))
		return;
	if (status) {
		give_up(s, now, rail);
		return;
	}
	rail_step(s, r, r->fresh ? EVENT_REACHED : EVENT_RETURNED);
	r->fresh = false;
	rail_reset(r, now);
}

enum sched_rail_state sched_rail_state(const struct sched *s, uint32_t rail)
{
	return s->rails[rail].state;
}

uint32_t sched_rail_epoch(const struct sched *s, uint32_t rail)
{
	return s->rails[rail].epoch;
}

bool sched_rail_in_use(const struct sched *s, uint32_t rail)
{
	return rail_in_use(&s->rails[rail]);
}

/* ---- deadlines ---- */

/* The time in ns for which the rail may be silent while something is posted. */
static double patience(const struct sched *s, uint32_t rail)
{
	const struct rail *r = &s->rails[rail];
	double head = (double)s->slices[s->posted[rail].head].length;
	double ns = STALL_TIMES * (r->latency + head / r->rate);

	if (ns < (double)r->stall_min_ns)
		return (double)r->stall_min_ns;
	return ns < SCHED_STALL_MAX_NS ? ns : SCHED_STALL_MAX_NS;
}

/* The current deadline of the rail. Each completion or reply changes it. */
static uint64_t rail_deadline(const struct sched *s, uint32_t rail)
{
	const struct rail *r = &s->rails[rail];

	if (r->state == RAIL_DOWN || opening(r))
		return r->open_at;
	if (rail_in_use(r) && r->posted && r->stall_min_ns != SCHED_NEVER)
		return r->progress_at + (uint64_t)patience(s, rail);
	return SCHED_NEVER;
}

static void rail_overdue(struct sched *s, uint64_t now, uint32_t rail)
{
	struct rail *r = &s->rails[rail];

	if (r->state == RAIL_DOWN) {
		open_rail(s, now, rail);
	} else if (opening(r)) {
		give_up(s, now, rail);
	} else {
		slice_error(s, s->posted[rail].head, -ETIMEDOUT);
		rail_fail(s, now, rail);
	}
}

uint64_t health_run(struct sched *s, uint64_t now)
{
	uint64_t next = SCHED_NEVER, at;

	if (sched_all_up(s) && !s->n_timed)
		return SCHED_NEVER;
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
