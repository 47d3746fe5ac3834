/* SPDX-License-Identifier: MIT */
/*
 * QPs are destroyed while a message to them is partly received: the SRQ must not lose a receive.
 * With the fault rule of hold.faults the device holds a receive for each SEND without immediate,
 * and the rest of the SEND never arrives. SENDs with immediate arrive.
 */
#include "hca.h"

enum { DEPTH = 8, SIZE = 256, SQ_DEPTH = 16 };

static struct hca h;

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	CHECK(qp == *(struct mlx5dvl_qp **)arg || *(struct mlx5dvl_qp **)arg == NULL);
}

static void open_pair(struct mlx5dvl_qp *qp[2])
{
	hca_pair(&h, (struct mlx5dvl_qp_attr){.sq_depth = SQ_DEPTH}, qp);
}

static void destroy_both(struct mlx5dvl_qp *qp[2], bool receiver_first)
{
	mlx5dvl_qp_destroy(qp[receiver_first]);
	mlx5dvl_qp_destroy(qp[!receiver_first]);
}

/* Checks that the SRQ has all DEPTH receives: DEPTH messages arrive without a refill. */
static void expect_depth(void)
{
	struct mlx5dvl_qp *qp[2], *any = NULL;

	while (mlx5dvl_mono_poll(h.rcq, 64, on_recv, &any))
		;
	mlx5dvl_srq_post_(h.srq);
	open_pair(qp);
	for (int i = 0; i < DEPTH; i++)
		CHECK_EQ(mlx5dvl_post_send_imm(qp[0], NULL, 0, 0, 1, 0, 0), 0);
	mlx5dvl_ring(qp[0]);
	CHECK_EQ(mlx5dvl_mono_poll(h.rcq, 64, on_recv, &qp[1]), DEPTH);
	mlx5dvl_srq_refill(h.srq);
	destroy_both(qp, true);
}

static void churn(int times)
{
	struct mlx5dvl_qp *qp[2], *any = NULL;

	for (int i = 0; i < times; i++) {
		open_pair(qp);
		CHECK_EQ(mlx5dvl_post_send(qp[0], h.mem, h.mr.lkey, SIZE, 0, 0), 0);
		mlx5dvl_ring(qp[0]);
		destroy_both(qp, i % 2);
		CHECK_EQ(mlx5dvl_ctx_retired(h.ctx), 0);
		mlx5dvl_mono_poll(h.rcq, 64, on_recv, &any);
		mlx5dvl_srq_refill(h.srq);
	}
}

/* Nobody polls the send CQ, which is as deep as the send queues: the flushed SENDs of destroyed QPs
 * must not overrun it. */
TEST(the_srq_keeps_its_depth)
{
	hca_open(&h, &(struct hca_attr){.srq_depth = DEPTH,
			     .scq_depth = 2 * SQ_DEPTH,
			     .recv_size = SIZE});
	expect_depth();
	churn(getenv("SOAK") ? 10000 : 500);
	expect_depth();
	CHECK_EQ(h.nerrors, 0); /* errors of destroyed QPs are not reported */
	hca_close(&h);
}

/* Events that mlx5dvl_qp_destroy() has read are reported later, except those of destroyed QPs. */
TEST(other_events_are_kept)
{
	struct mlx5dvl_qp *qp[2], *other[2], *of;

	hca_open(&h, &(struct hca_attr){.srq_depth = DEPTH, .recv_size = SIZE});
	open_pair(qp);
	open_pair(other);
	CHECK_EQ(mlx5dvl_ctx_event(h.ctx), MLX5DVL_EVENT_NONE);
	CHECK_EQ(mlx5dvl_qp_to_error(other[0]), 0); /* causes the event that the QP is drained */
	CHECK_EQ(mlx5dvl_qp_to_error(other[1]), 0);
	destroy_both(qp, true);
	mlx5dvl_qp_destroy(other[1]);
	CHECK_EQ(mlx5dvl_ctx_event_qp(h.ctx, &of), MLX5DVL_EVENT_DRAINED);
	CHECK(of == other[0]);
	while (mlx5dvl_ctx_event_qp(h.ctx, &of) != MLX5DVL_EVENT_NONE)
		CHECK(!of);
	mlx5dvl_qp_destroy(other[0]);
	hca_close(&h);
}

/* A program that never reads events can also destroy all objects and close the context. */
TEST(closing_waits_for_nobody)
{
	struct mlx5dvl_qp *qp[2];

	hca_open(&h, &(struct hca_attr){.srq_depth = DEPTH, .recv_size = SIZE});
	open_pair(qp);
	CHECK_EQ(mlx5dvl_cq_destroy(h.rcq), -EBUSY);
	destroy_both(qp, false);
	hca_close(&h);
}
