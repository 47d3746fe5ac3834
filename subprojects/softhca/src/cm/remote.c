/* SPDX-License-Identifier: MIT */
#include "cm/remote.h"

#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "cm/ids.h"
#include "cm/path.h"
#include "hca/config.h"
#include "hca/port.h"
#include "hca/random.h"
#include "hca/timer.h"
#include "xport/udp.h"
#include "xport/wired.h"

#define MTU_MIN 1 /* enum ibv_mtu: 256 bytes */
#define RC 0 /* mad.transport */
#define UC 1

/* ---- paths ---- */

/*
 * Returns true if other hosts can be reached: not in step mode, which has no threads, and not in
 * virtual time, which the clocks of other hosts do not follow.
 */
static bool is_possible(void)
{
	return config_get()->mode != ENGINE_STEP && arena()->link_mode != LINK_VIRTUAL;
}

/* Returns the largest MTU code that the adapter and the path support, or 0. */
static uint32_t mtu_of(uint32_t rail, const struct flow *f)
{
	int bytes = udp_path_mtu(rail, f);
	uint32_t mtu = port_mtu_code(rail_at(rail)->mtu);

	while (mtu >= MTU_MIN && (bytes < 0 || (uint32_t)bytes < wired_packet_bytes(f, mtu)))
		mtu--;
	return mtu;
}

static bool any_udp(void)
{
	for (uint32_t r = 0; r < arena()->topo.nrails; r++)
		if (rail_at(r)->udp)
			return true;
	return false;
}

int remote_find(const struct cm_addr *dst, const struct cm_place *bound, struct remote_path *path_p)
{
	struct remote_path p = {.src = {.family = dst->family}};
	struct flow f = {0};

	memcpy(f.dst, dst->ip, sizeof(f.dst));
	if (bound)
		p.from = *bound;
	else if (udp_source(f.dst, f.src))
		return -EADDRNOTAVAIL;
	else if (!cm_gid_place(f.src, &p.from)) {
		if (is_possible() && any_udp())
			memcpy(p.src.ip, f.src, sizeof(p.src.ip));
		*path_p = p;
		return -EADDRNOTAVAIL;
	}
	memcpy(f.src, rail_at(p.from.rail)->gids[p.from.gid], sizeof(f.src));
	if (!is_possible() || !rail_at(p.from.rail)->udp ||
		gid_is_ipv4(f.src) != gid_is_ipv4(f.dst))
		return -EADDRNOTAVAIL;
	p.mtu = mtu_of(p.from.rail, &f);
	if (!p.mtu)
		return -EADDRNOTAVAIL;
	memcpy(p.src.ip, f.src, sizeof(p.src.ip));
	memcpy(p.gid, f.dst, sizeof(p.gid));
	*path_p = p;
	return 0;
}

/* The number contains the index of the id, so the numbers of existing ids differ. */
static uint32_t new_number(const struct cm_id *id)
{
	uint64_t state = timer_now() ^ (uint64_t)id->serial << 32;

	return (uint32_t)random_next(&state) * MAX_CM_IDS + cm_index(id);
}

void remote_begin(struct cm_id *id, const struct remote_path *path)
{
	id->away = (struct cm_away){.here = new_number(id), .mtu = path->mtu};
	memcpy(id->away.gid, path->gid, sizeof(id->away.gid));
}

bool remote_receives(const struct cm_id *id)
{
	const struct softhca_topology *t = &arena()->topo;
	bool udp = false;

	for (uint32_t r = 0; r < t->nrails; r++)
		udp |= t->rails[r].udp && (id->rail == NO_INDEX || id->rail == r);
	return udp && is_possible() && (id->state == CM_LISTEN || cm_is_away(id));
}

/* ---- messages out ---- */

void remote_emit(const struct cm_place *from, uint32_t owner, const uint8_t *to,
	const struct mad *m)
{
	struct udp_end end = {from->rail, owner, MAD_QPN, MAD_QPN};
	struct flow f = {.hop_limit = FRAME_HOP_LIMIT};
	struct packet p = {.opcode = PT_UD | PO_SEND_ONLY,
		.pkey = rail_at(from->rail)->pkeys[0],
		.dest_qpn = MAD_QPN,
		.src_qpn = MAD_QPN,
		.qkey = MAD_QKEY,
		.payload = MAD_BYTES};
	uint8_t bytes[MAD_BYTES];

	memcpy(f.src, rail_at(from->rail)->gids[from->gid], sizeof(f.src));
	memcpy(f.dst, to, sizeof(f.dst));
	mad_encode(m, bytes);
	wired_emit_from(&end, &f, &p, bytes);
}

void remote_send(struct cm_id *id, enum mad_type type, uint16_t status)
{
	struct cm_place from = {id->rail, id->gid};
	struct ib_uverbs_ah_attr ah;
	struct mad m = {.type = (uint16_t)type,
		.tid = remote_is_passive(id) ? id->away.there : id->away.here,
		.local = id->away.here,
		.remote = id->away.there,
		.service = (uint64_t)id->ps << 16 |
			   (remote_is_passive(id) ? id->src.port : id->dst.port),
		.guid = rail_at(id->rail)->guid,
		.pkey = cm_pkey(id),
		.transport = id->qp_type == QPT_UC ? UC : RC,
		.mtu = (uint8_t)id->away.mtu,
		.ack_timeout = cm_ack_timeout(id),
		.rejected = id->state == CM_REP_RCVD ? MAD_REJECTED_REP : MAD_REJECTED_REQ,
		.status = status,
		.remote_qpn = id->remote.qpn,
		.src = id->src,
		.dst = id->dst,
		.param = id->local};

	cm_ah_attr(id, &ah);
	m.traffic_class = ah.grh.traffic_class;
	memcpy(m.src_gid, cm_src_gid(id), sizeof(m.src_gid));
	memcpy(m.dst_gid, id->away.gid, sizeof(m.dst_gid));
	remote_emit(&from, id->owner, id->away.gid, &m);
}

void remote_ask(struct cm_id *id, enum mad_type type)
{
	id->away.message = type;
	id->away.repeats = REMOTE_REPEATS;
	id->away.due = timer_now() + REMOTE_REPEAT_NS;
	remote_send(id, type, 0);
	cm_wake(id, id->away.due);
}

void remote_stop(struct cm_id *id)
{
	id->away.message = 0;
	id->away.due = 0;
}

void remote_withdraw(struct cm_id *id)
{
	id->local = (struct cm_param){0};
	remote_send(id, MAD_REJ, CM_REJ_TIMEOUT);
}

void remote_refuse(struct cm_id *id, uint16_t status)
{
	struct arena *a = arena();
	struct cm_refused *r = &a->cm_refused[a->next_cm_refused++ % MAX_CM_REFUSED];

	*r = (struct cm_refused){.there = id->away.there,
		.ud = cm_is_ud(id),
		.status = status,
		.param = id->local};
	memcpy(r->gid, id->away.gid, sizeof(r->gid));
	remote_stop(id);
	remote_send(id, cm_is_ud(id) ? MAD_SIDR_REP : MAD_REJ, status);
}
