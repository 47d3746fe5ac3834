/* SPDX-License-Identifier: MIT */
/* Writes completions: a CQE for each kind of outcome. */
#ifndef SOFTHCA_XPORT_COMPLETE_H
#define SOFTHCA_XPORT_COMPLETE_H

#include "hca/wqe.h"
#include "wire/wire.h"
#include "xport/recv.h"

/*
 * Advances the send queue after a WQE has succeeded, and writes a completion if the WQE is
 * signaled.
 */
void complete_send(struct qp *qp, const struct wqe *w);

/*
 * Does the same as complete_send(), and executes the stores @also (NULL: none) in the same step of
 * the journal.
 */
void complete_send_with(struct qp *qp, const struct wqe *w, const struct wire_step *also);

/*
 * Advances the send queue after a WQE has failed, and writes an error CQE. The caller must move the
 * QP to ERR.
 */
void complete_send_error(struct qp *qp, const struct wqe *w, enum syndrome s);

/* After a message has arrived: consumes the receive and writes its CQE in one journal step. */
void complete_recv(struct qp *qp, const struct recv *rx, const struct qp *from, const struct wqe *w,
	uint32_t bytes);

/*
 * Does the same as complete_recv() for a datagram, whose payload comes after 40 bytes. @flags: the
 * service level (CQE_SL()), with RoCE the type of the network header in its place; also CQE_GRH if
 * these bytes contain a header.
 */
void complete_datagram(struct qp *qp, const struct recv *rx, const struct qp *from,
	const struct wqe *w, uint32_t flags);

/*
 * Does the same as complete_recv() for a message that has arrived as packets, and executes the
 * stores @also (NULL: none) in the same step of the journal. For a datagram, @flags_qpn contains
 * the flags of complete_datagram() and the QP number of the sender.
 */
void complete_arrival(struct qp *qp, const struct recv *rx, const struct wire_arrival *a,
	uint32_t flags_qpn, const struct wire_step *also);

/*
 * Takes the receive without completing it. This happens in two cases: in chaos mode, before the
 * payload of a SEND is placed; and if a QP on the wire receives from an SRQ, after the first packet
 * of a SEND has been placed, provided that this packet is full.
 */
void begin_recv(struct qp *qp, const struct recv *rx);

/* Consumes a receive without a completion. */
void lose_recv(struct qp *qp, const struct recv *rx);

/* Completes a receive with the error @s. */
void complete_recv_error(struct qp *qp, const struct recv *rx, enum syndrome s);

#endif
