/* SPDX-License-Identifier: MIT */
/* Shared receive queues. */
#include <errno.h>
#include <stdatomic.h>

#include "hca/event.h"
#include "uverbs/cmd.h"
#include "xport/free.h"

#define SRQ_MAX_WR 32768u
#define SRQ_MIN_STRIDE 32u

/* The provider does not send the stride. It follows from the number of segments. */
static uint32_t srq_stride(uint32_t max_sge)
{
	uint32_t stride = SRQ_MIN_STRIDE;

	while (stride < 16 + 16 * max_sge)
		stride *= 2;
	return stride;
}

static bool size_ok(const struct ib_uverbs_create_srq *req)
{
	return req->max_wr <= SRQ_MAX_WR && req->max_sge <= 31;
}

/* The provider allocates whole pages for the entries, so these pages can move into the pool. */
int prepare_create_srq(struct cmd *c)
{
	struct ib_uverbs_create_srq req;
	struct mlx5_ib_create_srq d;

	cmd_get(c->in, &req, sizeof(req));
	cmd_get(c->drv_in, &d, sizeof(d));
	if (size_ok(&req))
		cmd_enter_pool(c, d.buf_addr,
			(uint64_t)srq_stride(req.max_sge) << cmd_log2_up(req.max_wr + 1),
			d.db_addr);
	return 0;
}

/*
 * In this order: if this thread loses the mutex in between, recv_recover() finds no limit that is
 * due.
 */
static void set_limit(struct srq *srq, uint32_t limit)
{
	srq->limit_from = srq->taken;
	atomic_signal_fence(memory_order_seq_cst);
	srq->limit = limit;
}

int cmd_create_srq(struct cmd *c)
{
	struct ib_uverbs_create_srq req;
	struct ib_uverbs_create_srq_resp resp = {0};
	struct mlx5_ib_create_srq_resp drv = {0};
	struct mlx5_ib_create_srq d;
	struct pd *pd;
	struct srq *srq;
	uint32_t i;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	cmd_get(c->drv_in, &d, sizeof(d));
	pd = obj_of_ctx(OBJ_PD, req.pd_handle, c->u->ctx);
	if (!pd || !size_ok(&req))
		return -EINVAL;
	r = obj_alloc(OBJ_SRQ, c->u->ctx);
	if (r < 0)
		return r;
	i = (uint32_t)r;
	srq = &arena()->srqs[i];
	srq->pd = req.pd_handle;
	srq->stride = srq_stride(req.max_sge);
	srq->max_wr = req.max_wr;
	srq->max_sge = req.max_sge;
	srq->count = 1u << cmd_log2_up(req.max_wr + 1);
	set_limit(srq, req.srq_limit);
	srq->buf = d.buf_addr;
	srq->dbrec = d.db_addr;
	srq->user_handle = req.user_handle;
	pd->obj.refs++;
	cmd_give_pooled(c, &srq->buf_shift, &srq->dbrec_shift);
	obj_publish(OBJ_SRQ, i);
	resp.srq_handle = i;
	resp.max_wr = req.max_wr;
	resp.max_sge = req.max_sge;
	resp.srqn = drv.srqn = i;
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

int cmd_modify_srq(struct cmd *c)
{
	enum { MASK_MAX_WR = 1, MASK_LIMIT = 2 };
	struct ib_uverbs_modify_srq req;
	struct srq *srq;

	cmd_get(c->in, &req, sizeof(req));
	srq = obj_of_ctx(OBJ_SRQ, req.srq_handle, c->u->ctx);
	if (!srq || (req.attr_mask & MASK_MAX_WR))
		return -EINVAL;
	if (!(req.attr_mask & MASK_LIMIT))
		return 0;
	if (req.srq_limit >= srq->count)
		return -EINVAL;
	set_limit(srq, req.srq_limit);
	return 0;
}

int cmd_query_srq(struct cmd *c)
{
	struct ib_uverbs_query_srq req;
	struct ib_uverbs_query_srq_resp resp = {0};
	struct srq *srq;

	cmd_get(c->in, &req, sizeof(req));
	srq = obj_of_ctx(OBJ_SRQ, req.srq_handle, c->u->ctx);
	if (!srq)
		return -EINVAL;
	resp.max_wr = srq->max_wr;
	resp.max_sge = srq->max_sge;
	resp.srq_limit = srq->limit;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

int cmd_destroy_srq(struct cmd *c)
{
	struct ib_uverbs_destroy_srq req;
	struct ib_uverbs_destroy_srq_resp resp;
	struct pooled buf, dbrec;
	struct srq *srq;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	srq = obj_of_ctx(OBJ_SRQ, req.srq_handle, c->u->ctx);
	if (!srq)
		return -EINVAL;
	if (srq->obj.refs)
		return -EBUSY;
	r = async_withdraw(srq->obj.ctx, srq->user_handle, &srq->async_events);
	if (r)
		return r;
	resp.events_reported = srq->async_events;
	arena()->pds[srq->pd].obj.refs--;
	buf = (struct pooled){srq->buf, srq->buf_shift};
	dbrec = (struct pooled){srq->dbrec, srq->dbrec_shift};
	obj_free(OBJ_SRQ, req.srq_handle);
	c->buf = buf;
	c->dbrec = dbrec;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}
