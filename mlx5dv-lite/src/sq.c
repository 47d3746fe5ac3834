/* SPDX-License-Identifier: MIT */
/* The send queue: the parts that are not inline. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "internal.h"

int sq_init(struct mlx5dvl_qp *qp, void *buf, uint32_t depth, uint32_t *record,
	struct mlx5dvl_bf *bf, uint32_t qpn)
{
	qp->slots = calloc(depth, sizeof(*qp->slots));
	if (!qp->slots)
		return -ENOMEM;
	qp->sq = buf;
	qp->depth = depth;
	qp->mask = depth - 1;
	qp->limit = 0;
	qp->pi = qp->ci = qp->rung = qp->last = qp->stop = 0;
	qp->fillers = 0;
	/*
	 * The interval is in blocks, not in requests, because requests of four blocks fill the ring
	 * four times as fast as requests of one. Because it is at most half the ring, unsignaled
	 * requests can never fill the ring.
	 */
	qp->interval =
		(int32_t)(depth / 2 < SQ_SIGNAL_INTERVAL ? depth / 2 : SQ_SIGNAL_INTERVAL) - 1;
	qp->left = qp->interval;
	qp->record = record;
	qp->bf = bf;
	qp->reg = bf && !bf->size ? bf->reg : NULL;
	qp->qpn = qpn;
	qp->qpn_high = (uint64_t)qpn << 8;
	qp->write_imm_high = (uint64_t)MLX5DVL_WRITE_IMM << 32 | qp->qpn_high;
	qp->status = -ENOTCONN;
	return 0;
}

void sq_fini(struct mlx5dvl_qp *qp)
{
	free(qp->slots);
	qp->slots = NULL;
}

/* Checks the invariant of struct mlx5dvl_qp, in debug builds. */
static void sq_check(const struct mlx5dvl_qp *qp)
{
	assert(qp->rung - qp->ci <= qp->pi - qp->ci);
	assert(qp->pi - qp->ci <= qp->depth);
	assert(qp->pi - qp->last <= 4);
	assert(qp->left >= 0 && qp->left <= qp->interval);
	assert(qp->stop - qp->ci <= qp->limit || qp->stop == qp->pi);
	assert(qp->limit == (qp->status ? 0 : qp->depth));
}

void sq_open(struct mlx5dvl_qp *qp)
{
	assert(qp->status == -ENOTCONN && qp->pi == qp->ci);
	qp->status = 0;
	qp->limit = qp->depth;
	sq_check(qp);
}

void sq_stop(struct mlx5dvl_qp *qp, int err)
{
	qp->limit = 0;
	qp->stop = qp->pi;
	if (qp->status == 0 || qp->status == -ENOTCONN)
		qp->status = err;
}

COLD void mlx5dvl_sq_update(struct mlx5dvl_qp *qp)
{
	uint32_t end = (qp->pi | qp->mask) + 1;

	sq_check(qp);
	if (qp->limit)
		qp->stop = end - qp->ci <= qp->limit ? end : qp->ci + qp->limit;
}

/*
 * Called for a request that is not known to fit at qp->pi. If it does not fit into the queue,
 * returns -EAGAIN or -ENOTCONN, and posts nothing. Otherwise returns 0; if the rest of the ring is
 * too short, fills the rest with NOPs before. Each NOP has one block, the smallest size, and completes or is flushed like any
 * request.
 */
COLD int mlx5dvl_sq_wrap_(struct mlx5dvl_qp *qp, uint32_t blocks)
{
	uint32_t left = qp->depth - (qp->pi & qp->mask);
	uint32_t fill = left < blocks ? left : 0;

	if (!qp->limit)
		return -ENOTCONN;
	if (qp->pi + fill + blocks - qp->ci > qp->limit)
		return -EAGAIN;
	qp->fillers += fill;
	while (fill--)
		mlx5dvl_sq_commit_(qp, mlx5dvl_sq_place_(qp), 1, MLX5DVL_NOP, 0, 0, 0);
	mlx5dvl_sq_update(qp);
	return 0;
}
