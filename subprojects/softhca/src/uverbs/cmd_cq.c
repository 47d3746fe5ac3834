/* SPDX-License-Identifier: MIT */
/* Completion channels and completion queues. */
#include <errno.h>
#include <string.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "dma/pool.h"
#include "hca/comp.h"
#include "hca/config.h"
#include "hca/cqe.h"
#include "hca/event.h"
#include "hca/journal.h"
#include "hca/trace.h"
#include "sched/engine.h"
#include "sys/sys.h"
#include "trap/pages.h"
#include "trap/trap.h"
#include "uverbs/cmd.h"
#include "uverbs/reads.h"
#include "uverbs/uar.h"
#include "xport/free.h"

#define CQE_MAX ((1u << 22) - 1)
#define CQ_MODERATE 1u /* attribute of MODIFY_CQ, in no header of the kernel */

int cmd_create_comp_channel(struct cmd *c)
{
	struct ib_uverbs_create_comp_channel_resp resp;
	uint64_t fifo;
	int fd = fifo_create(&fifo);
	int r;

	if (fd < 0)
		return fd;
	r = uverbs_channel_add(fd, fifo);
	if (r) {
		fifo_remove(fifo);
		sys_close(fd);
		return r;
	}
	resp.fd = (uint32_t)fd;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

/* Converts the plain form of the command to the extended one. */
static struct ib_uverbs_ex_create_cq get_create_cq(struct cmd *c)
{
	struct ib_uverbs_ex_create_cq ex;
	struct ib_uverbs_create_cq old;

	if (c->extended) {
		cmd_get(c->in, &ex, sizeof(ex));
		return ex;
	}
	cmd_get(c->in, &old, sizeof(old));
	return (struct ib_uverbs_ex_create_cq){
		.user_handle = old.user_handle,
		.cqe = old.cqe,
		.comp_vector = old.comp_vector,
		.comp_channel = old.comp_channel,
	};
}

/*
 * Returns the size of a queue with room for @cqes completions. The provider allocates whole pages
 * for the queue, so these pages can move into the pool.
 */
static uint64_t cq_bytes(uint32_t cqes, uint32_t cqe_size)
{
	return (uint64_t)cqe_size << cmd_log2_up(cqes + 1);
}

static bool size_ok(uint32_t cqes, uint32_t cqe_size)
{
	return cqes && cqes <= CQE_MAX && (cqe_size == 64 || cqe_size == 128);
}

int prepare_create_cq(struct cmd *c)
{
	struct ib_uverbs_ex_create_cq req = get_create_cq(c);
	struct mlx5_ib_create_cq d;
	int r = trap_scan(c->u);

	cmd_get(c->drv_in, &d, sizeof(d));
	if (!r && size_ok(req.cqe, d.cqe_size))
		cmd_enter_pool(c, d.buf_addr, cq_bytes(req.cqe, d.cqe_size), d.db_addr);
	return r;
}

int cmd_create_cq(struct cmd *c)
{
	struct ib_uverbs_ex_create_cq req = get_create_cq(c);
	struct ib_uverbs_ex_create_cq_resp resp = {.response_length = sizeof(resp)};
	struct mlx5_ib_create_cq_resp drv = {0};
	struct mlx5_ib_create_cq d;
	uint64_t fifo = req.comp_channel >= 0 ? uverbs_channel_fifo(req.comp_channel) : 0;
	struct cq *cq;
	uint32_t i;
	int uar = UAR_NUMBER(UAR_KIND_REGULAR, 0), r;

	cmd_get(c->drv_in, &d, sizeof(d));
	if (req.comp_vector >= COMP_VECTORS)
		return -EINVAL;
	if (!size_ok(req.cqe, d.cqe_size))
		return -EINVAL;
	if (req.comp_channel >= 0 && !fifo)
		return -EBADF;
	if (d.cqe_comp_en && d.cqe_comp_res_format != MLX5_IB_CQE_RES_FORMAT_HASH)
		return -EOPNOTSUPP;
	if (d.flags & MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX)
		uar = uar_of_page_id(c->u, d.uar_page_index);
	if (uar < 0)
		return uar;
	r = obj_alloc(OBJ_CQ, c->u->ctx);
	if (r < 0)
		return r;
	i = (uint32_t)r;
	cq = cq_at(i);
	cq->buf = d.buf_addr;
	cq->dbrec = d.db_addr;
	cq->uar = (uint32_t)uar;
	cq->cqe_size = d.cqe_size;
	cq->log_size = cmd_log2_up(req.cqe + 1);
	cq->comp_en = d.cqe_comp_en;
	cq->ignore_overrun = !!(req.flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN);
	arena()->comp_runs[i].n = 0;
	cq->user_handle = req.user_handle;
	cq->fifo = fifo;
	cq->trace = trace_alloc();
	/*
	 * Sets the arm word in the doorbell record to a value that no arm request has. A record of
	 * zeros would look like a request, because the first arm word may be 0. In trap mode the
	 * arm word in the record is not polled.
	 */
	if (config_get()->mode != ENGINE_TRAP)
		dma_write_be32(fabric_self.slot, cq->dbrec + CQ_DBREC_ARM, CQ_NEVER_ARMED);
	cq->arm_word = CQ_NEVER_ARMED;
	cmd_give_pooled(c, &cq->buf_shift, &cq->dbrec_shift);
	reads_begin(i, cq->user_handle);
	obj_publish(OBJ_CQ, i);
	if (cq->fifo)
		engine_watch(OBJ_CQ, i, uar_page(c->u, cq->uar), c->u->door);
	resp.base.cq_handle = i;
	resp.base.cqe = req.cqe;
	drv.cqn = i;
	cmd_put(c->out, &resp, sizeof(resp));
	cmd_put(c->drv_out, &drv, sizeof(drv));
	return 0;
}

/*
 * The adapter ends the old buffer with a CQE of type RESIZE. The provider copies the earlier CQEs
 * that the program has not polled into the new buffer, each one index higher.
 */
static int resize(struct cq *cq, const struct ib_uverbs_resize_cq *req,
	const struct mlx5_ib_resize_cq *d, struct cmd *c)
{
	const struct cqe64 last = {.op_own = CQE_RESIZE << 4};
	struct pooled old = {cq->buf, cq->buf_shift};
	uint64_t to = c->buf.shift;
	uint32_t waiting;

	cq_read_consumer(cq);
	waiting = cq->producer - cq->consumer;
	if (waiting >= 1u << cq->log_size || waiting > req->cqe)
		return -EINVAL;
	cq_store(cq, cq->producer, last);
	c->buf.shift = 0; /* from now on, no buffer is released if this thread is stopped */
	/* Changed in one step, so that the queue is intact if the process is killed here. */
	journal_begin();
	journal_store(&cq->producer, cq->producer + 1);
	journal_store64(&cq->buf, d->buf_addr);
	journal_store64(&cq->buf_shift, to);
	journal_store(&cq->log_size, cmd_log2_up(req->cqe + 1));
	journal_commit();
	c->buf = old;
	return 0;
}

int prepare_resize_cq(struct cmd *c)
{
	struct ib_uverbs_resize_cq req;
	struct mlx5_ib_resize_cq d;

	cmd_get(c->in, &req, sizeof(req));
	cmd_get(c->drv_in, &d, sizeof(d));
	if (size_ok(req.cqe, d.cqe_size))
		cmd_enter_pool(c, d.buf_addr, cq_bytes(req.cqe, d.cqe_size), 0);
	return 0;
}

int cmd_resize_cq(struct cmd *c)
{
	struct ib_uverbs_resize_cq req;
	struct ib_uverbs_resize_cq_resp resp = {0};
	struct mlx5_ib_resize_cq d;
	struct cq *cq;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	cmd_get(c->drv_in, &d, sizeof(d));
	cq = obj_of_ctx(OBJ_CQ, req.cq_handle, c->u->ctx);
	if (!cq || !size_ok(req.cqe, d.cqe_size) || d.cqe_size != cq->cqe_size)
		return -EINVAL;
	if (cq->comp_en) /* the provider cannot copy compressed completions */
		return -EOPNOTSUPP;
	r = resize(cq, &req, &d, c);
	if (r)
		return r;
	resp.cqe = req.cqe;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}

int cmd_modify_cq(struct cmd *c)
{
	struct ib_uverbs_ex_modify_cq req;
	struct cq *cq;

	cmd_get(c->in, &req, sizeof(req));
	if (!req.attr_mask || req.reserved)
		return -EINVAL;
	if (req.attr_mask != CQ_MODERATE)
		return -EOPNOTSUPP;
	cq = obj_of_ctx(OBJ_CQ, req.cq_handle, c->u->ctx);
	if (!cq || req.attr.cq_period > MODERATION_PERIOD_MAX)
		return -EINVAL;
	cq->event_count = req.attr.cq_count;
	cq->event_period = req.attr.cq_period;
	return 0;
}

/*
 * libibverbs waits until the program has acknowledged the reported number of events, so
 * events that were not read are removed and not counted.
 */
int cmd_destroy_cq(struct cmd *c)
{
	struct ib_uverbs_destroy_cq req;
	struct ib_uverbs_destroy_cq_resp resp;
	struct pooled buf, dbrec;
	struct cq *cq;
	int r;

	cmd_get(c->in, &req, sizeof(req));
	cq = obj_of_ctx(OBJ_CQ, req.cq_handle, c->u->ctx);
	if (!cq)
		return -EINVAL;
	if (cq->obj.refs)
		return -EBUSY;
	r = cq_withdraw(cq, reads_count(req.cq_handle));
	if (!r)
		r = async_withdraw(cq->obj.ctx, cq->user_handle, &cq->async_events);
	if (r)
		return r;
	resp.comp_events_reported = cq->comp_events;
	resp.async_events_reported = cq->async_events;
	buf = (struct pooled){cq->buf, cq->buf_shift};
	dbrec = (struct pooled){cq->dbrec, cq->dbrec_shift};
	reads_end(req.cq_handle);
	obj_free(OBJ_CQ, req.cq_handle);
	c->buf = buf;
	c->dbrec = dbrec;
	cmd_put(c->out, &resp, sizeof(resp));
	return 0;
}
