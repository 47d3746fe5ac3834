/* SPDX-License-Identifier: MIT */
/* Posts a request of any opcode with the public function for that opcode. */
#ifndef POST_H
#define POST_H

#include <errno.h>

#include "mlx5dvl.h"

/* op->operand is {add} for a fetch-and-add, and {compare, swap} for a compare-and-swap. */
static inline int post_op(struct mlx5dvl_qp *qp, const struct mlx5dvl_op_ *op, unsigned flags,
	uint64_t token)
{
	void *laddr = (void *)(uintptr_t)op->laddr;

	switch (op->opcode) {
	case MLX5DVL_NOP:
		return mlx5dvl_post_nop(qp, flags, token);
	case MLX5DVL_WRITE:
		return mlx5dvl_post_write(qp, laddr, op->lkey, op->len, op->raddr, op->rkey, flags,
			token);
	case MLX5DVL_WRITE_IMM:
		return mlx5dvl_post_write_imm(qp, laddr, op->lkey, op->len, op->raddr, op->rkey,
			op->imm, flags, token);
	case MLX5DVL_READ:
		return mlx5dvl_post_read(qp, laddr, op->lkey, op->len, op->raddr, op->rkey, flags,
			token);
	case MLX5DVL_SEND:
		return mlx5dvl_post_send(qp, laddr, op->lkey, op->len, flags, token);
	case MLX5DVL_SEND_IMM:
		return mlx5dvl_post_send_imm(qp, laddr, op->lkey, op->len, op->imm, flags, token);
	case MLX5DVL_FETCH_ADD:
		return mlx5dvl_post_fetch_add(qp, laddr, op->lkey, op->raddr, op->rkey,
			op->operand[0], flags, token);
	case MLX5DVL_CMP_SWAP:
		return mlx5dvl_post_cmp_swap(qp, laddr, op->lkey, op->raddr, op->rkey,
			op->operand[0], op->operand[1], flags, token);
	default:
		return -EINVAL;
	}
}

#endif
