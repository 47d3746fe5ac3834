/* SPDX-License-Identifier: MIT */
/* The store is compared with an array. Also tests the placement, and requests for other shards. */
#include <errno.h>

#include "support/test.h"
#include "store.h"

#define KEYS 5000

static const struct placement place = {.ranks = 3, .shards = 4};

TEST(holds_what_was_put)
{
	static uint64_t model[KEYS];
	static bool there[KEYS];
	uint64_t rng = test_seed(), value;
	AT_END(store_fini) struct store s;

	CHECK_EQ(store_init(&s, &place, 0, 0, 1), 0); /* must grow */
	for (uint32_t i = 0; i < 50000; i++) {
		uint64_t k = test_rand(&rng) % KEYS, key = k * 0x123456789abcull;

		if (test_rand(&rng) & 1) {
			model[k] = test_rand(&rng);
			there[k] = true;
			CHECK_EQ(store_put(&s, key, model[k]), 0);
		} else if (there[k]) {
			CHECK_EQ(store_get(&s, key, &value), 0);
			CHECK(value == model[k]);
		} else {
			CHECK_EQ(store_get(&s, key, &value), -ENOENT);
		}
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		int err = store_get(&s, k * 0x123456789abcull, &value);

		CHECK_EQ(err, there[k] ? 0 : -ENOENT);
		CHECK(err || value == model[k]);
	}
	CHECK_EQ(store_put(&s, UINT64_MAX, 1), -EINVAL);
	CHECK_EQ(store_get(&s, UINT64_MAX, &value), -ENOENT);
}

/* Every key has one shard; shards get equal shares within five standard deviations. */
TEST(places_evenly)
{
	uint64_t n[3][4] = {{0}};

	for (uint64_t key = 0; key < 120000; key++) {
		uint32_t r = place_rank(&place, key), s = place_shard(&place, key);

		CHECK(r < 3 && s < 4);
		n[r][s]++;
	}
	for (uint32_t i = 0; i < 12; i++)
		CHECK(n[i / 4][i % 4] > 9520 && n[i / 4][i % 4] < 10480);
}

TEST(preloads_its_own)
{
	uint64_t sum = 0, value;

	for (uint32_t i = 0; i < 12; i++) {
		AT_END(store_fini) struct store s;

		CHECK_EQ(store_init(&s, &place, i / 4, i % 4, 1), 0);
		CHECK_EQ(store_preload(&s, 10000), 0);
		sum += s.used;
		for (uint64_t key = 0; key < 10000; key++) {
			bool mine = place_rank(&place, key) == i / 4 &&
				    place_shard(&place, key) == i % 4;

			CHECK_EQ(store_get(&s, key, &value), mine ? 0 : -ENOENT);
			CHECK(!mine || value == kv_value(key, KV_PRELOADED));
		}
	}
	CHECK_EQ(sum, 10000);
}

static uint64_t some_key(uint32_t rank, uint32_t shard)
{
	uint64_t key = 0;

	while (place_rank(&place, key) != rank || place_shard(&place, key) != shard)
		key++;
	return key;
}

static void replies(struct store *s, const struct kv_req *req, enum kv_type type, uint64_t value)
{
	struct kv_resp resp = store_serve(s, req);

	CHECK_EQ(resp.type, type);
	CHECK_EQ(resp.value, value);
	CHECK(resp.origin == req->origin && resp.seq == req->seq);
}

TEST(serves_only_its_own)
{
	struct kv_req req = {.type = KV_GET,
		.origin = 9,
		.seq = 77,
		.rank = 1,
		.key = some_key(1, 2)};
	AT_END(store_fini) struct store s;

	CHECK_EQ(store_init(&s, &place, 1, 2, 1), 0);
	replies(&s, &req, KV_NOT_FOUND, req.key);
	req.type = KV_PUT;
	req.value = 42;
	replies(&s, &req, KV_PUT_OK, 42);
	req.type = KV_GET;
	replies(&s, &req, KV_GET_OK, 42);

	req.type = KV_PUT_OK;
	replies(&s, &req, KV_ERROR, EBADMSG);
	req.type = KV_GET;
	req.rank = 2;
	replies(&s, &req, KV_ERROR, EXDEV);
	req.rank = 1;
	req.key = some_key(1, 3);
	replies(&s, &req, KV_ERROR, EXDEV);
	req.key = some_key(0, 2);
	replies(&s, &req, KV_ERROR, EXDEV);
}

/* A swap stores the next version of the key. A missing or preloaded value has version 0. */
TEST(swaps_versions)
{
	static const struct {
		bool preloaded;
		uint64_t stored, version; /* stored: 0: no put */
		enum kv_type type;
	} cases[] = {{false, 0, 1, KV_SWAP_OK}, {false, 0, 0, KV_NOT_FOUND},
		{false, 0, 2, KV_NOT_FOUND}, {true, 0, 1, KV_SWAP_OK}, {true, 0, 0, KV_SWAP_NO},
		{true, 0, 2, KV_SWAP_NO}, {true, 7, 8, KV_SWAP_OK}, {true, 7, 7, KV_SWAP_NO},
		{true, 7, 9, KV_SWAP_NO}, {true, 7, 1, KV_SWAP_NO}, {false, 7, 8, KV_SWAP_OK}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct kv_req req = {.type = KV_SWAP, .rank = 1, .key = some_key(1, 2)};
		uint64_t stored = kv_value(req.key, KV_PRELOADED), left = 0;
		AT_END(store_fini) struct store s;

		req.value = kv_value(req.key, kv_name(3, cases[i].version));
		CHECK_EQ(store_init(&s, &place, 1, 2, 1), 0);
		if (cases[i].stored)
			stored = kv_value(req.key, kv_name(4, cases[i].stored));
		if (cases[i].preloaded || cases[i].stored)
			CHECK_EQ(store_put(&s, req.key, stored), 0);
		replies(&s, &req, cases[i].type,
			cases[i].type == KV_SWAP_OK ? req.value :
			cases[i].type == KV_SWAP_NO ? stored :
						      req.key);
		if (cases[i].type == KV_SWAP_OK)
			stored = req.value;
		CHECK_EQ(store_get(&s, req.key, &left),
			cases[i].type == KV_NOT_FOUND ? -ENOENT : 0);
		CHECK(cases[i].type == KV_NOT_FOUND || left == stored);
	}
}

TEST(values_name_a_put)
{
	uint64_t rng = test_seed();

	for (uint32_t i = 0; i < 10000; i++) {
		uint64_t key = test_rand(&rng) >> 32, op = test_rand(&rng) % KV_MAX_OPS;
		uint32_t writer = (uint32_t)test_rand(&rng) & 0xffff;
		uint32_t run = (uint32_t)test_rand(&rng) % KV_MAX_RUNS;
		uint64_t name = kv_name(writer, kv_stamp(run, op));
		uint64_t value = kv_value(key, name);

		CHECK(unmix64(mix64(name)) == name);
		CHECK(kv_value_name(key, value) == name);
		CHECK_EQ(kv_name_writer(name), writer);
		CHECK_EQ(kv_stamp_run(kv_name_stamp(name)), run);
		CHECK_EQ(kv_stamp_op(kv_name_stamp(name)), op);
		/*
		 * Under another key, or with a changed bit, the value decodes to a very different
		 * name.
		 */
		CHECK(__builtin_popcountll(kv_value_name(key + 1, value) ^ name) > 4);
		CHECK(__builtin_popcountll(kv_value_name(key, value ^ 1ull << i % 64) ^ name) > 4);
	}
}
