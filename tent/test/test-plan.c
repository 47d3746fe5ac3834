/* SPDX-License-Identifier: MIT */
/* The slice planner: fixed sizes, and properties of random ones. */
#include <errno.h>

#include "support/test.h"
#include "plan.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

/* Cuts a whole request, and checks the properties of each slice. Returns the number of slices. */
static uint64_t cut_all(uint64_t length, uint64_t block, const uint64_t *cuts, uint32_t n_cuts)
{
	struct plan p;
	uint64_t at = 0, n = 0, len, offset = 77, expected;

	CHECK_EQ(plan_init(&p, length, cuts, n_cuts), 0);
	expected = plan_count(&p, block);
	while ((len = plan_peek(&p, block))) {
		CHECK_EQ(plan_left(&p), length - at);
		CHECK_EQ(plan_next(&p, block, &offset), len);
		CHECK_EQ(offset, at);
		CHECK(len < block + PLAN_TAIL);
		for (uint32_t i = 0; i < n_cuts; i++)
			CHECK(cuts[i] <= at || cuts[i] >= at + len);
		if (!n_cuts)
			CHECK(len >= PLAN_TAIL || len == length);
		at += len;
		n++;
	}
	CHECK_EQ(at, length);
	CHECK_EQ(plan_next(&p, block, &offset), 0);
	CHECK_EQ(n, expected);
	return n;
}

TEST(blocks_of_the_early_modes)
{
	static const struct {
		uint64_t length;
		uint32_t most;
		uint64_t block, n;
	} rows[] = {
		{1, 32, 64 * KIB, 1},
		{64 * KIB, 32, 64 * KIB, 1},
		{64 * KIB + 1, 32, 128 * KIB, 1}, /* the tail lengthens the only slice */
		{80 * KIB - 1, 32, 128 * KIB, 1},
		{128 * KIB + 1, 32, 128 * KIB, 1},
		{80 * KIB, 32, 64 * KIB, 2}, /* a rest of PLAN_TAIL bytes is a slice */
		{MIB, 32, 64 * KIB, 16},
		{2 * MIB, 32, 64 * KIB, 32},
		{33 * 64 * KIB, 32, 128 * KIB, 17}, /* without empty slices */
		{33 * 64 * KIB, 64, 64 * KIB, 33},
		{8 * MIB, 32, 256 * KIB, 32},
		{8 * MIB, 64, 128 * KIB, 64},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t block = plan_block(rows[i].length, rows[i].most);

		CHECK_EQ(block, rows[i].block);
		CHECK_EQ(cut_all(rows[i].length, block, NULL, 0), rows[i].n);
	}
}

TEST(blocks_of_pull)
{
	CHECK_EQ(plan_pull_block(1, 8), 64 * KIB);
	CHECK_EQ(plan_pull_block(MIB, 8), 64 * KIB);
	CHECK_EQ(plan_pull_block(6 * MIB, 8), 192 * KIB);
	CHECK_EQ(plan_pull_block(8 * MIB, 8), 256 * KIB);
	CHECK_EQ(plan_pull_block(PLAN_LENGTH_MAX, 8), 256 * KIB);
	CHECK_EQ(plan_pull_block(MIB, 1), 256 * KIB);
}

TEST(never_across_a_registration)
{
	const uint64_t cuts[] = {1, 100 * KIB, 100 * KIB + 1, 512 * KIB};

	/*
	 * Parts of 1 byte, 100 KiB - 1 (64 and 36 KiB), 1 byte, 412 KiB - 1 (6 * 64 and 28 KiB),
	 * 512 KiB.
	 */
	CHECK_EQ(cut_all(MIB, 64 * KIB, cuts, 4), 1 + 2 + 1 + 7 + 8);
}

TEST(no_slice_is_too_long_for_a_message)
{
	CHECK(PLAN_READ_SLICES == 64 && PLAN_WRITE_SLICES == 32);
	CHECK_EQ(plan_block(1ull << 40, 32), PLAN_BLOCK_MAX);
	CHECK_EQ(cut_all(1ull << 40, plan_block(1ull << 40, 32), NULL, 0), 1024);
	CHECK(PLAN_BLOCK_MAX + PLAN_TAIL < 1u << 31);
}

TEST(refuses)
{
	const uint64_t zero[] = {0}, end[] = {100}, down[] = {50, 40}, twice[] = {50, 50};
	struct plan p;

	CHECK_EQ(plan_init(&p, 0, NULL, 0), -EINVAL);
	CHECK_EQ(plan_init(&p, PLAN_LENGTH_MAX + 1, NULL, 0), -EINVAL);
	CHECK_EQ(plan_init(&p, UINT64_MAX, NULL, 0), -EINVAL);
	CHECK_EQ(plan_init(&p, PLAN_LENGTH_MAX, NULL, 0), 0);
	CHECK_EQ(plan_init(&p, 100, zero, 1), -EINVAL);
	CHECK_EQ(plan_init(&p, 100, end, 1), -EINVAL);
	CHECK_EQ(plan_init(&p, 100, down, 2), -EINVAL);
	CHECK_EQ(plan_init(&p, 100, twice, 2), -EINVAL);
}

TEST(any_request_is_cut_whole)
{
	uint64_t seed = test_seed();

	for (int i = 0; i < 20000; i++) {
		uint64_t length = 1 + test_rand(&seed) % (1ull << (1 + test_rand(&seed) % 28));
		uint32_t most = test_rand(&seed) % 2 ? PLAN_READ_SLICES : PLAN_WRITE_SLICES;
		uint64_t cuts[4], at = 0;
		uint32_t n_cuts = 0;

		CHECK(cut_all(length, plan_block(length, most), NULL, 0) <= most);
		while (n_cuts < 4) {
			at += 1 + test_rand(&seed) % (length / 2 + 1);
			if (at >= length)
				break;
			cuts[n_cuts++] = at;
		}
		cut_all(length, plan_block(length, most), cuts, n_cuts);
		cut_all(length, plan_pull_block(length, 1 + test_rand(&seed) % 8), cuts, n_cuts);
	}
}
