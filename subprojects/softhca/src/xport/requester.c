/* SPDX-License-Identifier: MIT */
#include "xport/xport.h"

#include <assert.h>

#include "fabric/latch.h"
#include "fabric/tally.h"
#include "hca/config.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "hca/timer.h"
#include "hca/trace.h"
#include "wire/wire.h"
#include "xport/chaos.h"
#include "xport/complete.h"
#include "xport/copy.h"
#include "xport/counts.h"
#include "xport/fault_hit.h"
#include "xport/link.h"
#include "xport/qp.h"
#include "xport/responder.h"
#include "xport/tap.h"
#include "xport/wired.h"

bool xport_producer(const struct qp *qp, uint32_t *pi)
{
	if (qp->trapped) {
		*pi = qp->rung;
		return true;
	}
	return !dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, pi);
}

static void fail(struct qp *qp, const struct wqe *w, enum syndrome s)
{
	counters_of(qp->obj.owner)->errors++;
	trace_wqe(qp, w, s);
	link_done(qp);
	complete_send_error(qp, w, s);
	qp_to_error(qp);
}

/* Completes a message that did not arrive. Only RC reports that. */
static void drop(struct qp *qp, const struct wqe *w)
{
	link_done(qp); /* it has occupied the link */
	complete_send(qp, w);
}

static void back_off_rnr(struct qp *qp, const struct wqe *w, uint32_t code)
{
	counters_of(qp->obj.owner)->rnr_naks++;
	if (qp->type != QPT_RC) {
		drop(qp, w);
		return;
	}
	if (qp->attr.rnr_retry != WIRE_RNR_FOR_EVER && ++qp->rnr_retries > qp->attr.rnr_retry) {
		fail(qp, w, SYN_RNR_EXC);
		return;
	}
	counts_rnr_retry(qp);
	timer_wait(qp, timer_now() + wire_rnr_ns(code));
}

static void back_off_timeout(struct qp *qp, const struct wqe *w)
{
	counters_of(qp->obj.owner)->retries++;
	if (qp->type != QPT_RC) {
		drop(qp, w);
		return;
	}
	if (!qp->attr.timeout) {
		timer_wait(qp, timer_now() + WIRE_IDLE_RETRY_NS);
		return;
	}
	if (++qp->retries > qp->attr.retry_cnt) {
		fail(qp, w, SYN_RETRY_EXC);
		return;
	}
	counts_timeout_retry(qp);
	timer_wait(qp, timer_now() + (4096ull << qp->attr.timeout));
}

static void succeed(struct qp *qp, const struct wqe *w)
{
	struct softhca_counters *c = &tally()->process;

	c->wqes[w->opcode & (SOFTHCA_OPCODES - 1)]++;
	c->bytes[w->opcode & (SOFTHCA_OPCODES - 1)] += w->length;
	qp->retries = qp->rnr_retries = 0;
	if (w->opcode != OP_NOP && !datagram_leaves(qp, w)) /* packets are counted when sent */
		counts_message(qp, w);
	trace_wqe(qp, w, SYN_NONE);
	if (arena()->link_mode)
		link_done(qp);
	complete_send(qp, w);
}

static inline struct answer execute(struct qp *qp, struct wqe *w)
{
	return qp->type == QPT_UD ? respond_datagram(qp, w) : respond(qp, w);
}

/* Does the same as execute(), with the fault rules and the capture. */
__attribute__((noinline)) static struct answer attend(struct qp *qp, struct wqe *w)
{
	struct answer a;
	bool decided = fault_hit(qp, w, &a);

	if (!decided || tap_visible(&a))
		tap_request(qp, w, UINT64_MAX);
	if (!decided)
		a = execute(qp, w);
	tap_answer(qp, w, &a);
	return a;
}

static struct answer deliver(struct qp *qp, struct wqe *w)
{
	enum syndrome s = wqe_decode(qp, w);

	if (s)
		return (struct answer){.verdict = V_ERROR, .syndrome = s};
	if (w->opcode == OP_NOP)
		return (struct answer){.verdict = V_DONE};
	if (w->opcode >= OP_READ && !qp->attr.max_rd_atomic)
		return (struct answer){.verdict = V_ERROR, .syndrome = SYN_LOCAL_QP_OP};
	return arena()->attention ? attend(qp, w) : execute(qp, w);
}

enum turn {
	T_NEXT, /* continue with the next WQE */
	T_END, /* nothing more now */
	T_WAIT, /* wait for the end of another copy, then retry */
	T_WHOLE, /* take the mutex instead of the lane, then retry */
};

/* Returns true if this thread may complete the message. */
static inline bool may_complete(const struct qp *qp, const struct wqe *w, enum verdict v)
{
	if (fabric_whole())
		return true;
	return v == V_DONE && (!w->signaled || latch_take(&cq_at(qp->send_cq)->latch));
}

/* Handles the outcome @a of an attempt to execute the WQE at sq_done. */
static enum turn conclude(struct qp *qp, const struct wqe *w, const struct answer *a)
{
	switch (a->verdict) {
	case V_DONE:
		succeed(qp, w);
		latches_free(1); /* keeps the latch of the QP */
		return qp->state == QPS_RTS ? T_NEXT : T_END;
	case V_RNR:
		back_off_rnr(qp, w, a->rnr_timer);
		break;
	case V_FORBIDDEN:
		fail(qp, w, SYN_RETRY_EXC);
		break;
	case V_NO_ANSWER:
		back_off_timeout(qp, w);
		break;
	case V_DEAD:
		if (config_get()->slow_death || qp->type != QPT_RC)
			back_off_timeout(qp, w);
		else
			fail(qp, w, SYN_RETRY_EXC);
		fabric_reap();
		break;
	case V_BUSY:
		qp->held = qp_message(qp);
		return T_WAIT;
	case V_STOPPED:
	case V_WHOLE:
		return T_END;
	case V_LATER:
		if (qp->piece_of == qp_message(qp))
			qp->held = qp_message(qp);
		break;
	case V_ERROR:
		fail(qp, w, a->syndrome);
		break;
	}
	return qp->state == QPS_RTS && !qp->wait_until ? T_NEXT : T_END;
}

/* Executes the WQE at sq_done. @pi: the producer index. */
static enum turn step(struct qp *qp, uint32_t pi)
{
	enum syndrome s;
	struct answer a;
	struct wqe w;
	uint64_t due;

	due = arena()->link_mode ? link_due(qp) : 0;
	if (due) {
		timer_wait(qp, due);
		return T_END;
	}
	s = wqe_fetch(qp, qp->sq_done, &w);
	if (!s && !xport_valid(qp, &w, qp->sq_done, pi)) {
		wqe_cut(&w, (uint16_t)(pi - qp->sq_done));
		s = SYN_LOCAL_QP_OP;
	}
	if (s)
		a = (struct answer){.verdict = V_ERROR, .syndrome = s};
	else
		a = deliver(qp, &w);
	if (!may_complete(qp, &w, a.verdict))
		return T_WHOLE;
	/*
	 * A message from the QP to itself may have moved the QP to ERR. In SQD the message is
	 * completed.
	 */
	if (qp->state != QPS_RTS && qp->state != QPS_SQD)
		return T_END;
	return conclude(qp, &w, &a);
}

/*
 * Flushes requests that were posted in ERR. If a copy still involves the QP, reaps first, because
 * the copying process may be dead.
 */
__attribute__((cold)) static void flush_later_posted(struct qp *qp)
{
	if (copy_holds(qp)) {
		fabric_reap();
		copy_take_over();
	}
	if (qp->flushing)
		qp_to_error(qp);
	else
		xport_flush(qp);
}

/*
 * Handles QPs whose messages the holder of a lane cannot execute. Returns T_NEXT if the caller must
 * execute the messages now.
 */
__attribute__((noinline)) static enum turn send_unusual(struct qp *qp)
{
	if (!fabric_whole())
		return T_WHOLE;
	if (qp->state == QPS_ERR) {
		flush_later_posted(qp);
		return T_END;
	}
	if (qp->wired) {
		wired_send(qp);
		return T_END;
	}
	if (qp->copy_to)
		return T_WAIT; /* another thread is executing the message */
	return qp->state == QPS_RTS ? T_NEXT : T_END;
}

__attribute__((always_inline)) static inline enum turn send_posted(struct qp *qp)
{
	enum turn t;
	uint32_t pi;

	assert(latch_held(&qp->latch));
	if (qp->state != QPS_RTS || qp->wired || qp->copy_to || qp->type == QPT_UD) {
		t = send_unusual(qp);
		if (t != T_NEXT)
			return t;
	}
	if (!qp->sq_count || !xport_producer(qp, &pi))
		return T_END;
	if (arena()->link_mode)
		link_schedule(qp, pi);
	while (!qp->wait_until && (uint16_t)pi != (uint16_t)qp->sq_done) {
		t = step(qp, pi);
		if (t != T_NEXT)
			return t;
		if (arena()->link_mode)
			link_schedule(qp, pi);
	}
	return T_END;
}

__attribute__((cold)) static void send_after_copies(struct qp *qp)
{
	uint32_t qpn = qp->qpn, n = 0;

	do
		copy_pause(n++);
	while (qp->obj.used && qp->qpn == qpn && send_posted(qp) == T_WAIT);
}

/* Checks the QP again, because any object may change while the lane is exchanged for the mutex. */
__attribute__((cold)) static enum turn send_with_mutex(struct qp *qp)
{
	uint32_t qpn = qp->qpn;

	fabric_widen();
	return qp->obj.used && qp->qpn == qpn ? send_posted(qp) : T_END;
}

void xport_send(struct qp *qp)
{
	enum turn t;

	if (arena()->chaos && qp->state != QPS_ERR && !qp->wired) {
		chaos_announce(qp);
		return;
	}
	t = send_posted(qp);
	if (t == T_WHOLE)
		t = send_with_mutex(qp);
	if (t == T_WAIT)
		send_after_copies(qp);
}

bool xport_ready(const struct qp *qp)
{
	uint32_t pi;

	return qp->state == QPS_RTS && qp->sq_count && !qp->wait_until && xport_producer(qp, &pi) &&
	       (uint16_t)pi != (uint16_t)qp->sq_done;
}

void xport_step(struct qp *qp)
{
	uint32_t pi;

	if (qp->copy_to || !xport_producer(qp, &pi) || (uint16_t)pi == (uint16_t)qp->sq_done)
		return;
	if (arena()->link_mode)
		link_schedule(qp, pi);
	step(qp, pi);
}

/* A failed fetch ends the flush, because the QP's owner or its memory does not exist any more. */
static void flush_send(struct qp *qp)
{
	uint32_t pi, posted;
	struct wqe w;

	if (!qp->sq_count || !xport_producer(qp, &pi))
		return;
	while ((posted = (uint16_t)(pi - qp->sq_done))) {
		if (wqe_fetch(qp, qp->sq_done, &w))
			return;
		wqe_cut(&w, posted);
		counters_of(qp->obj.owner)->flushes++;
		complete_send_error(qp, &w, SYN_FLUSH);
	}
}

/* Receives of an SRQ stay posted, because other QPs use them. */
static void flush_recv(struct qp *qp)
{
	struct recv rx;

	if (qp->srq != NO_INDEX)
		return;
	while (!recv_peek(qp, &rx))
		complete_recv_error(qp, &rx, SYN_FLUSH);
}

void xport_flush(struct qp *qp)
{
	link_clear(qp);
	flush_send(qp);
	flush_recv(qp);
}
