/* SPDX-License-Identifier: MIT */
/* A context with all objects that a QP needs, and functions for pairs of connected QPs. */
#ifndef HCA_H
#define HCA_H

#include <errno.h>

#include "support/test.h"
#include "base/wait.h"
#include "mlx5dvl.h"

#define ALL_ACCESS                                                                                 \
	(MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE | MLX5DVL_REMOTE_READ | MLX5DVL_REMOTE_ATOMIC)

/* Waits for the device to make @cond true. */
#define hca_until(cond)                                                                            \
	do {                                                                                       \
		struct wait w_ = WAIT_INIT;                                                        \
		while (!(cond))                                                                    \
			if (wait_step(&w_))                                                        \
				sched_yield();                                                     \
	} while (0)

struct hca_attr {
	uint32_t srq_depth, scq_depth, cqe_size;
	uint32_t recv_size; /* bytes of a receive; 0: receives have no memory */
	size_t mem; /* bytes of registered memory; 0: 64 KiB */
	bool compress, events;
};

struct hca {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_cq *rcq, *scq;
	uint8_t *mem, *recv_mem;
	size_t mem_len;
	struct mlx5dvl_mr mr, recv_mr;
	/* The reported errors, the newest last. */
	struct mlx5dvl_error errors[1024];
	struct mlx5dvl_qp *error_qp[1024];
	uint32_t nerrors;
};

static inline void hca_on_error(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_error *error)
{
	struct hca *h = arg;

	CHECK(h->nerrors < ARRAY_SIZE(h->errors));
	h->errors[h->nerrors] = *error;
	h->error_qp[h->nerrors++] = qp;
}

static inline void hca_open(struct hca *h, const struct hca_attr *a)
{
	size_t recv_len = mlx5dvl_srq_buf_len(a->srq_depth, a->recv_size);

	memset(h, 0, sizeof(*h));
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.on_error = hca_on_error,
					  .error_arg = h},
			 &h->ctx),
		0);
	h->mem_len = a->mem ? a->mem : 65536;
	h->mem = aligned_alloc(4096, align_up(h->mem_len, 4096));
	CHECK(h->mem);
	memset(h->mem, 0, h->mem_len);
	CHECK_EQ(mlx5dvl_mr_reg(h->ctx, h->mem, h->mem_len, ALL_ACCESS, &h->mr), 0);
	if (recv_len) {
		h->recv_mem = malloc(recv_len);
		CHECK(h->recv_mem);
		CHECK_EQ(mlx5dvl_mr_reg(h->ctx, h->recv_mem, recv_len, ALL_ACCESS, &h->recv_mr), 0);
	}
	CHECK_EQ(mlx5dvl_srq_create(h->ctx,
			 &(struct mlx5dvl_srq_attr){.depth = a->srq_depth,
				 .buf = h->recv_mem,
				 .buf_size = a->recv_size,
				 .lkey = h->recv_mr.lkey},
			 &h->srq),
		0);
	CHECK_EQ(mlx5dvl_cq_create(h->ctx,
			 &(struct mlx5dvl_cq_attr){.srq = h->srq,
				 .cqe_size = a->cqe_size,
				 .compress = a->compress,
				 .force_compress = a->compress,
				 .events = a->events},
			 &h->rcq),
		0);
	CHECK_EQ(mlx5dvl_cq_create(h->ctx,
			 &(struct mlx5dvl_cq_attr){.depth = a->scq_depth,
				 .cqe_size = a->cqe_size,
				 .events = a->events},
			 &h->scq),
		0);
}

/* Closes the context. The caller must have destroyed all QPs. */
static inline void hca_close(struct hca *h)
{
	CHECK_EQ(mlx5dvl_cq_destroy(h->rcq), 0);
	CHECK_EQ(mlx5dvl_cq_destroy(h->scq), 0);
	CHECK_EQ(mlx5dvl_srq_destroy(h->srq), 0);
	mlx5dvl_mr_dereg(&h->mr);
	mlx5dvl_mr_dereg(&h->recv_mr);
	mlx5dvl_ctx_close(h->ctx);
	free(h->mem);
	free(h->recv_mem);
}

static inline struct mlx5dvl_qp *hca_qp(struct hca *h, struct mlx5dvl_qp_attr attr)
{
	struct mlx5dvl_qp *qp;

	attr.send_cq = h->scq;
	attr.recv_cq = h->rcq;
	CHECK_EQ(mlx5dvl_qp_create(h->ctx, &attr, &qp), 0);
	return qp;
}

static inline void hca_connect(struct mlx5dvl_qp *a, struct mlx5dvl_qp *b)
{
	struct mlx5dvl_qp_info ia, ib;

	mlx5dvl_qp_get_info(a, &ia, sizeof(ia));
	mlx5dvl_qp_get_info(b, &ib, sizeof(ib));
	CHECK_EQ(mlx5dvl_qp_connect(a, &ib, sizeof(ib)), 0);
	CHECK_EQ(mlx5dvl_qp_connect(b, &ia, sizeof(ia)), 0);
}

/* Creates two QPs and connects them to each other. */
static inline void hca_pair(struct hca *h, struct mlx5dvl_qp_attr attr, struct mlx5dvl_qp *qp[2])
{
	for (int i = 0; i < 2; i++)
		qp[i] = hca_qp(h, attr);
	hca_connect(qp[0], qp[1]);
}

static inline void hca_unpair(struct mlx5dvl_qp *const qp[2])
{
	for (int i = 0; i < 2; i++)
		mlx5dvl_qp_destroy(qp[i]);
}

/* Handler for polls that must find no signaled request. */
static inline void hca_no_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	CHECK(0 && "nothing was to be reported");
}

static inline void hca_count_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	++*(uint64_t *)arg;
}

/* Waits until all earlier requests have been executed, by posting a signaled NOP. */
static inline void hca_fence(struct hca *h, struct mlx5dvl_qp *qp)
{
	uint64_t done = 0;

	CHECK_EQ(mlx5dvl_post_nop(qp, MLX5DVL_SIGNALED | MLX5DVL_FENCE, ~0ull), 0);
	mlx5dvl_ring(qp);
	hca_until((mlx5dvl_send_poll(h->scq, 64, hca_count_sent, &done),
		done || mlx5dvl_qp_status(qp)));
	CHECK_EQ(mlx5dvl_qp_status(qp), 0);
}

/* Polls until @n errors have been reported. */
static inline void hca_wait_errors(struct hca *h, uint32_t n)
{
	uint64_t sent = 0;

	hca_until((mlx5dvl_send_poll(h->scq, 64, hca_count_sent, &sent), h->nerrors >= n));
}

#endif
