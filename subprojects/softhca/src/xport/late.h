/* SPDX-License-Identifier: MIT */
/*
 * WRITEs that a fault rule delays (FAULT_LATE): they arrive later, when their sender may already
 * have reported an error. This process keeps a copy of the payload from the time of the WRITE. The
 * caller of late_keep() and late_serve() must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_LATE_H
#define SOFTHCA_XPORT_LATE_H

#include "hca/wqe.h"

/*
 * Keeps the WRITE @w of the RC QP @qp until @due. Other messages, and WRITEs for which there is no
 * room or whose payload cannot be read, are not kept.
 */
void late_keep(const struct qp *qp, const struct wqe *w, uint64_t due);

/*
 * Places the WRITEs that are due. Drops those whose sender's QP still works, because it executes the
 * WRITE itself, and those that the receiver would not accept now. Returns the time at which the
 * function must be called again, or 0.
 */
uint64_t late_serve(uint64_t now);

/* Must be called in a forked child: drops the WRITEs, which the parent will place. */
void late_forget(void);

#endif
