/* SPDX-License-Identifier: MIT */
/* The operation streams: deterministic, distributed as they say. */
#include <math.h>

#include "support/test.h"
#include "puts.h"
#include "workload.h"

static const struct placement place = {.ranks = 4, .shards = 2};

#define SOME 65536u /* operations */

static void make(struct stream *s, struct source *src, const struct workload *w,
	const struct placement *p, uint32_t client)
{
	source_init(src, w);
	stream_init(s, src, p, client);
}

static uint64_t digest_of(const struct workload *w, uint32_t client)
{
	struct source src;

	source_init(&src, w);
	return source_digest(&src, client, SOME);
}

static void same_seed_same_stream(void)
{
	struct workload a = {.key_range = 1000, .read_ratio = 0.5, .seed = 1}, b = a, c = a;

	b.seed = 2;
	c.zipf_theta = 0.99;
	CHECK(digest_of(&a, 0) == digest_of(&a, 0));
	CHECK(digest_of(&a, 0) != digest_of(&a, 1));
	CHECK(digest_of(&a, 0) != digest_of(&b, 0));
	CHECK(digest_of(&a, 0) != digest_of(&c, 0));
	CHECK(digest_of(&c, 3) == digest_of(&c, 3));
}

/* Where the store is does not change what is asked. */
static void placement_changes_no_key(void)
{
	struct workload w = {.key_range = 1000, .read_ratio = 0.5, .seed = 1};
	struct placement other = {.ranks = 1, .shards = 1};
	struct source src;
	struct stream a, b;

	make(&a, &src, &w, &place, 0);
	make(&b, &src, &w, &other, 0);
	for (uint64_t i = 0; i < 5000; i++) {
		const struct op *x = stream_at(&a, i), *y = stream_at(&b, i);

		CHECK(x->key == y->key && x->put == y->put);
		CHECK(x->rank == place_rank(&place, x->key) && y->rank == 0);
		CHECK(x->shard == place_shard(&place, x->key) && y->shard == 0);
	}
}

/* Others regenerate the same operations that the client makes, however far, and in any order. */
static void operations_by_themselves(void)
{
	static const uint64_t starts[] = {0, 1ull << 16, (1ull << 32) - 100, (1ull << 38) - 300};

	for (int zipf = 0; zipf < 2; zipf++) {
		struct workload w = {.key_range = 1000,
			.read_ratio = 0.3,
			.zipf_theta = zipf,
			.seed = 9};
		struct source src;
		struct stream s;

		make(&s, &src, &w, &place, 6);
		for (size_t j = 0; j < ARRAY_SIZE(starts); j++) {
			for (uint64_t i = starts[j] + 300; i-- > starts[j];) {
				struct op op = source_op(&src, 6, i);

				CHECK_EQ(stream_at(&s, i)->key, op.key);
				CHECK_EQ(stream_at(&s, i)->put, op.put);
				CHECK(stream_peek(&s, i) == stream_at(&s, i));
				CHECK(!stream_peek(&s, i + STREAM_BLOCK));
			}
		}
	}
}

/* With 2^32 keys nearly every put has a key of its own: by chance .9998 of 1.5 million do. */
static void does_not_repeat(void)
{
	enum { OPS = 3000000 };
	const struct workload w = {.key_range = 1ull << 32, .read_ratio = 0.5, .seed = 1};
	struct source src;
	uint32_t n = 0, distinct;

	source_init(&src, &w);
	for (uint64_t i = 0; i < OPS; i++)
		n += source_op(&src, 0, i).put;
	CHECK_EQ(puts_count(&src, 0, 0, OPS, &distinct), 0);
	CHECK(n > 1490000 && n < 1510000);
	CHECK(distinct >= 0.999 * n);
}

static void digest_tells_sets_apart(void)
{
	struct workload w = {.key_range = 1000, .read_ratio = 0.5, .seed = 1};
	uint64_t forth = 0, back = 0, term[100];
	struct source src;

	source_init(&src, &w);
	for (uint64_t i = 0; i < 100; i++) {
		struct op op = source_op(&src, 0, i);

		term[i] = op_term(0, i, op.key, op.put);
	}
	for (uint64_t i = 0; i < 100; i++) {
		forth += term[i];
		back += term[99 - i];
	}
	CHECK(forth == back && forth == source_digest(&src, 0, 100));
	CHECK(forth != source_digest(&src, 0, 99));
	CHECK(forth - term[3] + term[4] != forth); /* one twice, one never */
}

static void shares_add_up(void)
{
	for (uint64_t total = 0; total < 50; total++) {
		for (uint32_t n = 1; n < 9; n++) {
			uint64_t sum = 0;

			for (uint32_t c = 0; c < n; c++)
				sum += workload_share(total, c, n);
			CHECK_EQ(sum, total);
		}
	}
}

static void reads_as_often_as_told(void)
{
	for (int tenth = 0; tenth <= 10; tenth++) {
		struct workload w = {.key_range = 1000, .read_ratio = tenth / 10.0, .seed = 3};
		uint64_t puts = 0, keys = 0;
		struct source src;

		for (int zipf = 0; zipf < 2; zipf++) {
			w.zipf_theta = zipf;
			source_init(&src, &w);
			puts = keys = 0;
			for (uint32_t i = 0; i < SOME; i++) {
				struct op op = source_op(&src, 0, i);

				puts += op.put;
				keys += op.key;
				CHECK(op.key < 1000 && op.number < 1000);
			}
			/* Five standard deviations of 65,536 tosses are at most 640. */
			CHECK(fabs((double)puts - SOME * (1 - w.read_ratio)) <= 640);
			CHECK(puts > 0 || tenth == 10);
			CHECK(puts < SOME || tenth == 0);
			/* And of 65,536 keys, if they are uniform: 370,000. */
			CHECK(zipf || fabs((double)keys - SOME * 499.5) <= 370000);
		}
	}
}

/* Frequencies against the definition, for exponents below, at and above 1. */
static void zipf_is_zipf(double theta)
{
	enum { N = 50, SAMPLES = 400000 };
	uint64_t count[N + 1] = {0}, rng = 5;
	double norm = 0;
	struct zipf z;

	zipf_init(&z, N, theta);
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint64_t k = zipf_next(&z, &rng);

		CHECK(k >= 1 && k <= N);
		count[k]++;
	}
	for (uint32_t k = 1; k <= N; k++)
		norm += pow(k, -theta);
	for (uint32_t k = 1; k <= N; k++) {
		double want = SAMPLES * pow(k, -theta) / norm;

		CHECK(fabs((double)count[k] - want) < 5 * sqrt(want) + 1);
	}
}

static void zipf_frequencies(void)
{
	zipf_is_zipf(0.5);
	zipf_is_zipf(0.99);
	zipf_is_zipf(1.0);
	zipf_is_zipf(1.0 + 1e-9);
	zipf_is_zipf(2.5);
}

static void zipf_extremes(void)
{
	uint64_t rng = 1;
	struct zipf z;

	zipf_init(&z, 1, 0.99);
	CHECK_EQ(zipf_next(&z, &rng), 1);
	zipf_init(&z, 1ull << 32, 1e-6);
	for (uint32_t i = 0; i < 1000; i++)
		CHECK(zipf_next(&z, &rng) <= 1ull << 32);
	zipf_init(&z, 1ull << 32, 10);
	for (uint32_t i = 0; i < 1000; i++)
		CHECK(zipf_next(&z, &rng) <= 100);
}

/* The hot keys are neighbours neither in the key range nor on one rank. */
static void hot_keys_are_scattered(void)
{
	struct workload w = {.key_range = 100000, .read_ratio = 1, .zipf_theta = 0.99, .seed = 1};
	uint64_t rank[4] = {0}, low = 0;
	struct source src;
	struct stream s;

	make(&s, &src, &w, &place, 0);
	for (uint32_t i = 0; i < SOME; i++) {
		rank[stream_at(&s, i)->rank]++;
		low += stream_at(&s, i)->key < 50000;
	}
	for (uint32_t r = 0; r < 4; r++)
		CHECK(rank[r] > SOME / 10);
	CHECK(low > SOME / 4 && low < SOME / 4 * 3);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(same_seed_same_stream),
		TEST(placement_changes_no_key),
		TEST(operations_by_themselves),
		TEST(does_not_repeat),
		TEST(digest_tells_sets_apart),
		TEST(shares_add_up),
		TEST(reads_as_often_as_told),
		TEST(zipf_frequencies),
		TEST(zipf_extremes),
		TEST(hot_keys_are_scattered),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
