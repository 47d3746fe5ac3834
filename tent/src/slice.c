/* SPDX-License-Identifier: MIT */
/* Slices and requests: their lists, the ledger, posting, and their ends. */
#include <assert.h>

#include "base/probe.h"
#include "sched_priv.h"

#define MOST_ERRORS 8 /* errors of one slice; if there are so many, the rails are not the cause */

void list_append(struct sched *s, struct list *l, uint32_t id)
{
	struct slice *sl = &s->slices[id];

	sl->next = NO_SLICE;
	sl->prev = l->tail;
	if (l->tail == NO_SLICE)
		l->head = id;
	else
		s->slices[l->tail].next = id;
	l->tail = id;
}

void list_remove(struct sched *s, struct list *l, uint32_t id)
{
	struct slice *sl = &s->slices[id];

	if (sl->prev == NO_SLICE)
		l->head = sl->next;
	else
		s->slices[sl->prev].next = sl->next;
	if (sl->next == NO_SLICE)
		l->tail = sl->prev;
	else
		s->slices[sl->next].prev = sl->prev;
}

void ledger_charge(struct sched *s, uint32_t id, uint32_t rail, uint64_t bytes)
{
	s->slices[id].rail = rail;
	s->slices[id].charged = bytes;
	s->rails[rail].inflight += bytes;
}

void ledger_release(struct sched *s, uint32_t id)
{
	struct slice *sl = &s->slices[id];
	struct rail *r = &s->rails[sl->rail];

	assert(DEFECTS || r->inflight >= sl->charged);
	r->inflight -= DEFECTS ? sl->length : sl->charged;
	sl->rail = NO_RAIL;
	sl->charged = 0;
}

/* Appends a request without slices to the list for which sched_run() will call rail_ops.done. */
static void request_end(struct sched *s, uint32_t id)
{
	s->requests[id].next = SLAB_NONE;
	if (s->ended_tail == SLAB_NONE)
		s->ended_head = id;
	else
		s->requests[s->ended_tail].next = id;
	s->ended_tail = id;
}

uint32_t slice_new(struct sched *s, uint32_t request, uint64_t offset, uint64_t length)
{
	uint32_t id = slice_take(s,
		&(struct slice){.request = request, .offset = offset, .length = length});

	if (id != NO_SLICE)
		s->requests[request].open++;
	return id;
}

void slice_end(struct sched *s, uint32_t id)
{
	uint32_t request = s->slices[id].request;
	struct request *q = &s->requests[request];

	s->slices[id].generation++;
	slab_put(&s->slice_ids, id);
	q->open--;
	if (!q->open && request_all_cut(q))
		request_end(s, request);
}

/* Removes a request from its queue, and drops the bytes that are not cut yet. */
static void queue_remove(struct sched *s, uint32_t id)
{
	struct request *q = &s->requests[id];
	struct queue *all = sched_queue(s, q->location, q->priority);
	uint32_t *link = &all->head;

	while (*link != id)
		link = &s->requests[*link].next;
	*link = q->next;
	all->bytes -= plan_left(&q->plan);
	class_shrink(s, q->priority, plan_left(&q->plan));
	q->plan.at = q->plan.length;
}

bool sched_reachable(const struct sched *s, uint32_t location)
{
	for (uint32_t r = 0; r < s->n_rails; r++) {
		if (sched_usable(s, location, r))
			return true;
	}
	return false;
}

static struct queue *queue_of(struct sched *s, uint32_t id)
{
	const struct request *q = &s->requests[s->slices[id].request];

	return sched_queue(s, q->location, q->priority);
}

void slice_wait(struct sched *s, uint32_t id)
{
	struct queue *q = queue_of(s, id);

	q->bytes += s->slices[id].length;
	class_grow(s, slice_priority(s, id), s->slices[id].length);
	list_append(s, &q->again, id);
}

void slice_unwait(struct sched *s, uint32_t id)
{
	struct queue *q = queue_of(s, id);

	q->bytes -= s->slices[id].length;
	class_shrink(s, slice_priority(s, id), s->slices[id].length);
	list_remove(s, &q->again, id);
}

/* Ends the slices of a request that wait for a rail, because there may be none for long. */
static void drop_waiting(struct sched *s, uint32_t request)
{
	const struct request *q = &s->requests[request];
	uint32_t id = sched_queue(s, q->location, q->priority)->again.head, next;

	for (; id != NO_SLICE; id = next) {
		next = s->slices[id].next;
		if (s->slices[id].request != request)
			continue;
		slice_unwait(s, id);
		slice_end(s, id);
	}
}

void request_fail(struct sched *s, uint32_t request, int status)
{
	struct request *q = &s->requests[request];
	bool all_cut = request_all_cut(q);

	if (!q->status)
		q->status = status;
	if (!all_cut)
		queue_remove(s, request);
	if (!all_cut && !q->open)
		request_end(s, request);
	else
		drop_waiting(s, request);
}

int slice_post(struct sched *s, uint64_t now, uint32_t id, struct list *from)
{
	struct slice *sl = &s->slices[id];
	uint32_t rail = sl->rail;
	struct sched_slice post = {
		.token = slice_token(s, id),
		.user = s->requests[sl->request].user,
		.offset = sl->offset,
		.length = sl->length,
		.again = sl->again,
		.alone = s->wake_ns && s->requests[sl->request].worth == 1,
	};
	int err = s->ops->post(s->arg, rail, &post);

	if (err) {
		s->rails[rail].full = err == -EAGAIN;
		return err;
	}
	if (from)
		list_remove(s, from, id);
	list_append(s, &s->posted[rail], id);
	sl->alone = !s->rails[rail].posted;
	sl->posted = true;
	sl->posted_at = now;
	rail_posted(&s->rails[rail], now, sl->length);
	class_serve(s, slice_priority(s, id), sl->length);
	s->stats.slices++;
	PROBE(tent, slice_posted, post.user, id, rail, sl->length, sl->offset);
	return 0;
}

void slice_unpost(struct sched *s, uint32_t id)
{
	uint32_t rail = s->slices[id].rail;

	list_remove(s, &s->posted[rail], id);
	rail_unposted(&s->rails[rail], s->slices[id].length);
	ledger_release(s, id);
}

/* Invalidates the token before the callback, which may post the mark again. */
void mark_end(struct sched *s, uint32_t id, int status)
{
	const struct slice mark = s->slices[id];

	s->slices[id].generation++;
	s->slices[id].posted = false;
	slab_put(&s->slice_ids, id);
	s->marks--;
	s->ops->marked(s->arg, mark.user, (uint32_t)mark.offset, status);
}

void slice_error(struct sched *s, uint32_t id, int status)
{
	struct slice *sl = &s->slices[id];

	if (slice_is_mark(sl))
		sl->status = status;
	else if (++sl->errors >= MOST_ERRORS)
		request_fail(s, sl->request, status);
}
