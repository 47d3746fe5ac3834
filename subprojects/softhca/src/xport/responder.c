/* SPDX-License-Identifier: MIT */
#include "xport/responder.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>

#include "fabric/latch.h"
#include "hca/config.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "xport/chaos.h"
#include "xport/complete.h"
#include "xport/copy.h"
#include "xport/counts.h"
#include "xport/qp.h"

#define PSN_MASK 0xffffffu

static struct answer answer(enum verdict v)
{
	return (struct answer){.verdict = v};
}

static struct answer refuse(enum syndrome s)
{
	return (struct answer){.verdict = V_ERROR, .syndrome = s};
}

bool path_leads_to(const struct qp_attr *path, uint32_t rail, const struct qp *dest)
{
	uint32_t to = qp_rail(dest);

	return !arena()->rails[rail].link_down && !arena()->rails[to].link_down &&
	       path_names(path, rail, to);
}

/* Strict mode: reports a mismatch of partitions once for each QP. */
__attribute__((cold)) static void report_partition(struct qp *qp, const struct qp *dest)
{
	if (qp->strict_met)
		return;
	qp->strict_met = 1;
	strict_violation(
		"QP 0x%06x: its P_Key 0x%04x and 0x%04x of QP 0x%06x, to which it sends, do "
		"not match",
		qp->qpn, qp_pkey(qp), qp_pkey(dest), dest->qpn);
}

bool in_partition(struct qp *qp, const struct qp *dest, const struct wqe *w)
{
	if (packet_pkeys_match(qp_pkey(qp), qp_pkey(dest)))
		return true;
	if (!fabric_whole())
		return false; /* counted when the message is executed with the mutex */
	counts_bad_pkeys(dest, counts_request_packets(qp, w));
	if (config_get()->strict)
		report_partition(qp, dest);
	return false;
}

/* With RC, a refused request also moves the responder's QP to ERR and sends its owner an event. */
static struct answer nak(struct qp *dest, enum syndrome s)
{
	if (!fabric_whole())
		return answer(V_WHOLE);
	if (dest->type == QPT_RC) {
		qp_begin_error(dest);
		async_qp(dest, s == SYN_REMOTE_ACCESS ? EV_QP_ACCESS_ERR : EV_QP_REQ_ERR);
		qp_to_error(dest);
	}
	return refuse(s);
}

/* Fails the receiver's QP, too, because it would otherwise wait for ever. */
__attribute__((cold)) static struct answer forbidden(struct qp *dest)
{
	if (dest->type != QPT_UD) {
		async_qp(dest, EV_QP_FATAL);
		qp_fail_remotely(dest);
	}
	return answer(V_FORBIDDEN);
}

/* Returns the answer after a copy between the two sides has failed with the error @r. */
__attribute__((cold)) static struct answer copy_failed(int r, bool at_responder, struct qp *dest,
	const struct qp *qp)
{
	if (!fabric_whole())
		return answer(V_WHOLE);
	if (r == -EINPROGRESS)
		return answer(V_LATER);
	if (r == -ECANCELED)
		return answer(V_STOPPED);
	if (r == -EAGAIN)
		return answer(V_NO_ANSWER);
	if (r == -ESRCH)
		return answer(V_DEAD);
	if (r == -EPERM)
		return forbidden(dest);
	strict_unmapped(at_responder ? dest : qp);
	if (!at_responder)
		return refuse(SYN_LOCAL_PROT);
	qp_begin_error(dest);
	async_qp(dest, EV_QP_FATAL);
	qp_to_error(dest);
	return refuse(SYN_REMOTE_OP);
}

/* Copies the payload, or in chaos mode its next piece. */
static int copy_payload(const struct copy *c, bool *fault_to)
{
	return arena()->chaos ? chaos_copy(c, fault_to) : copy_whole(c, fault_to);
}

static bool remote_range(const struct qp *dest, const struct wqe *w, uint32_t access, uint64_t len,
	struct dma_seg *seg)
{
	if (!len)
		return true; /* no memory is accessed, so the key is not checked */
	return (dest->attr.access & access) == access &&
	       mr_translate(w->rkey, dest->pd, access, w->raddr, len, seg);
}

/* Returns the answer after recv_peek() has returned the error @r. */
__attribute__((cold)) static struct answer no_recv(int r, struct qp *dest, const struct qp *qp)
{
	if (!fabric_whole())
		return answer(V_WHOLE);
	if (r == -EAGAIN) {
		counts_no_receive(dest);
		return (struct answer){.verdict = V_RNR, .rnr_timer = dest->attr.min_rnr_timer};
	}
	if (r == -EBUSY)
		return answer(V_BUSY);
	return copy_failed(r, true, dest, qp);
}

/*
 * Takes the latches of both CQs in the order of their addresses. Must be called before anything but
 * payload is stored.
 */
static bool take_cqs(const struct qp *dest, const struct qp *qp, const struct wqe *w)
{
	struct latch *to = &cq_at(dest->recv_cq)->latch;
	struct latch *from = w->signaled ? &cq_at(qp->send_cq)->latch : to;

	return to < from ? latch_take(to) && latch_take(from) : latch_take(from) && latch_take(to);
}

/* Completes the receive of a message whose payload has been placed. */
static struct answer received(struct qp *dest, const struct recv *rx, const struct qp *qp,
	const struct wqe *w)
{
	if (!take_cqs(dest, qp, w))
		return answer(V_WHOLE);
	complete_recv(dest, rx, qp, w, (uint32_t)w->length);
	return answer(V_DONE);
}

static int place(struct qp *dest, struct qp *qp, struct wqe *w, const struct dma_seg *seg,
	bool *at_dest)
{
	struct copy c = {
		.qp = qp,
		.dest = dest,
		.to = seg,
		.nto = 1,
		.from = w->segs,
		.nfrom = w->nsegs,
		.length = w->length,
		.aligned = w->raddr,
	};

	return copy_payload(&c, at_dest);
}

/*
 * The receive is looked up again after the payload is placed, because placing releases the mutex
 * and, in chaos mode, takes several calls. If the message cannot be completed then, a retry does
 * not place the payload again.
 */
__attribute__((cold)) static struct answer write_imm_slowly(struct qp *dest, struct qp *qp,
	struct wqe *w, const struct dma_seg *seg)
{
	bool at_dest = true;
	struct answer a;
	struct recv rx;
	int r;

	if (qp->placed != qp_message(qp)) {
		r = place(dest, qp, w, seg, &at_dest);
		if (r)
			return copy_failed(r, at_dest, dest, qp);
		qp->placed = qp_message(qp);
	}
	r = recv_peek(dest, &rx);
	if (r)
		return no_recv(r, dest, qp);
	a = received(dest, &rx, qp, w);
	if (a.verdict == V_DONE)
		qp->placed = 0; /* the number returns when sq_done has wrapped */
	return a;
}

static struct answer respond_write(struct qp *dest, struct qp *qp, struct wqe *w)
{
	bool imm = w->opcode == OP_WRITE_IMM, at_dest = true;
	struct dma_seg seg;
	struct recv rx;
	int r;

	if (!remote_range(dest, w, IB_UVERBS_ACCESS_REMOTE_WRITE, w->length, &seg))
		return nak(dest, SYN_REMOTE_ACCESS);
	if (imm) {
		r = recv_peek(dest, &rx);
		if (r)
			return no_recv(r, dest, qp);
		if (w->length && (w->length > COPY_HELD_MAX || arena()->chaos))
			return write_imm_slowly(dest, qp, w, &seg);
	}
	if (w->length) {
		r = place(dest, qp, w, &seg, &at_dest);
		if (r)
			return copy_failed(r, at_dest, dest, qp);
	}
	return imm ? received(dest, &rx, qp, w) : answer(V_DONE);
}

/* Fails the message on both sides, and moves the receiver's QP to ERR. */
static struct answer recv_failed(struct qp *dest, const struct recv *rx, enum syndrome local,
	enum syndrome remote)
{
	if (!fabric_whole())
		return answer(V_WHOLE);
	qp_begin_error(dest);
	complete_recv_error(dest, rx, local);
	qp_to_error(dest);
	return refuse(remote);
}

static struct answer respond_send(struct qp *dest, struct qp *qp, struct wqe *w)
{
	bool at_dest = true;
	struct recv rx;
	struct copy c = {
		.qp = qp,
		.dest = dest,
		.srq = recv_srq(dest),
		.to = rx.segs,
		.from = w->segs,
		.nfrom = w->nsegs,
		.length = w->length,
	};
	int r = recv_peek(dest, &rx);

	if (r)
		return no_recv(r, dest, qp);
	if (arena()->chaos) {
		if (!dest->recv_begun)
			begin_recv(dest, &rx);
		c.srq = NULL; /* begin_recv() has taken the entry */
	}
	if (!recv_decode(dest, &rx))
		return recv_failed(dest, &rx, SYN_LOCAL_PROT, SYN_REMOTE_OP);
	if (rx.capacity < w->length)
		return recv_failed(dest, &rx, SYN_LOCAL_LENGTH, SYN_REMOTE_INVAL_REQ);
	c.nto = rx.nsegs;
	r = copy_payload(&c, &at_dest);
	if (r == -EFAULT && at_dest)
		return recv_failed(dest, &rx, SYN_LOCAL_PROT, SYN_REMOTE_OP);
	return r ? copy_failed(r, at_dest, dest, qp) : received(dest, &rx, qp, w);
}

static struct answer respond_read(struct qp *dest, struct qp *qp, struct wqe *w)
{
	struct dma_seg seg;
	struct copy c = {
		.qp = qp,
		.dest = dest,
		.to = w->segs,
		.nto = w->nsegs,
		.from = &seg,
		.nfrom = 1,
		.length = w->length,
		.aligned = w->raddr,
	};
	bool at_local = true;
	int r;

	if (!dest->attr.max_dest_rd_atomic)
		return nak(dest, SYN_REMOTE_INVAL_REQ);
	if (!remote_range(dest, w, IB_UVERBS_ACCESS_REMOTE_READ, w->length, &seg))
		return nak(dest, SYN_REMOTE_ACCESS);
	if (!w->length)
		return answer(V_DONE);
	r = copy_payload(&c, &at_local);
	return r ? copy_failed(r, !at_local, dest, qp) : answer(V_DONE);
}

/*
 * The mutex makes this atomic with respect to the adapters of the fabric, but not with respect to
 * the CPUs.
 */
static struct answer respond_atomic(struct qp *dest, struct qp *qp, struct wqe *w)
{
	struct dma_seg seg, old_seg = {.slot = fabric_self.slot, .len = sizeof(uint64_t)};
	uint64_t old, value;
	bool at_dest;
	int r;

	if (!fabric_whole())
		return answer(V_WHOLE);
	if (!dest->attr.max_dest_rd_atomic || (w->raddr & 7))
		return nak(dest, SYN_REMOTE_INVAL_REQ);
	if (!remote_range(dest, w, IB_UVERBS_ACCESS_REMOTE_ATOMIC, sizeof(old), &seg))
		return nak(dest, SYN_REMOTE_ACCESS);
	r = dma_read(seg.slot, seg.addr, &old, sizeof(old));
	if (r)
		return copy_failed(r, true, dest, qp);
	value = old + w->swap_add;
	if (w->opcode == OP_ATOMIC_CS)
		value = old == w->compare ? w->swap_add : old;
	old_seg.addr = (uintptr_t)&old;
	r = dma_copy(NULL, w->segs, w->nsegs, &old_seg, 1, &at_dest);
	if (r)
		return copy_failed(r, false, dest, qp);
	r = dma_write(seg.slot, seg.addr, &value, sizeof(value));
	return r ? copy_failed(r, true, dest, qp) : answer(V_DONE);
}

static uint32_t mtu_bytes(uint8_t code)
{
	return 128u << code;
}

/* Returns true if the path leads to @qp, or may have led to it before a GID of the port was
 * replaced. */
static bool path_was_right(const struct qp_attr *path, uint32_t rail, const struct qp *qp)
{
	return (path->is_global && arena()->rails[qp_rail(qp)].gids_changed) ||
	       path_leads_to(path, rail, qp);
}

/*
 * Strict mode, at the first message of a connection: checks that the attributes of the two ends
 * fit. Returns false, with the syndrome that an adapter would report, if they do not.
 */
__attribute__((cold)) static bool ends_fit(struct qp *qp, const struct qp *dest, enum syndrome *s)
{
	const struct qp_attr *a = &qp->attr, *b = &dest->attr;

	qp->strict_met = 1;
	*s = SYN_RETRY_EXC;
	if ((a->sq_psn ^ b->rq_psn) & PSN_MASK) {
		strict_violation("QP 0x%06x: it sends from PSN 0x%06x, but QP 0x%06x expects "
				 "0x%06x",
			qp->qpn, a->sq_psn & PSN_MASK, dest->qpn, b->rq_psn & PSN_MASK);
		return false;
	}
	if (qp->type == QPT_RC && !path_was_right(b, qp_rail(dest), qp)) {
		strict_violation("QP 0x%06x: the path of QP 0x%06x, to which it sends, does not "
				 "lead back to it",
			qp->qpn, dest->qpn);
		return false;
	}
	*s = SYN_REMOTE_INVAL_REQ;
	if (a->path_mtu != b->path_mtu) {
		strict_violation("QP 0x%06x: its path MTU is %u, that of QP 0x%06x is %u", qp->qpn,
			mtu_bytes(a->path_mtu), dest->qpn, mtu_bytes(b->path_mtu));
		return false;
	}
	if (qp->type == QPT_RC && a->max_rd_atomic > b->max_dest_rd_atomic) {
		strict_violation("QP 0x%06x: max_rd_atomic %u exceeds the max_dest_rd_atomic %u of "
				 "QP 0x%06x",
			qp->qpn, a->max_rd_atomic, b->max_dest_rd_atomic, dest->qpn);
		return false;
	}
	return true;
}

struct answer respond(struct qp *qp, struct wqe *w)
{
	struct qp *dest = qp_by_number(qp->attr.dest_qpn);
	enum syndrome s;

	if (!dest || dest->type != qp->type)
		return answer(qp->peer_ended ? V_DEAD : V_NO_ANSWER);
	if (!path_leads_to(&qp->attr, qp_rail(qp), dest))
		return answer(V_NO_ANSWER);
	if (!fabric_reachable(dest->obj.owner))
		return answer(V_DEAD);
	if (!qp_receives(dest) || dest->attr.dest_qpn != qp->qpn)
		return answer(V_NO_ANSWER);
	if (!in_partition(qp, dest, w))
		return answer(V_NO_ANSWER);
	if (config_get()->strict && !qp->strict_met && !ends_fit(qp, dest, &s))
		return refuse(s);
	switch (w->opcode) {
	case OP_WRITE:
	case OP_WRITE_IMM:
		return respond_write(dest, qp, w);
	case OP_READ:
		return respond_read(dest, qp, w);
	case OP_ATOMIC_CS:
	case OP_ATOMIC_FA:
		return respond_atomic(dest, qp, w);
	default:
		/* Avoids reading the receive in vain: copy_whole() would refuse a long payload. */
		if (__builtin_expect(w->length > COPY_HELD_MAX, 0) && !fabric_whole())
			return answer(V_WHOLE);
		return respond_send(dest, qp, w);
	}
}
