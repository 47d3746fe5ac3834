/* SPDX-License-Identifier: MIT */
/*
 * Payloads of long messages are copied without a lock, so that they delay only
 * the operations that depend on them.
 *
 * While a copy runs, `copy_to` of the sending QP and `copy_from` of the receiving one (and
 * of the SRQ whose next entry is being filled) name the other side. During that time
 * - no other thread executes the sending QP, and none takes an entry of that SRQ;
 * - a QP that moves to ERR is flushed only when the copy has ended;
 * - resetting or destroying one of the QPs, deregistering memory and closing the device wait for
 *   the end of the copy. If the copying process is killed, the copy ends when the QPs of that
 *   process are reaped: `copy_to` and `copy_from` are cleared. Every thread that waits for a copy
 *   reaps dead processes from time to time, and ends the copies of threads that are stopped (by
 *   SIGSTOP or a debugger). To make this possible, a thread that copies holds the claim `copy` of
 *   the sending QP (fabric/claim.h).
 *
 * The caller must hold the fabric's mutex. For copy_whole(), a lane with the latches of the message
 * is enough.
 */
#ifndef SOFTHCA_XPORT_COPY_H
#define SOFTHCA_XPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/dma.h"
#include "fabric/arena.h"

#define COPY_HELD_MAX 8192u /* up to this many bytes are copied under the mutex or a lane */

/* A copy: the payload and the QPs. */
struct copy {
	struct qp *qp; /* of this process; executes the message */
	struct qp *dest;
	struct srq *srq; /* the SRQ whose next entry is filled, or NULL */
	const struct dma_seg *to, *from;
	size_t nto, nfrom;
	uint64_t length;
	uint64_t aligned; /* remote address of the payload, or 0; chaos mode cuts the payload only
			     where it is a multiple of 8 */
};

/*
 * Implements copy_whole() for long payloads: releases the mutex. Returns -EBUSY if the caller has
 * only a lane.
 */
int copy_released(const struct copy *c, bool *fault_to) __attribute__((cold));

/*
 * Copies all of a payload. Returns what dma_copy() returns, or what copy_released() does. If the
 * mutex was released, it may also return -ECANCELED: the sending QP does not send any more (it may
 * not even exist), or -EAGAIN: the receiving QP does not receive any more. @fault_to is as in
 * dma_copy().
 */
static inline int copy_whole(const struct copy *c, bool *fault_to)
{
	if (c->length > COPY_HELD_MAX)
		return copy_released(c, fault_to);
	return dma_copy(NULL, c->to, c->nto, c->from, c->nfrom, fault_to);
}

/* Returns true if a copy to or from the QP is running. */
static inline bool copy_holds(const struct qp *qp)
{
	return qp->copy_to || qp->copy_from;
}

/*
 * Waits until no copy involves @qp, which must belong to this process and be in a state in which no
 * copy begins. With @sending_only, waits only for a copy that the QP sends. Returns true if the QP
 * still exists.
 */
bool copy_wait(struct qp *qp, bool sending_only);

/* Waits for the end of all copies that involve this process and began before the call. */
void copy_drain(void);

/* Returns true if a thread of this process is executing a copy. */
bool copy_executing(void);

/* Releases the mutex for a moment. @n: number of earlier calls in the same wait. */
void copy_pause(uint32_t n);

/* Stops the QPs of context @ctx, which is being closed, and then calls copy_drain(). */
void copy_stop(uint32_t ctx);

/*
 * Ends the copies of threads that have been stopped for long enough. The QPs of the processes of
 * these threads fail.
 */
void copy_take_over(void);

/* Ends the copy that @qp is sending, if there is one: the QP's owner will not finish the copy. */
void copy_abandon(struct qp *qp);

#endif
