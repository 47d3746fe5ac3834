/* SPDX-License-Identifier: MIT */
/* Requests, from submit to the notice that their peer gets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine.h"

static void list_append(struct tent *t, uint32_t *head, uint32_t *tail, uint32_t id)
{
	t->tasks[id].next = NO_TASK;
	if (*head == NO_TASK)
		*head = id;
	else
		t->tasks[*tail].next = id;
	*tail = id;
}

static uint32_t list_take(struct tent *t, uint32_t *head)
{
	uint32_t id = *head;

	if (id != NO_TASK)
		*head = t->tasks[id].next;
	return id;
}

/* ---- the end ---- */

static void batch_ended(struct tent_batch *b)
{
	const uint64_t one = 1;

	if (b->fd >= 0 && write(b->fd, &one, sizeof(one)) < 0)
		abort(); /* only a counter at its end is refused, and this one is at 0 */
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

	b->status[k->index] = (struct tent_status){state_of(err), err, k->bytes};
	b->tasks[k->index] = NO_TASK;
	k->buffer->uses--;
	k->request.segment->open--;
	free(k->cuts);
	slab_put(&t->task_ids, id);
	b->open--;
	if (!b->open)
		batch_ended(b);
}

/* ---- moving ---- */

void task_wait(struct tent_segment *s, uint32_t id)
{
	uint32_t p = s->t->tasks[id].request.priority;

	list_append(s->t, &s->waiting_head[p], &s->waiting_tail[p], id);
}

/* Takes it out of the list of tasks that wait for room. */
static void stop_waiting(struct tent_segment *s, uint32_t id)
{
	uint32_t p = s->t->tasks[id].request.priority;
	uint32_t *link = &s->waiting_head[p], last = NO_TASK;

	while (*link != id) {
		last = *link;
		link = &s->t->tasks[*link].next;
	}
	*link = s->t->tasks[id].next;
	if (s->waiting_tail[p] == id)
		s->waiting_tail[p] = last;
}

/* What has been moved, and only waits for its notice, is completed. */
void task_cancel(uint32_t id, struct tent *t)
{
	struct task *k = &t->tasks[id];

	if (k->state == TASK_MOVING) {
		sched_cancel(k->request.segment->sched, id);
	} else if (k->state == TASK_WAITING) {
		stop_waiting(k->request.segment, id);
		task_end(t, id, -ECANCELED);
	}
}

/* False: the scheduler has no room. */
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
	list_take(s->t, &s->waiting_head[r.priority]);
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
		while (s->waiting_head[p] != NO_TASK && s->moving[p] < MAX_MOVING) {
			if (!start(s, now, s->waiting_head[p]))
				return;
		}
	}
}

static void take_slot(struct tent_segment *s, uint32_t id, uint8_t slot)
{
	struct task *k = &s->t->tasks[id];

	k->state = TASK_NOTIFYING;
	k->slot = slot;
	k->acknowledged = k->posted = 0;
	s->slot_task[slot] = id;
	s->slot_lap[slot] ^= 1;
	s->slots_untaken |= 1u << slot;
	/* What threads have copied is in place: one message is enough. */
	if (!s->t->n_devs)
		k->pairs &= -k->pairs;
	k->positions = (uint8_t)__builtin_popcountll(k->pairs);
	/* The i-th position is that of the i-th pair that carried something. */
	for (uint32_t pair = 0, i = 0; pair < s->n_pairs; pair++) {
		if (k->pairs >> pair & 1)
			k->carrier[i++] = (uint8_t)pair;
	}
}

void task_moved(struct tent_segment *s, uint32_t id, int status)
{
	struct tent *t = s->t;
	struct task *k = &t->tasks[id];

	s->moving[k->request.priority]--;
	if (status) {
		task_end(t, id, s->lost ? s->lost : status);
	} else if (!k->request.notify) {
		task_end(t, id, 0);
	} else {
		k->state = TASK_QUEUED;
		list_append(t, &s->notify_head, &s->notify_tail, id);
	}
	s->again = true; /* there may be room for another */
}

/* ---- notices ---- */

static uint32_t imm_of(const struct tent_segment *s, const struct task *k, uint32_t position)
{
	return notice_encode(&(struct notice_imm){
		.value = k->request.notify,
		.slot = k->slot,
		.lap = s->slot_lap[k->slot],
		.position = (uint8_t)position,
		.positions = k->positions,
	});
}

static int post_imm(struct tent_segment *s, uint32_t id, uint32_t position)
{
	struct task *k = &s->t->tasks[id];
	struct pair *p = &s->pairs[k->carrier[position]];
	uint32_t imm = imm_of(s, k, position);
	struct ctl_msg msg = {.type = CTL_IMM, .rail = imm};

	if (p->state != PAIR_OPEN)
		return -EAGAIN;
	if (p->link->ops->post_imm)
		return p->link->ops->post_imm(p->link, imm, token_make(TOKEN_IMM, position, id));
	if (!ctl_send(&s->ctl, &msg))
		k->acknowledged |= 1u << position;
	return 0;
}

/* Another pair for a position whose own is closed. */
static bool choose_carrier(const struct tent_segment *s, struct task *k, uint32_t position)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if (s->pairs[i].state == PAIR_OPEN) {
			k->carrier[position] = (uint8_t)i;
			return true;
		}
	}
	return false;
}

static bool fencing(const struct tent_segment *s)
{
	for (uint32_t i = 0; i < s->n_pairs; i++) {
		if (s->pairs[i].state == PAIR_FENCING)
			return true;
	}
	return false;
}

/* 0, or -ENETUNREACH: there is no rail for it. */
static int notify(struct tent_segment *s, uint32_t id)
{
	struct task *k = &s->t->tasks[id];

	for (uint32_t i = 0; i < k->positions; i++) {
		enum pair_state state = s->pairs[k->carrier[i]].state;

		if (k->posted >> i & 1)
			continue;
		if (state != PAIR_OPEN && state != PAIR_FENCING && !choose_carrier(s, k, i))
			return fencing(s) ? 0 : sched_check(s->sched, clock_ns(), k->place);
		if (!post_imm(s, id, i))
			k->posted |= 1u << i;
	}
	return 0;
}

/* All immediates of it have been acknowledged. */
static bool told(const struct task *k)
{
	return __builtin_popcount(k->acknowledged) == k->positions;
}

static void end_in_slot(struct tent_segment *s, uint8_t slot, int err)
{
	uint32_t id = s->slot_task[slot];

	s->slot_task[slot] = NO_TASK;
	task_end(s->t, id, err);
}

/* The task of a slot goes on; of a free slot the next one begins. */
static void notify_slot(struct tent_segment *s, uint8_t slot)
{
	uint32_t id = s->slot_task[slot];
	int err;

	if (id == NO_TASK && !(s->slots_untaken >> slot & 1)) {
		id = list_take(s->t, &s->notify_head);
		if (id != NO_TASK)
			take_slot(s, id, slot);
	}
	if (id == NO_TASK)
		return;
	err = notify(s, id);
	if (err) {
		/* All rails are closed, so the peer has counted what came. */
		s->slots_untaken &= (uint16_t) ~(1u << slot);
		end_in_slot(s, slot, s->lost ? s->lost : err);
	} else if (told(&s->t->tasks[id])) {
		end_in_slot(s, slot, 0);
	}
}

void tasks_notify(struct tent_segment *s)
{
	for (uint8_t slot = 0; slot < NOTICE_SLOTS; slot++)
		notify_slot(s, slot);
}

void task_acknowledged(struct tent_segment *s, uint32_t id, uint32_t position)
{
	struct task *k = &s->t->tasks[id];

	k->acknowledged |= 1u << position;
	if (told(k))
		end_in_slot(s, k->slot, 0);
}

void notice_taken(struct tent_segment *s, uint32_t imm)
{
	struct notice_imm i = notice_decode(imm);

	if (i.lap == s->slot_lap[i.slot])
		s->slots_untaken &= (uint16_t) ~(1u << i.slot);
}

void tasks_renotify(struct tent_segment *s, uint32_t pair)
{
	for (uint32_t slot = 0; slot < NOTICE_SLOTS; slot++) {
		struct task *k =
			s->slot_task[slot] == NO_TASK ? NULL : &s->t->tasks[s->slot_task[slot]];

		for (uint32_t i = 0; k && i < k->positions; i++) {
			if (k->carrier[i] == pair && !(k->acknowledged >> i & 1))
				k->posted &= ~(1u << i);
		}
	}
}

void tasks_fail(struct tent_segment *s, int err)
{
	uint32_t id;

	for (uint32_t p = 0; p < SCHED_PRIORITIES; p++) {
		while ((id = list_take(s->t, &s->waiting_head[p])) != NO_TASK)
			task_end(s->t, id, err);
	}
	while ((id = list_take(s->t, &s->notify_head)) != NO_TASK)
		task_end(s->t, id, err);
	for (uint8_t slot = 0; slot < NOTICE_SLOTS; slot++) {
		if (s->slot_task[slot] != NO_TASK)
			end_in_slot(s, slot, err);
	}
}
