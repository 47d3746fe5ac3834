/* SPDX-License-Identifier: MIT */
/* Time stamps of completions, and their conversion to time. */
#include <infiniband/mlx5dv.h>

#include "device.h"
#include "duo.h"

#define REQUESTS 200

static void keep_stamp(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	*(uint64_t *)arg = sent->stamp;
}

static uint64_t stamp_of_next(uint64_t *posted_p)
{
	uint64_t stamp = 0;

	*posted_p = clock_ns();
	CHECK_EQ(mlx5dvl_post_write(duo.a, duo.h.mem, duo.h.mr.lkey, 64, (uintptr_t)duo.h.mem + DST,
			 duo.h.mr.rkey, MLX5DVL_SIGNALED, 0),
		0);
	mlx5dvl_ring(duo.a);
	hca_until(mlx5dvl_send_poll(duo.h.scq, 1, keep_stamp, &stamp));
	return stamp;
}

/* The software HCA's clock is CLOCK_MONOTONIC, so the test can compare stamps with that clock. */
TEST(stamps_are_between_post_and_poll)
{
	uint64_t before = 0;

	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	for (int i = 0; i < REQUESTS; i++) {
		uint64_t posted, stamp = stamp_of_next(&posted);

		CHECK(stamp >= posted && stamp <= clock_ns());
		CHECK(stamp >= before);
		before = stamp;
	}
}

/* mlx5dvl_clock_ns() returns the same time for a stamp as the vendor's library. */
TEST(the_clock_is_the_vendors)
{
	struct mlx5dv_clock_info info;
	struct mlx5dvl_clock clock;
	uint64_t posted, stamp;

	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	CHECK_EQ(mlx5dvl_ctx_clock(duo.h.ctx, &clock), 0);
	CHECK_EQ(mlx5dv_get_clock_info(duo.h.ctx->ibv, &info), 0);
	stamp = stamp_of_next(&posted);
	CHECK_EQ(mlx5dvl_clock_ns(&clock, stamp), mlx5dv_ts_to_ns(&info, stamp));
	CHECK_EQ(mlx5dvl_clock_ns(&clock, clock.stamp), clock.ns);
	CHECK(clock.valid_ns > 1000000000);
}

/* A clock of 41 bits, as on real adapters: stamps wrap, and `frac` changes the result. */
TEST(stamps_wrap)
{
	const struct mlx5dvl_clock clock = {.ns = 1000000,
		.stamp = (1ull << 41) - 100,
		.frac = 1 << 20,
		.mask = (1ull << 41) - 1,
		.mult = 64 << 19, /* 64 ns per cycle */
		.shift = 19};

	CHECK_EQ(mlx5dvl_clock_ns(&clock, clock.stamp), 1000000 + 2);
	CHECK_EQ(mlx5dvl_clock_ns(&clock, 100), 1000000 + 2 + 200 * 64);
	CHECK_EQ(mlx5dvl_clock_ns(&clock, clock.stamp - 10), 1000000 - 10 * 64 + 2);
}
