/* SPDX-License-Identifier: MIT */
/* Counters of the ports' traffic. The caller must hold the fabric's mutex or a lane. */
#ifndef SOFTHCA_XPORT_COUNTS_H
#define SOFTHCA_XPORT_COUNTS_H

#include "hca/wqe.h"

/* Counts an executed message at the port that sent it and at the port that received it. */
void counts_message(const struct qp *qp, const struct wqe *w);

/* Counts a failed attempt to deliver a message: no receive was posted for @dest. */
void counts_no_receive(const struct qp *dest);

/*
 * Counts @packets packets that were for @dest but were dropped, because their P_Key does not match.
 */
void counts_bad_pkeys(const struct qp *dest, uint64_t packets);

/* Returns the number of packets of the request @w. */
uint64_t counts_request_packets(const struct qp *qp, const struct wqe *w);

/* Counts that @qp will repeat its last request after an RNR NAK. */
void counts_rnr_retry(const struct qp *qp);

/* Counts that @qp will repeat its last request because no ACK, NAK or response has come in time. */
void counts_timeout_retry(const struct qp *qp);

/*
 * Adds @n, which the protocol has counted for a QP on the wire, to the counters of the port and of
 * the QP's process, and sets @n to 0.
 */
void counts_wired(const struct qp *qp, struct wire_counts *n);

/* Counts a pause of the link of @qp for @ns. The port that receives @w has requested the pause. */
void counts_pause(const struct qp *qp, const struct wqe *w, uint64_t ns);

#endif
