/* SPDX-License-Identifier: MIT */
#include "xport/address.h"

#include <endian.h>
#include <string.h>

#include "packet/packet.h"

#define AV_HAS_GRH (1u << 30)
#define AV_SGID(word) ((word) >> 20 & 0xff)
#define AV_FLOW_LABEL 0xfffffu

/*
 * With RoCE every address is global: the AV's bit for a GRH is reserved, and the AV's field for the
 * LID contains the UDP source port.
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

struct qp *datagram_receiver(const struct qp *qp, const struct wqe *w)
{
	struct qp_attr path;
	struct qp *dest;

	if (!w->av)
		return NULL;
	path = datagram_path(qp, w->av);
	dest = qp_by_number(be32toh(w->av->dqp_dct) & QPN_MASK);
	if (!dest || dest->type != QPT_UD)
		return NULL;
	return path_names(&path, qp_rail(qp), qp_rail(dest)) ? dest : NULL;
}
