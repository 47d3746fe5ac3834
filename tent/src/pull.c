/* SPDX-License-Identifier: MIT */
/*
 * Mode pull: requests wait in one queue per location of memory and priority, and slices are cut
 * when a rail has room in its window of bytes. A slice is posted on the rail with room that would
 * finish it first, unless the other rails, even those without room yet, can finish all waiting
 * slices earlier. So each slice goes to the rail that finishes it earliest, computed with the rates
 * that are known when the slice is posted.
 *
 * Memory on another NUMA node adds latency to the finish time. Rails that share a link divide the
 * rate of the link.
 */
#include <errno.h>
#include <math.h>

#include "sched_priv.h"

#define SOONER_NS 1.0 /* so that two equally good rails do not wait for each other */
#define WINDOW_LATENCIES 2.0 /* the window is two slices and the bytes of so many latencies */

/* A snapshot of the rails during one pull_run(). */
struct view {
	uint64_t now;
	bool stale; /* a rail has been woken, or has failed */
	uint32_t n,
		rails[SCHED_MAX_RAILS]; /* the rails that may be used; the arrays below have values
					   for these only */
	double rate[SCHED_MAX_RAILS];
	double cost[SCHED_MAX_RAILS]; /* ns that the location's memory adds; negative: the rail must
					 not be used */
	double fastest, all; /* the highest rate, and the sum of the rates */
	double most; /* maximum of bytes that a slice may add to a window; see leave_room() */
};

static double head_rate(const struct sched *s, uint32_t rail, uint64_t now)
{
	uint32_t head = s->posted[rail].head;

	return rail_rate_seen(&s->rails[rail], now, head == NO_SLICE ? 0 : s->slices[head].length);
}

/* Rails that share a link share its rate in proportion to their own. */
static void share_links(const struct sched *s, struct view *v)
{
	double sum[SCHED_MAX_GROUPS] = {0};

	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t r = v->rails[i];

		if (s->rails[r].group != SCHED_NO_GROUP)
			sum[s->rails[r].group] += v->rate[r];
	}
	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t r = v->rails[i], g = s->rails[r].group;

		if (g != SCHED_NO_GROUP && s->group_rates[g] > 0 && sum[g] > s->group_rates[g])
			v->rate[r] *= s->group_rates[g] / sum[g];
	}
}

/*
 * The number of idle rails that may get a slice now. If idle rails have threads that must be woken,
 * all idle rails are alike, and the number is 1, or 0 if enough threads are awake.
 */
static uint32_t idle_rails(const struct sched *s)
{
	uint32_t awake = 0, most = s->worth < s->most_awake ? s->worth : s->most_awake;

	if (!s->wake_ns)
		return s->n_rails;
	for (uint32_t r = 0; r < s->n_rails; r++)
		awake += s->rails[r].posted != 0;
	return awake < most;
}

/* A rail on trial (RAIL_HALF) is used although it is idle. */
static bool may_use(const struct rail *r, uint32_t *idle)
{
	if (r->state != RAIL_UP || r->posted)
		return rail_in_use(r);
	return *idle && (*idle)--;
}

static void look(const struct sched *s, uint64_t now, struct view *v)
{
	uint32_t idle = idle_rails(s);

	v->now = now;
	v->stale = false;
	v->fastest = v->all = 0;
	v->n = 0;
	for (uint32_t r = 0; r < s->n_rails; r++) {
		if (!may_use(&s->rails[r], &idle))
			continue;
		v->rails[v->n++] = r;
		v->rate[r] = head_rate(s, r, now);
	}
	if (s->n_groups)
		share_links(s, v);
	for (uint32_t i = 0; i < v->n; i++) {
		double rate = v->rate[v->rails[i]];

		v->all += rate;
		if (rate > v->fastest)
			v->fastest = rate;
	}
}

static void look_from(const struct sched *s, uint32_t location, struct view *v)
{
	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t r = v->rails[i];

		v->cost[r] = sched_usable(s, location, r) ? sched_numa_ns(s, location, r) : -1;
	}
}

/* Returns the slice size for a rail: @block for the fastest rail, less for slower rails. */
static uint64_t block_for(const struct view *v, uint32_t rail, uint64_t block)
{
	uint64_t granules =
		(uint64_t)((double)block / PLAN_GRANULE * v->rate[rail] / v->fastest + 0.5);

	return granules > 1 ? granules * PLAN_GRANULE : PLAN_GRANULE;
}

/* The next slice to be placed: one that is cut already, or the next one of a request. */
struct head {
	uint32_t again, request, priority;
	uint64_t block;
};

/* True: the window has room for a slice of this length. Longer slices have a larger window. */
static bool has_room(const struct sched *s, const struct view *v, uint32_t rail, uint64_t length)
{
	const struct rail *r = &s->rails[rail];
	double latencies = v->rate[rail] * r->latency * WINDOW_LATENCIES;

	if (r->full || r->posted >= r->depth)
		return false;
	if (!r->posted)
		return true;
	return r->state == RAIL_UP &&
	       (double)r->posted_bytes <= latencies + fmin((double)length, v->most);
}

/*
 * The slice at the head of a queue has found no room. Limits the slices of other locations and
 * classes to its length: longer ones would use the room again and again, and this slice would
 * starve.
 */
static void leave_room(struct view *v, const struct head *h)
{
	if ((double)h->block < v->most)
		v->most = (double)h->block;
}

static uint32_t take_again(struct sched *s, const struct queue *q)
{
	uint32_t id = q->again.head;

	slice_unwait(s, id);
	return id;
}

static bool queue_head(struct sched *s, uint32_t location, uint32_t priority, struct head *h)
{
	const struct queue *q = sched_queue(s, location, priority);

	*h = (struct head){.again = q->again.head, .request = q->head, .priority = priority};
	if (h->again != NO_SLICE)
		h->block = s->slices[h->again].length;
	else if (h->request != SLAB_NONE)
		h->block = s->requests[h->request].block;
	else
		return false;
	return true;
}

static uint64_t length_for(const struct sched *s, const struct view *v, const struct head *h,
	uint32_t rail)
{
	if (h->again != NO_SLICE)
		return h->block;
	return plan_peek(&s->requests[h->request].plan, block_for(v, rail, h->block));
}

/* The time at which the first byte of another slice could arrive on the rail. */
static double free_at(const struct sched *s, const struct view *v, uint32_t rail)
{
	return rail_free_at(&s->rails[rail], v->now, v->rate[rail]) + v->cost[rail];
}

/* The rail with room that would finish the slice first; NO_RAIL: no rail has room. */
static uint32_t first_to_finish(const struct sched *s, const struct view *v, const struct head *h,
	double *at_p)
{
	uint32_t best = NO_RAIL;

	for (uint32_t i = 0; i < v->n; i++) {
		uint32_t r = v->rails[i];
		uint64_t length;
		double at;

		/*
		 * A rail without room for the longest slice has no room for a shorter one, whose
		 * window is smaller. This skips most full rails before length_for().
		 */
		if (v->cost[r] < 0 || !has_room(s, v, r, h->block + PLAN_TAIL))
			continue;
		length = length_for(s, v, h, r);
		if (!has_room(s, v, r, length))
			continue;
		at = free_at(s, v, r) + (double)length / v->rate[r];
		if (best == NO_RAIL || at < *at_p) {
			best = r;
			*at_p = at;
		}
	}
	return best;
}

/*
 * True: the other rails can finish all waiting bytes of this class and of the more urgent classes
 * before this rail would finish its slice.
 */
static bool others_sooner(const struct sched *s, const struct view *v, const struct head *h,
	uint32_t rail, double at)
{
	double waiting = 0;

	for (uint32_t p = 0; p <= h->priority; p++)
		waiting += (double)s->classes[p].waiting;
	if (waiting > (at - (double)v->now) * v->all)
		return false; /* not even if all of them were free */
	for (uint32_t i = 0; i < v->n && waiting > 0; i++) {
		uint32_t r = v->rails[i];
		double length, slices;

		if (r == rail || v->cost[r] < 0 || s->rails[r].state != RAIL_UP)
			continue;
		length = (double)length_for(s, v, h, r);
		slices = (at - SOONER_NS - free_at(s, v, r)) * v->rate[r] / length;
		if (slices >= 1)
			waiting -= (double)(uint64_t)slices * length;
	}
	return waiting <= 0;
}

static uint32_t take_new(struct sched *s, struct queue *all, uint64_t block)
{
	uint32_t request = all->head;
	struct request *q = &s->requests[request];
	struct plan before = q->plan;
	uint64_t offset = 0, length = plan_next(&q->plan, block, &offset);
	uint32_t id = slice_new(s, request, offset, length);

	if (id == NO_SLICE) {
		q->plan = before;
		return id;
	}
	all->bytes -= length;
	class_shrink(s, q->priority, length);
	if (!plan_left(&q->plan))
		all->head = q->next;
	return id;
}

/*
 * Posts the head of the queue on the rail. 0, an error of rail_ops.post, or -ENOSPC: no slice is
 * free.
 */
static int place(struct sched *s, uint64_t now, uint32_t location, const struct head *h,
	uint32_t rail, const struct view *v)
{
	struct queue *q = sched_queue(s, location, h->priority);
	uint32_t id = h->again != NO_SLICE ? take_again(s, q) :
					     take_new(s, q, block_for(v, rail, h->block));
	int err;

	if (id == NO_SLICE)
		return -ENOSPC;
	ledger_charge(s, id, rail, s->slices[id].length);
	err = slice_post(s, now, id, NULL);
	if (!err)
		return 0;
	ledger_release(s, id);
	slice_wait(s, id);
	if (err != -EAGAIN)
		rail_fail(s, now, rail);
	return err;
}

/* Places waiting slices of a queue until no rail has room. False: another class is next. */
static bool run_queue(struct sched *s, uint64_t now, uint32_t location, uint32_t priority,
	uint32_t without, struct view *v)
{
	struct head h;
	uint32_t rail;
	double at = 0;
	int err;

	look_from(s, location, v);
	while (queue_head(s, location, priority, &h)) {
		if (class_next(s, without) != priority)
			return false;
		if (v->stale) {
			look(s, now, v);
			look_from(s, location, v);
		}
		rail = first_to_finish(s, v, &h, &at);
		if (rail == NO_RAIL) {
			leave_room(v, &h);
			return true;
		}
		if (others_sooner(s, v, &h, rail, at)) {
			leave_room(v, &h);
			/*
			 * Decide again at the time @at: the other rails may be slower than
			 * estimated.
			 */
			if ((uint64_t)at < s->wake_at)
				s->wake_at = (uint64_t)at + 1;
			return true;
		}
		v->stale |= s->wake_ns && !s->rails[rail].posted;
		err = place(s, now, location, &h, rail, v);
		if (err == -ENOSPC)
			return true;
		v->stale |= err != 0;
	}
	return true;
}

/* Runs the queues of all locations of a class. False: another class is next. */
static bool run_class(struct sched *s, uint64_t now, uint32_t priority, uint32_t without,
	struct view *v)
{
	struct head h;

	for (uint32_t l = 0; l < s->n_locations && s->n_locations > 1; l++) {
		if (queue_head(s, l, priority, &h))
			leave_room(v, &h);
	}
	for (uint32_t i = 0; i < s->n_locations; i++) {
		uint32_t location = (s->next_location + i) % s->n_locations;

		if (!run_queue(s, now, location, priority, without, v))
			return false;
	}
	return true;
}

void pull_run(struct sched *s, uint64_t now)
{
	uint32_t priority = class_next(s, 0), without = 0;
	struct view v;

	if (priority == SCHED_PRIORITIES)
		return;
	v.most = INFINITY;
	look(s, now, &v);
	while ((priority = class_next(s, without)) < SCHED_PRIORITIES) {
		/* Other classes may use the rails that this class does not use. */
		if (run_class(s, now, priority, without, &v))
			without |= 1u << priority;
	}
	s->next_location = (s->next_location + 1) % s->n_locations;
}
