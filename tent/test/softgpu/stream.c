/* SPDX-License-Identifier: MIT */
/* Streams, events and copies of the software GPU. Each stream is a thread with a queue. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "driver.h"

static bool within(const uint8_t *at, const uint8_t *bytes, uint64_t len)
{
	return at >= bytes && at < bytes + len;
}

static bool uses(const struct op *op, const uint8_t *bytes, uint64_t len)
{
	return op && op->kind == OP_COPY &&
	       (within(op->to, bytes, len) || within(op->from, bytes, len));
}

/* True: a stream executes, or has in its queue, a copy from or to these bytes. */
static bool are_used(const uint8_t *bytes, uint64_t len)
{
	for (const struct cu_stream *s = gpu.streams; s; s = s->next) {
		if (uses(s->now, bytes, len))
			return true;
		for (const struct op *op = s->head; op; op = op->next) {
			if (uses(op, bytes, len))
				return true;
		}
	}
	return false;
}

void drain(const uint8_t *bytes, uint64_t len)
{
	while (are_used(bytes, len))
		pthread_cond_wait(&gpu.changed, &gpu.lock);
}

/* ---- execution ---- */

static void copy(struct cu_stream *s, const struct op *op)
{
	if (gpu.fail_after && !--gpu.fail_after)
		s->context->error = gpu.fail_error;
	if (s->context->error)
		return;
	gpu.copies++;
	pthread_mutex_unlock(&gpu.lock);
	memcpy(op->to, op->from, op->len);
	pthread_mutex_lock(&gpu.lock);
}

static void execute(struct cu_stream *s, const struct op *op)
{
	int error = s->context->error;

	switch (op->kind) {
	case OP_COPY:
		copy(s, op);
		break;
	case OP_RECORD:
		op->event->reached = op->count;
		break;
	case OP_WAIT:
		while (op->event->reached < op->count && !error)
			pthread_cond_wait(&gpu.changed, &gpu.lock);
		break;
	case OP_CALL:
		pthread_mutex_unlock(&gpu.lock);
		op->call(s, error, op->arg);
		pthread_mutex_lock(&gpu.lock);
	}
}

static void *stream_thread(void *arg)
{
	struct cu_stream *s = arg;

	pthread_mutex_lock(&gpu.lock);
	while (s->head || !s->ending) {
		struct op *op = gpu.held || gpu.held_stream == s ? NULL : s->head;

		if (!op) {
			pthread_cond_wait(&gpu.changed, &gpu.lock);
			continue;
		}
		s->head = op->next;
		if (!s->head)
			s->tail = &s->head;
		s->now = op;
		execute(s, op);
		s->now = NULL;
		free(op);
		pthread_cond_broadcast(&gpu.changed);
	}
	pthread_mutex_unlock(&gpu.lock);
	return NULL;
}

static void put(struct cu_stream *s, const struct op *op)
{
	struct op *o = malloc(sizeof(*o));

	*o = *op;
	o->next = NULL;
	*s->tail = o;
	s->tail = &o->next;
	pthread_cond_broadcast(&gpu.changed);
}

static void drain_stream(struct cu_stream *s)
{
	while (s->head || s->now)
		pthread_cond_wait(&gpu.changed, &gpu.lock);
}

void drain_failed(void)
{
	struct cu_stream *s = gpu.streams;

	while (s) {
		if (s->context->error && (s->head || s->now)) {
			pthread_cond_wait(&gpu.changed, &gpu.lock);
			s = gpu.streams; /* the list may have changed */
		} else {
			s = s->next;
		}
	}
}

/* ---- streams ---- */

static bool exists(const struct cu_stream *s)
{
	const struct cu_stream *i = gpu.streams;

	while (i && i != s)
		i = i->next;
	return i;
}

/* Makes a stream of the current context. */
static struct cu_stream *new_stream(bool legacy)
{
	struct cu_stream *s = calloc(1, sizeof(*s));

	s->context = current();
	s->legacy = legacy;
	s->tail = &s->head;
	s->next = gpu.streams;
	gpu.streams = s;
	if (pthread_create(&s->thread, NULL, stream_thread, s))
		abort();
	return s;
}

/*
 * Returns the stream with this handle; for CU_STREAM_LEGACY the default stream of the current
 * context. NULL: there is none. (Other streams do not wait for the default stream.)
 */
static struct cu_stream *stream_of(struct cu_stream *handle)
{
	struct cu_stream *s = gpu.streams;

	if (handle != CU_STREAM_LEGACY)
		return exists(handle) ? handle : NULL;
	while (s && !(s->legacy && s->context == current()))
		s = s->next;
	return s || !current() ? s : new_stream(true);
}

/* Calls begin(), and replaces the handle of a stream by the stream. */
static int begin_stream(const char *name, struct cu_stream **s_p)
{
	int result = begin(name);

	if (result)
		return result;
	*s_p = stream_of(*s_p);
	return *s_p ? 0 : CU_INVALID_HANDLE;
}

int cuStreamCreate(struct cu_stream **s_p, unsigned flags)
{
	int result = begin_current("cuStreamCreate");

	if (!result)
		*s_p = new_stream(false);
	return finish(result);
}

/* Executes the remaining work of the stream first. */
int cuStreamDestroy_v2(struct cu_stream *s)
{
	int result = begin("cuStreamDestroy_v2");

	if (!result && !exists(s))
		result = CU_INVALID_HANDLE;
	if (result)
		return finish(result);
	drain_stream(s);
	s->ending = true;
	pthread_cond_broadcast(&gpu.changed);
	pthread_mutex_unlock(&gpu.lock);
	pthread_join(s->thread, NULL);
	pthread_mutex_lock(&gpu.lock);
	LIST_REMOVE(&gpu.streams, s);
	free(s);
	return finish(0);
}

int cuStreamSynchronize(struct cu_stream *s)
{
	int result = begin_stream("cuStreamSynchronize", &s);

	if (result)
		return finish(result);
	drain_stream(s);
	return finish(s->context->error);
}

int cuStreamWaitEvent(struct cu_stream *s, struct cu_event *e, unsigned flags)
{
	int result = begin_stream("cuStreamWaitEvent", &s);

	if (!result)
		put(s, &(struct op){.kind = OP_WAIT, .event = e, .count = e->recorded});
	return finish(result);
}

int cuStreamAddCallback(struct cu_stream *s, cu_callback *fn, void *arg, unsigned flags)
{
	int result = begin_stream("cuStreamAddCallback", &s);

	if (!result)
		put(s, &(struct op){.kind = OP_CALL, .call = fn, .arg = arg});
	return finish(result);
}

/* ---- events ---- */

int cuEventCreate(struct cu_event **e_p, unsigned flags)
{
	int result = begin_current("cuEventCreate");

	if (result)
		return finish(result);
	*e_p = calloc(1, sizeof(**e_p));
	(*e_p)->context = current();
	return finish(0);
}

int cuEventDestroy_v2(struct cu_event *e)
{
	int result = begin("cuEventDestroy_v2");

	if (result)
		return finish(result);
	while (e->reached < e->recorded)
		pthread_cond_wait(&gpu.changed, &gpu.lock);
	free(e);
	return finish(0);
}

int cuEventRecord(struct cu_event *e, struct cu_stream *s)
{
	int result = begin("cuEventRecord");

	if (!result && (!exists(s) || s->context != e->context))
		result = CU_INVALID_HANDLE;
	if (!result)
		result = s->context->error;
	if (!result)
		put(s, &(struct op){.kind = OP_RECORD, .event = e, .count = ++e->recorded});
	return finish(result);
}

int cuEventQuery(struct cu_event *e)
{
	int result = begin("cuEventQuery");

	if (!result)
		result = e->context->error;
	if (!result && e->reached < e->recorded)
		result = CU_NOT_READY;
	return finish(result);
}

int cuEventSynchronize(struct cu_event *e)
{
	int result = begin("cuEventSynchronize");

	while (!result && e->reached < e->recorded)
		pthread_cond_wait(&gpu.changed, &gpu.lock);
	return finish(result ? result : e->context->error);
}

/* ---- copies ---- */

/* Where the software GPU finds the bytes; NULL: they go beyond the memory. */
static uint8_t *place(uint64_t at, size_t len)
{
	const struct memory *m = memory_at(at);

	if (!m)
		return (uint8_t *)(uintptr_t)at;
	return len <= m->len - (at - m->at) ? m->bytes + (at - m->at) : NULL;
}

static bool is_pageable(uint64_t at, size_t len)
{
	return !memory_at(at) && !pinned_at(at, len);
}

/* As with the driver, a copy from or to memory of the host that is not registered ends before the
 * function returns. */
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t len, struct cu_stream *s)
{
	int result = begin_current("cuMemcpyAsync");
	struct op op = {.kind = OP_COPY,
		.to = place(to, len),
		.from = place(from, len),
		.len = len};

	s = result ? s : stream_of(s);
	if (!result && (!s || s->context != current()))
		result = CU_INVALID_HANDLE;
	if (!result && (!op.to || !op.from))
		result = CU_INVALID_VALUE;
	if (result)
		return finish(result);
	put(s, &op);
	if (is_pageable(to, len) || is_pageable(from, len))
		drain_stream(s);
	return finish(0);
}

/* Does not wait for streams: tent has only non-blocking ones, for which the driver's cuMemcpy does
 * not wait. */
int cuMemcpy(uint64_t to, uint64_t from, size_t len)
{
	int result = begin_current("cuMemcpy");
	uint8_t *t = place(to, len), *f = place(from, len);

	if (!result && (!t || !f))
		result = CU_INVALID_VALUE;
	if (!result)
		memcpy(t, f, len);
	return finish(result);
}

/* ---- for tests ---- */

void softgpu_hold(int held)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.held = held;
	pthread_cond_broadcast(&gpu.changed);
	pthread_mutex_unlock(&gpu.lock);
}

void softgpu_hold_stream(struct cu_stream *s)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.held_stream = s;
	pthread_cond_broadcast(&gpu.changed);
	pthread_mutex_unlock(&gpu.lock);
}

void softgpu_fail_copy(unsigned nth, int error)
{
	pthread_mutex_lock(&gpu.lock);
	gpu.fail_after = nth;
	gpu.fail_error = error;
	pthread_mutex_unlock(&gpu.lock);
}

unsigned softgpu_copies(void)
{
	unsigned n;

	pthread_mutex_lock(&gpu.lock);
	n = gpu.copies;
	pthread_mutex_unlock(&gpu.lock);
	return n;
}
