/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <math.h>
#include <stdio.h>

/*
 * Rejection-inversion (W. Hoermann, G. Derflinger, 1996): a random value of the integral of
 * x^-theta is inverted in closed form, and the result is rounded to the nearest integer. This
 * integer k is accepted if the random value is at least the integral up to k + 1/2 less the weight
 * k^-theta; otherwise the next random value is tried.
 */
static double zipf_weight(const struct zipf *z, double x)
{
	return exp(-z->theta * log(x));
}

/* (x^(1-theta) - 1) / (1 - theta), which is log(x) at theta = 1. */
static double zipf_integral(const struct zipf *z, double x)
{
	double a = (1.0 - z->theta) * log(x);

	return fabs(a) > 1e-8 ? expm1(a) / (1.0 - z->theta) : log(x) * (1.0 + a / 2.0);
}

static double zipf_inverse(const struct zipf *z, double y)
{
	double a = y * (1.0 - z->theta);

	if (a <= -1.0) /* possible only by rounding */
		return z->n;
	if (fabs(a) > 1e-3) /* log() is exact enough here, and takes half of the time of log1p() */
		return exp(log(1.0 + a) / (1.0 - z->theta));
	return exp(fabs(a) > 1e-8 ? log1p(a) / (1.0 - z->theta) : y * (1.0 - a / 2.0));
}

void zipf_init(struct zipf *z, uint64_t n, double theta)
{
	z->n = (double)n;
	z->theta = theta;
	z->low = zipf_integral(z, 1.5) - 1.0;
	z->high = zipf_integral(z, z->n + 0.5);
	z->accept = 2.0 - zipf_inverse(z, zipf_integral(z, 2.5) - zipf_weight(z, 2.0));
}

uint64_t zipf_next(const struct zipf *z, uint64_t *rng)
{
	for (;;) {
		double y = z->high + rand_unit(rng) * (z->low - z->high);
		double x = zipf_inverse(z, y);
		double k = floor(x + 0.5);

		k = k < 1.0 ? 1.0 : k > z->n ? z->n : k;
		if (k - x <= z->accept || y >= zipf_integral(z, k + 0.5) - zipf_weight(z, k))
			return (uint64_t)k;
	}
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* A factor without a common divisor with n: multiplication by it modulo n permutes 0 .. n - 1. */
static uint64_t scatter_factor(uint64_t n)
{
	uint64_t f = 0x9e3779b1u;

	while (gcd(f, n) != 1)
		f++;
	return f;
}

uint64_t workload_hot(const struct workload *w)
{
	double n = ceil(w->hot_keys * (double)w->key_range);

	return n < 1 ? 1 : n < (double)w->key_range ? (uint64_t)n : w->key_range;
}

void workload_name(const struct workload *w, char name[WORKLOAD_NAME_MAX])
{
	if (w->keys == KEYS_SEQUENTIAL)
		snprintf(name, WORKLOAD_NAME_MAX, "sequential");
	else if (w->keys == KEYS_HOTSPOT)
		snprintf(name, WORKLOAD_NAME_MAX, "hotspot:%g,%g", w->hot_keys, w->hot_ops);
	else if (w->zipf_theta > 0)
		snprintf(name, WORKLOAD_NAME_MAX, "%s:%g",
			w->keys == KEYS_LATEST ? "latest" : "zipf", w->zipf_theta);
	else
		snprintf(name, WORKLOAD_NAME_MAX, "uniform");
}

void source_init(struct source *src, const struct workload *w)
{
	*src = (struct source){.load = *w,
		.seed = mix64(w->seed),
		.gets = (uint64_t)(w->read_ratio * 0x1p63),
		.factor = scatter_factor(w->key_range),
		.hot = workload_hot(w),
		.hot_ops = (uint64_t)(w->hot_ops * 0x1p63)};
	if (w->zipf_theta > 0)
		zipf_init(&src->zipf, w->key_range, w->zipf_theta);
}

static bool is_put(const struct source *src, uint64_t random)
{
	return random >> 1 >= src->gets;
}

/* The product does not overflow, because number and factor are below 2^32. */
static struct op scattered(const struct source *src, uint64_t number, bool put)
{
	return (struct op){.number = (uint32_t)number,
		.key = (uint32_t)(number * src->factor % src->load.key_range),
		.put = put};
}

/* Sources count the operations. With uniform and sequential operations the number is the key. */
struct op source_get(const struct source *src, uint64_t number)
{
	const struct workload *w = &src->load;

	if (w->keys == KEYS_SEQUENTIAL || (w->keys == KEYS_DRAWN && !(w->zipf_theta > 0)))
		return (struct op){.number = (uint32_t)number, .key = (uint32_t)number};
	return scattered(src, number, false);
}

static struct op draw_zipf(const struct source *src, uint64_t rng)
{
	uint64_t number = zipf_next(&src->zipf, &rng) - 1;

	return scattered(src, number, is_put(src, rand_next(&rng)));
}

static struct op draw_hotspot(const struct source *src, uint64_t rng)
{
	uint64_t keys = src->load.key_range, first = 0, n = src->hot;
	unsigned __int128 product;

	if (rand_next(&rng) >> 1 >= src->hot_ops && n < keys) {
		first = n;
		n = keys - n;
	}
	product = (unsigned __int128)rand_next(&rng) * n;
	return scattered(src, first + (uint64_t)(product >> 64), is_put(src, rand_next(&rng)));
}

/* The number of puts among the first i operations. */
static uint64_t puts_before(const struct source *src, uint64_t i)
{
	return (uint64_t)((unsigned __int128)i * ((1ull << 63) - src->gets) >> 63);
}

static struct op draw_latest(const struct source *src, uint64_t i, uint64_t rng)
{
	uint64_t n = src->load.key_range, puts = puts_before(src, i);

	if (puts_before(src, i + 1) > puts)
		return scattered(src, puts % n, true);
	/* The zipf number is 1 to n. */
	return scattered(src, (puts % n + n - zipf_next(&src->zipf, &rng)) % n, false);
}

static struct op draw_next(const struct source *src, uint64_t of_client, uint64_t i, uint64_t rng)
{
	uint32_t key = (uint32_t)((of_client % src->load.key_range + i) % src->load.key_range);

	return (struct op){.number = key, .key = key, .put = is_put(src, rand_next(&rng))};
}

/*
 * One random number r of 64 bits determines key and type. The integer part of r / 2^64 * n, n <=
 * 2^32, is the key. The fraction has at least 32 random bits, and determines the type.
 */
static struct op draw_uniform(const struct source *src, uint64_t rng)
{
	unsigned __int128 product = (unsigned __int128)rand_next(&rng) * src->load.key_range;
	uint32_t key = (uint32_t)(product >> 64);

	return (struct op){.number = key, .key = key, .put = is_put(src, (uint64_t)product)};
}

static uint64_t client_rng(const struct source *src, uint32_t client)
{
	return mix64(src->seed + client + 1);
}

/* Each operation has its own random numbers, so that a single operation can be computed. */
static struct op draw(const struct source *src, uint64_t of_client, uint64_t i)
{
	uint64_t rng = of_client + i * 0xd1342543de82ef95ull;

	switch (src->load.keys) {
	case KEYS_HOTSPOT:
		return draw_hotspot(src, rng);
	case KEYS_LATEST:
		return draw_latest(src, i, rng);
	case KEYS_SEQUENTIAL:
		return draw_next(src, of_client, i, rng);
	case KEYS_DRAWN:
		break;
	}
	return src->load.zipf_theta > 0 ? draw_zipf(src, rng) : draw_uniform(src, rng);
}

struct op source_op(const struct source *src, uint32_t client, uint64_t i)
{
	return draw(src, client_rng(src, client), i);
}

void stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client)
{
	*s = (struct stream){.source = src, .place = *p, .client = client};
	stream_make(s, 0);
}

void stream_make(struct stream *s, uint64_t i)
{
	uint64_t of_client = client_rng(s->source, s->client);

	s->first = i - i % STREAM_BLOCK;
	for (uint32_t j = 0; j < STREAM_BLOCK; j++) {
		s->block[j] = draw(s->source, of_client, s->first + j);
		op_place(&s->block[j], &s->place);
	}
}

uint64_t source_digest(const struct source *src, uint32_t client, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		struct op op = source_op(src, client, i);

		sum += op_term(client, i, op.key, op.put);
	}
	return sum;
}
