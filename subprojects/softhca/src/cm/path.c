/* SPDX-License-Identifier: MIT */
#include "cm/path.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "cm/remote.h"
#include "fabric/fabric.h"
#include "hca/port.h"
#include "hca/qp_attrs.h"

#define PORT 1
#define HOP_LIMIT 64 /* of RoCE v2 */
#define ACK_TIMEOUT 18 /* 1.07 s: the kernel's packet life time, 17, plus the adapter's delay */
#define RATE_200G 15 /* IBV_RATE_200_GBPS */
#define ACCESS_REMOTE_WRITE 2u
#define ACCESS_REMOTE_READ 4u
#define ACCESS_REMOTE_ATOMIC 8u

static const struct softhca_rail *rail_of(const struct cm_id *id)
{
	return &arena()->topo.rails[id->rail];
}

static bool is_roce(const struct cm_id *id)
{
	return rail_of(id)->link == SOFTHCA_LINK_ROCE;
}

bool cm_has_path(const struct cm_id *id)
{
	return id->state >= CM_ADDR_RESOLVED && id->rail != NO_INDEX;
}

const uint8_t *cm_src_gid(const struct cm_id *id)
{
	return id->rail == NO_INDEX ? NULL : rail_of(id)->gids[id->gid];
}

const uint8_t *cm_dst_gid(const struct cm_id *id)
{
	if (!cm_has_path(id))
		return NULL;
	return cm_is_away(id) ? id->away.gid : arena()->topo.rails[id->dst_rail].gids[id->dst_gid];
}

uint16_t cm_pkey(const struct cm_id *id)
{
	return id->rail == NO_INDEX ? 0xffff : rail_of(id)->pkeys[0];
}

static uint16_t lid_of(uint32_t rail)
{
	return arena()->topo.rails[rail].lid;
}

static bool is_global(const struct cm_id *id)
{
	return is_roce(id) || rail_of(id)->grh_required;
}

/* Returns the smaller MTU of the two ends, as enum ibv_mtu. */
static uint8_t path_mtu(const struct cm_id *id)
{
	uint32_t a = rail_of(id)->mtu, b = arena()->topo.rails[id->dst_rail].mtu;

	return cm_is_away(id) ? (uint8_t)id->away.mtu : port_mtu_code(a < b ? a : b);
}

uint8_t cm_ack_timeout(const struct cm_id *id)
{
	return (uint8_t)(id->ack_timeout ? id->ack_timeout : ACK_TIMEOUT);
}

void cm_ah_attr(const struct cm_id *id, struct ib_uverbs_ah_attr *a)
{
	*a = (struct ib_uverbs_ah_attr){
		.grh = {.sgid_index = (uint8_t)id->gid,
			.hop_limit = HOP_LIMIT,
			.traffic_class = (uint8_t)id->tos},
		.dlid = lid_of(id->dst_rail),
		.is_global = is_global(id),
		.port_num = PORT,
	};
	memcpy(a->grh.dgid, cm_dst_gid(id), sizeof(a->grh.dgid));
}

void cm_path_unpacked(const struct cm_id *id, struct ib_user_path_rec *p)
{
	*p = (struct ib_user_path_rec){
		.dlid = htobe16(lid_of(id->dst_rail)),
		.slid = htobe16(lid_of(id->rail)),
		.reversible = 1,
		.mtu = path_mtu(id),
		.pkey = htobe16(cm_pkey(id)),
		.hop_limit = is_global(id) ? HOP_LIMIT : 0,
		.traffic_class = (uint8_t)id->tos,
		.numb_path = 1,
		.mtu_selector = 2, /* exactly */
		.rate_selector = 2,
		.rate = RATE_200G,
		.packet_life_time_selector = 2,
		.packet_life_time = (uint8_t)(cm_ack_timeout(id) - 1),
	};
	memcpy(p->dgid, cm_dst_gid(id), sizeof(p->dgid));
	memcpy(p->sgid, cm_src_gid(id), sizeof(p->sgid));
}

/* A PathRecord as in a MAD. */
struct path_record {
	uint64_t service_id;
	uint8_t dgid[16];
	uint8_t sgid[16];
	uint16_t dlid;
	uint16_t slid;
	uint32_t flow_label_hop_limit;
	uint8_t traffic_class;
	uint8_t reversible_paths;
	uint16_t pkey;
	uint16_t qos_sl;
	uint8_t mtu; /* in mtu, rate and life_time, the two high bits are a selector */
	uint8_t rate;
	uint8_t life_time;
	uint8_t preference;
	uint8_t reserved[6];
};

static_assert(sizeof(struct path_record) == sizeof(((struct ib_path_rec_data *)0)->path_rec),
	"PathRecord");

void cm_path_packed(const struct cm_id *id, struct ib_path_rec_data *p)
{
	struct ib_user_path_rec u;
	struct path_record r;

	cm_path_unpacked(id, &u);
	r = (struct path_record){
		.dlid = u.dlid,
		.slid = u.slid,
		.flow_label_hop_limit = htobe32(u.hop_limit),
		.traffic_class = u.traffic_class,
		.reversible_paths = (uint8_t)(u.reversible << 7 | u.numb_path),
		.pkey = u.pkey,
		.mtu = (uint8_t)(u.mtu_selector << 6 | u.mtu),
		.rate = (uint8_t)(u.rate_selector << 6 | u.rate),
		.life_time = (uint8_t)(u.packet_life_time_selector << 6 | u.packet_life_time),
	};
	memcpy(r.dgid, u.dgid, sizeof(r.dgid));
	memcpy(r.sgid, u.sgid, sizeof(r.sgid));
	p->flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	p->reserved = 0;
	memcpy(p->path_rec, &r, sizeof(r));
}

/* Returns true if this end knows the parameters of the other end's QP. */
static bool is_connected(const struct cm_id *id)
{
	return id->state == CM_REQ_RCVD || id->state == CM_REP_SENT || id->state == CM_REP_RCVD ||
	       id->state == CM_ESTABLISHED;
}

/*
 * Returns the number of the peer's READs and atomics that may be outstanding here: this end's own
 * parameter if its message was sent, else the number that the other end has requested.
 */
static uint8_t responder_resources(const struct cm_id *id)
{
	bool passive = id->listener.serial != 0;

	if (id->state == CM_REQ_SENT || (passive && id->state != CM_REQ_RCVD))
		return id->local.responder_resources;
	return id->remote.initiator_depth;
}

static void to_init(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_state = QPS_INIT;
	a->port_num = PORT;
	a->qp_attr_mask = A_STATE | A_PKEY | A_PORT;
	if (cm_is_ud(id)) {
		a->qkey = CM_UDP_QKEY;
		a->qp_attr_mask |= A_QKEY;
		return;
	}
	a->qp_attr_mask |= A_ACCESS;
	if (id->state < CM_REQ_SENT)
		return;
	a->qp_access_flags = ACCESS_REMOTE_WRITE;
	if (responder_resources(id))
		a->qp_access_flags |= ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;
}

static void to_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	a->qp_attr_mask =
		A_STATE | A_AV | A_MTU | A_DEST_QPN | A_RQ_PSN | A_MAX_DEST_RD | A_MIN_RNR;
	cm_ah_attr(id, &a->ah_attr);
	a->path_mtu = path_mtu(id);
	a->dest_qp_num = id->remote.qpn;
	a->rq_psn = id->remote.psn;
	a->max_dest_rd_atomic = responder_resources(id);
	a->min_rnr_timer = 0; /* 655 ms, the kernel's value */
}

/*
 * The end that requested the connection chooses the retry count of both QPs. Each end chooses the
 * RNR retry count of the other end's QP.
 */
static void to_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *a)
{
	bool passive = id->listener.serial != 0;
	const struct cm_param *asked = passive ? &id->remote : &id->local;

	a->qp_attr_mask = A_STATE | A_SQ_PSN | A_TIMEOUT | A_RETRY | A_RNR_RETRY | A_MAX_RD;
	a->timeout = cm_ack_timeout(id);
	a->retry_cnt = asked->retry_count;
	a->rnr_retry = id->remote.rnr_retry_count;
	a->sq_psn = id->local.psn;
	a->max_rd_atomic = id->remote.responder_resources;
}

int cm_qp_attr(const struct cm_id *id, uint32_t state, struct ib_uverbs_qp_attr *a)
{
	if (id->rail == NO_INDEX)
		return -EINVAL;
	*a = (struct ib_uverbs_qp_attr){.qp_state = state};
	if (state == QPS_INIT || cm_is_ud(id)) {
		to_init(id, a);
		return 0;
	}
	if (!is_connected(id))
		return -EINVAL;
	if (state == QPS_RTR)
		to_rtr(id, a);
	else if (state == QPS_RTS)
		to_rts(id, a);
	else
		return -EINVAL;
	return 0;
}
