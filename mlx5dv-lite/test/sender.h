/* SPDX-License-Identifier: MIT */
/* A context with a QP that only sends, and so needs no SRQ. */
#ifndef SENDER_H
#define SENDER_H

#include "hca.h"

struct sender {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_cq *cq;
	struct mlx5dvl_qp *qp;
};

static inline void sender_open(struct sender *s, const struct mlx5dvl_ctx_attr *ctx,
	const struct mlx5dvl_qp_attr *qp)
{
	struct mlx5dvl_qp_attr attr = *qp;

	CHECK_EQ(mlx5dvl_ctx_open(ctx, &s->ctx), 0);
	CHECK_EQ(mlx5dvl_cq_create(s->ctx, &(struct mlx5dvl_cq_attr){0}, &s->cq), 0);
	attr.send_cq = s->cq;
	CHECK_EQ(mlx5dvl_qp_create(s->ctx, &attr, &s->qp), 0);
}

static inline void sender_close(struct sender *s)
{
	mlx5dvl_qp_destroy(s->qp);
	CHECK_EQ(mlx5dvl_cq_destroy(s->cq), 0);
	mlx5dvl_ctx_close(s->ctx);
}

/* Writes a word into memory of the second sender's context. */
static inline void write_word(struct sender *from, struct sender *to)
{
	uint64_t word[2] = {4711, 0}, done = 0;
	struct mlx5dvl_mr mr;

	CHECK_EQ(mlx5dvl_mr_reg(to->ctx, word, sizeof(word), ALL_ACCESS, &mr), 0);
	CHECK_EQ(mlx5dvl_post_write(from->qp, word, 0, 8, (uintptr_t)&word[1], mr.rkey,
			 MLX5DVL_SIGNALED, 0),
		0);
	mlx5dvl_ring(from->qp);
	hca_until((mlx5dvl_send_poll(from->cq, 8, hca_count_sent, &done),
		done || mlx5dvl_qp_status(from->qp)));
	CHECK_EQ(mlx5dvl_qp_status(from->qp), 0);
	CHECK_EQ(word[1], 4711);
	mlx5dvl_mr_dereg(&mr);
}

#endif
