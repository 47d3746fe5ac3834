/* SPDX-License-Identifier: MIT */
/*
 * QPs whose peer is not of this fabric: RC, by the protocol of wire/wire.h over the queues of a QP,
 * and datagrams.
 * Any process of the fabric may call these for any QP. The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_WIRED_H
#define SOFTHCA_XPORT_WIRED_H

#include <stdint.h>

#include "fabric/arena.h"
#include "hca/wqe.h"
#include "packet/frame.h"
#include "packet/packet.h"

/*
 * The QP has got the attributes of RTR: if its peer is reached by packets, prepares that. Returns
 * 0,
 * -ENOMEM, or, with a line on standard error, what is in the way: -EOPNOTSUPP, -EMSGSIZE (the path
 * MTU), -ENETUNREACH and others.
 */
int wired_receive_from(struct qp *qp);

/* A QP on the wire has got the attributes of RTS. */
void wired_send_from(struct qp *qp);

/* Returns true if a path of @qp leads to another fabric, by an adapter that is bound to UDP. */
bool wired_leads_out(const struct qp *qp, const struct qp_attr *path);

/* Returns true if packets may come for the QP. */
bool wired_needs_receiver(const struct qp *qp);

/*
 * Sends the datagram @w on such a path. A packet that cannot be sent is lost, which a line tells
 * once.
 */
void wired_send_datagram(const struct qp *qp, const struct wqe *w, const struct qp_attr *path);

/* Sends what is posted. */
void wired_send(struct qp *qp);

/*
 * Returns true if the own QP has posted more than wired_send() has seen; a hint without the mutex.
 */
bool wired_behind(const struct qp *qp, uint32_t pi);

/* State SQD is not possible: says so, and returns -EOPNOTSUPP. */
int wired_refuse_drain(const struct qp *qp);

/* The QP does not use the wire any more. */
void wired_stop(struct qp *qp);

/*
 * A packet whose ICRC is right, which has come from f->src to f->dst: @p as decoded, and its
 * payload. If it is one for a QP from its peer, executes it and returns the QP; else NULL. The
 * acknowledgement may wait for wired_acknowledge().
 */
struct qp *wired_packet(const struct flow *f, const struct packet *p, const uint8_t *payload);

/* Also returns when the QP's timer is due; 0: never. */
uint64_t wired_acknowledge(struct qp *qp);

/*
 * Serves the timers of all QPs on the wire that are due at @now, up to which all packets that had
 * come have been given to wired_packet(): a machine that is busy elsewhere does not make a peer
 * late. Returns the time at which to call it again, if no packet comes before.
 */
uint64_t wired_tick(uint64_t now);

/* A process has died: finishes what it has begun. */
void wired_recover(void);

#endif
