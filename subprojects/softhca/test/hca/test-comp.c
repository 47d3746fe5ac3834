/* SPDX-License-Identifier: MIT */
/* Tests the format of compressed completions in the memory of a CQ. */
#include <endian.h>
#include <sched.h>

#include "rig.h"

#define RUN 20

static struct rig a, b;

static struct ibv_cq *compressed_cq(struct ibv_context *ctx)
{
	struct ibv_cq_init_attr_ex ex = {.cqe = 127, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct mlx5dv_cq_init_attr attr = {
		.comp_mask = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE,
		.cqe_comp_res_format = MLX5DV_CQE_RES_FORMAT_HASH,
	};
	struct ibv_cq *cq = ibv_cq_ex_to_cq(mlx5dv_create_cq(ctx, &ex, &attr));

	CHECK(cq);
	return cq;
}

/*
 * Replaces the QP of `b` by one with the compressed CQ and with an SRQ. The SRQ has enough receives
 * for the whole test: the provider would free receives only if it polled the CQ, but the test reads
 * the CQEs itself.
 */
static void make_receiver(struct ibv_cq *cq)
{
	struct ibv_srq_init_attr sa = {.attr = {.max_wr = 1000, .max_sge = 1}};
	struct rig view;

	CHECK(!ibv_destroy_qp(b.qp));
	CHECK(!ibv_destroy_srq(b.srq));
	b.srq = ibv_create_srq(b.pd, &sa);
	CHECK(b.srq);
	for (int i = 0; i < 1000; i++)
		rig_recv(&b, 0, 0, 0);
	view = b;
	view.rcq = cq;
	b.qp = rig_qp(&view);
}

/* Sends @n messages under one doorbell. Message i has @base + i bytes. */
static void burst(uint32_t n, uint32_t base)
{
	struct ibv_send_wr wr[RUN], *bad;
	struct ibv_sge sge[RUN];

	for (uint32_t i = 0; i < n; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)a.buf, base + i, a.mr->lkey};
		wr[i] = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.sg_list = &sge[i],
			.num_sge = 1,
			.imm_data = 5,
			.next = i + 1 < n ? &wr[i + 1] : NULL,
			.send_flags = i + 1 < n ? 0 : IBV_SEND_SIGNALED,
			.wr.rdma = {.remote_addr = (uintptr_t)b.buf, .rkey = b.mr->rkey}};
	}
	CHECK(!ibv_post_send(a.qp, wr, &bad));
	rig_wait_ok(a.scq);
}

static const struct mlx5_cqe64 *cqe_at(const struct mlx5dv_cq *dv, uint32_t i)
{
	const uint8_t *p = (const uint8_t *)dv->buf + (size_t)(i % dv->cqe_cnt) * dv->cqe_size;

	return (const void *)(p + dv->cqe_size - sizeof(struct mlx5_cqe64));
}

static void check_run(const struct mlx5dv_cq *dv, uint32_t at, uint32_t n, uint32_t base)
{
	const struct mlx5_cqe64 *title = cqe_at(dv, at);
	uint8_t owner = !!(at & dv->cqe_cnt);

	/*
	 * The software HCA's polling thread may not have written the run yet. It writes the title,
	 * the run's first CQE, last.
	 */
	while ((__atomic_load_n(&title->op_own, __ATOMIC_ACQUIRE) & 1) != owner ||
		title->op_own >> 4 == MLX5_CQE_INVALID)
		sched_yield();
	CHECK_EQ(title->op_own, MLX5_CQE_RESP_WR_IMM << 4 | (n > 1 ? 0x0c : 0) | owner);
	CHECK_EQ(be32toh(title->imm_inval_pkey), htobe32(5));
	CHECK_EQ(be32toh(title->byte_cnt), n > 1 ? n : base);
	for (uint32_t i = 0; n > 1 && i < n; i++) {
		uint32_t array = i < 8 ? at + 1 : at + i / 8 * 8, count;

		memcpy(&count, (const uint8_t *)cqe_at(dv, array) + i % 8 * 8 + 4, sizeof(count));
		CHECK_EQ(be32toh(count), base + i);
	}
}

/*
 * Consumes the @n CQEs before @ci. A compressed run leaves some of its CQEs unwritten. They keep
 * the contents of an earlier pass over the queue, whose owner bit may be valid in a later pass. So
 * the reader must mark all of them as invalid.
 */
static void take(const struct mlx5dv_cq *dv, uint32_t ci, uint32_t n)
{
	for (uint32_t i = ci - n; i != ci; i++)
		((struct mlx5_cqe64 *)cqe_at(dv, i))->op_own = MLX5_CQE_INVALID << 4;
	__atomic_store_n(&dv->dbrec[0], htobe32(ci & 0xffffff), __ATOMIC_RELEASE);
}

/* Checks runs of every length, which wrap around the end of the queue several times. */
TEST(runs)
{
	struct mlx5dv_cq dv;
	struct ibv_cq *cq;
	uint32_t ci = 0;

	rig_open(&a, NULL);
	rig_open(&b, &(struct rig_attr){.srq = true});
	cq = compressed_cq(b.ctx);
	dv = rig_dv_cq(cq);
	make_receiver(cq);
	rig_connect_pair(&a, &b);
	for (uint32_t round = 0; round < 60; round++) {
		uint32_t n = 1 + round % RUN;

		burst(n, 8 + round);
		check_run(&dv, ci, n, 8 + round);
		ci += n;
		take(&dv, ci, n);
	}
	CHECK(!ibv_destroy_qp(b.qp));
	CHECK(!ibv_destroy_cq(cq));
	b.qp = NULL;
}

FABRIC_MAIN("comp");
