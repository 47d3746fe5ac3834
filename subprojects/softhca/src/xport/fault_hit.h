/* SPDX-License-Identifier: MIT */
/* Faults on demand: applies the rules (fault/fault.h) to messages. */
#ifndef SOFTHCA_XPORT_FAULT_HIT_H
#define SOFTHCA_XPORT_FAULT_HIT_H

#include <stdbool.h>

#include "xport/responder.h"
#include "xport/udp.h"

/*
 * Applies the rules to the message w of qp before it is executed. Returns true if a rule has
 * decided the outcome, which is then in *answer_p; false if the message must be executed as usual.
 * The caller must hold the fabric's mutex. Signal safe. With FAULT_KILL the function does not
 * return.
 */
bool fault_hit(struct qp *qp, struct wqe *w, struct answer *answer_p);

/*
 * Applies the rules for packets to a packet that @from is about to send. Returns the action, or
 * FAULT_NONE.
 */
enum fault_action fault_packet(const struct udp_end *from);

#endif
