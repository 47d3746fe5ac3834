/* SPDX-License-Identifier: MIT */
#include "xport/qp.h"

#include <assert.h>
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "hca/config.h"
#include "hca/event.h"
#include "hca/owed.h"
#include "hca/objects.h"
#include "hca/port.h"
#include "hca/qp_attrs.h"
#include "hca/strict.h"
#include "hca/timer.h"
#include "xport/chaos.h"
#include "xport/complete.h"
#include "xport/copy.h"
#include "xport/link.h"
#include "xport/wired.h"
#include "xport/xport.h"

#define WATCH_NS 10000000u /* period at which an unfinished copy is checked */

/* Attributes of a transition, by type of QP. */
struct attrs {
	uint32_t rc, uc, ud;
};

#define A_MIG (A_ALT_PATH | A_PATH_MIG)
#define A_MAY_RTS                                                                                  \
	{                                                                                          \
		A_CUR_STATE | A_ACCESS | A_MIG | A_MIN_RNR, A_CUR_STATE | A_ACCESS | A_MIG,        \
			A_CUR_STATE | A_QKEY                                                       \
	}

/*
 * The attributes that each transition between working states needs, and those that are allowed in
 * addition, as in the kernel's table. All other attributes are refused, but A_RATE_LIMIT, which has
 * no effect, is always allowed. Transitions to RESET and ERR allow no others.
 */
static const struct transition {
	uint8_t from, to;
	struct attrs need, may;
} transitions[] = {
	{QPS_RESET, QPS_INIT,
		{A_PKEY | A_PORT | A_ACCESS, A_PKEY | A_PORT | A_ACCESS, A_PKEY | A_PORT | A_QKEY},
		{0, 0, 0}},
	{QPS_INIT, QPS_INIT, {0, 0, 0},
		{A_PKEY | A_PORT | A_ACCESS, A_PKEY | A_PORT | A_ACCESS, A_PKEY | A_PORT | A_QKEY}},
	{QPS_INIT, QPS_RTR,
		{A_AV | A_MTU | A_DEST_QPN | A_RQ_PSN | A_MAX_DEST_RD | A_MIN_RNR,
			A_AV | A_MTU | A_DEST_QPN | A_RQ_PSN, 0},
		{A_ALT_PATH | A_ACCESS | A_PKEY, A_ALT_PATH | A_ACCESS | A_PKEY, A_PKEY | A_QKEY}},
	{QPS_RTR, QPS_RTS,
		{A_SQ_PSN | A_TIMEOUT | A_RETRY | A_RNR_RETRY | A_MAX_RD, A_SQ_PSN, A_SQ_PSN},
		A_MAY_RTS},
	{QPS_RTS, QPS_RTS, {0, 0, 0}, A_MAY_RTS},
	{QPS_RTS, QPS_SQD, {0, 0, 0}, {A_SQD_NOTIFY, A_SQD_NOTIFY, A_SQD_NOTIFY}},
	{QPS_SQD, QPS_SQD, {0, 0, 0},
		{A_PORT | A_AV | A_TIMEOUT | A_RETRY | A_RNR_RETRY | A_MAX_RD | A_MAX_DEST_RD |
				A_ACCESS | A_PKEY | A_MIN_RNR | A_MIG,
			A_AV | A_ACCESS | A_PKEY | A_MIG, A_PKEY | A_QKEY}},
	{QPS_SQD, QPS_RTS, {0, 0, 0}, A_MAY_RTS},
	{QPS_SQE, QPS_RTS, {0, 0, 0}, {0, A_CUR_STATE | A_ACCESS, A_CUR_STATE | A_QKEY}},
};

static uint32_t attrs_of(const struct attrs *a, const struct qp *qp)
{
	return qp->type == QPT_RC ? a->rc : qp->type == QPT_UC ? a->uc : a->ud;
}

static int check_attrs(const struct qp *qp, uint8_t to, uint32_t mask, uint32_t need, uint32_t may)
{
	uint32_t missing = need & ~mask, extra = mask & ~(need | may | A_STATE | A_RATE_LIMIT);

	if (!missing && !extra)
		return 0;
	if (config_get()->strict)
		strict_violation("QP 0x%06x: from state %u to %u (enum ibv_qp_state): attributes "
				 "0x%x are missing, 0x%x are not allowed (enum ibv_qp_attr_mask)",
			qp->qpn, qp->state, to, missing, extra);
	return -EINVAL;
}

static int check_transition(const struct qp *qp, uint8_t to, uint32_t mask)
{
	if (to == QPS_RESET || to == QPS_ERR)
		return check_attrs(qp, to, mask, 0, 0);
	for (size_t i = 0; i < sizeof(transitions) / sizeof(transitions[0]); i++) {
		const struct transition *t = &transitions[i];

		if (t->from == qp->state && t->to == to)
			return check_attrs(qp, to, mask, attrs_of(&t->need, qp),
				attrs_of(&t->may, qp));
	}
	return -EINVAL;
}

/*
 * Returns false in strict mode if the path's MTU exceeds the port's. Without strict mode, such a
 * path is accepted.
 */
static bool mtu_fits(const struct qp *qp, uint32_t mtu)
{
	uint32_t port = arena()->topo.rails[qp_rail(qp)].mtu;

	if (!config_get()->strict || 128u << mtu <= port)
		return true;
	strict_violation("QP 0x%06x: path MTU %u exceeds the port's active MTU %u", qp->qpn,
		128u << mtu, port);
	return false;
}

/* Returns true if the kernel accepts the path. Strict mode also reports the mistake. */
static bool path_ok(const struct qp *qp, const struct ib_uverbs_qp_dest *d)
{
	if (port_takes_path(qp_rail(qp), d->is_global, d->sgid_index))
		return true;
	if (config_get()->strict)
		strict_violation(d->is_global ?
					 "QP 0x%06x: the port has no GID of the path's sgid_index" :
					 "QP 0x%06x: the port needs a path with a GRH (is_global)",
			qp->qpn);
	return false;
}

static int check_values(const struct qp *qp, const struct ib_uverbs_modify_qp *m)
{
	const struct softhca_rail *rail = &arena()->topo.rails[qp_rail(qp)];
	uint32_t mask = m->attr_mask;

	if ((mask & A_CUR_STATE) && m->cur_qp_state != qp->state)
		return -EINVAL;
	if ((mask & A_PORT) && m->port_num != 1)
		return -EINVAL;
	if ((mask & A_PKEY) && m->pkey_index >= rail->npkeys)
		return -EINVAL;
	if ((mask & A_ACCESS) && (m->qp_access_flags & IB_UVERBS_ACCESS_REMOTE_ATOMIC) &&
		rail->no_atomics)
		return -EOPNOTSUPP;
	if ((mask & A_MTU) && (m->path_mtu < 1 || m->path_mtu > 5))
		return -EINVAL;
	if ((mask & A_MTU) && !mtu_fits(qp, m->path_mtu))
		return -EINVAL;
	if ((mask & A_MAX_RD) && m->max_rd_atomic > 16)
		return -EINVAL;
	if ((mask & A_MAX_DEST_RD) && m->max_dest_rd_atomic > 16)
		return -EINVAL;
	if ((mask & A_TIMEOUT) && m->timeout > 31)
		return -EINVAL;
	if ((mask & (A_RETRY | A_RNR_RETRY)) && (m->retry_cnt > 7 || m->rnr_retry > 7))
		return -EINVAL;
	if ((mask & A_AV) && !path_ok(qp, &m->dest))
		return -EINVAL;
	return 0;
}

static void set_path(struct qp_attr *a, const struct ib_uverbs_qp_dest *d)
{
	memcpy(a->dgid, d->dgid, sizeof(a->dgid));
	a->flow_label = d->flow_label;
	a->dlid = d->dlid;
	a->sgid_index = d->sgid_index;
	a->hop_limit = d->hop_limit;
	a->traffic_class = d->traffic_class;
	a->sl = d->sl;
	a->path_bits = d->src_path_bits;
	a->static_rate = d->static_rate;
	a->is_global = d->is_global;
}

#define SET(flag, field)                                                                           \
	do {                                                                                       \
		if (m->attr_mask & (flag))                                                         \
			a->field = m->field;                                                       \
	} while (0)

static void set_values(struct qp_attr *a, const struct ib_uverbs_modify_qp *m)
{
	SET(A_QKEY, qkey);
	SET(A_RQ_PSN, rq_psn);
	SET(A_SQ_PSN, sq_psn);
	SET(A_PKEY, pkey_index);
	SET(A_PORT, port_num);
	SET(A_MTU, path_mtu);
	SET(A_MAX_RD, max_rd_atomic);
	SET(A_MAX_DEST_RD, max_dest_rd_atomic);
	SET(A_MIN_RNR, min_rnr_timer);
	SET(A_TIMEOUT, timeout);
	SET(A_RETRY, retry_cnt);
	SET(A_RNR_RETRY, rnr_retry);
	SET(A_PATH_MIG, path_mig_state);
	if (m->attr_mask & A_ACCESS)
		a->access = m->qp_access_flags;
	if (m->attr_mask & A_DEST_QPN)
		a->dest_qpn = m->dest_qp_num;
	if (m->attr_mask & A_AV)
		set_path(a, &m->dest);
}

void qp_stop(struct qp *qp)
{
	qp->state = QPS_RESET;
	qp->flushing = 0;
}

/* Resets the QP. The provider resets the doorbell records and its own indexes. */
static int reset(struct qp *qp)
{
	qp_stop(qp);
	if (!copy_wait(qp, false))
		return -EINVAL;
	owed_release_all(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->rq_taken = qp->sq_done = qp->placed = qp->held = qp->turn_of = 0;
	qp->rung = qp->piece_of = qp->recv_begun = 0;
	qp->tapped = qp->psns = qp->answered = 0;
	qp->strict_first = qp->strict_last = qp->strict_free = qp->strict_met = 0;
	link_clear(qp);
	wired_stop(qp);
	qp->retries = qp->rnr_retries = 0;
	qp->wait_until = 0;
	qp->last_wqe_reported = qp->peer_ended = 0;
	return 0;
}

/*
 * Moves the QP to SQD. Finishes a message whose payload is being placed, but not one that waits for
 * a timer.
 */
static int drain(struct qp *qp, bool notify)
{
	bool drained = qp->state == QPS_RTS;

	chaos_finish(qp);
	qp->state = QPS_SQD;
	if (!copy_wait(qp, true))
		return -EINVAL;
	owed_release_all(qp);
	if (drained && notify)
		async_qp(qp, EV_SQ_DRAINED);
	return 0;
}

static int go_to(struct qp *qp, uint8_t to, bool notify)
{
	bool resumed = to == QPS_RTS && qp->state != QPS_RTS;

	switch (to) {
	case QPS_RESET:
		return reset(qp);
	case QPS_ERR:
		qp_to_error(qp);
		return copy_wait(qp, false) ? 0 : -EINVAL;
	case QPS_SQD:
		if (qp->wired)
			return wired_refuse_drain(qp);
		return drain(qp, notify);
	default:
		qp->state = to;
		if (resumed)
			xport_send(qp);
		return 0;
	}
}

int qp_modify(struct qp *qp, const struct ib_uverbs_modify_qp *m)
{
	uint8_t to = m->attr_mask & A_STATE ? m->qp_state : qp->state;
	int r = check_transition(qp, to, m->attr_mask);

	if (!r)
		r = check_values(qp, m);
	if (r)
		return r;
	set_values(&qp->attr, m);
	if (qp->wired && m->attr_mask & A_MIN_RNR)
		wired_set_rnr_timer(qp);
	if (to == QPS_RTR && qp->state == QPS_INIT && qp->type != QPT_UD) {
		r = wired_receive_from(qp);
		if (r)
			return r;
	}
	if (to == QPS_RTS && qp->state == QPS_RTR && qp->wired)
		wired_send_from(qp);
	return go_to(qp, to, (m->attr_mask & A_SQD_NOTIFY) && m->en_sqd_async_notify);
}

void qp_end_receive(struct qp *qp, bool completes)
{
	struct recv rx;

	if (!qp->recv_held && !(qp->recv_begun && qp->srq != NO_INDEX))
		return;
	qp->recv_held = 0;
	if (recv_peek(qp, &rx))
		return;
	if (completes)
		complete_recv_error(qp, &rx, SYN_FLUSH);
	else
		lose_recv(qp, &rx);
}

void qp_begin_error(struct qp *qp)
{
	qp->flushing = 1;
	atomic_signal_fence(memory_order_seq_cst);
}

/*
 * If a copy involves the QP, the end of the copy finishes the transition. The timer is for the case
 * that the copying process was killed and no other process has noticed this.
 */
void qp_to_error(struct qp *qp)
{
	assert(fabric_whole());
	qp_begin_error(qp);
	qp->state = QPS_ERR;
	if (copy_holds(qp)) {
		if (qp->obj.owner == fabric_self.slot)
			timer_wait(qp, timer_now() + WATCH_NS);
		return;
	}
	qp->wait_until = 0;
	xport_flush(qp);
	qp_end_receive(qp, true);
	owed_release_all(qp); /* the event below follows all completions */
	if (qp->srq != NO_INDEX && !qp->last_wqe_reported) {
		async_qp(qp, EV_QP_LAST_WQE_REACHED);
		qp->last_wqe_reported = 1;
	}
	qp->flushing = 0;
}

void qp_recover(void)
{
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		struct qp *qp = &arena()->qps[i];

		if (qp->obj.used && qp->flushing)
			qp_to_error(qp);
	}
}

void qp_fail_remotely(struct qp *qp)
{
	uint32_t slot = qp->obj.owner;

	qp_begin_error(qp);
	qp->state = QPS_ERR;
	arena()->procs[slot].failed = 1;
	timer_ring(slot);
}

void qp_fail_owned(uint32_t slot, uint64_t lost)
{
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		struct qp *qp = &arena()->qps[i];

		if (!qp->obj.used || qp->obj.owner != slot)
			continue;
		if (claim_tid(qp->copy.word) == claim_tid(lost))
			copy_abandon(qp);
		if (!qp_receives(qp))
			continue;
		async_qp(qp, EV_QP_FATAL);
		if (slot == fabric_self.slot)
			qp_to_error(qp);
		else
			qp_fail_remotely(qp);
	}
}

void qp_serve_failed(void)
{
	uint32_t *failed = &arena()->procs[fabric_self.slot].failed;

	if (!*failed)
		return;
	*failed = 0;
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		struct qp *qp = &arena()->qps[i];

		if (qp->obj.used && qp->obj.owner == fabric_self.slot && qp->flushing)
			qp_to_error(qp);
	}
}
