/* SPDX-License-Identifier: MIT */
/*
 * WRITEs that the network holds back: their sender has given them up, or still waits, and they
 * arrive later. This process keeps the payload as it was when it was sent. The fabric's mutex
 * is held.
 */
#ifndef SOFTHCA_XPORT_LATE_H
#define SOFTHCA_XPORT_LATE_H

#include "hca/wqe.h"

/* Keeps the WRITE @w of @qp until @due. Others, and more than there is room for, are lost. */
void late_keep(const struct qp *qp, const struct wqe *w, uint64_t due);

/*
 * Places what is due, if its receiver's QP still receives and the sender's QP has not
 * executed it itself. Returns when the next one is due, or 0.
 */
uint64_t late_serve(uint64_t now);

/* In a forked child: the WRITEs under way are its parent's. */
void late_forget(void);

#endif
