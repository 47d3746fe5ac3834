/* SPDX-License-Identifier: MIT */
/*
 * Adds to a capture the packets that would carry a message on a RoCEv2 network: the request and the
 * answer of each attempt. Responses of READs, and acknowledgements, come from the receiver. The
 * first captured message of a QP has the QP's initial PSN. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_TAP_H
#define SOFTHCA_XPORT_TAP_H

#include "packet/frame.h"
#include "xport/responder.h"
#include "xport/udp.h"

/*
 * Captures the request of message @w: its packets up to the one that holds byte @limit - 1. Has an
 * effect once per attempt; further calls do nothing until the attempt is answered.
 */
void tap_request(struct qp *qp, const struct wqe *w, uint64_t limit);

/* Captures the packets that the responder sends when the attempt ends with @a. */
void tap_answer(struct qp *qp, const struct wqe *w, const struct answer *a);

/*
 * Captures a real packet between @end and another host. @frame consists of room for headers, the
 * packet of @len bytes from BTH to padding, and room for the ICRC.
 */
void tap_packet(const struct udp_end *end, const struct flow *f, uint8_t *frame, size_t len);

/* Returns true if an outcome that a fault rule has decided involves packets to or from the peer. */
bool tap_visible(const struct answer *a);

#endif
