/* SPDX-License-Identifier: MIT */
/* Without a device, or with a kernel that has no RDMA support, mlx5dvl_ctx_open() returns
 * -ENODEV. */
#include <errno.h>

#include "support/test.h"
#include "mlx5dvl.h"

TEST(a_device_that_is_not_there)
{
	struct mlx5dvl_ctx *ctx = NULL;

	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = "no_such_device"}, &ctx),
		-ENODEV);
	CHECK(!ctx);
	mlx5dvl_ctx_close(ctx);
}
