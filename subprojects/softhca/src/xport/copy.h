/* SPDX-License-Identifier: MIT */
/*
 * Payloads of long messages are copied without the fabric's mutex, so that they hold up
 * nobody but those who have to wait for them.
 *
 * While a copy goes on, `copy_to` of the sending QP and `copy_from` of the receiving one
 * (and of the SRQ whose next entry is being filled) name the other side. Then
 * - nobody else executes the sending QP, and nobody takes an entry of that SRQ;
 * - a QP that moves to ERR is flushed when the copy is over;
 * - resetting or destroying one of the QPs, deregistering memory and closing the device
 *   wait for the end of the copy.
 * A process that is killed in the middle of a copy ends it: the marks go with its QPs
 * when they are reaped, and whoever waits looks for the dead.
 *
 * The fabric's mutex is held in every call.
 */
#ifndef SOFTHCA_XPORT_COPY_H
#define SOFTHCA_XPORT_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/dma.h"
#include "fabric/arena.h"

#define COPY_HELD_MAX 8192u /* what is copied with the mutex held: takes no longer than the rest */

/* What is copied, and for whom. */
struct copy {
	struct qp *qp; /* of this process; executes the message */
	struct qp *dest;
	struct srq *srq; /* whose next entry is filled, else NULL */
	const struct dma_seg *to, *from;
	size_t nto, nfrom;
	uint64_t length;
};

/* The long form of copy_payload(). */
int copy_released(const struct copy *c, bool *fault_to) __attribute__((cold));

/*
 * Copies a payload. Returns what dma_copy() returns; or, when the mutex was released and
 * things have changed, -ECANCELED if the sending QP does not send any more (it may not
 * even exist) and -EAGAIN if the receiving one does not receive. @fault_to is as in
 * dma_copy().
 */
static inline int copy_payload(const struct copy *c, bool *fault_to)
{
	if (c->length > COPY_HELD_MAX)
		return copy_released(c, fault_to);
	return dma_copy(NULL, c->to, c->nto, c->from, c->nfrom, fault_to);
}

/* Whether a copy involves the QP. */
static inline bool copy_holds(const struct qp *qp)
{
	return qp->copy_to || qp->copy_from;
}

/*
 * Waits until no copy involves an own QP whose state lets none begin; or, with
 * @sending_only, until it sends none. Returns whether the QP still exists.
 */
bool copy_wait(struct qp *qp, bool sending_only);

/* Waits for the end of all copies that involve this process and have begun already. */
void copy_drain(void);

/* Whether a thread of this process is in the middle of one. */
bool copy_executing(void);

/* Releases the mutex for a moment. @n: how many times the caller has waited already. */
void copy_pause(uint32_t n);

/* The device of an own context is closed: ends its QPs, and waits until no copy goes on. */
void copy_stop(uint32_t ctx);

/* The QP is about to go, with a copy that its dead owner has not finished. */
void copy_abandon(struct qp *qp);

#endif
