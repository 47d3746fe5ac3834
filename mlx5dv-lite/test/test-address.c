/* SPDX-License-Identifier: MIT */
/* Addresses and attributes of QPs, as the device reports them. The software HCA has the adapters of
 * address.topology. */
#include "device.h"
#include "sender.h"

static void open_pair(struct sender s[2], const struct mlx5dvl_ctx_attr *ctx,
	const struct mlx5dvl_qp_attr *qp)
{
	for (int i = 0; i < 2; i++)
		sender_open(&s[i], ctx, qp);
	hca_connect(s[0].qp, s[1].qp);
}

static void close_pair(struct sender s[2])
{
	for (int i = 0; i < 2; i++)
		sender_close(&s[i]);
}

static struct ibv_qp_attr asked(const struct sender *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK_EQ(ibv_query_qp(qp_of(s->qp)->ibv, &a, IBV_QP_STATE, &init), 0);
	return a;
}

TEST(the_first_active_port_is_taken)
{
	struct mlx5dvl_ctx *ctx;

	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){0}, &ctx), 0);
	CHECK(!strcmp(mlx5dvl_ctx_device(ctx), "mlx5_1"));
	mlx5dvl_ctx_close(ctx);
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = "mlx5_0"}, &ctx), -ENETDOWN);
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = "mlx5_1", .port = 2}, &ctx),
		-EINVAL);
}

/* A port that requires a global route header, on a device without atomics. */
TEST(a_virtual_function)
{
	struct ibv_qp_attr a;
	struct sender s[2];

	open_pair(s, &(struct mlx5dvl_ctx_attr){0}, &(struct mlx5dvl_qp_attr){0});
	a = asked(&s[0]);
	CHECK_EQ(a.ah_attr.is_global, 1);
	CHECK_EQ(a.ah_attr.grh.sgid_index, 0);
	CHECK_EQ(a.ah_attr.grh.dgid.raw[15], 1);
	CHECK(a.ah_attr.dlid != 0);
	CHECK_EQ(a.pkey_index, 1);
	CHECK_EQ(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	write_word(&s[0], &s[1]);
	close_pair(s);
}

TEST(an_ordinary_port)
{
	struct mlx5dvl_ctx_attr ctx = {.device = "mlx5_3"};
	struct ibv_qp_attr a;
	struct sender s[2];

	open_pair(s, &ctx, &(struct mlx5dvl_qp_attr){0});
	a = asked(&s[0]);
	CHECK_EQ(a.ah_attr.is_global, 0);
	CHECK_EQ(a.pkey_index, 0);
	CHECK_EQ(a.qp_access_flags,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	close_pair(s);
	ctx.set = MLX5DVL_SET_GID_INDEX;
	open_pair(s, &ctx, &(struct mlx5dvl_qp_attr){0});
	CHECK_EQ(asked(&s[0]).ah_attr.is_global, 1);
	write_word(&s[0], &s[1]);
	close_pair(s);
}

/* The default GID is the port's best one (here index 1 on RoCE); the attribute can select any other
 * GID. */
TEST(every_gid_can_be_named)
{
	struct mlx5dvl_ctx_attr ctx = {.device = "mlx5_4"};
	struct mlx5dvl_ctx *none;
	struct sender s[2];

	for (int i = -1; i < 2; i++) {
		ctx.gid_index = i;
		ctx.set = i == 0 ? MLX5DVL_SET_GID_INDEX : 0;
		open_pair(s, &ctx, &(struct mlx5dvl_qp_attr){0});
		CHECK_EQ(asked(&s[0]).ah_attr.grh.sgid_index, i ? 1 : 0);
		CHECK_EQ(asked(&s[0]).ah_attr.grh.dgid.raw[15], 7);
		CHECK_EQ(asked(&s[0]).ah_attr.grh.dgid.raw[0], i ? 0 : 0xfe);
		write_word(&s[0], &s[1]);
		close_pair(s);
	}
	ctx.set = MLX5DVL_SET_GID_INDEX;
	ctx.gid_index = -1;
	CHECK_EQ(mlx5dvl_ctx_open(&ctx, &none), -EINVAL);
	ctx.gid_index = 2;
	CHECK_EQ(mlx5dvl_ctx_open(&ctx, &none), -EINVAL);
}

TEST(partitions)
{
	struct mlx5dvl_ctx_attr ctx = {.device = "mlx5_2"};
	struct mlx5dvl_ctx *none;
	struct sender s[2];

	CHECK_EQ(mlx5dvl_ctx_open(&ctx, &none), -ENOKEY);
	for (uint16_t i = 0; i < 2; i++) {
		ctx.pkey_index = i;
		ctx.set = i ? 0 : MLX5DVL_SET_PKEY_INDEX;
		open_pair(s, &ctx, &(struct mlx5dvl_qp_attr){0});
		CHECK_EQ(asked(&s[0]).pkey_index, i);
		close_pair(s);
	}
	ctx.pkey_index = 2;
	CHECK_EQ(mlx5dvl_ctx_open(&ctx, &none), -EINVAL);
}

/* Connects QPs with these attributes. The device must report the attributes @want. */
static void reported(const struct mlx5dvl_qp_attr *attr, const struct mlx5dvl_qp_attr *want)
{
	struct ibv_qp_attr a;
	struct sender s[2];

	open_pair(s, &(struct mlx5dvl_ctx_attr){0}, attr);
	a = asked(&s[0]);
	CHECK_EQ(a.qp_state, IBV_QPS_RTS);
	CHECK_EQ(a.dest_qp_num, mlx5dvl_qp_qpn(s[1].qp));
	CHECK_EQ(a.path_mtu, want->mtu);
	CHECK_EQ(a.timeout, want->timeout);
	CHECK_EQ(a.retry_cnt, want->retry_cnt);
	CHECK_EQ(a.rnr_retry, want->rnr_retry);
	CHECK_EQ(a.min_rnr_timer, want->min_rnr_timer);
	CHECK_EQ(a.max_rd_atomic, want->rd_atomic);
	CHECK_EQ(a.max_dest_rd_atomic, want->rd_atomic);
	CHECK_EQ(a.ah_attr.sl, want->sl);
	CHECK_EQ(a.ah_attr.grh.traffic_class, want->traffic_class);
	CHECK_EQ(a.ah_attr.grh.flow_label, want->flow_label);
	close_pair(s);
}

TEST(attributes_arrive)
{
	const struct mlx5dvl_qp_attr attr = {.mtu = 2,
		.timeout = 31,
		.retry_cnt = 1,
		.rnr_retry = 2,
		.min_rnr_timer = 3,
		.rd_atomic = 5,
		.sl = 15,
		.traffic_class = 104,
		.flow_label = 0xfffff};

	reported(&attr, &attr);
}

TEST(defaults_and_zeros)
{
	const struct mlx5dvl_qp_attr defaults = {.mtu = 3,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.rd_atomic = 4};
	struct mlx5dvl_qp_attr attr = {0};
	struct sender s;

	reported(&attr, &defaults);
	attr.set = MLX5DVL_SET_TIMEOUT | MLX5DVL_SET_RETRY_CNT | MLX5DVL_SET_RNR_RETRY |
		   MLX5DVL_SET_MIN_RNR_TIMER;
	reported(&attr, &(struct mlx5dvl_qp_attr){.mtu = 3, .rd_atomic = 4});
	sender_open(&s, &(struct mlx5dvl_ctx_attr){0}, &attr);
	attr.flow_label = 1 << 20;
	attr.send_cq = s.cq;
	CHECK_EQ(mlx5dvl_qp_create(s.ctx, &attr, &(struct mlx5dvl_qp *){NULL}), -EINVAL);
	sender_close(&s);
}
