/* SPDX-License-Identifier: MIT */
/* A QP of the vendor's library, in a context of this library. */
#ifndef VENDOR_H
#define VENDOR_H

#include "device.h"
#include "hca.h"

enum {
	VENDOR_SRQ_DEPTH = 512,
	VENDOR_WR = 512,
	VENDOR_SCQ_DEPTH = 1024,
	VENDOR_RCQ_DEPTH = 512,
};

struct vendor {
	struct mlx5dvl_ctx *ctx; /* its ibv_context and PD are used */
	struct ibv_srq *srq;
	struct ibv_cq *scq, *rcq;
	struct ibv_qp *qp;
	struct mlx5dv_qp dv;
	uint32_t pi; /* blocks posted */
	uint32_t psn;
	enum ibv_qp_type type;
};

#define VENDOR_QKEY 0x1234567

static inline struct ibv_cq *vendor_cq(struct mlx5dvl_ctx *ctx, uint32_t depth, uint16_t cqe_size)
{
	struct ibv_cq_init_attr_ex init = {.cqe = depth - 1};
	struct mlx5dv_cq_init_attr dv = {.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE,
		.cqe_size = cqe_size};
	struct ibv_cq_ex *cq = mlx5dv_create_cq(ctx->ibv, &init, &dv);

	CHECK(cq);
	return ibv_cq_ex_to_cq(cq);
}

/* Creates the QP; the other objects exist. */
static inline void vendor_qp(struct vendor *v)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = v->scq,
		.recv_cq = v->rcq,
		.srq = v->srq,
		.cap = {.max_send_wr = VENDOR_WR, .max_send_sge = 4, .max_inline_data = 220},
		.qp_type = v->type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = v->ctx->pd,
	};
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = VENDOR_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC};
	int rights = v->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	struct mlx5dv_obj obj = {.qp = {.out = &v->dv}};

	v->qp = mlx5dv_create_qp(v->ctx->ibv, &init, &dv);
	CHECK(v->qp);
	obj.qp.in = v->qp;
	CHECK_EQ(ibv_modify_qp(v->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights),
		0);
	CHECK_EQ(mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP), 0);
}

static inline void vendor_open(struct vendor *v, struct mlx5dvl_ctx *ctx, uint16_t cqe_size,
	enum ibv_qp_type type)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = VENDOR_SRQ_DEPTH, .max_sge = 1}};

	memset(v, 0, sizeof(*v));
	v->ctx = ctx;
	v->type = type;
	v->srq = ibv_create_srq(ctx->pd, &srq);
	CHECK(v->srq);
	v->scq = vendor_cq(ctx, VENDOR_SCQ_DEPTH, cqe_size);
	v->rcq = vendor_cq(ctx, VENDOR_RCQ_DEPTH, cqe_size);
	vendor_qp(v);
	v->psn = 0x123;
}

static inline void vendor_close(struct vendor *v)
{
	CHECK_EQ(ibv_destroy_qp(v->qp), 0);
	CHECK_EQ(ibv_destroy_cq(v->scq), 0);
	CHECK_EQ(ibv_destroy_cq(v->rcq), 0);
	CHECK_EQ(ibv_destroy_srq(v->srq), 0);
}

static inline void vendor_info(const struct vendor *v, struct mlx5dvl_qp_info *info)
{
	*info = (struct mlx5dvl_qp_info){.qpn = v->qp->qp_num,
		.psn = v->psn,
		.lid = v->ctx->port_attr.lid,
		.mtu = (uint8_t)v->ctx->port_attr.active_mtu,
		.rd_atomic = 4,
		.qkey = v->type == IBV_QPT_UD ? VENDOR_QKEY : 0};
	if (v->ctx->gid_index >= 0)
		memcpy(info->gid, &v->ctx->gid, 16);
}

static inline void vendor_address(const struct vendor *v, const struct mlx5dvl_qp_info *peer,
	struct ibv_ah_attr *ah)
{
	*ah = (struct ibv_ah_attr){.dlid = peer->lid, .port_num = 1};
	if (v->ctx->gid_index >= 0) {
		ah->is_global = 1;
		ah->grh.sgid_index = (uint8_t)v->ctx->gid_index;
		ah->grh.hop_limit = 64;
		memcpy(&ah->grh.dgid, peer->gid, 16);
	}
}

/* Returns the attribute mask of a state transition for this type of QP. */
static inline int vendor_mask(const struct vendor *v, int reliable, int connected)
{
	return IBV_QP_STATE | (v->type == IBV_QPT_RC ? reliable : 0) |
	       (v->type != IBV_QPT_UD ? connected : 0);
}

static inline void vendor_connect(struct vendor *v, const struct mlx5dvl_qp_info *peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)peer->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.sq_psn = v->psn,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4};

	vendor_address(v, peer, &a.ah_attr);
	CHECK_EQ(ibv_modify_qp(v->qp, &a,
			 vendor_mask(v, IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)),
		0);
	a.qp_state = IBV_QPS_RTS;
	CHECK_EQ(ibv_modify_qp(v->qp, &a,
			 IBV_QP_SQ_PSN | vendor_mask(v,
						 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
							 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
						 0)),
		0);
}

#endif
