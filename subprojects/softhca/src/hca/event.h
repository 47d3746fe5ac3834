/* SPDX-License-Identifier: MIT */
/*
 * Event descriptors. Completion channels, contexts' async fds and event channels of the connection
 * manager are named FIFOs in the fabric's directory, opened for reading and writing by their owner.
 * Any process of the fabric can write an event into a FIFO, and read(), poll() and O_NONBLOCK work
 * as usual. The caller of fifo_create(), and of the functions that remove events, must hold the
 * fabric's mutex.
 */
#ifndef SOFTHCA_HCA_EVENT_H
#define SOFTHCA_HCA_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"

/* Makes a FIFO. Returns a descriptor, with the FIFO's number in *id, or -errno. */
int fifo_create(uint64_t *id);
void fifo_remove(uint64_t id);

#define EVENT_RETRY_NS 1000000u /* after this time an event that got -EAGAIN is written again */

/*
 * Writes one event of @len bytes. Returns 0; -EAGAIN if this process has no descriptor or memory
 * for it now; -EPIPE if it could not be written, because the reader is gone or the FIFO is full.
 */
int fifo_post(uint64_t id, const void *event, uint32_t len);

/*
 * Makes the thread of the process of @slot call cq_serve() at @due. Rings the bell even if the
 * thread has to call it earlier: the process that stored this earlier time may have died before it
 * rang.
 */
void event_wait(uint32_t slot, uint64_t due);

/*
 * Returns true if the FIFO has unread events, or if this process has no descriptor or memory to
 * find out.
 */
bool fifo_unread(uint64_t id);

/*
 * Removes from the FIFO the unread events that begin with the 8 bytes @handle. @len: size of an
 * event. Returns the number of removed events. If this process has no descriptor or memory for
 * that, returns -EMFILE, -ENFILE or -ENOMEM, unless the FIFO has no unread events, or is an event
 * channel of the connection manager, which is read through the program's descriptor then. The FIFO
 * must belong to this process or to a dead one, because a process that is killed in this function
 * loses all events of the FIFO.
 */
int fifo_drop(uint64_t id, uint64_t handle, uint32_t len);

/*
 * Does the same as fifo_drop() for the events for which @drop returns true. @drop is called once
 * for each event, in their order.
 */
int fifo_drop_if(uint64_t id, uint32_t len, bool (*drop)(const void *event, void *arg), void *arg);

/*
 * Async events. The values are those of enum ibv_event_type. The thread of an object's owner writes
 * the object's events (async_serve()): another process might be killed before it has counted an
 * event, or write it a second time after a replay. An owner without such a thread (stepping mode)
 * gets its events directly.
 */
enum async_event {
	EV_CQ_ERR = 0,
	EV_QP_FATAL = 1,
	EV_QP_REQ_ERR = 2,
	EV_QP_ACCESS_ERR = 3,
	EV_COMM_EST = 4,
	EV_SQ_DRAINED = 5,
	EV_DEVICE_FATAL = 8,
	EV_PORT_ACTIVE = 9,
	EV_PORT_ERR = 10,
	EV_SRQ_ERR = 14,
	EV_SRQ_LIMIT_REACHED = 15,
	EV_QP_LAST_WQE_REACHED = 16,
	EV_GID_CHANGE = 18,
};

void async_qp(struct qp *qp, enum async_event type);
void async_cq(struct cq *cq, enum async_event type);
void async_srq(struct srq *srq, enum async_event type);

/* Writes the late events of this process's objects. Returns true if some are still late. */
bool async_serve(void);

/*
 * Must be called when an object of the context is destroyed: removes its unread async events. *sent:
 * number of events that were written for it; it is reduced to the number of those that the program
 * has read. Returns 0 or the error of fifo_drop().
 */
int async_withdraw(uint32_t ctx, uint64_t handle, uint32_t *sent);

/*
 * Sends the event to every context that is open on @rail. The event is lost if this process has no
 * descriptor or memory for it.
 */
void async_rail(uint32_t rail, enum async_event type, uint64_t element);

#endif
