/* SPDX-License-Identifier: MIT */
/*
 * Requests that begin when a stream of the program has done the work that was in it at their
 * submission. The driver calls a function at that point of the stream, in one of the driver's
 * threads, where no function of the driver may be called. So that function only puts the request
 * into a list for the engine.
 *
 * The list exists until the engine and the last stream have left it, because a stream may reach the
 * point after the end of the engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"

struct order {
	struct order *next; /* in the list */
	struct orders *all;
	uint32_t task; /* NO_TASK: the task has ended; protected by the engine's lock */
	int result; /* of the stream */
};

struct orders {
	pthread_mutex_t mutex; /* protects the members that follow */
	struct order *reached;
	uint32_t refs; /* the engine, and the points that streams have not reached */
	bool ended; /* the engine has left */
	int fd; /* readable: the list is not empty */
};

/* The caller holds the mutex; this function releases it. */
static void leave(struct orders *o)
{
	bool last = !--o->refs;

	pthread_mutex_unlock(&o->mutex);
	if (!last)
		return;
	close(o->fd);
	pthread_mutex_destroy(&o->mutex);
	free(o);
}

/* Called by the driver. */
static void on_reached(struct cu_stream *stream, int result, void *arg)
{
	struct order *w = arg;
	struct orders *o = w->all;

	pthread_mutex_lock(&o->mutex);
	if (o->ended) {
		free(w);
	} else {
		w->result = result;
		w->next = o->reached;
		o->reached = w;
		if (eventfd_write(o->fd, 1))
			abort(); /* write() fails only on overflow */
	}
	leave(o);
}

static int make_orders(struct tent *t)
{
	struct orders *o = t->orders ? NULL : calloc(1, sizeof(*o));

	if (t->orders)
		return 0;
	if (!o)
		return -ENOMEM;
	o->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->fd < 0) {
		int err = -errno;

		free(o);
		return err;
	}
	pthread_mutex_init(&o->mutex, NULL);
	o->refs = 1;
	t->orders = o;
	loop_watch(t, o->fd);
	return 0;
}

static void drop(struct tent *t, uint32_t id)
{
	t->tasks[id].order->task = NO_TASK;
	t->tasks[id].order = NULL;
}

static void stop_waiting(struct tent *t, uint32_t id, int err)
{
	struct task *k = &t->tasks[id];

	drop(t, id);
	task_arrived(k->request.segment, id, err);
}

/*
 * A default stream belongs to the current context. If our memory is memory of a GPU, tent.h
 * promises the default stream of the GPU's primary context, so this context is made current.
 */
static int call_back(const struct cuda *cu, const struct task *k, struct order *w)
{
	struct cu_stream *s = k->request.stream;
	bool needs = k->buffer->of_gpu && (s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD);
	int err = needs ? cuda_push(cu, NULL, k->buffer->gpu.device) : 0;

	if (err)
		return err;
	err = cuda_errno(cu->stream_callback(s, on_reached, w, 0));
	if (needs)
		cuda_pop(cu);
	return err;
}

int order_add(struct tent *t, uint32_t id)
{
	struct task *k = &t->tasks[id];
	const struct cuda *cu = cuda_used();
	int err = cu ? make_orders(t) : -EINVAL;
	struct order *w = err ? NULL : calloc(1, sizeof(*w));

	if (!w)
		return err ? err : -ENOMEM;
	*w = (struct order){.all = t->orders, .task = id};
	pthread_mutex_lock(&t->orders->mutex);
	t->orders->refs++;
	pthread_mutex_unlock(&t->orders->mutex);
	err = call_back(cu, k, w);
	if (err) {
		free(w);
		pthread_mutex_lock(&t->orders->mutex);
		leave(t->orders);
		return err;
	}
	k->state = TASK_ORDERED;
	k->stop = stop_waiting;
	k->order = w;
	return 0;
}

void order_drop(struct tent *t, uint32_t id)
{
	if (t->tasks[id].order)
		drop(t, id);
}

static void begin(struct tent *t, struct order *w)
{
	uint32_t id = w->task;

	if (id == NO_TASK)
		return;
	if (w->result) {
		stop_waiting(t, id, cuda_errno(w->result));
		return;
	}
	drop(t, id);
	stage_or_wait(t, id);
}

bool order_progress(struct tent *t)
{
	struct order *w = NULL;
	uint64_t count;

	if (!t->orders)
		return false;
	pthread_mutex_lock(&t->orders->mutex);
	w = t->orders->reached;
	t->orders->reached = NULL;
	if (w && eventfd_read(t->orders->fd, &count))
		abort(); /* it was written under the same lock */
	pthread_mutex_unlock(&t->orders->mutex);
	if (!w)
		return false;
	for (struct order *next; w; w = next) {
		next = w->next;
		begin(t, w);
		free(w);
	}
	return true;
}

void order_fini(struct tent *t)
{
	struct orders *o = t->orders;

	if (!o)
		return;
	pthread_mutex_lock(&o->mutex);
	o->ended = true;
	for (struct order *w = o->reached, *next; w; w = next) {
		next = w->next;
		free(w);
	}
	leave(o);
}
