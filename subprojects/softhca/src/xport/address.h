/* SPDX-License-Identifier: MIT */
/* The port and the QP to which a message is addressed. */
#ifndef SOFTHCA_XPORT_ADDRESS_H
#define SOFTHCA_XPORT_ADDRESS_H

#include "hca/objects.h"
#include "hca/wqe.h"

/*
 * Returns true if the address of @path is that of the port of @to_rail, and @rail has the same kind
 * of link. A port drops packets with a GRH whose GID it does not have, whatever their LID.
 */
__attribute__((always_inline)) static inline bool path_names(const struct qp_attr *path,
	uint32_t rail, uint32_t to_rail)
{
	const struct softhca_topology *t = &arena()->topo;
	const struct softhca_rail *to = &t->rails[to_rail];

	if (t->rails[rail].link != to->link)
		return false;
	if (path->is_global)
		return softhca_rail_has_gid(to, path->dgid);
	return to->link != SOFTHCA_LINK_ROCE && path->dlid == to->lid;
}

/* Returns the path of a datagram with the address vector @av. */
struct qp_attr datagram_path(const struct qp *qp, const struct wqe_av *av);

/* Returns the UD QP of this fabric to which the datagram is addressed, or NULL. */
struct qp *datagram_receiver(const struct qp *qp, const struct wqe *w);

/* Returns the QP of this fabric that the message is for, also if a link is down, or NULL. */
static inline struct qp *message_receiver(const struct qp *qp, const struct wqe *w)
{
	return qp->type == QPT_UD ? datagram_receiver(qp, w) : qp_by_number(qp->attr.dest_qpn);
}

#endif
