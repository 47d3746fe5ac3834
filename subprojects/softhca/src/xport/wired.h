/* SPDX-License-Identifier: MIT */
/*
 * QPs whose peer is in another fabric (QPs "on the wire"). RC QPs use the protocol of wire/wire.h,
 * UD QPs send single packets. Any process of the fabric may call these functions for any QP. The
 * caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_WIRED_H
#define SOFTHCA_XPORT_WIRED_H

#include <stdint.h>

#include "fabric/arena.h"
#include "hca/wqe.h"
#include "packet/frame.h"
#include "packet/packet.h"
#include "xport/udp.h"

/*
 * Must be called when the QP has got the attributes of RTR: prepares it if its peer is reached by
 * packets. Returns 0 or an error of reserve_object(). If the peer cannot be reached, prints the
 * reason on standard error and returns -EOPNOTSUPP, -EMSGSIZE (the path MTU), -ENETUNREACH or
 * others.
 */
int wired_receive_from(struct qp *qp);

/* Must be called when a QP on the wire has got the attributes of RTS. */
void wired_send_from(struct qp *qp);

/* Must be called when the min_rnr_timer of a QP changes while `wired` is set. */
void wired_set_rnr_timer(struct qp *qp);

/* Returns true if the QP's adapter has udp=on (softhca(7)) and @path leads to another fabric. */
bool wired_leads_out(const struct qp *qp, const struct qp_attr *path);

/* Returns true if packets may arrive for the QP. */
bool wired_needs_receiver(const struct qp *qp);

/*
 * Sends the datagram @w along @path, which must lead to another fabric (wired_leads_out()). A
 * packet that cannot be sent is lost. Returns -EFAULT if the payload cannot be read, else 0.
 */
int wired_send_datagram(const struct qp *qp, const struct wqe *w, const struct qp_attr *path);

/* Sends the posted requests. */
void wired_send(struct qp *qp);

/*
 * Returns true if the QP of this process has posted more than wired_send() has seen. The result is
 * a hint; the mutex is not needed.
 */
bool wired_behind(const struct qp *qp, uint32_t pi);

/* Prints that state SQD is not possible, and returns -EOPNOTSUPP. */
int wired_refuse_drain(const struct qp *qp);

/* Must be called when the QP does not use the wire any more. */
void wired_stop(struct qp *qp);

/*
 * Handles the packet @p, which was sent from f->src to f->dst and has a valid ICRC. If a QP accepts
 * it from this sender, executes the packet and returns the QP; else returns NULL. This function
 * sends NAKs and responses; wired_acknowledge() sends the acknowledgements.
 */
struct qp *wired_packet(const struct flow *f, const struct packet *p, const uint8_t *payload);

/*
 * Sends the acknowledgements that are due. Returns the time at which the QP's timer is due; 0:
 * never.
 */
uint64_t wired_acknowledge(struct qp *qp);

/*
 * Serves the timers of all QPs on the wire that are due at @now. All packets that have arrived
 * until @now must have been passed to wired_packet() before: otherwise the peer's answers, unread
 * because the machine is busy, would count as missing. Returns the time at which this function must
 * be called again if no packet arrives before.
 */
uint64_t wired_tick(uint64_t now);

/*
 * Sends the packet that a fault rule has made late, if it is due at @now. The adapter's thread of
 * each process must call this. Returns the time at which the packet is due; 0: there is none.
 */
uint64_t wired_serve_late(uint64_t now);

/* Must be called in a forked child. Forgets the late packet and the sockets of its parent. */
void wired_forget(void);

/* Returns the size of the largest RC packet along @f with this MTU, an enum ibv_mtu. */
uint32_t wired_packet_bytes(const struct flow *f, uint32_t mtu);

/* Sends a packet to f->dst with the source port of this process. Writes the source port to @f. */
void wired_emit_from(const struct udp_end *from, struct flow *f, const struct packet *p,
	const void *payload);

/* Counts a packet that has arrived and was accepted, and captures it. */
void wired_received(const struct udp_end *to, const struct flow *f, const struct packet *p,
	const uint8_t *payload);

/*
 * Must be called after a holder of the mutex has died or was stopped: completes the atomics that
 * the holder has begun, and moves to ERR the QPs that the holder was about to move there.
 */
void wired_recover(void);

#endif
