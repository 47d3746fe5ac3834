/* SPDX-License-Identifier: MIT */
/* The operation streams are deterministic, and have the stated distributions. */
#include <math.h>

#include "support/test.h"
#include "puts.h"
#include "workload.h"

static const struct placement place = {.ranks = 4, .shards = 2};

#define SOME 65536u /* operations */
#define KEYS 200

/* Each distribution of keys. */
static const struct workload kinds[] = {
	{.key_range = KEYS, .read_ratio = 0.3, .seed = 9},
	{.key_range = KEYS, .read_ratio = 0.5, .zipf_theta = 0.99, .seed = 9},
	{.key_range = KEYS,
		.read_ratio = 0.5,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 0.1,
		.hot_ops = 0.8,
		.seed = 9},
	{.key_range = KEYS,
		.read_ratio = 0.5,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 0,
		.hot_ops = 0.3,
		.seed = 9},
	{.key_range = KEYS,
		.read_ratio = 0.5,
		.keys = KEYS_HOTSPOT,
		.hot_keys = 1,
		.hot_ops = 0.3,
		.seed = 9},
	{.key_range = KEYS,
		.read_ratio = 0.875,
		.keys = KEYS_LATEST,
		.zipf_theta = 0.99,
		.seed = 9},
	{.key_range = KEYS, .read_ratio = 0.5, .keys = KEYS_SEQUENTIAL, .seed = 9},
};

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

TEST(same_seed_same_stream)
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

/* The placement of keys on ranks and shards does not change the operations. */
TEST(placement_changes_no_key)
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

/* source_op() computes single operations of the stream, even distant ones and in any order. */
TEST(operations_by_themselves)
{
	static const uint64_t starts[] = {0, 1ull << 16, (1ull << 32) - 100, (1ull << 38) - 300};

	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		struct workload w = kinds[kind];
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

/* With 2^32 keys nearly every put has a key of its own: .9998 of 1.5 million random keys. */
TEST(does_not_repeat)
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

TEST(digest_tells_sets_apart)
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
	CHECK(forth - term[3] + term[4] != forth); /* one operation twice, another one never */
}

TEST(shares_add_up)
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

TEST(reads_as_often_as_told)
{
	for (int tenth = 0; tenth <= 10; tenth++) {
		struct workload w;
		uint64_t puts = 0, keys = 0;
		struct source src;

		for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
			w = kinds[kind];
			w.key_range = 1000;
			w.read_ratio = tenth / 10.0;
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
			/* Those of the sum of 65,536 uniform keys are 370,000. */
			CHECK(kind || fabs((double)keys - SOME * 499.5) <= 370000);
		}
	}
}

/* Compares frequencies with the definition, for exponents below, at and above 1. */
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

TEST(zipf_frequencies)
{
	zipf_is_zipf(0.5);
	zipf_is_zipf(0.99);
	zipf_is_zipf(1.0);
	zipf_is_zipf(1.0 + 1e-9);
	zipf_is_zipf(2.5);
}

/*
 * The probability that an operation is for the key with this number (workload.h); with latest, that
 * a get is for the key of the client's put `number` puts before its last one.
 */
static double probability(const struct workload *w, uint32_t number)
{
	double hot = fmax(1, w->hot_keys * KEYS), norm = 0;

	if (w->keys == KEYS_HOTSPOT && hot < KEYS)
		return number < hot ? w->hot_ops / hot : (1 - w->hot_ops) / (KEYS - hot);
	for (uint32_t k = 1; k <= KEYS; k++)
		norm += pow(k, -w->zipf_theta);
	return pow(number + 1, -w->zipf_theta) / norm;
}

/*
 * Chi-square over all numbers. With 200 keys there are 199 degrees of freedom, so the sum is
 * between 120 and 310 in all but one stream in 10^5.
 */
static void check_frequencies(const struct workload *w, uint32_t client)
{
	uint64_t count[KEYS] = {0}, n = 0, puts = 0;
	double chi = 0;
	struct source src;

	source_init(&src, w);
	for (uint32_t i = 0; i < 4 * SOME; i++) {
		struct op op = source_op(&src, client, i);

		CHECK(op.number < KEYS && op.key < KEYS);
		if (w->keys == KEYS_LATEST && op.put) {
			CHECK_EQ(op.number, puts++ % KEYS);
			continue;
		}
		n++;
		count[w->keys == KEYS_LATEST ? (puts + KEYS - 1 - op.number) % KEYS : op.number]++;
	}
	for (uint32_t k = 0; k < KEYS; k++) {
		double want = (double)n * probability(w, k);

		CHECK(want >= 5);
		chi += ((double)count[k] - want) * ((double)count[k] - want) / want;
	}
	printf("  client %u, distribution %d: chi-square %.1f\n", client, (int)w->keys, chi);
	CHECK(chi > 120 && chi < 310);
}

TEST(frequencies_are_the_stated_ones)
{
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		for (uint32_t client = 0; client < 3 && kinds[kind].keys != KEYS_SEQUENTIAL;
			client++)
			check_frequencies(&kinds[kind], client);
	}
}

/*
 * One key after the other, from a start that depends on the client; with latest, a put every eighth
 * operation.
 */
TEST(order_is_the_stated_one)
{
	const struct workload *latest = &kinds[5], *next = &kinds[6];
	uint32_t starts[3];
	struct source src;

	source_init(&src, next);
	for (uint32_t client = 0; client < 3; client++) {
		starts[client] = source_op(&src, client, 0).key;
		for (uint32_t i = 0; i < 1000; i++)
			CHECK_EQ(source_op(&src, client, i).key, (starts[client] + i) % KEYS);
	}
	CHECK(starts[0] != starts[1] && starts[1] != starts[2]);
	source_init(&src, latest);
	for (uint64_t i = 0; i < 5000; i++)
		CHECK_EQ(source_op(&src, 0, i).put, i % 8 == 7);
}

/* Each number has a key of its own, and each key has a number. */
TEST(numbers_are_keys)
{
	for (size_t kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		uint32_t key_of[KEYS], seen[KEYS] = {0};
		struct source src;

		source_init(&src, &kinds[kind]);
		for (uint32_t i = 0; i < 4 * SOME; i++) {
			struct op op = source_op(&src, 1, i);

			CHECK(!seen[op.key] || seen[op.key] == op.number + 1);
			seen[op.key] = op.number + 1;
			key_of[op.number] = op.key;
		}
		for (uint32_t k = 0; k < KEYS; k++)
			CHECK(seen[key_of[k]] == k + 1);
	}
}

TEST(zipf_extremes)
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

/* The hot keys are neither adjacent in the key range nor on the same rank. */
TEST(hot_keys_are_scattered)
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
