/* SPDX-License-Identifier: MIT */
/*
 * Shows a capture the packets that a message would be on a RoCEv2 network: request and answer
 * of each attempt. A READ's responses and acknowledgements come from the receiver. PSNs begin
 * with the QP's own at the first message that is captured. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_TAP_H
#define SOFTHCA_XPORT_TAP_H

#include "packet/frame.h"
#include "xport/responder.h"

/*
 * The requester sends message @w: its packets up to the one that holds byte @limit - 1. Once
 * per attempt; further calls do nothing until the attempt has got an answer.
 */
void tap_request(struct qp *qp, const struct wqe *w, uint64_t limit);

/* The attempt ends with @a: what the responder sends. */
void tap_answer(struct qp *qp, const struct wqe *w, const struct answer *a);

/* A real packet between @qp and another host: @len bytes, as for capture_add(). */
void tap_packet(const struct qp *qp, const struct flow *f, uint8_t *frame, size_t len);

/* Returns true if an outcome that a fault rule has decided is one of which the peer knows. */
bool tap_visible(const struct answer *a);

#endif
