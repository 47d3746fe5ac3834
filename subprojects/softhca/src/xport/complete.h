/* SPDX-License-Identifier: MIT */
/* Completions: what each kind of event puts into a CQE. */
#ifndef SOFTHCA_XPORT_COMPLETE_H
#define SOFTHCA_XPORT_COMPLETE_H

#include "xport/recv.h"
#include "xport/wqe.h"

/* A send queue entry succeeded: moves the queue on, with a completion if it asks. */
void complete_send(struct qp *qp, const struct wqe *w);

/* It failed. The queue moves on; the caller moves the QP to ERR. */
void complete_send_error(struct qp *qp, const struct wqe *w, enum syndrome s);

/* A message took a receive: both change in one step. */
void complete_recv(struct qp *qp, const struct recv *rx, const struct qp *from, const struct wqe *w,
	uint32_t bytes);

/*
 * The same for a datagram, with 40 bytes before its payload. @flags: CQE_GRH if these hold a
 * header, and the service level or the kind of the header.
 */
void complete_datagram(struct qp *qp, const struct recv *rx, const struct qp *from,
	const struct wqe *w, uint32_t flags);

/* A receive is gone, and nobody is told. */
void lose_recv(struct qp *qp, const struct recv *rx);

/* A receive failed, or is flushed (@s). */
void complete_recv_error(struct qp *qp, const struct recv *rx, enum syndrome s);

#endif
