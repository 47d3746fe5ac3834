/* SPDX-License-Identifier: MIT */
/* The send queue: what the inline header leaves to a call. */
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
	qp->limit = 0;
	qp->pi = qp->ci = qp->rung = qp->last = qp->quiet = 0;
	qp->fillers = 0;
	/* In blocks, not in requests: four-block requests fill the ring four times as
	   fast. At a quarter, what is unsignaled can never fill it. */
	qp->interval = depth / 4 < SQ_SIGNAL_INTERVAL ? depth / 4 : SQ_SIGNAL_INTERVAL;
	qp->record = record;
	qp->bf = bf;
	qp->qpn = qpn;
	qp->status = -ENOTCONN;
	return 0;
}

void sq_fini(struct mlx5dvl_qp *qp)
{
	free(qp->slots);
	qp->slots = NULL;
}

void sq_open(struct mlx5dvl_qp *qp)
{
	qp->status = 0;
	qp->limit = qp->depth;
}

void sq_stop(struct mlx5dvl_qp *qp, int err)
{
	qp->limit = 0;
	if (qp->status == 0 || qp->status == -ENOTCONN)
		qp->status = err;
}

/*
 * For a request that does not fit behind the newest one: 0 when it fits at qp->pi now,
 * the end of the ring filled with NOPs where it was too short. A NOP per block: each is
 * the smallest there is, and completes, or is flushed, as any request.
 */
COLD int mlx5dvl_sq_wrap_(struct mlx5dvl_qp *qp, uint32_t blocks)
{
	uint32_t left = qp->depth - (qp->pi & (qp->depth - 1));
	uint32_t fill = left < blocks ? left : 0;

	if (!qp->limit)
		return -ENOTCONN;
	if (qp->pi + fill + blocks - qp->ci > qp->limit)
		return -EAGAIN;
	qp->fillers += fill;
	while (fill--)
		mlx5dvl_sq_commit_(qp, 1, MLX5DVL_NOP, 0, 0, 0);
	return 0;
}
