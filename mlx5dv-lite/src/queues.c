/* SPDX-License-Identifier: MIT */
/* Creates the SRQ and the CQs with libibverbs, and initialises the library's own view of their
 * memory. */
#include <endian.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "base/sized.h"
#include "device.h"

#define CQ_DEFAULT_DEPTH 4096
#define CQ_MIN_DEPTH 64 /* a compressed run has up to 64 CQEs */
#define CQ_ARM_REGISTER 0x20 /* offset in the CQ's UAR page */

static_assert(sizeof(struct mlx5dvl_cqe) == sizeof(struct mlx5_cqe64) &&
		      offsetof(struct mlx5dvl_cqe, imm) ==
			      offsetof(struct mlx5_cqe64, imm_inval_pkey) &&
		      offsetof(struct mlx5dvl_cqe, byte_cnt) ==
			      offsetof(struct mlx5_cqe64, byte_cnt) &&
		      offsetof(struct mlx5dvl_cqe, sop_qpn) ==
			      offsetof(struct mlx5_cqe64, sop_drop_qpn) &&
		      offsetof(struct mlx5dvl_cqe, wqe_counter) ==
			      offsetof(struct mlx5_cqe64, wqe_counter) &&
		      offsetof(struct mlx5dvl_cqe, op_own) == offsetof(struct mlx5_cqe64, op_own),
	"struct mlx5dvl_cqe must have the vendor's layout");
static_assert(offsetof(struct mlx5_err_cqe, syndrome) == 55 &&
		      offsetof(struct mlx5_err_cqe, vendor_err_synd) == 54,
	"the syndromes must be at the offsets at which cq.c reads them");

static int take_over_srq(struct srq *srq, const struct mlx5dvl_srq_attr *attr)
{
	struct mlx5dv_srq dv = {0};
	struct mlx5dv_obj obj = {.srq = {.in = srq->ibv, .out = &dv}};

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ))
		return -EIO;
	if (dv.head != 0 || dv.tail < attr->depth || dv.stride & (dv.stride - 1) || dv.stride < 32)
		return -EIO; /* the layout is unknown */
	srq_init(&srq->queue, dv.buf, (uint32_t)__builtin_ctz(dv.stride), attr->depth, dv.dbrec,
		attr);
	return 0;
}

static void free_srq(struct srq *srq)
{
	if (srq->ibv)
		ibv_destroy_srq(srq->ibv);
	free(srq);
}

int mlx5dvl_srq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_srq_attr *attr,
	struct mlx5dvl_srq **srq_p)
{
	struct ibv_srq_init_attr init = {.attr = {.max_sge = 1}};
	struct mlx5dvl_srq_attr a;
	struct srq *srq;
	int err = SIZED_ATTR(&a, attr, lkey);

	if (err)
		return err;
	a.depth = a.depth ? a.depth : SRQ_DEFAULT_DEPTH;
	if (a.depth > SRQ_MAX_DEPTH || (a.buf_size && !a.buf))
		return -EINVAL;
	init.attr.max_wr = a.depth;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	errno = 0;
	srq->ibv = ibv_create_srq(ctx->pd, &init);
	err = srq->ibv ? take_over_srq(srq, &a) : verbs_errno();
	if (err) {
		free_srq(srq);
		return err;
	}
	mlx5dvl_srq_post_(&srq->queue);
	*srq_p = &srq->queue;
	return 0;
}

int mlx5dvl_srq_destroy(struct mlx5dvl_srq *queue)
{
	struct srq *srq = srq_of(queue);

	if (!queue)
		return 0;
	if (srq->cqs)
		return -EBUSY;
	free_srq(srq);
	return 0;
}

static int create_ibv_cq(struct cq *cq, const struct mlx5dvl_cq_attr *attr, uint32_t depth)
{
	struct ibv_cq_init_attr_ex init = {
		.cqe = depth - 1,
		.channel = cq->channel,
		.comp_vector = cq->vector,
	};
	struct mlx5dv_cq_init_attr dv = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
		.cqe_size = attr->cqe_size ? (uint16_t)attr->cqe_size : 64,
	};
	struct ibv_cq_ex *ex;

	if (attr->compress) {
		dv.comp_mask |= MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE;
		dv.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH;
	}
	errno = 0;
	ex = mlx5dv_create_cq(cq->ctx->ibv, &init, &dv);
	if (!ex)
		return attr->compress && errno == EINVAL ? -EOPNOTSUPP : verbs_errno();
	cq->ibv = ibv_cq_ex_to_cq(ex);
	return 0;
}

static int take_over_cq(struct cq *cq, struct mlx5dvl_srq *srq, uint32_t depth)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq->ibv, .out = &dv}};

	if (mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ))
		return -EIO;
	if (dv.cqe_cnt != depth || (dv.cqe_size != 64 && dv.cqe_size != 128))
		return -EIO;
	cq->uar = dv.cq_uar;
	cq->cqn = dv.cqn;
	cq_init(&cq->queue, dv.buf, depth, dv.cqe_size, dv.dbrec, srq, &cq->ctx->core);
	return 0;
}

/* Creates a non-blocking channel. */
static int create_channel(struct cq *cq)
{
	errno = 0;
	cq->channel = ibv_create_comp_channel(cq->ctx->ibv);
	return cq->channel ? fd_unblock(cq->channel->fd) : verbs_errno();
}

static int moderate(struct cq *cq, const struct mlx5dvl_cq_attr *attr)
{
	struct ibv_modify_cq_attr modify = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = attr->event_count, .cq_period = attr->event_period_us},
	};

	return attr->event_count || attr->event_period_us ? -ibv_modify_cq(cq->ibv, &modify) : 0;
}

static int fill_cq(struct cq *cq, const struct mlx5dvl_cq_attr *attr, uint32_t depth)
{
	int err = attr->events ? create_channel(cq) : 0;

	if (!err)
		err = create_ibv_cq(cq, attr, depth);
	if (!err)
		err = moderate(cq, attr);
	return err ? err : take_over_cq(cq, attr->srq, depth);
}

static void free_cq(struct cq *cq)
{
	if (cq->ibv)
		ibv_destroy_cq(cq->ibv);
	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
	free(cq);
}

static uint32_t cq_depth(const struct mlx5dvl_cq_attr *attr)
{
	uint32_t depth = attr->depth;

	if (!depth)
		depth = attr->srq ? attr->srq->depth : CQ_DEFAULT_DEPTH;
	return depth < CQ_MIN_DEPTH ? CQ_MIN_DEPTH : depth;
}

static bool is_valid(const struct mlx5dvl_cq_attr *a)
{
	uint32_t depth = cq_depth(a);

	if (depth > CQ_MAX_DEPTH || (a->srq && depth < a->srq->depth))
		return false;
	if (a->event_count > 1 && !a->event_period_us)
		return false;
	return !a->cqe_size || a->cqe_size == 64 || a->cqe_size == 128;
}

static uint32_t vector_of(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_cq_attr *a)
{
	return a->vector || a->set & MLX5DVL_SET_VECTOR ? a->vector : ctx->vector;
}

int mlx5dvl_cq_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_cq_attr *attr,
	struct mlx5dvl_cq **cq_p)
{
	struct mlx5dvl_cq_attr a;
	struct cq *cq;
	int err = SIZED_ATTR(&a, attr, events);

	if (err)
		return err;
	if (!is_valid(&a))
		return -EINVAL;
	/* A compressed completion has no immediate of its own. */
	if (a.compress && a.srq && !a.force_compress)
		return -EOPNOTSUPP;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	cq->ctx = ctx;
	cq->vector = vector_of(ctx, &a);
	err = fill_cq(cq, &a, (uint32_t)pow2_ceil(cq_depth(&a)));
	if (err) {
		free_cq(cq);
		return err;
	}
	if (a.srq)
		srq_of(a.srq)->cqs++;
	*cq_p = &cq->queue;
	return 0;
}

int mlx5dvl_cq_destroy(struct mlx5dvl_cq *queue)
{
	struct cq *cq = cq_of(queue);

	if (!queue)
		return 0;
	ctx_reap(cq->ctx, true, cq);
	if (cq->qps)
		return -EBUSY;
	if (queue->srq)
		srq_of(queue->srq)->cqs--;
	free_cq(cq);
	return 0;
}

uint32_t mlx5dvl_cq_vector(const struct mlx5dvl_cq *queue)
{
	return ((const struct cq *)queue)->vector;
}

int mlx5dvl_cq_fd(const struct mlx5dvl_cq *queue)
{
	const struct cq *cq = (const struct cq *)queue;

	return cq->channel ? cq->channel->fd : -EINVAL;
}

void mlx5dvl_cq_arm(struct mlx5dvl_cq *queue)
{
	struct cq *cq = cq_of(queue);
	uint32_t word = (cq->arm_sn & 3) << 28 | (queue->ci & 0xffffff);

	mlx5dvl_cq_release(queue); /* also stores the index, to word 0 of the record */
	__atomic_store_n(&queue->record[1], htobe32(word), __ATOMIC_RELAXED);
	mlx5dvl_record_before_doorbell_();
	mlx5dvl_doorbell_store_((uint8_t *)cq->uar + CQ_ARM_REGISTER,
		htobe64((uint64_t)word << 32 | cq->cqn));
	mlx5dvl_doorbell_flush_();
}

int mlx5dvl_cq_event(struct mlx5dvl_cq *queue)
{
	struct cq *cq = cq_of(queue);
	struct ibv_cq *which;
	void *context;

	if (!cq->channel || ibv_get_cq_event(cq->channel, &which, &context))
		return 0;
	ibv_ack_cq_events(cq->ibv, 1);
	cq->arm_sn++;
	return 1;
}
