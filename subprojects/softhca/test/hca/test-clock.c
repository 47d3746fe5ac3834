/* SPDX-License-Identifier: MIT */
/* Time stamps of completions, and the page with which they are converted to the time of day. */
#include <endian.h>
#include <time.h>

#include "rig.h"

#define SECOND 1000000000ull
#define MESSAGES 8

static struct rig a, b;

/*
 * Returns the time stamp of completion number @i of a CQ. Reads it from the CQE in mlx5's format.
 */
static uint64_t stamp_of(struct ibv_cq *cq, unsigned i)
{
	struct mlx5dv_cq dv = rig_dv_cq(cq);
	const struct mlx5_cqe64 *cqe;

	cqe = (void *)((uint8_t *)dv.buf + i * dv.cqe_size + (dv.cqe_size - sizeof(*cqe)));
	return be64toh(cqe->timestamp);
}

/* A stamp must be between the post and the end of the poll. */
static void stamps_are_of_the_completion(void)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		uint64_t before = test_now_ns(), stamp;

		rig_write(&a, &b, 64);
		rig_wait_ok(a.scq);
		stamp = stamp_of(a.scq, i);
		CHECK(stamp >= before);
		CHECK(stamp <= test_now_ns());
	}
}

/* The limits are wide, because time() returns whole seconds, and the clock may be set meanwhile. */
static void stamps_become_time_of_day(void)
{
	struct mlx5dv_clock_info info;
	uint64_t stamp = stamp_of(a.scq, MESSAGES - 1), ns, now = (uint64_t)time(NULL) * SECOND;

	CHECK(!mlx5dv_get_clock_info(a.ctx, &info));
	ns = mlx5dv_ts_to_ns(&info, stamp);
	CHECK_EQ(ns - info.nsec, stamp - info.last_cycles);
	CHECK_EQ(info.nsec - mlx5dv_ts_to_ns(&info, info.last_cycles - 5), 5);
	CHECK_EQ(mlx5dv_ts_to_ns(&info, info.last_cycles + 3600 * SECOND) - info.nsec,
		3600 * SECOND);
	CHECK(ns < now + 2 * SECOND);
	CHECK(ns > now - 600 * SECOND);
}

TEST(stamps)
{
	rig_open_pair(&a, NULL, &b, NULL);
	stamps_are_of_the_completion();
	stamps_become_time_of_day();
}

TEST(the_page_is_good_for_long)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE};

	rig_open_pair(&a, NULL, &b, NULL);
	CHECK(!mlx5dv_query_device(a.ctx, &dv));
	CHECK(dv.comp_mask & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE);
	CHECK(dv.max_clock_info_update_nsec > 3600 * SECOND);
}

/* Each context has a page of its own, and by both pages a stamp is the same time of day. */
TEST(contexts_agree)
{
	struct mlx5dv_clock_info one, two;
	uint64_t first, second;

	rig_open_pair(&a, NULL, &b, NULL);
	CHECK(!mlx5dv_get_clock_info(a.ctx, &one));
	CHECK(!mlx5dv_get_clock_info(b.ctx, &two));
	first = mlx5dv_ts_to_ns(&one, two.last_cycles);
	second = mlx5dv_ts_to_ns(&two, two.last_cycles);
	CHECK(first < second + SECOND && second < first + SECOND);
}

FABRIC_MAIN("clock");
