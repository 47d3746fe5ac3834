/* SPDX-License-Identifier: MIT */
/*
 * The transport: executes send queues. The caller must hold the fabric's mutex. For xport_send()
 * and xport_producer(), a lane with the QP's latch is enough.
 *
 * The process that owns a QP executes its work requests, both the requester's and the responder's
 * half. When xport_send() returns, each message is complete, including payload and completions on
 * both sides, or waits for a timer. In chaos mode, xport_send() only announces the messages
 * (chaos.h). If the peer is in another fabric, it only sends packets (wired.h).
 */
#ifndef SOFTHCA_XPORT_XPORT_H
#define SOFTHCA_XPORT_XPORT_H

#include <stdbool.h>

#include "fabric/arena.h"
#include "hca/config.h"
#include "hca/strict.h"
#include "hca/wqe.h"

/*
 * Executes the WQEs that are posted according to the doorbell record of @qp, a QP of this process,
 * unless the QP waits for a timer. A lane may be exchanged for the mutex, and the mutex is released
 * while a long payload is copied and while waiting for such a copy, so any object may have changed
 * when the function returns.
 */
void xport_send(struct qp *qp);

/*
 * Gets the producer index of a QP of any process, in blocks; only the low 16 bits are valid, as in
 * the doorbell record. A doorbell that traps announces the requests that are posted at that time;
 * later ones in the record wait for the next doorbell. Returns false if the record cannot be read.
 */
bool xport_producer(const struct qp *qp, uint32_t *pi);

/*
 * Returns true if @w, the entry at block @at, belongs to @qp and ends at the producer index @pi or
 * before it. Strict mode also reports what is wrong.
 */
static inline bool xport_valid(const struct qp *qp, const struct wqe *w, uint32_t at, uint32_t pi)
{
	uint32_t posted = (uint16_t)(pi - at);

	if (config_get()->strict && !strict_wqe(qp, w, at, posted))
		return false;
	return w->qpn == qp->qpn && wqe_fits(w, posted);
}

/* Chaos mode: returns true if the QP of this process can execute a WQE now. */
bool xport_ready(const struct qp *qp);

/* Chaos mode: makes the next step of the WQE at the head. xport_ready() must be true. */
void xport_step(struct qp *qp);

/* Flushes both queues of a QP of any process. The QP must be in ERR. */
void xport_flush(struct qp *qp);

#endif
