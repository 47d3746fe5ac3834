/* SPDX-License-Identifier: MIT */
/* What the ports have carried. The fabric's mutex is held. */
#ifndef SOFTHCA_XPORT_COUNTS_H
#define SOFTHCA_XPORT_COUNTS_H

#include "hca/wqe.h"

/* A message has been executed: counted at the port that it left, and where it arrived. */
void counts_message(const struct qp *qp, const struct wqe *w);

/* Its link was paused: by the port at which it arrives. */
void counts_pause(const struct qp *qp, const struct wqe *w, uint64_t ns);

#endif
