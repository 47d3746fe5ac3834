/* SPDX-License-Identifier: MIT */
/*
 * Random operations, and functions that post them with mlx5dv-lite ("ours") and with libibverbs
 * ("vendor").
 */
#ifndef DIFF_H
#define DIFF_H

#include <endian.h>

#include "post.h"
#include "vendor.h"

enum {
	OPS = 10000,
	AREA = 8192, /* bytes of the local and of the remote memory of each side */
	MAX_LEN = 2000,
};

static uint64_t rand_state;

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(test_rand(&rand_state) % n);
}

struct op {
	uint8_t opcode;
	uint32_t len, imm, at, remote_at;
	unsigned flags;
	uint64_t a, b; /* operands of atomics */
	uint64_t token;
};

static inline bool is_atomic(uint8_t opcode)
{
	return opcode == MLX5DVL_FETCH_ADD || opcode == MLX5DVL_CMP_SWAP;
}

static inline bool consumes_receive(uint8_t opcode)
{
	return opcode == MLX5DVL_WRITE_IMM || opcode == MLX5DVL_SEND || opcode == MLX5DVL_SEND_IMM;
}

static inline struct op random_op(uint64_t token)
{
	static const uint8_t opcodes[] = {MLX5DVL_WRITE, MLX5DVL_WRITE_IMM, MLX5DVL_READ,
		MLX5DVL_SEND, MLX5DVL_SEND_IMM, MLX5DVL_FETCH_ADD, MLX5DVL_CMP_SWAP};
	struct op op = {.opcode = opcodes[below(ARRAY_SIZE(opcodes))],
		.len = below(4) ? below(221) : below(MAX_LEN),
		.imm = (uint32_t)test_rand(&rand_state),
		.at = below(AREA - MAX_LEN) & ~7u,
		.remote_at = below(AREA - MAX_LEN) & ~7u,
		.flags = below(16),
		.a = test_rand(&rand_state),
		.b = below(2) ? test_rand(&rand_state) : 0,
		.token = token};

	if (is_atomic(op.opcode))
		op.len = 8;
	if (op.len > MLX5DVL_INLINE_MAX)
		/* Without the flag mlx5dv-lite inlines the first bytes; verbs cannot do so. */
		op.flags |= MLX5DVL_BY_REF;

	return op;
}

static inline void post_ours(struct mlx5dvl_qp *qp, const struct op *op, uint8_t *local,
	uint32_t lkey, uint8_t *remote, uint32_t rkey)
{
	const struct mlx5dvl_op_ o = {.opcode = op->opcode,
		.imm = op->imm,
		.len = op->len,
		.laddr = local + op->at,
		.lkey = lkey,
		.raddr = (uintptr_t)remote + op->remote_at,
		.rkey = rkey,
		.operand = {op->a, op->b}};

	CHECK_EQ(post_op(qp, &o, op->flags, op->token), 0);
}

static inline enum ibv_wr_opcode vendor_opcode(uint8_t opcode)
{
	static const enum ibv_wr_opcode of[] = {
		[MLX5DVL_WRITE] = IBV_WR_RDMA_WRITE,
		[MLX5DVL_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
		[MLX5DVL_READ] = IBV_WR_RDMA_READ,
		[MLX5DVL_SEND] = IBV_WR_SEND,
		[MLX5DVL_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
		[MLX5DVL_FETCH_ADD] = IBV_WR_ATOMIC_FETCH_AND_ADD,
		[MLX5DVL_CMP_SWAP] = IBV_WR_ATOMIC_CMP_AND_SWP,
	};

	return of[opcode];
}

static inline unsigned vendor_flags(const struct op *op)
{
	bool can_inline = op->opcode != MLX5DVL_READ && !is_atomic(op->opcode);

	return (op->flags & MLX5DVL_SIGNALED ? IBV_SEND_SIGNALED : 0) |
	       (op->flags & MLX5DVL_SOLICITED ? IBV_SEND_SOLICITED : 0) |
	       (op->flags & MLX5DVL_FENCE ? IBV_SEND_FENCE : 0) |
	       (can_inline && !(op->flags & MLX5DVL_BY_REF) ? IBV_SEND_INLINE : 0);
}

static inline void post_vendor(struct vendor *v, const struct op *op, uint8_t *local, uint32_t lkey,
	uint8_t *remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)local + op->at, op->len, lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = op->token,
					 .sg_list = &sge,
					 .num_sge = op->len ? 1 : 0,
					 .opcode = vendor_opcode(op->opcode),
					 .send_flags = vendor_flags(op),
					 .imm_data = htobe32(op->imm)};

	if (is_atomic(op->opcode)) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote + op->remote_at;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = op->a;
		wr.wr.atomic.swap = op->opcode == MLX5DVL_CMP_SWAP ? op->b : 0;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote + op->remote_at;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK_EQ(ibv_post_send(v->qp, &wr, &bad), 0);
}

/*
 * Copies the WQE that libibverbs wrote last. The WQE may wrap around the end of the send queue.
 * Returns the WQE's length in units of 16 bytes.
 */
static inline uint32_t vendor_request(struct vendor *v, uint8_t *out)
{
	uint32_t bytes = v->dv.sq.wqe_cnt * 64, at = v->pi * 64 % bytes, ds = 1;
	const uint8_t *sq = v->dv.sq.buf;

	for (uint32_t i = 0; i < ds * 16; i++) {
		out[i] = sq[(at + i) % bytes];
		if (i == 7)
			ds = out[7] & 0x3f;
	}
	v->pi += (ds + 3) / 4;
	return ds;
}

struct side {
	uint8_t *local, *remote; /* AREA bytes each */
	uint32_t lkey, rkey;
};

static inline void token_sum(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg += sent->token;
}

static inline uint64_t vendor_poll(struct vendor *v)
{
	struct ibv_wc wc[32];
	uint64_t sum = 0;
	int n;

	while ((n = ibv_poll_cq(v->scq, 32, wc)) > 0)
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			sum += wc[i].wr_id;
		}
	CHECK_EQ(n, 0);
	return sum;
}

#endif
