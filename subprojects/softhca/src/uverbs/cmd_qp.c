/* SPDX-License-Identifier: MIT */
/* Queue pairs. */
#include <errno.h>
#include <string.h>

#include "abi/wire.h"
#include "dma/view.h"
#include "hca/config.h"
#include "hca/event.h"
#include "hca/owed.h"
#include "hca/strict.h"
#include "hca/trace.h"
#include "pump/pump.h"
#include "sched/engine.h"
#include "trap/pages.h"
#include "trap/trap.h"
#include "uverbs/cmd.h"
#include "uverbs/uar.h"
#include "xport/copy.h"
#include "xport/free.h"
#include "xport/qp.h"
#include "xport/wired.h"

#define QP_MAX_BLOCKS 32768u
#define BFREGS 16u /* registers of a context: two usable ones on each of its first pages */

static struct ib_uverbs_ex_create_qp get_create_qp(struct cmd *c)
{
	struct ib_uverbs_ex_create_qp ex;
	struct ib_uverbs_create_qp o;

	if (c->extended) {
		cmd_get(c->in, &ex, sizeof(ex));
		return ex;
	}
	cmd_get(c->in, &o, sizeof(o));
	return (struct ib_uverbs_ex_create_qp){
		.user_handle = o.user_handle,
		.pd_handle = o.pd_handle,
		.send_cq_handle = o.send_cq_handle,
		.recv_cq_handle = o.recv_cq_handle,
		.srq_handle = o.srq_handle,
		.max_send_wr = o.max_send_wr,
		.max_recv_wr = o.max_recv_wr,
		.max_send_sge = o.max_send_sge,
		.max_recv_sge = o.max_recv_sge,
		.max_inline_data = o.max_inline_data,
		.sq_sig_all = o.sq_sig_all,
		.qp_type = o.qp_type,
		.is_srq = o.is_srq,
	};
}

static bool pow2_or_zero(uint32_t n)
{
	return !(n & (n - 1));
}

static int check_queues(const struct mlx5_ib_create_qp *d)
{
	if (!d->sq_wqe_count && !d->rq_wqe_count)
		return -EINVAL;
	if (d->sq_wqe_count > QP_MAX_BLOCKS || d->rq_wqe_count > QP_MAX_BLOCKS)
		return -EINVAL;
	if (!pow2_or_zero(d->sq_wqe_count) || !pow2_or_zero(d->rq_wqe_count))
		return -EINVAL;
	if (d->rq_wqe_shift > 9 || (d->rq_wqe_count && d->rq_wqe_shift < 4))
		return -EINVAL;
	return 0;
}

/*
 * Returns the next usable register. Only the first two of the four registers of a page are usable.
 * Register 0 is never used, because it has no BlueFlame.
 */
static uint32_t next_bfreg(struct uctx *u)
{
	uint32_t n = u->next_bfreg;

	u->next_bfreg = n + 1 < BFREGS ? n + 1 : 1;
	return n / BFREGS_USED * BFREGS_OF_PAGE + n % BFREGS_USED;
}

/*
 * Chooses the QP's doorbell: a page that the program passes, a register that a legacy context has
 * allocated, or the next register of the context's fixed set. @index_p: the register's number in
 * that set.
 */
static int place_doorbell(struct cmd *c, const struct mlx5_ib_create_qp *d, struct qp *qp,
	uint32_t *index_p)
{
	uint32_t n = d->bfreg_index;
	int uar;

	*index_p = 0;
	if (d->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) {
		uar = uar_of_page_id(c->u, n);
		if (uar < 0)
			return uar;
		qp->uar = (uint32_t)uar;
		qp->bfreg = BFREG_ANY;
		return 0;
	}
	if (c->u->dynamic_uars)
		return -EINVAL;
	if (d->flags & MLX5_QP_FLAG_BFREG_INDEX) {
		if (n >= LEGACY_DYNAMIC_BFREGS)
			return -EINVAL;
		qp->uar = UAR_NUMBER(UAR_KIND_ALLOC, n / BFREGS_USED);
		qp->bfreg = n % BFREGS_USED;
		return 0;
	}
	n = next_bfreg(c->u);
	qp->uar = UAR_NUMBER(UAR_KIND_REGULAR, n / BFREGS_OF_PAGE);
	qp->bfreg = n % BFREGS_OF_PAGE;
	*index_p = n;
	return 0;
}

/* Takes references on the objects that a QP uses. */
static int hold(struct cmd *c, const struct ib_uverbs_ex_create_qp *req)
{
	struct obj *pd = obj_of_ctx(OBJ_PD, req->pd_handle, c->u->ctx);
	struct obj *scq = obj_of_ctx(OBJ_CQ, req->send_cq_handle, c->u->ctx);
	struct obj *rcq = obj_of_ctx(OBJ_CQ, req->recv_cq_handle, c->u->ctx);
	struct obj *srq = req->is_srq ? obj_of_ctx(OBJ_SRQ, req->srq_handle, c->u->ctx) : NULL;

	if (!pd || !scq || !rcq || (req->is_srq && !srq))
		return -EINVAL;
	pd->refs++;
	scq->refs++;
	rcq->refs++;
	if (srq)
		srq->refs++;
	return 0;
}

static void fill_qp(struct qp *qp, const struct ib_uverbs_ex_create_qp *req,
	const struct mlx5_ib_create_qp *d)
{
	qp->pd = req->pd_handle;
	qp->send_cq = req->send_cq_handle;
	qp->recv_cq = req->recv_cq_handle;
	qp->srq = req->is_srq ? req->srq_handle : NO_INDEX;
	qp->uidx = d->uidx & 0xffffff;
	qp->type = req->qp_type;
	qp->sig_all = req->sq_sig_all;
	qp->dbrec = d->db_addr;
	qp->rq_buf = d->buf_addr;
	qp->rq_count = req->is_srq ? 0 : d->rq_wqe_count;
	qp->rq_shift = d->rq_wqe_shift;
	qp->sq_buf = d->buf_addr + ((uint64_t)qp->rq_count << d->rq_wqe_shift);
	qp->sq_count = d->sq_wqe_count;
	qp->max_send_wr = req->max_send_wr;
	qp->max_recv_wr = qp->rq_count;
	qp->max_send_sge = req->max_send_sge;
	qp->max_recv_sge = qp->rq_count ? (1u << qp->rq_shift) / WQE_UNIT : 0;
	qp->max_inline = req->max_inline_data;
	qp->user_handle = req->user_handle;
}

/*
 * Moves the queues into the pool if the QP has a receive queue: other processes do not access the
 * send queue. Both queues move, because the provider allocates whole pages for the two together.
 */
int prepare_create_qp(struct cmd *c)
{
	struct ib_uverbs_ex_create_qp req = get_create_qp(c);
	struct mlx5_ib_create_qp d;
	uint64_t receives;
	int r = trap_scan(c->u);

	cmd_get(c->drv_in, &d, sizeof(d));
	if (r || check_queues(&d))
		return r;
	receives = req.is_srq ? 0 : (uint64_t)d.rq_wqe_count << d.rq_wqe_shift;
	if (receives)
		cmd_enter_pool(c, d.buf_addr, receives + (uint64_t)d.sq_wqe_count * WQE_BLOCK,
			d.db_addr);
	return 0;
}

int cmd_create_qp(struct cmd *c)
{
	struct ib_uverbs_ex_create_qp req = get_create_qp(c);
	struct ib_uverbs_ex_create_qp_resp resp = {.response_length = sizeof(resp)};
	struct mlx5_ib_create_qp_resp drv = {0};
	struct mlx5_ib_create_qp d;
	struct qp *qp;
	uint32_t i;
	int r;

	cmd_get(c->drv_in, &d, sizeof(d));
	if (req.qp_type != QPT_RC && req.qp_type != QPT_UC && req.qp_type != QPT_UD)
		return -EOPNOTSUPP;
	r = check_queues(&d);
	if (r)
		return r;
	r = obj_alloc(OBJ_QP, c->u->ctx);
	if (r < 0)
		return r;
	i = (uint32_t)r;
	qp = &arena()->qps[i];
	r = place_doorbell(c, &d, qp, &drv.bfreg_index);
	if (!r)
		r = hold(c, &req);
	if (r)
		return r;
	fill_qp(qp, &req, &d);
	qp->rail = c->u->rail;
	qp->qpn = ((uint32_t)arena()->qp_gen[i] << QP_INDEX_BITS | i) & 0xffffff;
	qp->trapped = config_get()->mode == ENGINE_TRAP;
	qp->trace = trace_alloc();
	owed_init(qp);
	cmd_give_pooled(c, &qp->rq_buf_shift, &qp->dbrec_shift);
	obj_publish(OBJ_QP, i);
	engine_watch(OBJ_QP, i, uar_page(c->u, qp->uar), c->u->door);
	resp.base.qp_handle = i;
	resp.base.qpn = qp->qpn;
	resp.base.max_send_wr = req.max_send_wr;
	resp.base.max_recv_wr = qp->max_recv_wr;
	resp.base.max_send_sge = req.max_send_sge;
	resp.base.max_recv_sge = qp->max_recv_sge;
	resp.base.max_inline_data = req.max_inline_data;
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

int cmd_query_qp(struct cmd *c)
{
	struct ib_uverbs_query_qp req;
	struct ib_uverbs_query_qp_resp resp = {0};
	struct qp_attr *a;
	struct qp *qp;

	cmd_get(c->in, &req, sizeof(req));
	qp = obj_of_ctx(OBJ_QP, req.qp_handle, c->u->ctx);
	if (!qp)
		return -EINVAL;
	a = &qp->attr;
	resp = (struct ib_uverbs_query_qp_resp){
		.dest = {.flow_label = a->flow_label,
			.dlid = a->dlid,
			.sgid_index = a->sgid_index,
			.hop_limit = a->hop_limit,
			.traffic_class = a->traffic_class,
			.sl = a->sl,
			.src_path_bits = a->path_bits,
			.static_rate = a->static_rate,
			.is_global = a->is_global,
			.port_num = a->port_num},
		.max_send_wr = qp->max_send_wr,
		.max_recv_wr = qp->max_recv_wr,
		.max_send_sge = qp->max_send_sge,
		.max_recv_sge = qp->max_recv_sge,
		.max_inline_data = qp->max_inline,
		.qkey = a->qkey,
		.rq_psn = a->rq_psn,
		.sq_psn = a->sq_psn,
		.dest_qp_num = a->dest_qpn,
		.qp_access_flags = a->access,
		.pkey_index = a->pkey_index,
		.qp_state = qp->state,
		.cur_qp_state = qp->state,
		.path_mtu = a->path_mtu,
		.path_mig_state = a->path_mig_state,
		.max_rd_atomic = a->max_rd_atomic,
		.max_dest_rd_atomic = a->max_dest_rd_atomic,
		.min_rnr_timer = a->min_rnr_timer,
		.port_num = a->port_num,
		.timeout = a->timeout,
		.retry_cnt = a->retry_cnt,
		.rnr_retry = a->rnr_retry,
		.sq_sig_all = qp->sig_all,
	};
	memcpy(resp.dest.dgid, a->dgid, sizeof(a->dgid));
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

/*
 * Maps the peer's pool, so that the messages of the connection access the peer's queues without
 * system calls.
 */
static void open_peer(const struct qp *qp)
{
	const struct qp *peer = qp_by_number(qp->attr.dest_qpn);

	if (peer && (qp->state == QPS_RTR || qp->state == QPS_RTS))
		view_open(peer->obj.owner);
}

int cmd_modify_qp(struct cmd *c)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {.response_length = sizeof(resp)};
	struct ib_uverbs_modify_qp req;
	struct qp *qp;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	qp = obj_of_ctx(OBJ_QP, req.qp_handle, c->u->ctx);
	if (!qp)
		return -EINVAL;
	r = qp_modify(qp, &req);
	c->receives = !r && wired_needs_receiver(qp);
	if (!r)
		open_peer(qp);
	if (!r && c->extended)
		cmd_put(c->out, &resp, sizeof(resp));
	return r;
}

int finish_modify_qp(struct cmd *c)
{
	return c->receives ? pump_start() : 0;
}

int cmd_destroy_qp(struct cmd *c)
{
	struct ib_uverbs_destroy_qp req;
	struct ib_uverbs_destroy_qp_resp resp = {0};
	struct pooled buf, dbrec;
	struct arena *a = arena();
	struct qp *qp;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	qp = obj_of_ctx(OBJ_QP, req.qp_handle, c->u->ctx);
	if (!qp)
		return -EINVAL;
	/* If this fails, the QP is not stopped, and the program can repeat the command. */
	r = async_withdraw(qp->obj.ctx, qp->user_handle, &qp->async_events);
	if (r)
		return r;
	strict_destroyed(qp);
	qp_end_receive(qp, false);
	qp_stop(qp);
	if (!copy_wait(qp, false))
		return -EINVAL;
	owed_release_all(qp);
	/*
	 * A copy may have failed in copy_wait(), and caused an event. Without a free descriptor this
	 * fails, although the QP is stopped; the program can repeat the command.
	 */
	r = async_withdraw(qp->obj.ctx, qp->user_handle, &qp->async_events);
	if (r)
		return r;
	resp.events_reported = qp->async_events;
	a->pds[qp->pd].obj.refs--;
	cq_at(qp->send_cq)->obj.refs--;
	cq_at(qp->recv_cq)->obj.refs--;
	if (qp->srq != NO_INDEX)
		a->srqs[qp->srq].obj.refs--;
	buf = (struct pooled){qp->rq_buf, qp->rq_buf_shift};
	dbrec = (struct pooled){qp->dbrec, qp->dbrec_shift};
	obj_free(OBJ_QP, req.qp_handle);
	c->buf = buf;
	c->dbrec = dbrec;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}
