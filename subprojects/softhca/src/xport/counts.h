/* SPDX-License-Identifier: MIT */
/* Counters of the ports' traffic. The fabric's mutex is held. */
#ifndef SOFTHCA_XPORT_COUNTS_H
#define SOFTHCA_XPORT_COUNTS_H

#include "hca/wqe.h"

/* A message has been executed: counted at the port that it left, and where it arrived. */
void counts_message(const struct qp *qp, const struct wqe *w);

/* An attempt to deliver a message found no receive of @dest. */
void counts_no_receive(const struct qp *dest);

/* @packets for @dest were dropped because their P_Key is not one of its partition. */
void counts_bad_pkeys(const struct qp *dest, uint64_t packets);

/* Packets of the request @w. */
uint64_t counts_request_packets(const struct qp *qp, const struct wqe *w);

/* The request of @qp that was executed last will be repeated: after an RNR NAK, without an answer. */
void counts_rnr_retry(const struct qp *qp);
void counts_timeout_retry(const struct qp *qp);

/* Its link was paused: by the port at which it arrives. */
void counts_pause(const struct qp *qp, const struct wqe *w, uint64_t ns);

#endif
