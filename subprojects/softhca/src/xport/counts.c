/* SPDX-License-Identifier: MIT */
#include "xport/counts.h"

#include <string.h>

#include "fabric/tally.h"
#include "hca/objects.h"
#include "xport/address.h"

static struct port_counts *counts_of(const struct qp *qp)
{
	return &tally()->ports[qp_rail(qp)];
}

static uint64_t packets_of(const struct qp *qp, uint64_t bytes)
{
	uint32_t log = qp->attr.path_mtu ? 7u + qp->attr.path_mtu : 12; /* 4096 bytes */

	return bytes ? ((bytes - 1) >> log) + 1 : 1;
}

static void count_request(struct port_counts *c, uint8_t opcode)
{
	if (opcode == OP_WRITE || opcode == OP_WRITE_IMM)
		c->writes++;
	else if (opcode == OP_READ)
		c->reads++;
	else if (opcode == OP_ATOMIC_CS || opcode == OP_ATOMIC_FA)
		c->atomics++;
}

/* Counts a message to @peer, which is NULL if the fabric does not have the receiver. */
__attribute__((always_inline)) static inline void count(const struct qp *qp, const struct wqe *w,
	const struct qp *peer)
{
	struct port_counts *ports = tally()->ports, *from = &ports[qp_rail(qp)];
	struct port_counts *to = peer ? &ports[qp_rail(peer)] : NULL;
	uint64_t packets = packets_of(qp, w->length);

	if (to)
		count_request(to, w->opcode);
	if (w->opcode == OP_READ) {
		struct port_counts *self = from;

		from = to;
		to = self;
	}
	if (from) {
		from->tx_bytes += w->length;
		from->tx_packets += packets;
	}
	if (to) {
		to->rx_bytes += w->length;
		to->rx_packets += packets;
	}
}

__attribute__((noinline)) static void count_datagram(const struct qp *qp, const struct wqe *w)
{
	count(qp, w, datagram_receiver(qp, w));
}

/* For a QP with a connection, no function is called: counts_message() is part of each message. */
void counts_message(const struct qp *qp, const struct wqe *w)
{
	if (qp->type == QPT_UD)
		count_datagram(qp, w);
	else
		count(qp, w, qp_by_number(qp->attr.dest_qpn));
}

void counts_no_receive(const struct qp *dest)
{
	counts_of(dest)->no_receives++;
}

void counts_bad_pkeys(const struct qp *dest, uint64_t packets)
{
	counts_of(dest)->bad_pkeys += packets;
}

uint64_t counts_request_packets(const struct qp *qp, const struct wqe *w)
{
	return w->opcode == OP_READ ? 1 : packets_of(qp, w->length);
}

void counts_rnr_retry(const struct qp *qp)
{
	counts_of(qp)->rnr_retries++;
}

void counts_timeout_retry(const struct qp *qp)
{
	counts_of(qp)->timeout_retries++;
}

void counts_wired(const struct qp *qp, struct wire_counts *n)
{
	struct softhca_counters *process = counters_of(qp->obj.owner);
	struct port_counts *port = counts_of(qp);

	port->writes += n->writes;
	port->reads += n->reads;
	port->atomics += n->atomics;
	port->no_receives += n->no_receives;
	port->rnr_retries += n->rnr_retries;
	port->timeout_retries += n->timeout_retries;
	process->rnr_naks += n->rnr_naks;
	process->retries += n->timeouts;
	memset(n, 0, sizeof(*n));
}

void counts_pause(const struct qp *qp, const struct wqe *w, uint64_t ns)
{
	const struct qp *peer = message_receiver(qp, w);

	counts_of(qp)->rx_pause_ns += ns;
	if (peer)
		counts_of(peer)->tx_pause_ns += ns;
}
