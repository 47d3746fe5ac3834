/* SPDX-License-Identifier: MIT */
/* Queue pairs: creation and connection with libibverbs. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/compiler.h"
#include "base/sized.h"
#include "device.h"

static_assert((int)MLX5DVL_NOP == MLX5_OPCODE_NOP && (int)MLX5DVL_WRITE == MLX5_OPCODE_RDMA_WRITE &&
		      (int)MLX5DVL_WRITE_IMM == MLX5_OPCODE_RDMA_WRITE_IMM &&
		      (int)MLX5DVL_SEND == MLX5_OPCODE_SEND &&
		      (int)MLX5DVL_SEND_IMM == MLX5_OPCODE_SEND_IMM &&
		      (int)MLX5DVL_READ == MLX5_OPCODE_RDMA_READ &&
		      (int)MLX5DVL_CMP_SWAP == MLX5_OPCODE_ATOMIC_CS &&
		      (int)MLX5DVL_FETCH_ADD == MLX5_OPCODE_ATOMIC_FA,
	"enum mlx5dvl_opcode must have the device's values");

/* For a field in which 0 is valid: returns the default if the value is 0 and the field's bit in
 * `set` is not set. */
static uint8_t or_set(const struct mlx5dvl_qp_attr *a, unsigned bit, uint8_t value,
	uint8_t otherwise)
{
	return a->set & bit ? value : (uint8_t)or_default(value, otherwise);
}

/* Checks the attributes and fills in the defaults. */
static int resolve_attr(struct mlx5dvl_qp_attr *a, const struct mlx5dvl_ctx *ctx)
{
	struct cq *scq = cq_of(a->send_cq), *rcq = cq_of(a->recv_cq);

	if (!scq || scq->ctx != ctx || a->send_cq->srq ||
		(rcq && (rcq->ctx != ctx || !a->recv_cq->srq)))
		return -EINVAL;
	a->sq_depth = a->sq_depth ? (uint32_t)pow2_ceil(a->sq_depth) : 256;
	a->mtu = (uint8_t)or_default(a->mtu, ctx->port_attr.active_mtu);
	a->timeout = or_set(a, MLX5DVL_SET_TIMEOUT, a->timeout, 14);
	a->retry_cnt = or_set(a, MLX5DVL_SET_RETRY_CNT, a->retry_cnt, 7);
	a->rnr_retry = or_set(a, MLX5DVL_SET_RNR_RETRY, a->rnr_retry, 7);
	a->min_rnr_timer = or_set(a, MLX5DVL_SET_MIN_RNR_TIMER, a->min_rnr_timer, 12);
	a->rd_atomic = (uint8_t)or_default(a->rd_atomic, 4);
	if (a->sq_depth < SQ_MIN_DEPTH || a->sq_depth > SQ_MAX_DEPTH ||
		a->mtu > (uint8_t)ctx->port_attr.active_mtu || a->timeout > 31 ||
		a->retry_cnt > 7 || a->rnr_retry > 7 || a->min_rnr_timer > 31 ||
		a->rd_atomic > 16 || a->sl > 15 || a->flow_label > 0xfffff ||
		a->type > MLX5DVL_UD || a->qkey >> 31)
		return -EINVAL;
	return 0;
}

static struct ibv_qp *create_ibv_qp(struct qp *qp, uint32_t requests)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_cq *scq = qp->send_cq->ibv, *rcq = qp->recv_cq ? qp->recv_cq->ibv : scq;
	struct ibv_qp_init_attr_ex init = {
		.qp_context = qp,
		.send_cq = scq,
		.recv_cq = rcq,
		.srq = qp->recv_cq ? srq_of(qp->recv_cq->queue.srq)->ibv : NULL,
		.cap = {.max_send_wr = requests,
			.max_send_sge = 1,
			.max_inline_data = MLX5DVL_INLINE_MAX},
		.qp_type = types[qp->attr.type],
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = qp->ctx->pd,
	};
	/*
	 * Small payloads of SENDs, and small results of READs and atomics, must go to the buffers
	 * of the receives and requests, not into CQEs.
	 */
	struct mlx5dv_qp_init_attr dv = {
		.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
		.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE,
	};

	errno = 0;
	return mlx5dv_create_qp(qp->ctx->ibv, &init, &dv);
}

/* With MLX5_SHUT_UP_BF, libmlx5 maps the registers without write combining. */
static bool blueflame_is_off(void)
{
	const char *off = getenv("MLX5_SHUT_UP_BF");

	return off && strcmp(off, "0");
}

static int take_over_qp(struct qp *qp, const struct mlx5dv_qp *dv)
{
	struct mlx5dvl_bf *bf;
	int err =
		core_get_bf(&qp->ctx->core, dv->bf.reg, blueflame_is_off() ? 0 : dv->bf.size, &bf);

	if (err)
		return err;
	return sq_init(&qp->queue, dv->sq.buf, dv->sq.wqe_cnt, &dv->dbrec[MLX5_SND_DBR], bf,
		qp->ibv->qp_num);
}

/*
 * libmlx5 makes the queue large enough for max_send_wr requests of the largest size. With
 * MLX5DVL_INLINE_MAX bytes of inline data, the known versions compute 7 blocks per request. If the
 * queue turns out smaller than sq_depth, it is created again with more requests.
 */
static int create_queue(struct qp *qp)
{
	uint32_t depth = qp->attr.sq_depth;

	for (uint32_t requests = depth / 8; requests <= depth; requests *= 2) {
		struct mlx5dv_qp dv = {0};
		struct mlx5dv_obj obj = {.qp = {.out = &dv}};
		int err = -EIO;

		qp->ibv = create_ibv_qp(qp, requests);
		if (!qp->ibv)
			return verbs_errno();
		obj.qp.in = qp->ibv;
		if (!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP) && dv.sq.wqe_cnt >= depth &&
			dv.sq.wqe_cnt <= SQ_MAX_DEPTH && dv.sq.stride == MLX5DVL_BLOCK_)
			err = take_over_qp(qp, &dv);
		if (!err)
			return 0;
		ibv_destroy_qp(qp->ibv);
		if (dv.sq.wqe_cnt >= depth)
			return err;
	}
	return -EIO;
}

static int random_psn(uint32_t *psn_p)
{
	if (getrandom(psn_p, sizeof(*psn_p), 0) != sizeof(*psn_p))
		return -errno;
	*psn_p &= 0xffffff;
	return 0;
}

/* Reserves a CQE for each block: each block may hold a request, which may need a completion. */
static int reserve_cqes(struct qp *qp)
{
	struct cq *cq = qp->send_cq;

	if (cq->blocks + qp->queue.depth > cq->queue.depth)
		return -ENOSPC;
	cq->blocks += qp->queue.depth;
	cq->qps++;
	if (qp->recv_cq)
		qp->recv_cq->qps++;
	return 0;
}

/* Devices without atomics refuse a QP with REMOTE_ATOMIC, so it is left out on these devices. */
static unsigned peer_rights(const struct qp *qp)
{
	if (qp->attr.no_remote)
		return 0;
	return IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	       (qp->ctx->atomics ? IBV_ACCESS_REMOTE_ATOMIC : 0u);
}

static int to_init(struct qp *qp)
{
	int rights = qp->attr.type == MLX5DVL_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.qkey = qp->attr.qkey,
		.port_num = qp->ctx->port,
		.pkey_index = qp->ctx->pkey_index,
		.qp_access_flags = peer_rights(qp),
	};

	return -ibv_modify_qp(qp->ibv, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | rights);
}

static int fill_qp(struct qp *qp)
{
	int err = create_queue(qp);

	if (err)
		return err;
	err = to_init(qp);
	if (err)
		goto destroy;
	err = core_add_qp(&qp->ctx->core, &qp->queue);
	if (err)
		goto destroy;
	err = reserve_cqes(qp);
	if (err)
		goto remove;
	return 0;

remove:
	core_remove_qp(&qp->ctx->core, &qp->queue);
destroy:
	ibv_destroy_qp(qp->ibv);
	sq_fini(&qp->queue);
	return err;
}

int mlx5dvl_qp_check(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr)
{
	struct mlx5dvl_qp_attr resolved;
	int err = SIZED_ATTR(&resolved, attr, qkey);

	return err ? err : resolve_attr(&resolved, ctx);
}

int mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p)
{
	struct mlx5dvl_qp_attr resolved;
	struct qp *qp;
	int err = SIZED_ATTR(&resolved, attr, qkey);

	if (!err)
		err = resolve_attr(&resolved, ctx);
	if (err)
		return err;
	ctx_reap(ctx, false, NULL);
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return -ENOMEM;
	qp->ctx = ctx;
	qp->attr = resolved;
	qp->send_cq = cq_of(resolved.send_cq);
	qp->recv_cq = cq_of(resolved.recv_cq);
	qp->queue.user = resolved.user;
	err = random_psn(&qp->psn);
	if (!err)
		err = fill_qp(qp);
	if (err) {
		free(qp);
		return err;
	}
	*qp_p = &qp->queue;
	return 0;
}

static void free_qp(struct qp *qp)
{
	ibv_destroy_qp(qp->ibv); /* the device then writes no more completions of this QP */
	cq_forget_qp(&qp->send_cq->queue, qp->queue.qpn);
	if (qp->recv_cq) {
		cq_forget_qp(&qp->recv_cq->queue, qp->queue.qpn);
		qp->recv_cq->qps--;
	}
	qp->send_cq->blocks -= qp->queue.depth;
	qp->send_cq->qps--;
	sq_fini(&qp->queue);
	free(qp);
}

void ctx_reap(struct mlx5dvl_ctx *ctx, bool force, const struct cq *cq)
{
	struct qp **at = &ctx->retired, *qp;
	uint64_t now;

	if (!ctx->retired)
		return;
	now = ctx->clock();
	ctx_read_events(ctx);
	while ((qp = *at)) {
		bool uses = !cq || qp->send_cq == cq || qp->recv_cq == cq;

		if (!qp->drained && now < qp->free_at && !(force && uses)) {
			at = &qp->next_retired;
			continue;
		}
		*at = qp->next_retired;
		ctx->nretired--;
		free_qp(qp);
	}
}

/*
 * Stops the QP before it is destroyed. A QP that has begun to receive a message holds a receive of
 * the SRQ. When the QP is stopped, it returns the receive in a completion. If the QP were destroyed
 * at once, the SRQ would lose the receive.
 */
static void retire(struct qp *qp)
{
	struct ibv_qp_attr stop = {.qp_state = IBV_QPS_ERR};

	/* If this fails, the device has failed, and would not report that the QP is drained. */
	if (ibv_modify_qp(qp->ibv, &stop, IBV_QP_STATE))
		qp->drained = true;
	qp->retired = true;
	qp->free_at = qp->ctx->clock() + DRAIN_NS;
	qp->next_retired = qp->ctx->retired;
	qp->ctx->retired = qp;
	qp->ctx->nretired++;
}

void mlx5dvl_qp_destroy(struct mlx5dvl_qp *queue)
{
	struct qp *qp = qp_of(queue);
	struct mlx5dvl_ctx *ctx;

	if (!queue)
		return;
	ctx = qp->ctx;
	ctx_forget_events(ctx, queue);
	core_remove_qp(&ctx->core, queue);
	if (qp->recv_cq && qp->attr.type == MLX5DVL_RC && queue->status != -ENOTCONN)
		retire(qp);
	else
		free_qp(qp);
	ctx_reap(ctx, false, NULL);
}

uint32_t mlx5dvl_ctx_retired(struct mlx5dvl_ctx *ctx)
{
	ctx_reap(ctx, false, NULL);
	return ctx->nretired;
}

void mlx5dvl_qp_get_info(const struct mlx5dvl_qp *queue, struct mlx5dvl_qp_info *info_p,
	size_t size)
{
	const struct qp *qp = (const struct qp *)queue;
	const struct mlx5dvl_ctx *ctx = qp->ctx;
	struct mlx5dvl_qp_info own = {
		.qpn = queue->qpn,
		.psn = qp->psn,
		.lid = ctx->port_attr.lid,
		.mtu = qp->attr.mtu,
		.rd_atomic = qp->attr.rd_atomic,
		.qkey = qp->attr.type == MLX5DVL_UD ? qp->attr.qkey : 0,
	};

	if (ctx->gid_index >= 0)
		memcpy(own.gid, &ctx->gid, sizeof(own.gid));
	memset(info_p, 0, size);
	sized_out(info_p, size, &own, sizeof(own));
}

static bool has_gid(const struct mlx5dvl_qp_info *info)
{
	static const uint8_t none[16];

	return memcmp(info->gid, none, sizeof(none));
}

int qp_read_peer(const struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_info *info, size_t size,
	struct mlx5dvl_qp_info *peer)
{
	int err = sized_in(peer, sizeof(*peer), info, size);

	if (err)
		return err;
	if (!peer->qpn || peer->qpn > 0xffffff || peer->psn > 0xffffff || peer->mtu < 1 ||
		peer->mtu > 5 || peer->rd_atomic > 128)
		return -EINVAL;
	if (has_gid(peer) != (ctx->gid_index >= 0))
		return -EINVAL;
	if (!peer->lid && ctx->port_attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		return -EINVAL;
	return 0;
}

void qp_address(const struct qp *qp, const struct mlx5dvl_qp_info *peer, struct ibv_ah_attr *ah_p)
{
	const struct mlx5dvl_ctx *ctx = qp->ctx;
	struct ibv_ah_attr ah = {.dlid = peer->lid, .sl = qp->attr.sl, .port_num = ctx->port};

	if (ctx->gid_index >= 0) {
		ah.is_global = 1;
		ah.grh.sgid_index = (uint8_t)ctx->gid_index;
		ah.grh.hop_limit = 64;
		ah.grh.traffic_class = qp->attr.traffic_class;
		ah.grh.flow_label = qp->attr.flow_label;
		memcpy(&ah.grh.dgid, peer->gid, sizeof(peer->gid));
	}
	*ah_p = ah;
}

/* The peer of a UD QP is all 0: each of its requests has an address of its own. */
static int to_rtr(struct qp *qp, const struct mlx5dvl_qp_info *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < qp->attr.mtu ? peer->mtu : qp->attr.mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = qp->attr.rd_atomic,
		.min_rnr_timer = qp->attr.min_rnr_timer,
	};
	int mask = IBV_QP_STATE;

	if (qp->attr.type != MLX5DVL_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (qp->attr.type == MLX5DVL_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	qp_address(qp, peer, &a.ah_attr);
	return -ibv_modify_qp(qp->ibv, &a, mask);
}

static int to_rts(struct qp *qp, const struct mlx5dvl_qp_info *peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->psn,
		.timeout = qp->attr.timeout,
		.retry_cnt = qp->attr.retry_cnt,
		.rnr_retry = qp->attr.rnr_retry,
		.max_rd_atomic =
			peer->rd_atomic < qp->attr.rd_atomic ? peer->rd_atomic : qp->attr.rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->attr.type == MLX5DVL_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return -ibv_modify_qp(qp->ibv, &a, mask);
}

int mlx5dvl_qp_connect(struct mlx5dvl_qp *queue, const struct mlx5dvl_qp_info *info, size_t size)
{
	struct qp *qp = qp_of(queue);
	struct mlx5dvl_qp_info peer = {0};
	int err;

	if (!info != (qp->attr.type == MLX5DVL_UD))
		return -EINVAL;
	err = info ? qp_read_peer(qp->ctx, info, size, &peer) : 0;
	if (err)
		return err;
	if (queue->status != -ENOTCONN)
		return -EISCONN;
	err = to_rtr(qp, &peer);
	if (!err)
		err = to_rts(qp, &peer);
	if (err) {
		sq_stop(queue, err);
		return err;
	}
	sq_open(queue);
	return 0;
}

int mlx5dvl_qp_to_error(struct mlx5dvl_qp *queue)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	int err = -ibv_modify_qp(qp_of(queue)->ibv, &a, IBV_QP_STATE);

	if (!err)
		sq_stop(queue, -ECANCELED);
	return err;
}

int mlx5dvl_qp_status(const struct mlx5dvl_qp *queue)
{
	return queue->status;
}
