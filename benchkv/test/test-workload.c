/* SPDX-License-Identifier: MIT */
/* The operation streams: deterministic, distributed as they say. */
#include <math.h>

#include "base/test.h"
#include "workload.h"

static const struct placement place = {.ranks = 4, .shards = 2};

static void make(struct stream *s, const struct workload *w, const struct placement *p,
	uint32_t client)
{
	struct source src;

	source_init(&src, w);
	CHECK_EQ(stream_init(s, &src, p, client), 0);
}

static uint64_t digest_of(const struct workload *w, uint32_t client)
{
	struct stream s;
	uint64_t d;

	make(&s, w, &place, client);
	d = stream_digest(&s, STREAM_PERIOD);
	stream_fini(&s);
	return d;
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
	struct stream a, b;

	make(&a, &w, &place, 0);
	make(&b, &w, &other, 0);
	CHECK(stream_digest(&a, 5000) == stream_digest(&b, 5000));
	stream_fini(&a);
	stream_fini(&b);
}

/* What others regenerate is what the client does, period after period. */
static void operations_by_themselves(void)
{
	for (int zipf = 0; zipf < 2; zipf++) {
		struct workload w = {.key_range = 1000,
			.read_ratio = 0.3,
			.zipf_theta = zipf,
			.seed = 9};
		struct source src;
		struct stream s;

		source_init(&src, &w);
		make(&s, &w, &place, 6);
		for (uint64_t i = 2 * STREAM_PERIOD; i-- > 0;) {
			bool put;

			CHECK_EQ(source_op(&src, 6, i, &put), stream_at(&s, i)->key);
			CHECK_EQ(put, stream_at(&s, i)->put);
		}
		stream_fini(&s);
	}
}

static void digest_tells_sets_apart(void)
{
	struct workload w = {.key_range = 1000, .read_ratio = 0.5, .seed = 1};
	struct stream s;
	uint64_t forth = 0, back = 0;

	make(&s, &w, &place, 0);
	for (uint64_t i = 0; i < 100; i++) {
		forth += stream_term(&s, i);
		back += stream_term(&s, 99 - i);
	}
	CHECK(forth == back && forth == stream_digest(&s, 100));
	CHECK(forth != stream_digest(&s, 99));
	CHECK(forth - stream_term(&s, 3) + stream_term(&s, 4) != forth); /* one twice, one never */
	CHECK(stream_digest(&s, 2 * STREAM_PERIOD) != 2 * stream_digest(&s, STREAM_PERIOD));
	stream_fini(&s);
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
		struct stream s;
		uint64_t puts = 0;

		make(&s, &w, &place, 0);
		for (uint32_t i = 0; i < STREAM_PERIOD; i++) {
			puts += stream_at(&s, i)->put;
			CHECK(stream_at(&s, i)->key < 1000);
			CHECK_EQ(stream_at(&s, i)->rank, place_rank(&place, s.ops[i].key));
			CHECK_EQ(stream_at(&s, i)->shard, place_shard(&place, s.ops[i].key));
		}
		/* Five standard deviations of 65,536 tosses are at most 640. */
		CHECK(fabs((double)puts - STREAM_PERIOD * (1 - w.read_ratio)) <= 640);
		stream_fini(&s);
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
	struct stream s;

	make(&s, &w, &place, 0);
	for (uint32_t i = 0; i < STREAM_PERIOD; i++) {
		rank[stream_at(&s, i)->rank]++;
		low += stream_at(&s, i)->key < 50000;
	}
	for (uint32_t r = 0; r < 4; r++)
		CHECK(rank[r] > STREAM_PERIOD / 10);
	CHECK(low > STREAM_PERIOD / 4 && low < STREAM_PERIOD / 4 * 3);
	stream_fini(&s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(same_seed_same_stream),
		TEST(placement_changes_no_key),
		TEST(operations_by_themselves),
		TEST(digest_tells_sets_apart),
		TEST(shares_add_up),
		TEST(reads_as_often_as_told),
		TEST(zipf_frequencies),
		TEST(zipf_extremes),
		TEST(hot_keys_are_scattered),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
