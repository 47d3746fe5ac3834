/* SPDX-License-Identifier: MIT */
/* The receiving half of a message, executed by the sender's process. */
#ifndef SOFTHCA_XPORT_RESPONDER_H
#define SOFTHCA_XPORT_RESPONDER_H

#include "hca/wqe.h"

/* How an attempt to deliver a message ended. */
enum verdict {
	V_DONE,
	V_RNR, /* no receive is posted: try again after the receiver's delay */
	V_NO_ANSWER, /* nobody there now: try again after the transport timeout */
	V_DEAD, /* nobody there ever again */
	V_LATER, /* not attempted yet: a timer is set */
	V_FORBIDDEN, /* the system keeps the two processes apart */
	V_BUSY, /* not attempted yet: another's copy is in the way */
	V_STOPPED, /* the sender's QP has left RTS meanwhile, or is gone */
	V_ERROR, /* refused: `syndrome` is the sender's */
};

struct answer {
	enum verdict verdict;
	enum syndrome syndrome;
	uint32_t rnr_timer; /* code of the receiver's delay */
};

/* Delivers an RC or UC message to the QP that @qp is connected to. */
struct answer respond(struct qp *qp, struct wqe *w);

/* Delivers a datagram, or drops it without a word, as the fabric does. */
struct answer respond_datagram(struct qp *qp, struct wqe *w);

/* Whether a message from @rail reaches @dest by this path. */
bool path_leads_to(const struct qp_attr *path, uint32_t rail, const struct qp *dest);

#endif
