/* SPDX-License-Identifier: MIT */
/* Batches: submit, status, wait, cancel. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/list.h"
#include "base/sized.h"
#include "engine.h"
#include "plan.h"

#define MAX_BATCH 65536

/* ---- submit ---- */

/*
 * Reads request number @i of a caller that may have been built for another version of the library.
 * 0; -E2BIG: a field of a later version is not 0; -EINVAL: the size is not that of the first
 * request, or breaks the alignment of the next one.
 */
static int take_request(const struct tent_request *requests, uint32_t i, struct tent_request *r)
{
	const size_t align = _Alignof(struct tent_request);
	const size_t first = offsetof(struct tent_request, priority) + sizeof(r->priority);
	size_t size = requests->size ? requests->size : align_up(first, align);
	const void *from = (const char *)requests + i * size;

	if (size % align || *(const size_t *)from != requests->size)
		return -EINVAL;
	return SIZED_ATTR(r, from, priority);
}

/* True: the rails of this engine reach only memory of the peer that is mapped here, and that of the
 * request is not. */
static bool not_mapped(const struct tent *t, const struct task *k)
{
	const struct desc *d = &k->request.segment->desc;
	const struct desc_buffer *moved = k->remote->staged ? d->stage : k->remote;

	return t->transport->mapped && !moved->lent.at;
}

/* Checks the request of a task, and finds its memory. */
static int find_memory(struct tent *t, struct task *k)
{
	const struct tent_request *r = &k->request;
	const struct tent_segment *s = r->segment;

	if (!s || s->t != t || (r->op != TENT_READ && r->op != TENT_WRITE) || !r->len ||
		r->len > PLAN_LENGTH_MAX || r->priority >= t->config.priorities ||
		r->note_len > TENT_NOTE_MAX || (r->note_len && !r->note))
		return -EINVAL;
	if (s->lost)
		return s->lost;
	k->buffer = buffer_find(t, (uintptr_t)r->local, r->len);
	k->remote = desc_find(&s->desc, r->remote, r->len);
	if (!k->buffer || !k->remote)
		return -EFAULT;
	if (not_mapped(t, k))
		return -EOPNOTSUPP;
	k->place = place_of(s, k->buffer, k->remote);
	return sched_all_up(s->sched) ? 0 : sched_check(s->sched, clock_ns(), k->place);
}

static void unmake_task(struct tent *t, uint32_t id)
{
	order_drop(t, id);
	free(t->tasks[id].cuts);
	slab_put(&t->task_ids, id);
}

/* There must be a free task. */
static int make_task(struct tent *t, struct tent_batch *b, uint32_t i,
	const struct tent_request *requests)
{
	uint32_t id = b->tasks[i] = slab_get(&t->task_ids);
	struct task *k = &t->tasks[id];
	int err;

	*k = (struct task){.batch = b, .index = i, .next = NO_TASK};
	err = take_request(requests, i, &k->request);
	if (!err)
		err = find_memory(t, k);
	if (!err)
		err = task_cut(k);
	if (!err && k->request.note_len)
		memcpy(k->note, k->request.note, k->request.note_len);
	if (!err && k->request.stream)
		err = order_add(t, id);
	if (err)
		unmake_task(t, id);
	return err;
}

/*
 * Does work of the engine in the calling thread, but does not read messages of peers, because that
 * needs system calls. Wakes the engine's thread if it would sleep too long; otherwise the
 * descriptors that it watches wake it.
 */
static void drive(struct tent *t)
{
	t->progress(t, clock_ns(), false);
	for (struct tent_segment *s = t->segments; s; s = s->next)
		loop_wake(t, move_unarmed(s) ? 0 : move_due(s));
}

/* Begins a request in state TASK_NEW, whose bytes this thread may move itself. */
static void start_new(struct tent *t, uint32_t id)
{
	const struct task *k = &t->tasks[id];
	struct tent_segment *s = k->request.segment;

	if (!k->err && move_now(s, id))
		return;
	if (k->err)
		task_arrived(s, id, k->err);
	else
		stage_or_wait(t, id);
}

/*
 * Increments uses, open and moving for all requests before start_new() moves the first one, because
 * move_now() releases the lock.
 */
static void start_batch(struct tent *t, struct tent_batch *b)
{
	uint64_t left = t->transport->at_once;

	for (uint32_t i = 0; i < b->n; i++) {
		struct task *k = &t->tasks[b->tasks[i]];

		k->buffer->uses++;
		k->request.segment->open++;
		k->remote->lent.moving++;
		if (k->request.len <= left && !k->order) {
			left -= k->request.len;
			k->state = TASK_NEW;
		} else if (!k->order) {
			stage_or_wait(t, b->tasks[i]);
		}
	}
	b->next = t->batches;
	t->batches = b;
	for (uint32_t i = 0; i < b->n && left < t->transport->at_once; i++) {
		if (b->tasks[i] != NO_TASK && t->tasks[b->tasks[i]].state == TASK_NEW)
			start_new(t, b->tasks[i]);
	}
	if (b->open)
		drive(t);
}

void batch_free(struct tent_batch *b)
{
	if (b->fd >= 0)
		close(b->fd);
	free(b);
}

static struct tent_batch *new_batch(struct tent *t, uint32_t n)
{
	/*
	 * malloc() uses the thread's cache, calloc() of older glibc does not. Each status is
	 * written before it is read.
	 */
	struct tent_batch *b = malloc(sizeof(*b) + n * (sizeof(*b->status) + sizeof(*b->tasks)));

	if (!b)
		return NULL;
	*b = (struct tent_batch){.t = t, .n = n, .open = n, .fd = -1};
	b->tasks = (uint32_t *)&b->status[n];
	return b;
}

static int submit(struct tent *t, const struct tent_request *requests, struct tent_batch *b)
{
	if (b->n > t->task_ids.capacity)
		return -E2BIG;
	if (b->n > t->task_ids.capacity - t->task_ids.used)
		return -EAGAIN;
	for (uint32_t i = 0; i < b->n; i++) {
		int err = make_task(t, b, i, requests);

		if (err) {
			while (i)
				unmake_task(t, b->tasks[--i]);
			return err;
		}
	}
	start_batch(t, b);
	return 0;
}

int tent_submit(struct tent *t, const struct tent_request *requests, uint32_t n,
	struct tent_batch **batch_p)
{
	struct tent_batch *b;
	int err;

	if (!n || n > MAX_BATCH)
		return -EINVAL;
	b = new_batch(t, n);
	if (!b)
		return -ENOMEM;
	pthread_mutex_lock(&t->lock);
	err = submit(t, requests, b);
	pthread_mutex_unlock(&t->lock);
	if (err)
		batch_free(b);
	else
		*batch_p = b;
	return err;
}

/* ---- status ---- */

static struct tent_status status_of(const struct tent_batch *b, uint32_t i)
{
	const struct task *k;

	if (b->tasks[i] == NO_TASK)
		return b->status[i];
	k = &b->t->tasks[b->tasks[i]];
	return (struct tent_status){
		.state = k->state <= TASK_WAITING ? TENT_WAITING : TENT_PENDING,
		.bytes = k->bytes,
	};
}

/*
 * Combines the status of all requests: the sum of bytes and, when all have ended, the first error
 * other than -ECANCELED. If there is none, but a request was canceled, -ECANCELED.
 */
static struct tent_status sum_of(const struct tent_batch *b)
{
	struct tent_status sum = {.state = b->open ? TENT_PENDING : TENT_COMPLETED};

	for (uint32_t i = 0; i < b->n; i++) {
		struct tent_status s = status_of(b, i);

		sum.bytes += s.bytes;
		if (!b->open && s.err &&
			(!sum.err || (sum.err == -ECANCELED && s.err != -ECANCELED))) {
			sum.err = s.err;
			sum.state = s.state;
		}
	}
	return sum;
}

/*
 * Writes the status of request number @i. If @i is the number of requests, writes that of the
 * batch.
 */
static void write_status(struct tent_batch *b, uint32_t i, struct tent_status *status_p,
	size_t size)
{
	struct tent_status status;

	pthread_mutex_lock(&b->t->lock);
	drive(b->t);
	if (b->open)
		move_urge(b->t);
	status = i < b->n ? status_of(b, i) : sum_of(b);
	pthread_mutex_unlock(&b->t->lock);
	sized_out(status_p, size, &status, sizeof(status));
}

int tent_task_status(struct tent_batch *b, uint32_t i, struct tent_status *status_p, size_t size)
{
	if (i >= b->n)
		return -ENOENT;
	write_status(b, i, status_p, size);
	return 0;
}

void tent_batch_status(struct tent_batch *b, struct tent_status *status_p, size_t size)
{
	write_status(b, b->n, status_p, size);
}

static const struct live_type live_batch = {LIVE_MAGIC, "tent", "batch",
	.field = {
		{"requests", LIVE_AT(struct tent_batch, n)},
		{"open", LIVE_AT(struct tent_batch, open)},
	}};

/* Waits, and works for the engine meanwhile. 0: the batch has ended; -ETIMEDOUT. */
static int wait_open(struct tent *t, struct tent_batch *b, int timeout_ms)
{
	uint64_t ns = timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * NSEC_PER_MSEC, start = clock_ns();
	struct timespec until = clock_timespec(start + ns);
	struct live_record *live = NULL; /* see base/live.h; exists from the first sleep on */
	int err = 0;

	while (b->open && !err) {
		bool helped = (timeout_ms < 0 || clock_ns() < start + ns) && move_help(t);

		drive(t);
		if (helped || !b->open)
			continue;
		if (!live) {
			live = live_add(&live_batch, b, t->host);
			live_wait(live, start);
		}
		if (timeout_ms < 0)
			pthread_cond_wait(&t->ended, &t->lock);
		else
			err = -pthread_cond_timedwait(&t->ended, &t->lock, &until);
	}
	live_remove(live);
	return b->open ? err : 0;
}

int tent_wait(struct tent_batch *b, int timeout_ms)
{
	struct tent *t = b->t;
	int err;

	pthread_mutex_lock(&t->lock);
	err = b->open ? wait_open(t, b, timeout_ms) : 0;
	if (!err)
		err = sum_of(b).err;
	pthread_mutex_unlock(&t->lock);
	return err;
}

int tent_batch_fd(struct tent_batch *b)
{
	int fd;

	pthread_mutex_lock(&b->t->lock);
	if (b->fd < 0)
		b->fd = eventfd(b->open ? 0 : 1, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->open)
		move_urge(b->t);
	fd = b->fd < 0 ? -errno : b->fd;
	pthread_mutex_unlock(&b->t->lock);
	return fd;
}

void tent_cancel(struct tent_batch *b)
{
	struct tent *t = b->t;

	pthread_mutex_lock(&t->lock);
	for (uint32_t i = 0; i < b->n; i++) {
		if (b->tasks[i] != NO_TASK)
			task_stop(t, b->tasks[i], -ECANCELED);
	}
	drive(t);
	pthread_mutex_unlock(&t->lock);
}

int tent_batch_free(struct tent_batch *b)
{
	struct tent *t = b ? b->t : NULL;

	if (!b)
		return 0;
	pthread_mutex_lock(&t->lock);
	if (b->open) {
		pthread_mutex_unlock(&t->lock);
		return -EBUSY;
	}
	LIST_REMOVE(&t->batches, b);
	pthread_mutex_unlock(&t->lock);
	batch_free(b);
	return 0;
}
