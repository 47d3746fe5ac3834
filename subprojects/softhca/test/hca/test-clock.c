/* SPDX-License-Identifier: MIT */
/* Time stamps of completions, and the page with which they are converted to the time of day. */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <time.h>

#include "rig.h"
#include "tmpdir.h"

#define SECOND 1000000000ull
#define MESSAGES 8

static struct rig a, b;

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* Reads completion number @i of a CQ whose provider's format is known. */
static uint64_t stamp_of(struct ibv_cq *cq, unsigned i)
{
	struct mlx5dv_cq dv = {0};
	struct mlx5dv_obj obj = {.cq = {.in = cq, .out = &dv}};
	const struct mlx5_cqe64 *cqe;

	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ));
	cqe = (void *)((uint8_t *)dv.buf + i * dv.cqe_size + (dv.cqe_size - sizeof(*cqe)));
	return be64toh(cqe->timestamp);
}

static void send_one(void)
{
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 64,
			     .raddr = (uintptr_t)b.buf,
			     .rkey = b.mr->rkey});
	rig_wait_ok(a.scq);
}

/* A stamp must be between the post and the end of the poll. */
static void stamps_are_of_the_completion(void)
{
	for (unsigned i = 0; i < MESSAGES; i++) {
		uint64_t before = now_ns(CLOCK_MONOTONIC), stamp;

		send_one();
		stamp = stamp_of(a.scq, i);
		CHECK(stamp >= before);
		CHECK(stamp <= now_ns(CLOCK_MONOTONIC));
	}
}

/* The time of day may be set meanwhile, so the tolerance is a second. */
static void stamps_become_time_of_day(void)
{
	struct mlx5dv_clock_info info;
	uint64_t stamp = stamp_of(a.scq, MESSAGES - 1), ns, now = now_ns(CLOCK_REALTIME);

	CHECK(!mlx5dv_get_clock_info(a.ctx, &info));
	ns = mlx5dv_ts_to_ns(&info, stamp);
	CHECK_EQ(ns - info.nsec, stamp - info.last_cycles);
	CHECK_EQ(info.nsec - mlx5dv_ts_to_ns(&info, info.last_cycles - 5), 5);
	CHECK_EQ(mlx5dv_ts_to_ns(&info, info.last_cycles + 3600 * SECOND) - info.nsec,
		3600 * SECOND);
	CHECK(ns < now + SECOND);
	CHECK(ns > now - 600 * SECOND);
}

static void the_page_is_good_for_long(void)
{
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE};

	CHECK(!mlx5dv_query_device(a.ctx, &dv));
	CHECK(dv.comp_mask & MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE);
	CHECK(dv.max_clock_info_update_nsec > 3600 * SECOND);
}

/* Each context has a page of its own. */
static void contexts_agree(void)
{
	struct mlx5dv_clock_info one, two;
	uint64_t first, second;

	CHECK(!mlx5dv_get_clock_info(a.ctx, &one));
	CHECK(!mlx5dv_get_clock_info(b.ctx, &two));
	first = mlx5dv_ts_to_ns(&one, two.last_cycles);
	second = mlx5dv_ts_to_ns(&two, two.last_cycles);
	CHECK(first < second + SECOND && second < first + SECOND);
}

int main(void)
{
	tmpdir_make();
	rig_fabric("clock");
	rig_open(&a, &(struct rig_attr){0});
	rig_open(&b, &(struct rig_attr){0});
	rig_connect_pair(&a, &b);
	stamps_are_of_the_completion();
	stamps_become_time_of_day();
	the_page_is_good_for_long();
	contexts_agree();
	rig_close(&a);
	rig_close(&b);
	return 0;
}
