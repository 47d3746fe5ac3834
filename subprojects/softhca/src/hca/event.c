/* SPDX-License-Identifier: MIT */
#include "hca/event.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "hca/objects.h"
#include "hca/timer.h"
#include "sys/fds.h"
#include "sys/sys.h"

#define FIFO_PATH_MAX 192
#define DROP_EVENTS 8192 /* capacity of a FIFO, in events of the smallest size */

int fifo_create(uint64_t *id)
{
	char path[FIFO_PATH_MAX];
	int fd, r;

	*id = arena()->next_fifo++;
	fabric_fifo_path(*id, path, sizeof(path));
	r = (int)SYS(SYS_mknodat, AT_FDCWD, path, S_IFIFO | 0600, 0);
	if (r < 0)
		return r;
	/*
	 * Opened for reading and writing: reads never see end of file, and writes always have a
	 * reader.
	 */
	fd = sys_open(path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		fifo_remove(*id);
	return fd;
}

void fifo_remove(uint64_t id)
{
	char path[FIFO_PATH_MAX];

	if (!id)
		return;
	fabric_fifo_path(id, path, sizeof(path));
	SYS(SYS_unlinkat, AT_FDCWD, path, 0);
}

static bool is_shortage(int r)
{
	return r == -EMFILE || r == -ENFILE || r == -ENOMEM;
}

int fifo_post(uint64_t id, const void *event, uint32_t len)
{
	char path[FIFO_PATH_MAX];
	int fd;
	long r;

	fabric_fifo_path(id, path, sizeof(path));
	/*
	 * Opened for reading, too: otherwise, if the reader dies before the write, the write causes
	 * a SIGPIPE.
	 */
	fd = sys_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return is_shortage(fd) ? -EAGAIN : -EPIPE;
	r = sys_write(fd, event, len);
	sys_close(fd);
	if (r == (long)len)
		return 0;
	return is_shortage((int)r) ? -EAGAIN : -EPIPE;
}

void event_wait(uint32_t slot, uint64_t due)
{
	uint64_t *first = &arena()->procs[slot].cq_due, seen;

	/*
	 * Relaxed: holders of different lanes may do this at the same time, and a thread that reads
	 * the result holds the mutex.
	 */
	seen = __atomic_load_n(first, __ATOMIC_RELAXED);
	while ((!seen || due < seen) && !__atomic_compare_exchange_n(first, &seen, due, true,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	timer_ring(slot);
}

bool fifo_unread(uint64_t id)
{
	char path[FIFO_PATH_MAX];
	int fd, bytes = 0;

	fabric_fifo_path(id, path, sizeof(path));
	fd = sys_open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC, 0);
	if (fd < 0)
		return is_shortage(fd);
	SYS(SYS_ioctl, fd, FIONREAD, &bytes);
	sys_close(fd);
	return bytes > 0;
}

/* Does the work of fifo_drop_if() with descriptor @fd of the FIFO. Reads at most @max events. */
static int drop_from(int fd, uint32_t max, uint32_t len, bool (*drop)(const void *event, void *arg),
	void *arg)
{
	/* Static, because it is too large for a stack. The fabric's mutex protects it. */
	static char kept[DROP_EVENTS][sizeof(struct ib_uverbs_async_event_desc)];
	uint32_t n = 0, dropped = 0;

	while (n < DROP_EVENTS && n + dropped < max && sys_read(fd, kept[n], len) == (long)len) {
		if (drop(kept[n], arg))
			dropped++;
		else
			n++;
	}
	for (uint32_t i = 0; i < n; i++)
		sys_write(fd, kept[i], len);
	return (int)dropped;
}

/* Returns the descriptor from which the program reads the FIFO, or -1. */
static int reader_of(uint64_t id)
{
	static const enum fd_kind kinds[] = {FD_CM, FD_ASYNC, FD_CHANNEL};
	int fd = -1;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && fd < 0; i++)
		fd = fds_find(kinds[i], id);
	return fd;
}

/*
 * Does the work of fifo_drop_if() without opening the FIFO, which has failed with @error. Events of
 * verbs are not read from the program's descriptor: if a thread of the program read them first,
 * this thread would wait for the next event. Event channels of the connection manager are read only
 * by this library, with the mutex.
 */
static int drop_without(int error, uint64_t id, uint32_t len,
	bool (*drop)(const void *event, void *arg), void *arg)
{
	int fd = reader_of(id), unread = 0;

	if (SYS(SYS_ioctl, fd, FIONREAD, &unread) < 0)
		return error;
	if (!unread)
		return 0;
	if (fds_get(fd).kind != FD_CM)
		return error;
	return drop_from(fd, (uint32_t)unread / len, len, drop, arg);
}

int fifo_drop_if(uint64_t id, uint32_t len, bool (*drop)(const void *event, void *arg), void *arg)
{
	char path[FIFO_PATH_MAX];
	int fd, dropped;

	fabric_fifo_path(id, path, sizeof(path));
	fd = sys_open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	if (is_shortage(fd))
		return drop_without(fd, id, len, drop, arg);
	if (fd < 0)
		return 0;
	dropped = drop_from(fd, UINT32_MAX, len, drop, arg);
	sys_close(fd);
	return dropped;
}

static bool has_handle(const void *event, void *handle)
{
	return !memcmp(event, handle, sizeof(uint64_t));
}

int fifo_drop(uint64_t id, uint64_t handle, uint32_t len)
{
	return fifo_drop_if(id, len, has_handle, &handle);
}

static int async_post(uint32_t ctx, uint64_t handle, enum async_event type)
{
	struct ib_uverbs_async_event_desc d = {.element = handle, .event_type = type};

	return fifo_post(ctx_at(ctx)->fifo, &d, sizeof(d));
}

static bool leaves_it_to_the_owner(const struct obj *o)
{
	/* Relaxed: the owner stores it once, when it starts its thread. */
	return o->owner != fabric_self.slot &&
	       __atomic_load_n(&arena()->procs[o->owner].has_thread, __ATOMIC_RELAXED);
}

/*
 * Writes an event of @o, and counts it. If that is not possible now, or the owner is to do it, adds
 * it to the set *late.
 */
static void post_for(const struct obj *o, uint64_t handle, enum async_event type, uint32_t *count,
	uint32_t *late)
{
	uint64_t due = timer_now();

	if (!leaves_it_to_the_owner(o)) {
		int r = async_post(o->ctx, handle, type);

		*count += !r;
		if (r != -EAGAIN)
			return;
		due += EVENT_RETRY_NS;
	}
	/*
	 * Relaxed: holders of different lanes may store it; a thread that reads it holds the mutex.
	 */
	__atomic_store_n(&arena()->procs[o->owner].async_late, 1, __ATOMIC_RELAXED);
	event_wait(o->owner, due);
	/*
	 * The last step. The owner looks with the mutex, so not before this thread has ended its
	 * step. If this process dies before it, the owner finds nothing.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	*late |= 1u << type;
}

void async_qp(struct qp *qp, enum async_event type)
{
	post_for(&qp->obj, qp->user_handle, type, &qp->async_events, &qp->async_late);
}

void async_cq(struct cq *cq, enum async_event type)
{
	post_for(&cq->obj, cq->user_handle, type, &cq->async_events, &cq->async_late);
}

void async_srq(struct srq *srq, enum async_event type)
{
	post_for(&srq->obj, srq->user_handle, type, &srq->async_events, &srq->async_late);
}

/* Returns the events in the set *late, and empties it, if the object belongs to this process. */
static uint32_t take_late(const struct obj *o, uint32_t *late)
{
	uint32_t events = *late;

	if (!o->used || o->owner != fabric_self.slot)
		return 0;
	*late = 0;
	return events;
}

bool async_serve(void)
{
	uint32_t *late = &arena()->procs[fabric_self.slot].async_late;
	struct arena *a = arena();

	if (!*late)
		return false;
	*late = 0;
	for (uint32_t i = obj_tables[OBJ_QP].first; i < a->high[OBJ_QP]; i++)
		for (uint32_t e = take_late(&a->qps[i].obj, &a->qps[i].async_late); e; e &= e - 1)
			async_qp(&a->qps[i], (enum async_event)__builtin_ctz(e));
	for (uint32_t i = obj_tables[OBJ_CQ].first; i < a->high[OBJ_CQ]; i++)
		for (uint32_t e = take_late(&a->cqs[i].obj, &a->cqs[i].async_late); e; e &= e - 1)
			async_cq(&a->cqs[i], (enum async_event)__builtin_ctz(e));
	for (uint32_t i = obj_tables[OBJ_SRQ].first; i < a->high[OBJ_SRQ]; i++)
		for (uint32_t e = take_late(&a->srqs[i].obj, &a->srqs[i].async_late); e; e &= e - 1)
			async_srq(&a->srqs[i], (enum async_event)__builtin_ctz(e));
	return *late;
}

int async_withdraw(uint32_t ctx, uint64_t handle, uint32_t *sent)
{
	int dropped = 0;

	if (*sent)
		dropped = fifo_drop(ctx_at(ctx)->fifo, handle,
			sizeof(struct ib_uverbs_async_event_desc));
	if (dropped < 0)
		return dropped;
	*sent -= (uint32_t)dropped;
	return 0;
}

void async_rail(uint32_t rail, enum async_event type, uint64_t element)
{
	for (uint32_t i = 0; i < arena()->high[OBJ_CTX]; i++) {
		struct ctx *c = ctx_at(i);

		if (c->obj.used && c->rail == rail)
			async_post(i, element, type);
	}
}
