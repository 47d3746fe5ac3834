/* SPDX-License-Identifier: MIT */
/*
 * Unreliable datagrams: each work request has its own address vector (AV).
 *
 * An error of the sender ends the work request with an error; its memory is read only if there is a
 * receive. If the next receive of the destination is not valid, is too short or has no memory, the
 * receive completes with an error, and the QP of the destination moves to ERR. In all other cases a
 * datagram that cannot be delivered is dropped silently.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "hca/objects.h"
#include "hca/strict.h"
#include "xport/complete.h"
#include "xport/counts.h"
#include "xport/qp.h"
#include "xport/responder.h"
#include "xport/wired.h"

#define NEXT_HDR_IBA 0x1b

/* The header before the payload on InfiniBand. */
struct grh {
	uint32_t version_tclass_flow;
	uint16_t paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	uint8_t sgid[16];
	uint8_t dgid[16];
};

_Static_assert(sizeof(struct grh) == GRH_BYTES, "GRH");

uint32_t datagram_roce_header(uint8_t *out, const struct flow *f, uint8_t opcode, uint64_t len)
{
	uint8_t ip[GRH_BYTES];
	size_t n = frame_ip_header(f, ip, packet_header_bytes(opcode) + ((len + 3) & ~3ull));

	memset(out, 0, GRH_BYTES);
	memcpy(out + GRH_BYTES - n, ip, n);
	return n == GRH_BYTES ? CQE_ROCE_IPV6 : CQE_ROCE_IPV4;
}

/*
 * Makes the 40 bytes before the payload. An adapter does not write them if there is no GRH;
 * zeros expose a program that reads them anyway. Returns the completion's flags.
 */
static uint32_t make_grh(uint8_t *out, const struct qp *qp, const struct qp_attr *path,
	const struct wqe *w)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	const uint8_t *sgid = rail->gids[path->sgid_index < rail->ngids ? path->sgid_index : 0];
	uint8_t opcode = PT_UD | (w->opcode == OP_SEND_IMM ? PO_SEND_ONLY_IMM : PO_SEND_ONLY);
	uint64_t padded = packet_header_bytes(opcode) + ((w->length + 3) & ~3ull) + ICRC_BYTES;
	struct flow f = {.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit,
		.flow_label = path->flow_label};
	struct grh g = {
		.version_tclass_flow =
			htobe32(6u << 28 | (uint32_t)path->traffic_class << 20 | path->flow_label),
		.paylen = htobe16((uint16_t)padded),
		.next_hdr = NEXT_HDR_IBA,
		.hop_limit = path->hop_limit,
	};

	memset(out, 0, GRH_BYTES);
	if (!path->is_global)
		return CQE_SL(path->sl);
	if (rail->link == SOFTHCA_LINK_ROCE) {
		memcpy(f.src, sgid, sizeof(f.src));
		memcpy(f.dst, path->dgid, sizeof(f.dst));
		return datagram_roce_header(out, &f, opcode, w->length);
	}
	memcpy(g.sgid, sgid, sizeof(g.sgid));
	memcpy(g.dgid, path->dgid, sizeof(g.dgid));
	memcpy(out, &g, sizeof(g));
	return CQE_GRH | CQE_SL(path->sl);
}

void datagram_receive_failed(struct qp *dest, const struct recv *rx, enum syndrome s)
{
	qp_begin_error(dest);
	complete_recv_error(dest, rx, s);
	qp_to_error(dest);
}

bool datagram_fits(struct qp *dest, struct recv *rx, uint64_t length)
{
	enum syndrome s = SYN_NONE;

	if (!recv_decode(dest, rx))
		s = SYN_LOCAL_PROT;
	else if (rx->capacity < length)
		s = SYN_LOCAL_LENGTH;
	if (!s)
		return true;
	datagram_receive_failed(dest, rx, s);
	return false;
}

static bool qkey_matches(const struct qp *qp, const struct qp *dest, const struct wqe_av *av)
{
	uint32_t qkey = be32toh(av->qkey);

	/* If the top bit is set, the Q_Key of the sender's QP is used. */
	return dest->attr.qkey == (qkey & 0x80000000u ? qp->attr.qkey : qkey);
}

static struct answer sent(void)
{
	return (struct answer){.verdict = V_DONE};
}

static struct answer unreadable(const struct qp *qp)
{
	strict_unmapped(qp);
	return (struct answer){.verdict = V_ERROR, .syndrome = SYN_LOCAL_PROT};
}

/* Returns the answer after the copy of a datagram has failed with the error @r. */
static struct answer copy_failed(int r, bool at_dest, struct qp *dest, const struct recv *rx,
	const struct qp *qp)
{
	if (r != -EFAULT)
		return sent(); /* the receiver has ended, or the system forbids access to it */
	if (!at_dest)
		return unreadable(qp);
	strict_unmapped(dest);
	datagram_receive_failed(dest, rx, SYN_LOCAL_PROT);
	return sent();
}

/*
 * The receive queue may be in use, for example by a copy into the next receive. Then the caller
 * must try again later.
 */
static struct answer deliver(struct qp *dest, struct qp *qp, struct wqe *w,
	const struct qp_attr *path)
{
	uint8_t grh[GRH_BYTES];
	struct dma_seg src[WQE_MAX_UNITS + 1];
	bool at_dest;
	struct recv rx;
	uint32_t flags;
	int r = recv_peek(dest, &rx);

	if (r == -EAGAIN)
		counts_no_receive(dest);
	if (r)
		return r == -EBUSY ? (struct answer){.verdict = V_BUSY} : sent();
	if (!datagram_fits(dest, &rx, w->length + GRH_BYTES))
		return sent();
	flags = make_grh(grh, qp, path, w);
	src[0] = (struct dma_seg){fabric_self.slot, 0, (uintptr_t)grh, sizeof(grh)};
	memcpy(src + 1, w->segs, w->nsegs * sizeof(w->segs[0]));
	r = dma_copy(NULL, rx.segs, rx.nsegs, src, w->nsegs + 1, &at_dest);
	if (r)
		return copy_failed(r, at_dest, dest, &rx, qp);
	complete_datagram(dest, &rx, qp, w, flags);
	return sent();
}

bool datagram_goes_out(const struct qp *qp, const struct wqe *w)
{
	struct qp_attr path;

	if (!arena()->topo.rails[qp_rail(qp)].udp)
		return false;
	path = datagram_path(qp, w->av);
	return wired_leads_out(qp, &path);
}

struct answer respond_datagram(struct qp *qp, struct wqe *w)
{
	struct qp_attr path = datagram_path(qp, w->av);
	struct qp *dest = qp_by_number(be32toh(w->av->dqp_dct) & 0xffffff);

	if (w->length > arena()->topo.rails[qp_rail(qp)].mtu)
		return (struct answer){.verdict = V_ERROR, .syndrome = SYN_LOCAL_LENGTH};
	if (dest && dest->type == QPT_UD && qp_receives(dest) &&
		path_leads_to(&path, qp_rail(qp), dest) && fabric_reachable(dest->obj.owner) &&
		in_partition(qp, dest, w) && qkey_matches(qp, dest, w->av))
		return deliver(dest, qp, w, &path);
	if (wired_leads_out(qp, &path) && wired_send_datagram(qp, w, &path))
		return unreadable(qp);
	return sent();
}
