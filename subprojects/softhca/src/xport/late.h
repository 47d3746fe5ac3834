/* SPDX-License-Identifier: MIT */
/*
 * WRITEs that a fault rule delays (FAULT_LATE): they arrive later, when their sender may already
 * have reported an error. This process keeps a copy of the payload from the time of the WRITE. The
 * caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_LATE_H
#define SOFTHCA_XPORT_LATE_H

#include "hca/wqe.h"

/*
 * Keeps the WRITE @w of @qp until @due. Other messages, and WRITEs for which there is no room, are
 * not kept.
 */
void late_keep(const struct qp *qp, const struct wqe *w, uint64_t due);

/*
 * Places the WRITEs that are due, unless the receiver's QP no longer receives or the sender's QP
 * still works and executes the WRITE itself. Returns the time at which the function must be called
 * again, or 0.
 */
uint64_t late_serve(uint64_t now);

/* Must be called in a forked child: drops the WRITEs, which the parent will place. */
void late_forget(void);

#endif
