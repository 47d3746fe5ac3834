/* SPDX-License-Identifier: MIT */
/* Adapters mlx5_0 on RoCE, mlx5_1 on InfiniBand, and mlx5_2 on RoCE with an interface that
   is not to be seen (rails.topology). */
#include "hca.h"

static struct mlx5dvl_ctx *open_one(const char *device, int gid_index)
{
	struct mlx5dvl_ctx *ctx;

	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = device,
					  .gid_index = gid_index},
			 &ctx),
		0);
	if (device)
		CHECK(!strcmp(mlx5dvl_ctx_device(ctx), device));
	return ctx;
}

/* A QP that only sends needs no SRQ. */
struct sender {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_cq *cq;
	struct mlx5dvl_qp *qp;
	struct mlx5dvl_qp_info info;
};

static void sender_open(struct sender *s, const char *device, int gid_index)
{
	s->ctx = open_one(device, gid_index);
	CHECK_EQ(mlx5dvl_cq_create(s->ctx, &(struct mlx5dvl_cq_attr){0}, &s->cq), 0);
	CHECK_EQ(mlx5dvl_qp_create(s->ctx, &(struct mlx5dvl_qp_attr){.send_cq = s->cq}, &s->qp), 0);
	mlx5dvl_qp_info(s->qp, &s->info);
}

static void sender_close(struct sender *s)
{
	mlx5dvl_qp_destroy(s->qp);
	CHECK_EQ(mlx5dvl_cq_destroy(s->cq), 0);
	mlx5dvl_ctx_close(s->ctx);
}

static const uint8_t no_gid[16];

static void addressing_follows_the_link(void)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	struct sender roce, ib, global;

	sender_open(&roce, "mlx5_0", 0);
	sender_open(&ib, "mlx5_1", -1);
	sender_open(&global, "mlx5_1", 1);
	CHECK(!memcmp(roce.info.gid, ipv4, 12)); /* the RoCE v2 GID of IPv4, not the first one */
	CHECK_EQ(roce.info.lid, 0);
	CHECK_EQ(roce.info.mtu, 3);
	CHECK(!memcmp(ib.info.gid, no_gid, 16));
	CHECK_EQ(ib.info.lid, 7);
	CHECK(memcmp(global.info.gid, no_gid, 16));
	CHECK_EQ(mlx5dvl_qp_connect(roce.qp, &ib.info), -EINVAL);
	CHECK_EQ(mlx5dvl_qp_connect(ib.qp, &roce.info), -EINVAL);
	CHECK_EQ(mlx5dvl_qp_status(ib.qp), -ENOTCONN);
	sender_close(&roce);
	sender_close(&ib);
	sender_close(&global);
}

/* Without a name it is the first one; the two ends take the smaller MTU. */
static void a_message_on_each(const char *device, int gid_index)
{
	struct sender a, b;
	struct mlx5dvl_mr mr;
	uint64_t word[2] = {4711, 0}, done = 0;
	struct wait w = WAIT_INIT;

	sender_open(&a, device, gid_index);
	sender_open(&b, device, gid_index);
	b.info.mtu = 2;
	CHECK_EQ(mlx5dvl_qp_connect(a.qp, &b.info), 0);
	CHECK_EQ(mlx5dvl_qp_connect(b.qp, &a.info), 0);
	CHECK_EQ(mlx5dvl_mr_reg(b.ctx, word, sizeof(word), ALL_ACCESS, &mr), 0);
	CHECK_EQ(mlx5dvl_post_write(a.qp, word, 0, 8, (uintptr_t)&word[1], mr.rkey,
			 MLX5DVL_SIGNALED, 0),
		0);
	mlx5dvl_ring(a.qp);
	while (!done) {
		mlx5dvl_send_poll(a.cq, 8, hca_count_sent, &done);
		CHECK_EQ(mlx5dvl_qp_status(a.qp), 0);
		if (wait_step(&w))
			usleep(100);
	}
	CHECK_EQ(word[1], 4711);
	mlx5dvl_mr_dereg(&mr);
	sender_close(&a);
	sender_close(&b);
}

static void messages_on_all(void)
{
	a_message_on_each(NULL, 0);
	a_message_on_each("mlx5_0", 1);
	a_message_on_each("mlx5_1", 0);
	a_message_on_each("mlx5_1", 1);
	a_message_on_each("mlx5_2", 0);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(addressing_follows_the_link),
		TEST(messages_on_all),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
