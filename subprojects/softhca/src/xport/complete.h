/* SPDX-License-Identifier: MIT */
/* Completions: the CQE for each kind of outcome. */
#ifndef SOFTHCA_XPORT_COMPLETE_H
#define SOFTHCA_XPORT_COMPLETE_H

#include "hca/wqe.h"
#include "wire/wire.h"
#include "xport/recv.h"

/* Advances the send queue after a WQE succeeded, with a completion if the WQE is signaled. */
void complete_send(struct qp *qp, const struct wqe *w);

/* As complete_send(), in one step with the stores @also (NULL: none). */
void complete_send_with(struct qp *qp, const struct wqe *w, const struct wire_step *also);

/*
 * Advances the send queue with an error CQE after a WQE failed. The caller must move the QP to ERR.
 */
void complete_send_error(struct qp *qp, const struct wqe *w, enum syndrome s);

/* After a message has arrived: consumes the receive and writes its CQE in one journal step. */
void complete_recv(struct qp *qp, const struct recv *rx, const struct qp *from, const struct wqe *w,
	uint32_t bytes);

/*
 * The same for a datagram, whose payload follows 40 bytes. @flags: CQE_GRH if these bytes hold
 * a header, and the service level or the kind of header.
 */
void complete_datagram(struct qp *qp, const struct recv *rx, const struct qp *from,
	const struct wqe *w, uint32_t flags);

/*
 * The same for a message that has come by packets (of a datagram: from @qpn, with @flags), in one
 * step with the stores @also (NULL: none).
 */
void complete_arrival(struct qp *qp, const struct recv *rx, const struct wire_arrival *a,
	uint32_t flags_qpn, const struct wire_step *also);

/*
 * Chaos mode: takes the receive, without completing it, when the first piece of a SEND has arrived.
 */
void begin_recv(struct qp *qp, const struct recv *rx);

/* Consumes a receive without a completion. */
void lose_recv(struct qp *qp, const struct recv *rx);

/* Completes a receive with the error @s, or as flushed. */
void complete_recv_error(struct qp *qp, const struct recv *rx, enum syndrome s);

#endif
