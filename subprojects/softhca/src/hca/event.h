/* SPDX-License-Identifier: MIT */
/*
 * Event descriptors. A completion channel's fd and a context's async fd are named
 * FIFOs of the fabric, opened for reading and writing by their owner: any process can
 * write an event into one, and read(), poll() and O_NONBLOCK work on it as the kernel
 * made them.
 */
#ifndef SOFTHCA_HCA_EVENT_H
#define SOFTHCA_HCA_EVENT_H

#include <stdint.h>

#include "fabric/arena.h"

/* Makes a FIFO; *id names it, the fd is returned, or -errno. */
int fifo_create(uint64_t *id);
void fifo_remove(uint64_t id);

/* Writes one event of @len bytes. A reader that is gone is no error. */
void fifo_post(uint64_t id, const void *event, uint32_t len);

/*
 * Takes the unread events whose first 8 bytes are @handle out of the FIFO.
 * @len: size of an event. Returns how many there were.
 */
uint32_t fifo_drop(uint64_t id, uint64_t handle, uint32_t len);

/* Async events: enum ib_event_type and the user handle of the object. */
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
};

void async_qp(struct qp *qp, enum async_event type);
void async_cq(struct cq *cq, enum async_event type);
void async_srq(struct srq *srq, enum async_event type);

/*
 * An object goes: takes back its events that nobody read. @sent: how many it had in
 * all. Returns how many the program has read.
 */
uint32_t async_withdraw(uint32_t ctx, uint64_t handle, uint32_t sent);

/* To every context open on @rail; of a port, @element is its number. */
void async_rail(uint32_t rail, enum async_event type, uint64_t element);

#endif
