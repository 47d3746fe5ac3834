/* SPDX-License-Identifier: MIT */
/*
 * Datagrams to and from other hosts. Each datagram has its own path. As within a fabric, memory that
 * cannot be accessed is an error of its owner; after any other error the datagram is dropped.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "xport/complete.h"
#include "xport/counts.h"
#include "xport/qp.h"
#include "xport/recv.h"
#include "xport/responder.h"
#include "xport/wired.h"
#include "xport/wired_ops.h"

#define QKEY_OF_QP 0x80000000u /* in an address vector's qkey: the sender's QP's Q_Key is used */

int wired_send_datagram(const struct qp *qp, const struct wqe *w, const struct qp_attr *path)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	const uint8_t *sgid = rail->gids[path->sgid_index < rail->ngids ? path->sgid_index : 0];
	uint32_t qkey = be32toh(w->av->qkey);
	bool imm = w->opcode == OP_SEND_IMM;
	uint8_t payload[PACKET_PAYLOAD_MAX];
	struct flow f = {.hop_limit = FRAME_HOP_LIMIT};
	struct packet p = {.opcode = PT_UD | (imm ? PO_SEND_ONLY_IMM : PO_SEND_ONLY),
		.solicited = w->solicited,
		.dest_qpn = be32toh(w->av->dqp_dct) & QPN_MASK,
		.psn = (qp->attr.sq_psn + qp->sq_done) & PSN_MASK,
		.qkey = qkey & QKEY_OF_QP ? qp->attr.qkey : qkey,
		.src_qpn = qp->qpn,
		.imm = imm ? w->imm : 0,
		.payload = (uint32_t)w->length};

	if (!wired_same_family(qp, sgid, path->dgid))
		return 0;
	if (dma_gather(w->segs, w->nsegs, 0, payload, w->length))
		return -EFAULT;
	memcpy(f.src, sgid, sizeof(f.src));
	memcpy(f.dst, path->dgid, sizeof(f.dst));
	wired_emit(qp, &f, &p, payload);
	return 0;
}

void wired_datagram(struct qp *qp, const struct flow *f, const struct packet *p,
	const uint8_t *payload)
{
	struct wire_arrival a = {.has_imm = packet_traits(p->opcode) & PK_IMM,
		.solicited = p->solicited,
		.imm = p->imm,
		.length = p->payload + GRH_BYTES};
	uint8_t header[GRH_BYTES];
	uint32_t flags;
	struct recv rx;
	int r;

	if (PACKET_TRANSPORT(p->opcode) != PT_UD || p->qkey != qp->attr.qkey)
		return;
	r = recv_peek(qp, &rx);
	if (r == -EAGAIN)
		counts_no_receive(qp);
	if (r)
		return;
	if (!datagram_fits(qp, &rx, a.length))
		return;
	flags = datagram_roce_header(header, f, p->opcode, p->payload);
	r = dma_scatter(rx.segs, rx.nsegs, 0, header, GRH_BYTES);
	if (!r)
		r = dma_scatter(rx.segs, rx.nsegs, GRH_BYTES, payload, p->payload);
	if (!r)
		complete_arrival(qp, &rx, &a, p->src_qpn | flags, NULL);
	else if (r == -EFAULT)
		datagram_receive_failed(qp, &rx, SYN_LOCAL_PROT);
}
