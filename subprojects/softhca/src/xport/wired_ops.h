/* SPDX-License-Identifier: MIT */
/*
 * Implements the requester's and the responder's half of struct wire_ops with the queues of a QP.
 * The caller must hold the fabric's mutex.
 */
#ifndef SOFTHCA_XPORT_WIRED_OPS_H
#define SOFTHCA_XPORT_WIRED_OPS_H

#include "hca/objects.h"
#include "hca/wqe.h"
#include "packet/frame.h"
#include "wire/wire.h"

/* The argument of all operations: the QP, and the WQE that was read last. */
struct call {
	struct qp *qp;
	struct wired *wd;
	bool has; /* w is the WQE of message `number` */
	uint32_t number;
	struct wqe w;
};

static inline struct wired *wired_of(const struct qp *qp)
{
	return &arena()->wired[qp_index(qp)];
}

/* Requester; see struct wire_ops. */
int wired_message(void *arg, uint32_t n, struct wire_message *m);
int wired_gather(void *arg, uint32_t n, uint32_t offset, void *out, uint32_t len);
int wired_scatter(void *arg, uint32_t n, uint32_t offset, const void *bytes, uint32_t len);
int wired_complete(void *arg, uint32_t n, enum wire_status status, const struct wire_step *s);

/* Ends the oldest message, which cannot be sent, with the syndrome wd->bad. */
void wired_fail_bad(struct call *c);

/* Responder. */
void wired_commit(void *arg, const struct wire_step *s);
int wired_access(void *arg, enum packet_operation op, uint64_t raddr, uint32_t rkey, uint32_t len);
int wired_place(void *arg, uint64_t raddr, uint32_t rkey, const void *bytes, uint32_t len);
int wired_fetch(void *arg, uint64_t raddr, uint32_t rkey, void *out, uint32_t len);
int wired_recv_ready(void *arg);
int wired_recv_place(void *arg, uint32_t offset, const void *bytes, uint32_t len);
void wired_recv_complete(void *arg, const struct wire_arrival *a, const struct wire_step *s);
int wired_atomic(void *arg, const struct packet *p, uint64_t *original, const struct wire_step *s);
void wired_refused(void *arg, enum aeth_syndrome nak);

/*
 * Sends a packet of @qp to f->dst, with the QP's P_Key and the source port of this process. Writes
 * the source port to @f.
 */
void wired_emit(const struct qp *qp, struct flow *f, const struct packet *p, const void *payload);

/* Prints on standard error why a peer cannot be reached. Returns @r. */
int wired_refuse(const struct qp *qp, int r, const char *why);

/* Returns true if both GIDs are IPv4 addresses, or both IPv6; if not, prints a line. */
bool wired_same_family(const struct qp *qp, const uint8_t *sgid, const uint8_t *dgid);

/* Delivers a datagram that has arrived for @qp, or drops it. */
void wired_datagram(struct qp *qp, const struct flow *f, const struct packet *p,
	const uint8_t *payload);

/* Writes the new value of an executed atomic, which @wd contains, to memory, if there is one.
 * Returns 0 or -errno. */
int wired_finish_atomic(struct wired *wd);

#endif
