/* SPDX-License-Identifier: MIT */
/* Faults on demand: which messages the rules of fault.h hit, and what becomes of them. */
#ifndef SOFTHCA_XPORT_FAULT_HIT_H
#define SOFTHCA_XPORT_FAULT_HIT_H

#include <stdbool.h>

#include "xport/responder.h"

/*
 * Judges the message w of qp before it is executed. Returns true when that was it, with
 * what became of it in *answer_p; false when it is to be executed as usual. The
 * fabric's mutex is held; signal safe. FAULT_KILL does not return.
 */
bool fault_hit(struct qp *qp, struct wqe *w, struct answer *answer_p);

#endif
