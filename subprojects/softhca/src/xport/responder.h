/* SPDX-License-Identifier: MIT */
/* The responder's half of a message, executed by the sender's process. */
#ifndef SOFTHCA_XPORT_RESPONDER_H
#define SOFTHCA_XPORT_RESPONDER_H

#include "hca/wqe.h"
#include "packet/frame.h"
#include "xport/address.h"
#include "xport/recv.h"

/* The outcome of an attempt to deliver a message. */
enum verdict {
	V_DONE,
	V_RNR, /* no receive is posted: retry after the receiver's delay */
	V_NO_ANSWER, /* no answer: retry after the transport timeout */
	V_DEAD, /* the receiver does not exist any more */
	V_LATER, /* not complete yet: a timer is set, or chaos mode has more pieces */
	V_FORBIDDEN, /* the system forbids access to the other process */
	V_BUSY, /* not attempted yet: another copy has to end first */
	V_STOPPED, /* the sender's QP is not in RTS any more, or does not exist any more */
	V_WHOLE, /* not attempted: it needs the mutex instead of a lane */
	V_ERROR, /* refused: `syndrome` is the error that the sender reports */
};

struct answer {
	enum verdict verdict;
	enum syndrome syndrome;
	uint32_t rnr_timer; /* V_RNR: code of the receiver's delay */
};

/* Delivers an RC or UC message to the QP to which @qp is connected. */
struct answer respond(struct qp *qp, struct wqe *w);

/* Delivers a datagram, or drops it silently, as a network does. */
struct answer respond_datagram(struct qp *qp, struct wqe *w);

/* Returns true if @w, a valid request of the UD QP @qp, goes to another host. */
bool datagram_goes_out(const struct qp *qp, const struct wqe *w);

/* Returns true if @w, a valid request of @qp, is a datagram to another host. */
static inline bool datagram_leaves(const struct qp *qp, const struct wqe *w)
{
	return qp->type == QPT_UD && datagram_goes_out(qp, w);
}

/*
 * Writes the header that an adapter on Ethernet puts before a datagram of @len bytes: 40 bytes,
 * which are the IPv6 header, or whose last 20 bytes are the IPv4 header. Returns the completion's
 * flags for it.
 */
uint32_t datagram_roce_header(uint8_t *out, const struct flow *f, uint8_t opcode, uint64_t len);

/*
 * Decodes the receive of a datagram that has @length bytes with its header. If the receive is not
 * valid or too short, completes it with an error, moves the QP to ERR, and returns false.
 */
bool datagram_fits(struct qp *dest, struct recv *rx, uint64_t length);

/* Completes the receive of a datagram with the error @s, and moves the QP to ERR. */
void datagram_receive_failed(struct qp *dest, const struct recv *rx, enum syndrome s);

/* Returns true if @path leads from @rail to @dest: it names @dest's port, and both links are up. */
bool path_leads_to(const struct qp_attr *path, uint32_t rail, const struct qp *dest);

/*
 * Returns true if @dest accepts packets with the P_Key of @qp. If not, the packets of @w are
 * counted as dropped, and strict mode reports them.
 */
bool in_partition(struct qp *qp, const struct qp *dest, const struct wqe *w);

#endif
