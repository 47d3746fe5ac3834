/* SPDX-License-Identifier: MIT */
#include "xport/tap.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "capture/capture.h"
#include "capture/pcapng.h"
#include "hca/objects.h"
#include "packet/message.h"
#include "sys/sys.h"
#include "xport/as_message.h"
#include "xport/link.h"

#define HOP_LIMIT_DEFAULT 64 /* Linux's default; replaces 0 and 1, which programs set in a subnet */
#define MTU_BYTES(code) (128u << (code))
#define NAK_NONE 0xff /* the responder sends no packet */

/* A message and its path, with the fields of their packets. */
struct view {
	struct message m;
	struct flow there, back;
	uint16_t pkey, answer_pkey;
	char comment[PCAPNG_COMMENT_MAX];
	char answer_comment[PCAPNG_COMMENT_MAX];
};

static uint32_t destination(const struct qp *qp, const struct wqe *w)
{
	return qp->type == QPT_UD ? be32toh(w->av->dqp_dct) & QPN_MASK : qp->attr.dest_qpn;
}

static bool wanted(const struct qp *qp, const struct wqe *w)
{
	const struct capture *c = &arena()->capture;

	return c->on && (!c->qpn || c->qpn == qp->qpn || c->qpn == destination(qp, w));
}

/* With InfiniBand a path may have only a LID. Then the first GID of the LID's port is used. */
static void set_destination(const struct qp_attr *path, uint8_t *gid)
{
	const struct softhca_topology *t = &arena()->topo;

	if (path->is_global) {
		memcpy(gid, path->dgid, 16);
		return;
	}
	for (uint32_t i = 0; i < t->nrails; i++)
		if (t->rails[i].lid == path->dlid)
			memcpy(gid, t->rails[i].gids[0], 16);
}

/*
 * Returns the source port that the kernel chooses for the flow label @label or, if @label is 0, for
 * the two QPs.
 */
static uint16_t source_port(uint32_t label, uint32_t qpn, uint32_t dest_qpn)
{
	uint64_t v = (uint64_t)qpn * dest_qpn;

	v ^= v >> 20;
	v ^= v >> 40;
	if (!label)
		label = (uint32_t)v & 0xfffff;
	return (uint16_t)(0xc000 | ((label & 0x3fff) ^ (label & 0xfc000) >> 14));
}

static struct flow flow_of(const struct qp *qp, const struct qp_attr *path, uint32_t dest_qpn)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	struct flow f = {.src_port = source_port(path->flow_label, qp->qpn, dest_qpn),
		.traffic_class = path->traffic_class,
		.hop_limit = path->hop_limit > 1 ? path->hop_limit : HOP_LIMIT_DEFAULT,
		.flow_label = path->flow_label};

	memcpy(f.src, rail->gids[path->sgid_index < rail->ngids ? path->sgid_index : 0], 16);
	set_destination(path, f.dst);
	return f;
}

static struct flow reversed(const struct flow *f)
{
	struct flow r = *f;

	memcpy(r.src, f->dst, sizeof(r.src));
	memcpy(r.dst, f->src, sizeof(r.dst));
	return r;
}

static void set_pkeys(struct view *v, const struct qp *qp)
{
	const struct qp *dest = qp_by_number(v->m.dest_qpn);

	v->pkey = qp_pkey(qp);
	v->answer_pkey = dest ? qp_pkey(dest) : v->pkey;
}

static void set_comments(struct view *v, const struct qp *qp)
{
	const struct qp *dest = qp_by_number(v->m.dest_qpn);
	int to = dest ? arena()->procs[dest->obj.owner].pid : 0;
	int from = arena()->procs[qp->obj.owner].pid;

	snprintf(v->comment, sizeof(v->comment),
		"process %d QP 0x%06x to process %d QP 0x%06x, entry %u", from, qp->qpn, to,
		v->m.dest_qpn, qp->sq_done & 0xffff);
	snprintf(v->answer_comment, sizeof(v->answer_comment),
		"process %d QP 0x%06x answers process %d QP 0x%06x, entry %u", to, v->m.dest_qpn,
		from, qp->qpn, qp->sq_done & 0xffff);
}

static void look(struct view *v, const struct qp *qp, const struct wqe *w)
{
	bool ud = qp->type == QPT_UD;
	struct qp_attr path = ud ? datagram_path(qp, w->av) : qp->attr;
	uint32_t qkey = ud ? be32toh(w->av->qkey) : 0;

	v->m = as_message(w);
	v->m.transport = ud ? PT_UD : qp->type == QPT_UC ? PT_UC : PT_RC;
	v->m.mtu = ud ? arena()->topo.rails[qp_rail(qp)].mtu : MTU_BYTES(qp->attr.path_mtu);
	v->m.dest_qpn = destination(qp, w);
	v->m.psn = (qp->attr.sq_psn + qp->psns) & PSN_MASK;
	v->m.qkey = qkey & 0x80000000u ? qp->attr.qkey : qkey;
	v->m.src_qpn = qp->qpn;
	v->there = flow_of(qp, &path, v->m.dest_qpn);
	v->back = reversed(&v->there);
	set_pkeys(v, qp);
	set_comments(v, qp);
}

/*
 * Returns the time of a packet. In real time it is the time of day, so that the capture can be
 * compared with other records.
 */
static uint64_t stamp(void)
{
	if (arena()->link_mode == LINK_VIRTUAL)
		return link_clock();
	return sys_clock_ns(CLOCK_REALTIME);
}

/* Adds packet @p, whose payload is the payload of @w from byte @offset on. */
static bool emit(const struct qp *qp, const struct wqe *w, const struct flow *f,
	const struct packet *p, uint64_t offset, const char *comment)
{
	static uint8_t frame[FRAME_HEAD_MAX + PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_BYTES];
	uint8_t *bytes = frame + frame_head_bytes(f);
	size_t n = packet_encode(p, bytes), pad = packet_padding(p->payload);

	if (dma_gather(w->segs, w->nsegs, offset, bytes + n, p->payload))
		return false;
	n += p->payload;
	memset(bytes + n, 0, pad);
	capture_add(qp_rail(qp), stamp(), f, frame, n + pad, comment);
	return true;
}

__attribute__((cold)) static void request(struct qp *qp, const struct wqe *w, uint64_t limit)
{
	struct view v;
	struct packet p;
	uint32_t n;

	look(&v, qp, w);
	/* A datagram to another host is captured when its packet is sent. */
	n = datagram_leaves(qp, w) ? 0 : message_requests(&v.m);
	if (!capture_begin())
		return;
	for (uint32_t i = 0; i < n && (!i || (uint64_t)i * v.m.mtu < limit); i++) {
		message_request(&v.m, i, &p);
		p.pkey = v.pkey;
		if (!emit(qp, w, &v.there, &p, (uint64_t)i * v.m.mtu, v.comment)) {
			capture_cancel(); /* the memory is not mapped: the message will fail */
			return;
		}
	}
	capture_commit(0, 0);
	qp->tapped = qp_message(qp);
}

void tap_request(struct qp *qp, const struct wqe *w, uint64_t limit)
{
	if (wanted(qp, w) && qp->tapped != qp_message(qp))
		request(qp, w, limit);
}

static uint8_t nak_of(const struct answer *a)
{
	if (a->verdict == V_RNR)
		return (uint8_t)(AETH_RNR | (a->rnr_timer & 31));
	if (a->verdict != V_ERROR)
		return NAK_NONE;
	switch (a->syndrome) {
	case SYN_REMOTE_INVAL_REQ:
		return AETH_NAK_INVALID;
	case SYN_REMOTE_ACCESS:
		return AETH_NAK_ACCESS;
	case SYN_REMOTE_OP:
		return AETH_NAK_OPERATIONAL;
	default:
		return NAK_NONE;
	}
}

bool tap_visible(const struct answer *a)
{
	return a->verdict == V_NO_ANSWER || nak_of(a) != NAK_NONE ||
	       (a->verdict == V_ERROR &&
		       (a->syndrome == SYN_RETRY_EXC || a->syndrome == SYN_RNR_EXC));
}

static bool acknowledge(const struct qp *qp, const struct wqe *w, const struct view *v,
	uint8_t syndrome, uint32_t msn)
{
	struct packet p = {.opcode = PO_ACK,
		.pkey = v->answer_pkey,
		.dest_qpn = qp->qpn,
		.psn = v->m.psn,
		.syndrome = syndrome,
		.msn = msn};

	if (syndrome == AETH_ACK)
		p.psn = (p.psn + message_packets(&v->m) - 1) & PSN_MASK;
	return emit(qp, w, &v->back, &p, 0, v->answer_comment);
}

/*
 * Captures the answer of a READ or atomic. The answer's data is in the requester's memory by now.
 */
static bool return_data(const struct qp *qp, const struct wqe *w, const struct view *v,
	uint32_t msn)
{
	uint32_t n = message_packets(&v->m);
	struct packet p;

	for (uint32_t i = 0; i < n; i++) {
		message_response(&v->m, i, &p);
		p.pkey = v->answer_pkey;
		p.dest_qpn = qp->qpn;
		p.msn = msn;
		if (v->m.kind != MSG_READ && dma_gather(w->segs, w->nsegs, 0, &p.original, 8))
			return false;
		if (!emit(qp, w, &v->back, &p, (uint64_t)i * v->m.mtu, v->answer_comment))
			return false;
	}
	return true;
}

static bool answer_packets(const struct qp *qp, const struct wqe *w, const struct view *v,
	const struct answer *a)
{
	uint8_t nak = nak_of(a);
	uint32_t msn = qp->answered + (a->verdict == V_DONE);

	if (v->m.transport != PT_RC)
		return true;
	if (nak != NAK_NONE)
		return acknowledge(qp, w, v, nak, msn);
	if (a->verdict != V_DONE)
		return true;
	return v->m.kind < MSG_READ ? acknowledge(qp, w, v, AETH_ACK, msn) :
				      return_data(qp, w, v, msn);
}

__attribute__((cold)) static void answer(struct qp *qp, const struct wqe *w, const struct answer *a)
{
	bool done = a->verdict == V_DONE;
	struct view v;

	look(&v, qp, w);
	if (!capture_begin())
		return;
	if (!answer_packets(qp, w, &v, a)) {
		capture_cancel();
		return;
	}
	capture_commit(done, done ? w->length : 0);
	qp->answered += done;
	/* Only RC repeats a message that was not executed. */
	if (done || qp->type != QPT_RC)
		qp->psns += message_packets(&v.m);
}

void tap_answer(struct qp *qp, const struct wqe *w, const struct answer *a)
{
	/* The attempt has not ended, or (V_STOPPED) @qp may be another QP by now. */
	if (a->verdict == V_BUSY || a->verdict == V_LATER || a->verdict == V_STOPPED)
		return;
	if (qp->tapped == qp_message(qp) && wanted(qp, w))
		answer(qp, w, a);
	qp->tapped = 0;
}

void tap_packet(const struct udp_end *end, const struct flow *f, uint8_t *frame, size_t len)
{
	const struct capture *c = &arena()->capture;
	char comment[PCAPNG_COMMENT_MAX];

	if (!c->on || (c->qpn && c->qpn != end->qpn) || !capture_begin())
		return;
	snprintf(comment, sizeof(comment), "process %d QP 0x%06x, QP 0x%06x of another host",
		arena()->procs[end->owner].pid, end->qpn, end->peer_qpn);
	capture_add(end->rail, stamp(), f, frame, len, comment);
	capture_commit(0, 0);
}
