/* SPDX-License-Identifier: MIT */
/* A user of mlx5dv-lite and of nothing else; a device that does not exist is refused. */
#include <errno.h>
#include <stdio.h>

#include <mlx5dvl.h>

int main(void)
{
	struct mlx5dvl_ctx_attr attr = {};
	struct mlx5dvl_ctx *ctx = NULL;
	int err;

	attr.device = "no_such_device";
	err = mlx5dvl_ctx_open(&attr, &ctx);
	printf("%d\n", err);
	mlx5dvl_ctx_close(ctx);
	return err == -ENODEV ? 0 : 1;
}
