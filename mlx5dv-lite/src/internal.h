/* SPDX-License-Identifier: MIT */
/*
 * Internal functions on queues in plain memory, tables and registers. They use neither
 * libibverbs nor a context, so they can be tested, and cross-compiled, without a device.
 */
#ifndef MLX5DVL_INTERNAL_H
#define MLX5DVL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mlx5dvl.h"

#define SQ_MIN_DEPTH 16
#define SQ_MAX_DEPTH 32768 /* half of the range of the device's 16-bit counter */
#define SQ_SIGNAL_INTERVAL 64
#define SRQ_DEFAULT_DEPTH 1024
#define SRQ_MAX_DEPTH 32767
#define CQ_MAX_DEPTH (1u << 22)
#define BF_REGISTERS 1024 /* libmlx5 allocates 16 by default, by environment up to 1,024 */

/* What all queues of a context share. */
struct core {
	struct mlx5dvl_qp_table table; /* first: cq->table leads here */
	struct mlx5dvl_qp_leaf empty;
	struct mlx5dvl_bf *bf[BF_REGISTERS];
	uint32_t bf_count;
	mlx5dvl_error_fn *on_error;
	void *error_arg;
};

void core_init(struct core *core, mlx5dvl_error_fn *on_error, void *error_arg);
void core_fini(struct core *core);
/* Returns 0; -ENOMEM; -EEXIST: another QP has this number. */
int core_add_qp(struct core *core, struct mlx5dvl_qp *qp);
void core_remove_qp(struct core *core, const struct mlx5dvl_qp *qp);
/* The number of allocated leaves of the table. Slow. */
uint32_t core_leaves(const struct core *core);
/* The state of the BlueFlame register at @reg, made at the first call for it. */
int core_get_bf(struct core *core, void *reg, uint32_t size, struct mlx5dvl_bf **bf_p);

/* @depth: blocks in @buf, a power of two. Returns 0 or -ENOMEM. */
int sq_init(struct mlx5dvl_qp *qp, void *buf, uint32_t depth, uint32_t *record,
	struct mlx5dvl_bf *bf, uint32_t qpn);
void sq_fini(struct mlx5dvl_qp *qp);
void sq_open(struct mlx5dvl_qp *qp); /* connected: requests are accepted */
void sq_stop(struct mlx5dvl_qp *qp, int err); /* only the first error is kept */

/*
 * Links the entries in order and writes the receives; none is posted. @wqes: depth + 1 entries
 * of 1 << shift bytes. The last entry of the list is never posted: the next consumed receive
 * is appended to it.
 */
void srq_init(struct mlx5dvl_srq *srq, void *wqes, uint32_t shift, uint32_t depth, uint32_t *record,
	const struct mlx5dvl_srq_attr *attr);

/* @buf: CQEs of @size bytes each, which the device does not write yet. */
void cq_init(struct mlx5dvl_cq *cq, void *buf, uint32_t depth, uint32_t size, uint32_t *record,
	struct mlx5dvl_srq *srq, struct core *core);
/* Sets the place from which completions are taken. */
void cq_seek(struct mlx5dvl_cq *cq, uint32_t ci);
/* Invalidates the completions of a destroyed QP that are still in the CQ. */
void cq_forget_qp(struct mlx5dvl_cq *cq, uint32_t qpn);

#endif
