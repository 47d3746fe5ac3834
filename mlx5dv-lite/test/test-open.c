/* SPDX-License-Identifier: MIT */
/* mlx5dvl_ctx_open() returns -ENODEV for a name that no device has, also if the kernel has no RDMA
 * support. */
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
