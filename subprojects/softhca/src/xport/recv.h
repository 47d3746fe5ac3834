/* SPDX-License-Identifier: MIT */
/* Receive entries, of a QP's own queue or of its SRQ. */
#ifndef SOFTHCA_XPORT_RECV_H
#define SOFTHCA_XPORT_RECV_H

#include "abi/wire.h"
#include "dma/dma.h"
#include "hca/objects.h"

#define RECV_STRIDE_MAX 512
#define RECV_SEGS_MAX (RECV_STRIDE_MAX / 16)

struct recv {
	uint32_t index; /* reported by its completion (wqe_counter) */
	uint32_t next; /* SRQ: the entry after this one */
	uint64_t addr; /* of the entry */
	uint64_t shift; /* of the queue's buffer; see dma/pool.h */
	uint32_t nsegs;
	uint64_t capacity;
	struct dma_seg segs[RECV_SEGS_MAX];
};

/*
 * Reads the next receive of @qp without consuming it, or the receive that the arriving message has
 * taken (recv_begun). Takes the latch of the SRQ. Returns 0; -EAGAIN if none is posted; -EBUSY if a
 * copy is filling the SRQ's next entry or another thread holds the latch for too long; -EFAULT if
 * the owner's memory cannot be read; -ESRCH if the owner has ended.
 */
int recv_peek(const struct qp *qp, struct recv *rx);

/* Returns the SRQ of @qp, or NULL if it has none. */
struct srq *recv_srq(const struct qp *qp);

/*
 * Decodes the segments. Returns false if the entry cannot be read, or if a key, its bounds or its
 * permission are wrong.
 */
bool recv_decode(const struct qp *qp, struct recv *rx);

/*
 * Adds to the current step of the journal the stores that consume the receive. If the message has
 * taken the receive already, adds the store that clears recv_begun instead.
 */
void recv_take(struct qp *qp, const struct recv *rx);

/*
 * Must be called after the step of recv_take() that has consumed the receive: counts the receive,
 * and sends the SRQ's limit event if it is due.
 */
void recv_taken(struct qp *qp);

/*
 * Must be called after a holder of the mutex or of a lane has died or was stopped: sends the limit
 * events that the holder may not have sent. The caller must hold the mutex.
 */
void recv_recover(void);

#endif
