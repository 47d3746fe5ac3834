/* SPDX-License-Identifier: MIT */
/* Conversion between the device's clock and the time of day. */
#include <errno.h>

#include "device.h"

int mlx5dvl_ctx_clock(struct mlx5dvl_ctx *ctx, struct mlx5dvl_clock *clock_p)
{
	struct mlx5dv_context query = {.comp_mask = MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE};
	struct mlx5dv_clock_info info;
	int err = mlx5dv_get_clock_info(ctx->ibv, &info);

	if (err)
		return err == EAGAIN || err == EBUSY ? -EAGAIN : -EOPNOTSUPP;
	if (mlx5dv_query_device(ctx->ibv, &query) ||
		!(query.comp_mask & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE))
		return -EOPNOTSUPP;
	*clock_p = (struct mlx5dvl_clock){.ns = info.nsec,
		.stamp = info.last_cycles,
		.frac = info.frac,
		.mask = info.mask,
		.mult = info.mult,
		.shift = info.shift,
		.valid_ns = query.max_clock_info_update_nsec};
	return 0;
}

uint64_t mlx5dvl_clock_ns(const struct mlx5dvl_clock *clock, uint64_t stamp)
{
	struct mlx5dv_clock_info info = {.nsec = clock->ns,
		.last_cycles = clock->stamp,
		.frac = clock->frac,
		.mult = clock->mult,
		.shift = clock->shift,
		.mask = clock->mask};

	return mlx5dv_ts_to_ns(&info, stamp);
}
