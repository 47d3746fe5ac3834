/* SPDX-License-Identifier: MIT */
/* The software HCA emulates the adapters of rails.topology: mlx5_0 on RoCE, mlx5_1 on InfiniBand,
 * and mlx5_2 on RoCE, whose interface is in another network namespace. */
#include "sender.h"

static struct mlx5dvl_ctx *open_one(const char *device)
{
	struct mlx5dvl_ctx *ctx;

	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = device}, &ctx), 0);
	CHECK(!strcmp(mlx5dvl_ctx_device(ctx), device));
	return ctx;
}

/* A sender, and the data with which a peer connects to it. */
struct rail {
	struct sender s;
	struct mlx5dvl_qp_info info;
};

static void rail_open(struct rail *r, const char *device, int gid_index)
{
	sender_open(&r->s, &(struct mlx5dvl_ctx_attr){.device = device, .gid_index = gid_index},
		&(struct mlx5dvl_qp_attr){0});
	mlx5dvl_qp_get_info(r->s.qp, &r->info, sizeof(r->info));
}

static const uint8_t no_gid[16];

TEST(addressing_follows_the_link)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};
	struct rail roce, ib, global;

	rail_open(&roce, "mlx5_0", 0);
	rail_open(&ib, "mlx5_1", -1);
	rail_open(&global, "mlx5_1", 1);
	CHECK(!memcmp(roce.info.gid, ipv4, 12)); /* the RoCE v2 GID of IPv4, not the first GID */
	CHECK_EQ(roce.info.lid, 0);
	CHECK_EQ(roce.info.mtu, 3);
	CHECK(!memcmp(ib.info.gid, no_gid, 16));
	CHECK_EQ(ib.info.lid, 7);
	CHECK(memcmp(global.info.gid, no_gid, 16));
	CHECK_EQ(mlx5dvl_qp_connect(roce.s.qp, &ib.info, sizeof(ib.info)), -EINVAL);
	CHECK_EQ(mlx5dvl_qp_connect(ib.s.qp, &roce.info, sizeof(roce.info)), -EINVAL);
	CHECK_EQ(mlx5dvl_qp_status(ib.s.qp), -ENOTCONN);
	sender_close(&roce.s);
	sender_close(&ib.s);
	sender_close(&global.s);
}

/* Sends a message between two QPs of @device (NULL: the first device). The MTU in the info of both
 * QPs is smaller than the port's, so both use it. */
static void a_message_on_each(const char *device, int gid_index)
{
	struct rail a, b;

	rail_open(&a, device, gid_index);
	rail_open(&b, device, gid_index);
	a.info.mtu = b.info.mtu = 2;
	CHECK_EQ(mlx5dvl_qp_connect(a.s.qp, &b.info, sizeof(b.info)), 0);
	CHECK_EQ(mlx5dvl_qp_connect(b.s.qp, &a.info, sizeof(a.info)), 0);
	write_word(&a.s, &b.s);
	sender_close(&a.s);
	sender_close(&b.s);
}

TEST(messages_on_all)
{
	a_message_on_each(NULL, 0);
	a_message_on_each("mlx5_0", 1);
	a_message_on_each("mlx5_1", 0);
	a_message_on_each("mlx5_1", 1);
	a_message_on_each("mlx5_2", 0);
}

TEST(devices_are_listed)
{
	char names[3][MLX5DVL_NAME_LEN];

	CHECK_EQ(mlx5dvl_devices(2, names), 2);
	CHECK_EQ(mlx5dvl_devices(3, names), 3);
	CHECK(!strcmp(names[0], "mlx5_0") && !strcmp(names[2], "mlx5_2"));
}

TEST(a_port_tells_its_link)
{
	struct mlx5dvl_ctx *roce = open_one("mlx5_0"), *ib = open_one("mlx5_1");
	struct mlx5dvl_port port;

	CHECK_EQ(mlx5dvl_ctx_get_port(roce, &port, sizeof(port)), 0);
	CHECK(port.ethernet && port.active);
	CHECK_EQ(port.lid, 0);
	CHECK_EQ(port.mbps, 100000); /* four lanes of 25 Gb/s */
	CHECK_EQ(port.gid[10], 0xff);
	CHECK(port.max_mr_len > 1ull << 32);
	CHECK_EQ(mlx5dvl_ctx_get_port(ib, &port, sizeof(port)), 0);
	CHECK(!port.ethernet);
	CHECK_EQ(port.lid, 7);
	CHECK_EQ(port.mbps, 200000);
	CHECK_EQ(port.gid[0], 0xfe); /* the subnet's prefix, although the port is addressed by
					LID */
	mlx5dvl_ctx_close(roce);
	mlx5dvl_ctx_close(ib);
}

static void await_event(struct mlx5dvl_ctx *ctx, enum mlx5dvl_event want)
{
	enum mlx5dvl_event e = MLX5DVL_EVENT_NONE;

	hca_until((e = mlx5dvl_ctx_event(ctx)) != MLX5DVL_EVENT_NONE);
	CHECK_EQ(e, want);
}

static void link_of(const char *device, const char *state)
{
	char command[200];

	snprintf(command, sizeof(command), "%s link %s %s", getenv("SOFTHCACTL"), device, state);
	CHECK_EQ(system(command), 0);
}

TEST(a_cable_is_pulled)
{
	struct mlx5dvl_ctx *ctx = open_one("mlx5_1"), *other = open_one("mlx5_0");
	struct mlx5dvl_port port;

	CHECK(mlx5dvl_ctx_fd(ctx) >= 0);
	CHECK_EQ(mlx5dvl_ctx_event(ctx), MLX5DVL_EVENT_NONE);
	link_of("mlx5_1", "down");
	await_event(ctx, MLX5DVL_EVENT_PORT_DOWN);
	CHECK_EQ(mlx5dvl_ctx_get_port(ctx, &port, sizeof(port)), 0);
	CHECK(!port.active);
	link_of("mlx5_1", "up");
	await_event(ctx, MLX5DVL_EVENT_PORT_UP);
	CHECK_EQ(mlx5dvl_ctx_event(other), MLX5DVL_EVENT_NONE);
	mlx5dvl_ctx_close(ctx);
	mlx5dvl_ctx_close(other);
}
