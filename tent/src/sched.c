/* SPDX-License-Identifier: MIT */
#include "sched_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/probe.h"

#define ALONE_BLOCK (4u << 20) /* block size of a request for which only one rail is woken */
#define DUE_TIMES 8 /* a request is due after this many times its shortest duration */

static int submit_early(struct sched *s, uint32_t id, uint32_t max_slices)
{
	uint64_t n = bind_count(&s->requests[id].plan, max_slices);

	if (n > s->slice_ids.capacity)
		return -EMSGSIZE;
	if (n > s->slice_ids.capacity - s->slice_ids.used)
		return -EAGAIN;
	bind_request(s, id, max_slices);
	return 0;
}

/* The mean of the rates of the rails that have been used. */
static double mean_rate(const struct sched *s)
{
	double sum = 0;
	uint32_t n = 0;

	for (uint32_t r = 0; r < s->n_rails; r++) {
		sum += s->rails[r].slices ? s->rails[r].rate : 0;
		n += s->rails[r].slices != 0;
	}
	return n ? sum / n : s->link_rates / s->n_rails;
}

/*
 * The number of rails that are woken for a request of this length, so that each gets work for at
 * least wake_ns; at least 1.
 */
static uint32_t worth(const struct sched *s, uint64_t length)
{
	uint32_t most = s->most_awake < s->n_rails ? s->most_awake : s->n_rails;
	double rails;

	if (!s->wake_ns)
		return s->n_rails;
	rails = (double)length / mean_rate(s) / (double)s->wake_ns;
	if (rails >= most)
		return most;
	return rails > 1 ? (uint32_t)rails : 1;
}

static void submit_late(struct sched *s, uint32_t id)
{
	struct request *q = &s->requests[id];
	struct queue *all = sched_queue(s, q->location, q->priority);
	uint32_t *link = &all->head;

	q->worth = worth(s, q->plan.length);
	s->worth += q->worth;
	q->block = s->wake_ns && q->worth == 1 ? ALONE_BLOCK :
						 plan_pull_block(q->plan.length, q->worth);
	q->due = q->submitted_at + (uint64_t)(DUE_TIMES * (double)q->plan.length / s->link_rates);
	while (*link != SLAB_NONE && s->requests[*link].due <= q->due)
		link = &s->requests[*link].next;
	q->next = *link;
	*link = id;
	all->bytes += q->plan.length;
	class_grow(s, q->priority, q->plan.length);
}

/* True: the location has had no rail for longer than requests wait. */
static bool given_up(const struct sched *s, uint64_t now, uint32_t location)
{
	uint64_t since = s->no_rail_at[location];

	return since != SCHED_NEVER ? now - since >= s->no_rail_ns : !s->no_rail_ns;
}

int sched_check(const struct sched *s, uint64_t now, uint32_t location)
{
	bool bad = !sched_reachable(s, location) && given_up(s, now, location);

	return bad ? -ENETUNREACH : 0;
}

void sched_give_up(struct sched *s)
{
	s->no_rail_ns = 0;
}

uint32_t sched_idle_rail(const struct sched *s, uint32_t location)
{
	if (s->config.mode != TENT_PULL || class_next(s, 0) != SCHED_PRIORITIES)
		return NO_RAIL;
	for (uint32_t r = 0; r < s->n_rails; r++) {
		if (s->rails[r].state == RAIL_UP && !s->rails[r].posted &&
			sched_tier(s, location, r) == s->best_tier[location])
			return r;
	}
	return NO_RAIL;
}

int sched_submit(struct sched *s, uint64_t now, const struct sched_request *req)
{
	struct request q = {.user = req->user, .submitted_at = now, .next = SLAB_NONE};
	uint32_t id;
	int err;

	if (req->location >= s->n_locations || req->priority >= s->config.priorities ||
		plan_init(&q.plan, req->length, req->cuts, req->n_cuts))
		return -EINVAL;
	if (sched_check(s, now, req->location))
		return -ENETUNREACH;
	id = slab_get(&s->request_ids);
	if (id == SLAB_NONE)
		return -EAGAIN;
	q.location = req->location;
	q.priority = req->priority;
	s->requests[id] = q;
	if (s->config.mode == TENT_PULL) {
		submit_late(s, id);
	} else {
		err = submit_early(s, id, req->write ? PLAN_WRITE_SLICES : PLAN_READ_SLICES);
		if (err) {
			slab_put(&s->request_ids, id);
			return err;
		}
	}
	s->stats.requests++;
	return 0;
}

void sched_cancel(struct sched *s, uint64_t user, int status)
{
	for (uint32_t id = 0; id < s->request_ids.capacity; id++) {
		const struct request *q = &s->requests[id];

		/* A request that has ended, and only waits for rail_ops.done, keeps its status. */
		if (slab_in_use(&s->request_ids, id) && q->user == user &&
			(q->open || !request_all_cut(q)))
			request_fail(s, id, status);
	}
}

/*
 * The slice or mark that is under way with this token. NULL: there is none, and the completion is
 * counted as stale.
 */
static struct slice *slice_of(struct sched *s, uint64_t token)
{
	uint32_t id = (uint32_t)token;
	struct slice *sl = slab_in_use(&s->slice_ids, id) ? &s->slices[id] : NULL;

	if (sl && sl->posted && sl->generation == token >> 32)
		return sl;
	s->stats.stale++;
	return NULL;
}

/* Updates the measurements of the rail with a slice of the request @q that has ended. */
static void learn(struct sched *s, uint64_t now, const struct slice *sl, const struct request *q)
{
	struct rail *r = &s->rails[sl->rail];
	const struct tent_config *c = &s->config;
	const struct rail_sample sample = {
		.posted_at = sl->posted_at,
		.length = sl->length,
		.alone = sl->alone,
		.numa_ns = sched_numa_ns(s, q->location, sl->rail),
	};
	double busy = rail_learn(r, now, &sample);

	if (DEFECTS)
		busy = (double)(now - q->submitted_at);
	if (busy < 1)
		busy = 1;
	r->ewma = score_ewma(r->ewma, (double)sl->length / busy, c->bandwidth_learning_rate,
		r->link_rate, c->ewma_min_bandwidth_multiplier, c->ewma_max_bandwidth_multiplier);
}

static void count_arrived(struct sched *s, uint64_t now, uint32_t id, const struct slice *sl,
	const struct request *q)
{
	PROBE(tent, slice_completed, id, sl->rail, sl->length, now - sl->posted_at, 0);
	rail_count(&s->rails[sl->rail], sl->length);
	if (sched_tier(s, q->location, sl->rail) != s->best_tier[q->location])
		s->stats.remote_bytes += sl->length;
}

/* Several threads may move requests on one rail. Only a move that was alone measures the rail. */
static bool was_alone(const struct rail *r, const struct sched_moved *m)
{
	return r->state == RAIL_UP && !r->posted && r->last_at <= m->from;
}

void sched_moved(struct sched *s, const struct sched_moved *m)
{
	const struct request q = {.location = m->location, .submitted_at = m->from};
	const struct slice sl = {
		.rail = m->rail,
		.length = m->length,
		.posted_at = m->from,
		.alone = true,
	};

	PROBE(tent, slice_posted, m->user, NO_SLICE, m->rail, m->length, 0);
	count_arrived(s, m->to, NO_SLICE, &sl, &q);
	if (was_alone(&s->rails[m->rail], m))
		learn(s, m->to, &sl, &q);
	class_serve(s, m->priority, m->length);
	s->stats.requests++;
	s->stats.slices++;
}

static void slice_arrived(struct sched *s, uint64_t now, uint32_t id)
{
	const struct slice *sl = &s->slices[id];
	uint32_t rail = sl->rail;

	count_arrived(s, now, id, sl, &s->requests[sl->request]);
	learn(s, now, sl, &s->requests[sl->request]);
	slice_unpost(s, id);
	s->rails[rail].full = false;
	rail_well(s, rail);
	slice_end(s, id);
}

static void mark_arrived(struct sched *s, uint64_t now, uint32_t id)
{
	uint32_t rail = s->slices[id].rail;

	rail_marked(&s->rails[rail], now);
	slice_unpost(s, id);
	s->rails[rail].full = false;
	rail_well(s, rail);
	mark_end(s, id, 0);
}

static void slice_failed(struct sched *s, uint64_t now, uint32_t id, int status)
{
	const struct slice *sl = &s->slices[id];

	PROBE(tent, slice_completed, id, sl->rail, sl->length, now - sl->posted_at, status);
	if (DEFECTS)
		learn(s, now, sl, &s->requests[sl->request]);
	if (status != -ECANCELED)
		slice_error(s, id, status);
	rail_fail(s, now, sl->rail);
}

int sched_completed(struct sched *s, uint64_t now, uint64_t token, int status)
{
	const struct slice *sl = slice_of(s, token);
	bool mark = sl && slice_is_mark(sl);

	if (!sl)
		return -ESTALE;
	if (status)
		slice_failed(s, now, (uint32_t)token, status);
	else if (mark)
		mark_arrived(s, now, (uint32_t)token);
	else
		slice_arrived(s, now, (uint32_t)token);
	return mark ? SCHED_MARK : 0;
}

int sched_refused(struct sched *s, uint64_t now, uint64_t token, int status)
{
	const struct slice *sl = slice_of(s, token);
	uint32_t id = (uint32_t)token;

	if (!sl)
		return -ESTALE;
	if (slice_is_mark(sl)) /* has no request that could fail */
		return sched_completed(s, now, token, status);
	PROBE(tent, slice_completed, id, sl->rail, sl->length, now - sl->posted_at, status);
	s->rails[sl->rail].progress_at = now;
	s->rails[sl->rail].full = false;
	slice_unpost(s, id);
	request_fail(s, sl->request, status);
	slice_end(s, id);
	return 0;
}

/* ---- marks ---- */

static int post_mark(struct sched *s, uint64_t now, uint32_t rail, uint32_t id)
{
	struct slice *sl = &s->slices[id];
	const struct sched_slice post = {
		.token = slice_token(s, id),
		.user = sl->user,
		.mark = true,
		.position = (uint32_t)sl->offset,
	};
	int err = s->ops->post(s->arg, rail, &post);

	if (err)
		return err;
	ledger_charge(s, id, rail, 0);
	list_append(s, &s->posted[rail], id);
	sl->posted = true;
	sl->posted_at = now;
	rail_posted(&s->rails[rail], now, 0);
	s->marks++;
	return 0;
}

int sched_mark(struct sched *s, uint64_t now, uint32_t rail, uint64_t user, uint32_t position)
{
	struct rail *r = &s->rails[rail];
	uint32_t id;
	int err;

	if (!rail_in_use(r))
		return -ENOTCONN;
	if (r->state == RAIL_HALF && r->posted)
		return -EAGAIN;
	id = slice_take(s,
		&(struct slice){.user = user, .offset = position, .request = NO_REQUEST});
	if (id == NO_SLICE)
		return -EAGAIN;
	err = post_mark(s, now, rail, id);
	if (!err)
		return 0;
	slab_put(&s->slice_ids, id);
	if (err == -EAGAIN)
		return err;
	rail_fail(s, now, rail);
	return -ENOTCONN;
}

/* Ends the requests of a queue. */
static void fail_queue(struct sched *s, struct queue *q)
{
	uint32_t id;

	while ((id = q->again.head) != NO_SLICE) {
		slice_unwait(s, id);
		request_fail(s, s->slices[id].request, -ENETUNREACH);
		slice_end(s, id);
	}
	while (q->head != SLAB_NONE)
		request_fail(s, q->head, -ENETUNREACH);
}

/* Ends the requests of a location. */
static void fail_location(struct sched *s, uint32_t location)
{
	for (uint32_t p = 0; p < s->config.priorities; p++)
		fail_queue(s, sched_queue(s, location, p));
}

/* Ends requests that have waited too long for a rail. Returns the next deadline. */
static uint64_t fail_unreachable(struct sched *s, uint64_t now)
{
	uint64_t next = SCHED_NEVER, end;

	if (sched_all_up(s) && !s->some_unreachable)
		return SCHED_NEVER;
	s->some_unreachable = false;
	for (uint32_t l = 0; l < s->n_locations; l++) {
		if (sched_reachable(s, l)) {
			s->no_rail_at[l] = SCHED_NEVER;
			continue;
		}
		s->some_unreachable = true;
		if (s->no_rail_at[l] == SCHED_NEVER)
			s->no_rail_at[l] = now;
		end = s->no_rail_at[l] + s->no_rail_ns;
		if (end <= now)
			fail_location(s, l);
		else if (end < next)
			next = end;
	}
	return next;
}

static bool call_done(struct sched *s)
{
	uint32_t id = s->ended_head;
	uint64_t user;
	int status;

	if (id == SLAB_NONE)
		return false;
	s->ended_head = s->requests[id].next;
	if (s->ended_head == SLAB_NONE)
		s->ended_tail = SLAB_NONE;
	user = s->requests[id].user;
	status = s->requests[id].status;
	s->stats.failed_requests += status != 0;
	s->worth -= s->requests[id].worth;
	slab_put(&s->request_ids, id);
	s->ops->done(s->arg, user, status);
	return true;
}

uint64_t sched_run(struct sched *s, uint64_t now)
{
	uint64_t next, end;

	do {
		next = health_run(s, now);
		end = fail_unreachable(s, now);
		next = end < next ? end : next;
		s->wake_at = SCHED_NEVER;
		if (s->config.mode == TENT_PULL)
			pull_run(s, now);
		else
			early_run(s, now);
	} while (call_done(s)); /* rail_ops.done may have submitted requests */
	return next < s->wake_at ? next : s->wake_at;
}

bool sched_idle(const struct sched *s)
{
	if (s->request_ids.used || s->marks)
		return false;
	for (uint32_t r = 0; r < s->n_rails && !DEFECTS; r++)
		assert(!s->rails[r].inflight && !s->rails[r].posted);
	assert(!s->slice_ids.used);
	return true;
}

const struct rail *sched_rail(const struct sched *s, uint32_t rail)
{
	return &s->rails[rail];
}

void sched_rail_stats(const struct sched *s, uint32_t rail, struct sched_rail_stats *stats_p)
{
	const struct rail *r = &s->rails[rail];

	*stats_p = (struct sched_rail_stats){
		.state = r->state,
		.inflight = r->inflight,
		.bytes = r->bytes,
		.slices = r->slices,
		.exclusions = r->exclusions,
		.rate = s->config.mode == TENT_PULL ? r->rate : r->ewma,
	};
}

void sched_stats(const struct sched *s, struct sched_stats *stats_p)
{
	*stats_p = s->stats;
}
