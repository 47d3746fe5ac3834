/* SPDX-License-Identifier: MIT */
/* Requests: from their submission to the notice at the peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "engine.h"

#define MARK_ERRORS 8 /* errors of one mark after which the cause is assumed not to be a rail */

void tasks_append(struct tent *t, struct task_list *l, uint32_t id)
{
	t->tasks[id].next = NO_TASK;
	if (l->head == NO_TASK)
		l->head = id;
	else
		t->tasks[l->tail].next = id;
	l->tail = id;
}

static uint32_t take(struct tent *t, struct task_list *l)
{
	uint32_t id = l->head;

	if (id != NO_TASK)
		l->head = t->tasks[id].next;
	return id;
}

void tasks_remove(struct tent *t, struct task_list *l, uint32_t id)
{
	uint32_t *link = &l->head, last = NO_TASK;

	while (*link != NO_TASK && *link != id) {
		last = *link;
		link = &t->tasks[*link].next;
	}
	if (*link == NO_TASK)
		return;
	*link = t->tasks[id].next;
	if (l->tail == id)
		l->tail = last;
}

/* ---- the end ---- */

static void batch_ended(struct tent_batch *b)
{
	if (b->fd >= 0 && eventfd_write(b->fd, 1))
		abort(); /* write() fails only on overflow, and this counter is 0 */
	pthread_cond_broadcast(&b->t->ended);
}

static enum tent_state state_of(int err)
{
	if (!err)
		return TENT_COMPLETED;
	return err == -ECANCELED ? TENT_CANCELED : TENT_FAILED;
}

static void task_end(struct tent *t, uint32_t id, int err)
{
	struct task *k = &t->tasks[id];
	struct tent_batch *b = k->batch;

	if (k->ended) {
		k->ended(t, id, err);
		return;
	}
	b->status[k->index] = (struct tent_status){state_of(err), err, k->bytes};
	b->tasks[k->index] = NO_TASK;
	k->buffer->uses--;
	if (k->state <= TASK_MOVING)
		k->remote->lent.moving--;
	k->request.segment->open--;
	free(k->cuts);
	slab_put(&t->task_ids, id);
	b->open--;
	if (!b->open)
		batch_ended(b);
}

/* ---- parts of registrations ---- */

/*
 * Returns the first offset after @offset at which a part of the registration ends. @in_buffer: the
 * position of the request's memory in the buffer.
 */
static uint64_t next_cut(uint64_t in_buffer, uint64_t part_len, uint64_t offset)
{
	uint64_t at = in_buffer + offset;

	return offset + (part_len - at % part_len);
}

/* Finds the offsets in the request at which a part of the local or remote registration ends. */
static uint32_t find_cuts(const struct task *k, uint64_t *cuts)
{
	const struct tent_request *r = &k->request;
	uint64_t here = (uintptr_t)r->local - k->buffer->addr, there = r->remote - k->remote->addr;
	uint64_t at = 0;
	uint32_t n = 0;

	for (;;) {
		uint64_t a = next_cut(here, k->buffer->part_len, at);
		uint64_t b = next_cut(there, k->remote->part_len, at);

		at = a < b ? a : b;
		if (at >= r->len)
			return n;
		if (cuts)
			cuts[n] = at;
		n++;
	}
}

int task_cut(struct task *k)
{
	k->n_cuts = find_cuts(k, NULL);
	if (!k->n_cuts)
		return 0;
	k->cuts = malloc(k->n_cuts * sizeof(*k->cuts));
	if (!k->cuts)
		return -ENOMEM;
	find_cuts(k, k->cuts);
	return 0;
}

/* ---- moving ---- */

void task_wait(struct tent_segment *s, uint32_t id)
{
	struct task *k = &s->t->tasks[id];

	k->state = TASK_WAITING;
	tasks_append(s->t, &s->waiting[k->request.priority], id);
}

/* Does not stop a request whose bytes have been moved, and which only waits for its notice. */
void task_stop(struct tent *t, uint32_t id, int err)
{
	struct task *k = &t->tasks[id];
	struct tent_segment *s = k->request.segment;

	if (k->state == TASK_STAGED || k->state == TASK_ORDERED) {
		k->stop(t, id, err);
	} else if (k->state == TASK_MOVING) {
		sched_cancel(s->sched, id, err);
	} else if (k->state == TASK_NEW) {
		k->err = err;
	} else if (k->state == TASK_WAITING) {
		tasks_remove(t, &s->waiting[k->request.priority], id);
		task_end(t, id, err);
	}
}

void tasks_refuse(struct tent_segment *s, const struct desc_buffer *remote)
{
	struct tent *t = s->t;

	for (uint32_t id = 0; id < t->task_ids.capacity; id++) {
		const struct task *k = &t->tasks[id];

		if (slab_in_use(&t->task_ids, id) && k->request.segment == s && k->remote == remote)
			task_stop(t, id, -EACCES);
	}
}

/* Submits a task to the scheduler. False: the scheduler has no room. */
static bool start(struct tent_segment *s, uint64_t now, uint32_t id)
{
	struct task *k = &s->t->tasks[id];
	const struct sched_request r = {
		.length = k->request.len,
		.user = id,
		.cuts = k->cuts,
		.n_cuts = k->n_cuts,
		.location = k->place,
		.priority = k->request.priority,
		.write = k->request.op == TENT_WRITE,
	};
	int err = sched_submit(s->sched, now, &r);

	if (err == -EAGAIN)
		return false;
	take(s->t, &s->waiting[r.priority]);
	k->state = TASK_MOVING;
	if (err)
		task_end(s->t, id, s->lost ? s->lost : err);
	else
		s->moving[r.priority]++;
	return true;
}

void tasks_start(struct tent_segment *s, uint64_t now)
{
	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++) {
		while (s->waiting[p].head != NO_TASK && s->moving[p] < MAX_MOVING) {
			if (!start(s, now, s->waiting[p].head))
				return;
		}
	}
}

static void take_slot(struct tent_segment *s, uint32_t id, uint8_t slot)
{
	struct task *k = &s->t->tasks[id];

	k->state = TASK_NOTIFYING;
	k->slot = slot;
	k->posted = k->arrived = 0;
	memset(k->errors, 0, sizeof(k->errors));
	s->slots[slot].lap = s->n_notices++ / NOTICE_SLOTS + 1;
	s->slots[slot].task = id;
	s->slots[slot].untaken = true;
	s->notifying++;
	/* Without marks, one message suffices, because the bytes are in place. */
	if (!s->t->transport->marks)
		k->pairs &= -k->pairs;
	k->positions = (uint8_t)__builtin_popcountll(k->pairs);
	/* Position i belongs to the i-th pair that carried a slice. */
	for (uint32_t pair = 0, i = 0; pair < s->n_pairs; pair++) {
		if (k->pairs >> pair & 1)
			k->carrier[i++] = (uint8_t)pair;
	}
}

/* True: a task waits for room in the scheduler, for room for a chunk, or for a slot of notices. */
static bool waits(const struct tent_segment *s)
{
	bool some = s->staged.head != NO_TASK || s->queued.head != NO_TASK;

	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++)
		some |= s->waiting[p].head != NO_TASK;
	return some;
}

void task_arrived(struct tent_segment *s, uint32_t id, int status)
{
	struct tent *t = s->t;
	struct task *k = &t->tasks[id];

	if (status) {
		task_end(t, id, s->lost ? s->lost : status);
	} else if (!k->request.notify && !k->request.note_len) {
		task_end(t, id, 0);
	} else {
		k->remote->lent.moving--;
		k->remote = NULL; /* it may be freed from now on */
		k->state = TASK_QUEUED;
		tasks_append(t, &s->queued, id);
	}
	s->again |= waits(s); /* the scheduler may have room for another task */
}

void task_moved(void *arg, uint64_t user, int status)
{
	struct tent_segment *s = arg;
	uint32_t id = (uint32_t)user;
	struct task *k = &s->t->tasks[id];

	s->moving[k->request.priority]--;
	if (k->ended)
		k->ended(s->t, id, status);
	else
		task_arrived(s, id, status);
}

/* ---- notices ---- */

/* The mark's @user for the scheduler: the slot and its lap. */
static uint64_t mark_user(const struct tent_segment *s, uint8_t slot)
{
	return s->slots[slot].lap * NOTICE_SLOTS + slot;
}

/* After an error the slot is free: the next lap makes late marks of this lap invalid. */
static void skip(struct tent_segment *s, uint8_t slot)
{
	struct ctl_msg msg = {.type = CTL_SKIP};

	s->slots[slot].untaken = false;
	notice_record(s, mark_user(s, slot), 0, &msg.mark);
	peer_send(s, &msg);
}

static void end_in_slot(struct tent_segment *s, uint8_t slot, int err)
{
	uint32_t id = s->slots[slot].task;

	if (err)
		skip(s, slot);
	s->slots[slot].task = NO_TASK;
	s->notifying--;
	task_end(s->t, id, err);
}

void notice_record(const struct tent_segment *s, uint64_t user, uint32_t position,
	struct notice_mark *mark_p)
{
	uint8_t slot = user % NOTICE_SLOTS;
	const struct task *k = &s->t->tasks[s->slots[slot].task];

	*mark_p = (struct notice_mark){
		.lap = user / NOTICE_SLOTS,
		.value = k->request.notify,
		.slot = slot,
		.position = (uint8_t)position,
		.positions = k->positions,
		.len = (uint8_t)k->request.note_len,
	};
}

/*
 * Sends the bytes of a notice. On a transport without marks, the message is the notice itself: the
 * bytes of a slice are in place when the slice ends.
 */
static void tell_by_message(struct tent_segment *s, uint8_t slot)
{
	const struct task *k = &s->t->tasks[s->slots[slot].task];
	struct ctl_msg msg = {.type = CTL_NOTICE};

	notice_record(s, mark_user(s, slot), 0, &msg.mark);
	memcpy(msg.note, k->note, sizeof(msg.note));
	peer_send(s, &msg);
}

static bool fencing(const struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if (sched_rail_state(s->sched, i) == RAIL_FENCING)
			return true;
	}
	return false;
}

/*
 * Finds a pair for a mark whose pair is closed. False: no pair is in use. A pair that is being
 * fenced keeps the mark: until the peer confirms the fence, bytes of that pair may be missing, and
 * a mark on another pair would arrive too early.
 */
static bool has_carrier(const struct tent_segment *s, struct task *k, uint32_t position)
{
	uint32_t pair = k->carrier[position];

	if (sched_rail_in_use(s->sched, pair) || sched_rail_state(s->sched, pair) == RAIL_FENCING)
		return true;
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if (sched_rail_in_use(s->sched, i)) {
			k->carrier[position] = (uint8_t)i;
			return true;
		}
	}
	return false;
}

/* Posts marks that are not under way. 0, or -ENETUNREACH: there is no rail for a mark. */
static int post_marks(struct tent_segment *s, uint8_t slot)
{
	struct task *k = &s->t->tasks[s->slots[slot].task];
	uint64_t now = clock_ns();

	for (uint32_t i = 0; i < k->positions; i++) {
		if (k->posted >> i & 1)
			continue;
		if (!has_carrier(s, k, i))
			return fencing(s) ? 0 : sched_check(s->sched, now, k->place);
		if (!sched_mark(s->sched, now, k->carrier[i], mark_user(s, slot), i))
			k->posted |= 1u << i;
	}
	return 0;
}

/* Gives the next slot to the next waiting task. False: there is no such task, or no free slot. */
static bool notify_next(struct tent_segment *s)
{
	uint8_t slot = s->n_notices % NOTICE_SLOTS;
	uint32_t id = s->queued.head;
	bool message = !s->t->transport->marks;

	if (id == NO_TASK || s->slots[slot].task != NO_TASK || s->slots[slot].untaken)
		return false;
	take_slot(s, take(s->t, &s->queued), slot);
	if (message || s->t->tasks[id].request.note_len)
		tell_by_message(s, slot);
	if (message && !s->lost)
		end_in_slot(s, slot, 0);
	return true;
}

void tasks_notify(struct tent_segment *s)
{
	while (notify_next(s))
		;
	/* Without marks, a task stays in its slot only if the peer is lost. */
	if (!s->t->transport->marks) /* tasks_fail() ends it */
		return;
	for (uint8_t slot = 0; slot < NOTICE_SLOTS && s->notifying; slot++) {
		int err = s->slots[slot].task == NO_TASK ? 0 : post_marks(s, slot);

		if (err)
			end_in_slot(s, slot, s->lost ? s->lost : err);
	}
}

static void mark_failed(struct tent_segment *s, uint8_t slot, uint32_t position, int status)
{
	struct task *k = &s->t->tasks[s->slots[slot].task];

	k->posted &= ~(1u << position);
	/* A mark that no rail can carry must not exclude one rail after the other. */
	if (status != -ENOTCONN && ++k->errors[position] >= MARK_ERRORS)
		end_in_slot(s, slot, s->lost ? s->lost : status);
}

void notice_marked(void *arg, uint64_t user, uint32_t position, int status)
{
	struct tent_segment *s = arg;
	uint8_t slot = user % NOTICE_SLOTS;
	struct task *k;

	if (s->slots[slot].task == NO_TASK || mark_user(s, slot) != user)
		return; /* the mark's task has failed */
	if (status) {
		mark_failed(s, slot, position, status);
		return;
	}
	k = &s->t->tasks[s->slots[slot].task];
	k->arrived |= 1u << position;
	if (__builtin_popcount(k->arrived) == k->positions)
		end_in_slot(s, slot, 0);
}

void notice_taken(struct tent_segment *s, const struct notice_mark *mark)
{
	if (mark->slot < NOTICE_SLOTS && mark->lap == s->slots[mark->slot].lap)
		s->slots[mark->slot].untaken = false;
}

void tasks_fail(struct tent_segment *s, int err)
{
	uint32_t id;

	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++) {
		while ((id = take(s->t, &s->waiting[p])) != NO_TASK)
			task_end(s->t, id, err);
	}
	while ((id = take(s->t, &s->queued)) != NO_TASK)
		task_end(s->t, id, err);
	for (uint8_t slot = 0; slot < NOTICE_SLOTS; slot++) {
		if (s->slots[slot].task != NO_TASK)
			end_in_slot(s, slot, err);
	}
}
