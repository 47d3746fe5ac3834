/* SPDX-License-Identifier: MIT */
/* Unreliable datagrams: each finds its own way, and any trouble but the sender's own
 * loses it silently. */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "hca/objects.h"
#include "hca/qp.h"
#include "xport/complete.h"
#include "xport/responder.h"

#define GRH_BYTES 40
#define AV_HAS_GRH (1u << 30)
#define AV_SGID(word) ((word) >> 20 & 0xff)

/* What RoCE and IB put before the payload; receivers read the two GIDs at its end. */
struct grh {
	uint32_t version_tclass_flow;
	uint16_t paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	uint8_t sgid[16];
	uint8_t dgid[16];
};

/*
 * On Ethernet every packet has a GRH: the bit that says so elsewhere is reserved, and
 * the LID's place holds the UDP source port.
 */
static struct qp_attr path_of(const struct qp *qp, const struct wqe_av *av)
{
	bool roce = arena()->topo.rails[qp_rail(qp)].link == SOFTHCA_LINK_ROCE;
	struct qp_attr path = {.dlid = roce ? 0 : be16toh(av->rlid)};

	if (be32toh(av->dqp_dct) & WQE_AV_EXTENDED) {
		uint32_t word = be32toh(av->grh_gid_fl);

		path.is_global = roce || (word & AV_HAS_GRH);
		path.sgid_index = AV_SGID(word);
		path.hop_limit = av->hop_limit;
		memcpy(path.dgid, av->rgid, sizeof(path.dgid));
	}
	return path;
}

static struct grh make_grh(const struct qp *qp, const struct qp_attr *path, uint64_t len)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	uint32_t sgid = path->sgid_index < rail->ngids ? path->sgid_index : 0;
	struct grh g = {
		.version_tclass_flow = htobe32(6u << 28),
		.paylen = htobe16((uint16_t)len),
		.next_hdr = 0x1b,
		.hop_limit = path->hop_limit,
	};

	memcpy(g.sgid, rail->gids[sgid], sizeof(g.sgid));
	memcpy(g.dgid, path->dgid, sizeof(g.dgid));
	return g;
}

static bool qkey_matches(const struct qp *qp, const struct qp *dest, const struct wqe_av *av)
{
	uint32_t qkey = be32toh(av->qkey);

	/* With the top bit set the sender's own key is meant. */
	return dest->attr.qkey == (qkey & 0x80000000u ? qp->attr.qkey : qkey);
}

/* Returns false if the receives have to be waited for. */
static bool deliver(struct qp *dest, struct qp *qp, struct wqe *w, const struct qp_attr *path)
{
	struct grh grh = make_grh(qp, path, w->length);
	struct dma_seg src[WQE_MAX_UNITS + 1];
	bool at_dest;
	struct recv rx;
	int r = recv_peek(dest, &rx);

	if (r)
		return r != -EBUSY;
	if (!recv_decode(dest, &rx)) {
		complete_recv_error(dest, &rx, SYN_LOCAL_PROT);
		qp_to_error(dest);
		return true;
	}
	if (rx.capacity < w->length + GRH_BYTES) {
		complete_recv_error(dest, &rx, SYN_LOCAL_LENGTH);
		qp_to_error(dest);
		return true;
	}
	src[0] = (struct dma_seg){fabric_self.slot, (uintptr_t)&grh, sizeof(grh)};
	memcpy(src + 1, w->segs, w->nsegs * sizeof(w->segs[0]));
	if (!dma_copy(NULL, rx.segs, rx.nsegs, src, w->nsegs + 1, &at_dest))
		complete_recv(dest, &rx, qp, w, (uint32_t)w->length + GRH_BYTES);
	return true;
}

struct answer respond_datagram(struct qp *qp, struct wqe *w)
{
	struct qp_attr path = path_of(qp, w->av);
	struct qp *dest = qp_by_number(be32toh(w->av->dqp_dct) & 0xffffff);

	if (w->length > arena()->topo.rails[qp_rail(qp)].mtu)
		return (struct answer){.verdict = V_ERROR, .syndrome = SYN_LOCAL_LENGTH};
	if (dest && dest->type == QPT_UD && qp_receives(dest) &&
		path_leads_to(&path, qp_rail(qp), dest) && qkey_matches(qp, dest, w->av) &&
		fabric_reachable(dest->obj.owner) && !deliver(dest, qp, w, &path))
		return (struct answer){.verdict = V_BUSY};
	return (struct answer){.verdict = V_DONE};
}
