/* SPDX-License-Identifier: MIT */
/*
 * Unreliable datagrams: each has its own path. A datagram is dropped silently for every
 * error except those of the sender.
 */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "hca/objects.h"
#include "xport/complete.h"
#include "xport/counts.h"
#include "xport/qp.h"
#include "xport/responder.h"
#include "xport/wired.h"

#define AV_HAS_GRH (1u << 30)
#define AV_SGID(word) ((word) >> 20 & 0xff)

#define AV_FLOW_LABEL 0xfffffu
#define NEXT_HDR_IBA 0x1b
#define TRANSPORT_BYTES (12u + 8 + 4) /* BTH, DETH, ICRC */
#define UDP_BYTES 8u
#define IPV4_DONT_FRAGMENT 0x4000
#define IPV4_BYTES 20u
#define GID_IPV4 12 /* offset of the address in an IPv4-mapped GID */

/* The header before the payload: a GRH, or RoCE v2's IPv6 header, which has the same layout. */
struct grh {
	uint32_t version_tclass_flow;
	uint16_t paylen;
	uint8_t next_hdr;
	uint8_t hop_limit;
	uint8_t sgid[16];
	uint8_t dgid[16];
};

/* RoCE v2's IPv4 header, in the last of the 40 bytes. The bytes before it are undefined. */
struct grh_ipv4 {
	uint8_t unused[20];
	uint8_t version_ihl;
	uint8_t tos;
	uint16_t total_length;
	uint16_t id;
	uint16_t fragment;
	uint8_t ttl;
	uint8_t protocol;
	uint16_t checksum;
	uint8_t saddr[4];
	uint8_t daddr[4];
};

_Static_assert(sizeof(struct grh) == GRH_BYTES, "GRH");
_Static_assert(sizeof(struct grh_ipv4) == GRH_BYTES, "GRH that holds an IPv4 header");

/*
 * On Ethernet every packet has a GRH: the bit for it is reserved there, and the field of the
 * LID holds the UDP source port.
 */
struct qp_attr datagram_path(const struct qp *qp, const struct wqe_av *av)
{
	bool roce = arena()->topo.rails[qp_rail(qp)].link == SOFTHCA_LINK_ROCE;
	struct qp_attr path = {.dlid = roce ? 0 : be16toh(av->rlid), .sl = av->stat_rate_sl & 0xf};

	if (be32toh(av->dqp_dct) & WQE_AV_EXTENDED) {
		uint32_t word = be32toh(av->grh_gid_fl);

		path.is_global = roce || (word & AV_HAS_GRH);
		path.sgid_index = AV_SGID(word);
		path.hop_limit = av->hop_limit;
		path.traffic_class = av->tclass;
		path.flow_label = word & AV_FLOW_LABEL;
		memcpy(path.dgid, av->rgid, sizeof(path.dgid));
	}
	return path;
}

static bool is_ipv4_mapped(const uint8_t *gid)
{
	static const uint8_t prefix[GID_IPV4] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, prefix, sizeof(prefix));
}

static uint16_t ipv4_checksum(const void *header)
{
	uint16_t words[IPV4_BYTES / 2];
	uint32_t sum = 0;

	memcpy(words, header, sizeof(words));
	for (size_t i = 0; i < IPV4_BYTES / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	return (uint16_t)~sum;
}

void datagram_ipv4_header(uint8_t *out, const uint8_t *sgid, const struct qp_attr *path,
	uint64_t len)
{
	uint64_t padded = TRANSPORT_BYTES + ((len + 3) & ~3ull);
	struct grh_ipv4 h = {
		.version_ihl = 4 << 4 | IPV4_BYTES / 4,
		.tos = path->traffic_class,
		.total_length = htobe16((uint16_t)(IPV4_BYTES + UDP_BYTES + padded)),
		.fragment = htobe16(IPV4_DONT_FRAGMENT),
		.ttl = path->hop_limit,
		.protocol = IPPROTO_UDP,
	};

	memcpy(h.saddr, sgid + GID_IPV4, sizeof(h.saddr));
	memcpy(h.daddr, path->dgid + GID_IPV4, sizeof(h.daddr));
	h.checksum = ipv4_checksum(&h.version_ihl);
	memcpy(out, &h, sizeof(h));
}

/*
 * Makes the 40 bytes before the payload. An adapter does not write them if there is no GRH;
 * zeros expose a program that reads them anyway. Returns the completion's flags.
 */
static uint32_t make_grh(uint8_t *out, const struct qp *qp, const struct qp_attr *path,
	uint64_t len)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	const uint8_t *sgid = rail->gids[path->sgid_index < rail->ngids ? path->sgid_index : 0];
	bool roce = rail->link == SOFTHCA_LINK_ROCE;
	uint64_t padded = TRANSPORT_BYTES + ((len + 3) & ~3ull);
	struct grh g = {
		.version_tclass_flow =
			htobe32(6u << 28 | (uint32_t)path->traffic_class << 20 | path->flow_label),
		.paylen = htobe16((uint16_t)(padded + (roce ? UDP_BYTES : 0))),
		.next_hdr = roce ? IPPROTO_UDP : NEXT_HDR_IBA,
		.hop_limit = path->hop_limit,
	};

	memset(out, 0, GRH_BYTES);
	if (!path->is_global)
		return CQE_SL(path->sl);
	if (roce && is_ipv4_mapped(sgid) && is_ipv4_mapped(path->dgid)) {
		datagram_ipv4_header(out, sgid, path, len);
		return CQE_ROCE_IPV4;
	}
	memcpy(g.sgid, sgid, sizeof(g.sgid));
	memcpy(g.dgid, path->dgid, sizeof(g.dgid));
	memcpy(out, &g, sizeof(g));
	return roce ? CQE_ROCE_IPV6 : CQE_GRH | CQE_SL(path->sl);
}

static bool qkey_matches(const struct qp *qp, const struct qp *dest, const struct wqe_av *av)
{
	uint32_t qkey = be32toh(av->qkey);

	/* If the top bit is set, the Q_Key of the sender's QP is used. */
	return dest->attr.qkey == (qkey & 0x80000000u ? qp->attr.qkey : qkey);
}

/* Returns false if the receives are busy and the caller has to wait. */
static bool deliver(struct qp *dest, struct qp *qp, struct wqe *w, const struct qp_attr *path)
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
	flags = make_grh(grh, qp, path, w->length);
	src[0] = (struct dma_seg){fabric_self.slot, (uintptr_t)grh, sizeof(grh)};
	memcpy(src + 1, w->segs, w->nsegs * sizeof(w->segs[0]));
	if (!dma_copy(NULL, rx.segs, rx.nsegs, src, w->nsegs + 1, &at_dest))
		complete_datagram(dest, &rx, qp, w, flags);
	return true;
}

struct answer respond_datagram(struct qp *qp, struct wqe *w)
{
	struct qp_attr path = datagram_path(qp, w->av);
	struct qp *dest = qp_by_number(be32toh(w->av->dqp_dct) & 0xffffff);

	if (w->length > arena()->topo.rails[qp_rail(qp)].mtu)
		return (struct answer){.verdict = V_ERROR, .syndrome = SYN_LOCAL_LENGTH};
	if (dest && dest->type == QPT_UD && qp_receives(dest) &&
		path_leads_to(&path, qp_rail(qp), dest) && qkey_matches(qp, dest, w->av) &&
		fabric_reachable(dest->obj.owner))
		return (struct answer){.verdict = deliver(dest, qp, w, &path) ? V_DONE : V_BUSY};
	if (wired_leads_out(qp, &path))
		wired_send_datagram(qp, w, &path);
	return (struct answer){.verdict = V_DONE};
}
