/* SPDX-License-Identifier: MIT */
#include "gpucopy.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "gpumem.h"
#include "transport.h"

#define STREAMS 16 /* maximum number of contexts and devices of the copied memory */
#define BURSTS 2 /* groups of items: one is under way while the next one is started */

/* A stream for the memory of a context or, if the memory has no context, of a device. */
struct stream {
	struct cu_context *context;
	int device;
	struct cu_stream *stream;
	struct cu_event *ended[BURSTS];
	bool used[BURSTS];
};

struct item {
	struct gpu_copy copy;
	int stream; /* index in gpu_copies.streams; -1: none */
	int status;
};

struct gpu_copies {
	const struct cuda *cu;
	pthread_t thread;
	int fd;
	/* Only the thread uses these. */
	struct stream streams[STREAMS];
	int n_streams;

	pthread_mutex_t mutex; /* protects the members that follow */
	pthread_cond_t work;
	/*
	 * The mutex protects the items from started to tail. Only the thread uses those from ended
	 * to started.
	 */
	struct item items[GPU_COPIES];
	uint32_t taken, ended, started, tail; /* never reduced modulo GPU_COPIES */
	bool stopped, ending;
	bool told; /* fd is readable */
};

/* ---- the thread ---- */

static struct item *item_at(struct gpu_copies *q, uint32_t i)
{
	return &q->items[i % GPU_COPIES];
}

static void destroy_stream(const struct cuda *cu, const struct stream *s)
{
	if (s->stream)
		cu->stream_destroy(s->stream);
	for (int i = 0; i < BURSTS; i++) {
		if (s->ended[i])
			cu->event_destroy(s->ended[i]);
	}
}

/* Makes the stream in the current context. */
static int make_stream(const struct cuda *cu, struct stream *s)
{
	int err = cuda_errno(cu->stream_create(&s->stream, CU_STREAM_NON_BLOCKING));

	for (int i = 0; i < BURSTS && !err; i++)
		err = cuda_errno(cu->event_create(&s->ended[i], CU_EVENT_FLAGS));
	if (err)
		destroy_stream(cu, s);
	return err;
}

/* Returns the stream for memory of a GPU, or -errno. */
static int stream_of(struct gpu_copies *q, const struct gpu_memory *m)
{
	int i = 0, err;

	while (i < q->n_streams &&
		(q->streams[i].context != m->context || q->streams[i].device != m->device))
		i++;
	if (i < q->n_streams)
		return i;
	if (i == STREAMS)
		return -ENOSPC;
	q->streams[i] = (struct stream){.context = m->context, .device = m->device};
	err = cuda_push(q->cu, m->context, m->device);
	if (err)
		return err;
	err = make_stream(q->cu, &q->streams[i]);
	cuda_pop(q->cu);
	q->n_streams += !err;
	return err ? err : i;
}

/*
 * Starts a copy. If neither side is memory of a GPU, a system call copies at once, which fails
 * where memcpy() would end the process: the program may have unmapped the memory, or freed what was
 * memory of a GPU.
 */
static void start_copy(struct gpu_copies *q, struct item *it, uint64_t len)
{
	const struct gpu_copy *c = &it->copy;
	struct gpu_memory m;
	int result;

	if (!gpu_memory_at(q->cu, c->from, &m) && !gpu_memory_at(q->cu, c->to, &m)) {
		it->status = memory_copy(c->to, c->from, len);
		return;
	}
	it->stream = stream_of(q, &m);
	it->status = it->stream < 0 ? it->stream : cuda_push(q->cu, m.context, m.device);
	if (it->status)
		return;
	result = q->cu->copy_async(c->to, c->from, len, q->streams[it->stream].stream);
	cuda_pop(q->cu);
	/* CU_INVALID_VALUE: the driver does not know the memory. */
	it->status = result == CU_INVALID_VALUE ? -EFAULT : cuda_errno(result);
}

/*
 * Returns the number of items from @i on, but before @to, whose memory is adjacent. Writes the sum
 * of their lengths.
 */
static uint32_t adjacent(struct gpu_copies *q, uint32_t i, uint32_t to, uint64_t *len_p)
{
	const struct gpu_copy *first = &item_at(q, i)->copy;
	uint32_t n = 1;

	*len_p = first->len;
	while (i + n != to && item_at(q, i + n)->copy.to == first->to + *len_p &&
		item_at(q, i + n)->copy.from == first->from + *len_p)
		*len_p += item_at(q, i + n++)->copy.len;
	return n;
}

/*
 * Records an event at the end of each stream that the items use. If that fails, waits for the
 * stream.
 */
static void record(struct gpu_copies *q, uint32_t from, uint32_t to, uint32_t burst)
{
	for (uint32_t i = from; i != to; i++) {
		struct item *it = item_at(q, i);
		struct stream *s = it->stream < 0 ? NULL : &q->streams[it->stream];

		if (!s || it->status || s->used[burst])
			continue;
		it->status = cuda_errno(q->cu->event_record(s->ended[burst], s->stream));
		s->used[burst] = !it->status;
		if (it->status)
			it->status = cuda_errno(q->cu->stream_synchronize(s->stream));
	}
}

static void start_item(struct gpu_copies *q, struct item *it, uint64_t len)
{
	it->stream = -1;
	it->status = 0;
	if (len)
		start_copy(q, it, len);
}

/*
 * Starts @n adjacent items as one copy of @len bytes. If that fails, starts each one alone: the
 * memory may be that of several allocations, or a part of it may not be mapped any more.
 */
static void start_adjacent(struct gpu_copies *q, uint32_t i, uint32_t n, uint64_t len)
{
	struct item *first = item_at(q, i);

	start_item(q, first, len);
	if (first->status && n > 1) {
		for (uint32_t k = 0; k < n; k++)
			start_item(q, item_at(q, i + k), item_at(q, i + k)->copy.len);
		return;
	}
	for (uint32_t k = 1; k < n; k++) {
		item_at(q, i + k)->stream = first->stream;
		item_at(q, i + k)->status = first->status;
	}
}

static void start(struct gpu_copies *q, uint32_t from, uint32_t to, uint32_t burst)
{
	uint64_t len;

	for (uint32_t i = from, n; i != to; i += n) {
		n = adjacent(q, i, to, &len);
		start_adjacent(q, i, n, len);
	}
	record(q, from, to, burst);
}

/* Waits for a burst, and writes the errors that were reported after its start. */
static void await(struct gpu_copies *q, uint32_t from, uint32_t to, uint32_t burst)
{
	for (int i = 0; i < q->n_streams; i++) {
		struct stream *s = &q->streams[i];
		int err =
			s->used[burst] ? cuda_errno(q->cu->event_synchronize(s->ended[burst])) : 0;

		s->used[burst] = false;
		for (uint32_t k = from; k != to && err; k++) {
			if (item_at(q, k)->stream == i && !item_at(q, k)->status)
				item_at(q, k)->status = err;
		}
	}
}

/* Makes fd readable, unless it is readable already. */
static void tell(struct gpu_copies *q)
{
	if (q->told)
		return;
	q->told = true;
	if (eventfd_write(q->fd, 1))
		abort(); /* write() fails only on overflow, and this counter is 0 */
}

static void end(struct gpu_copies *q, uint32_t to)
{
	q->ended = to;
	tell(q);
}

/* Cancels the items that are not started. */
static void cancel(struct gpu_copies *q)
{
	for (; q->started != q->tail; q->started++) {
		item_at(q, q->started)->stream = -1;
		item_at(q, q->started)->status = -ECANCELED;
	}
}

static void *copier(void *arg)
{
	struct gpu_copies *q = arg;
	/* The numbers of bursts that have begun and ended, and the index after each one's items. */
	uint32_t begun = 0, over = 0, ends[BURSTS];

	pthread_mutex_lock(&q->mutex);
	while (!q->ending || begun != over) {
		uint32_t from = q->started, to = q->tail;

		if (from != to && q->stopped && begun == over) {
			cancel(q);
			end(q, to);
		} else if (from != to && !q->stopped && !q->ending && begun - over < BURSTS) {
			q->started = ends[begun % BURSTS] = to;
			pthread_mutex_unlock(&q->mutex);
			start(q, from, to, begun++ % BURSTS);
			pthread_mutex_lock(&q->mutex);
		} else if (begun != over) {
			from = q->ended;
			to = ends[over % BURSTS];
			pthread_mutex_unlock(&q->mutex);
			await(q, from, to, over++ % BURSTS);
			pthread_mutex_lock(&q->mutex);
			end(q, to);
		} else {
			pthread_cond_wait(&q->work, &q->mutex);
		}
	}
	pthread_mutex_unlock(&q->mutex);
	for (int i = 0; i < q->n_streams; i++)
		destroy_stream(q->cu, &q->streams[i]);
	return NULL;
}

/* ---- the callers ---- */

int gpu_copies_fd(const struct gpu_copies *q)
{
	return q->fd;
}

int gpu_copies_add(struct gpu_copies *q, const struct gpu_copy *c)
{
	int err = 0;

	pthread_mutex_lock(&q->mutex);
	if (q->stopped)
		err = -ENOTCONN;
	else
		q->items[q->tail++ % GPU_COPIES].copy = *c;
	pthread_cond_signal(&q->work);
	pthread_mutex_unlock(&q->mutex);
	return err;
}

int gpu_copies_take(struct gpu_copies *q, gpu_copy_done_fn *fn, void *arg)
{
	uint32_t from, to;
	uint64_t count;

	pthread_mutex_lock(&q->mutex);
	from = q->taken;
	to = q->taken = q->ended;
	if (q->told && eventfd_read(q->fd, &count))
		abort(); /* it was written under the same lock */
	q->told = false;
	pthread_mutex_unlock(&q->mutex);
	for (uint32_t i = from; i != to; i++) {
		const struct item *it = item_at(q, i);

		fn(arg, it->copy.token, it->status);
	}
	return (int)(to - from);
}

void gpu_copies_stop(struct gpu_copies *q)
{
	pthread_mutex_lock(&q->mutex);
	q->stopped = true;
	pthread_cond_signal(&q->work);
	pthread_mutex_unlock(&q->mutex);
}

static void fini(struct gpu_copies *q)
{
	pthread_cond_destroy(&q->work);
	pthread_mutex_destroy(&q->mutex);
	if (q->fd >= 0)
		close(q->fd);
	free(q);
}

int gpu_copies_new(struct gpu_copies **q_p)
{
	struct gpu_copies *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	pthread_mutex_init(&q->mutex, NULL);
	pthread_cond_init(&q->work, NULL);
	q->cu = cuda_open(NULL);
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = q->fd < 0 ? -errno : 0;
	if (!err && !q->cu)
		err = -ENODEV;
	if (!err)
		err = -pthread_create(&q->thread, NULL, copier, q);
	if (err) {
		fini(q);
		return err;
	}
	*q_p = q;
	return 0;
}

void gpu_copies_free(struct gpu_copies *q)
{
	if (!q)
		return;
	pthread_mutex_lock(&q->mutex);
	q->ending = true;
	pthread_cond_signal(&q->work);
	pthread_mutex_unlock(&q->mutex);
	pthread_join(q->thread, NULL);
	fini(q);
}
