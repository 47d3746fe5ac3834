/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static uint64_t rng_next(uint64_t *state)
{
	return mix64(*state += 0x9e3779b97f4a7c15ull);
}

/* Uniform in [0, 1). */
static double rng_unit(uint64_t *state)
{
	return (double)(rng_next(state) >> 11) * 0x1p-53;
}

/* Uniform in 0 .. n - 1, n <= 2^32; the bias of n / 2^64 is below notice. */
static uint64_t rng_below(uint64_t *state, uint64_t n)
{
	return (uint64_t)((unsigned __int128)rng_next(state) * n >> 64);
}

/*
 * Rejection-inversion (W. Hoermann, G. Derflinger, 1996): the integral of x^-theta is
 * inverted in closed form, the point is rounded to the nearest integer, and is accepted
 * when it lies under the step that stands for that integer.
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

	if (a <= -1.0) /* by rounding only */
		return z->n;
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
		double y = z->high + rng_unit(rng) * (z->low - z->high);
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

/* A factor without a common divisor with n: multiplication by it permutes 0 .. n - 1. */
static uint64_t scatter_factor(uint64_t n)
{
	uint64_t f = 0x9e3779b1u;

	while (gcd(f, n) != 1)
		f++;
	return f;
}

void source_init(struct source *src, const struct workload *w)
{
	*src = (struct source){.load = *w, .factor = scatter_factor(w->key_range)};
	if (w->zipf_theta > 0)
		zipf_init(&src->zipf, w->key_range, w->zipf_theta);
}

/* Each operation has random numbers of its own, so that any can be made by itself. */
static uint64_t op_rng(const struct source *src, uint32_t client, uint64_t i)
{
	return mix64(mix64(src->load.seed) + client + 1) +
	       (i & (STREAM_PERIOD - 1)) * 0xd1342543de82ef95ull;
}

uint64_t source_op(const struct source *src, uint32_t client, uint64_t i, bool *put_p)
{
	const struct workload *w = &src->load;
	uint64_t rng = op_rng(src, client, i);
	uint64_t k =
		w->zipf_theta > 0 ? zipf_next(&src->zipf, &rng) - 1 : rng_below(&rng, w->key_range);

	*put_p = rng_unit(&rng) >= w->read_ratio;
	return (uint64_t)((unsigned __int128)k * src->factor % w->key_range);
}

int stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client)
{
	s->client = client;
	s->ops = calloc(STREAM_PERIOD, sizeof(*s->ops));
	if (!s->ops)
		return -ENOMEM;
	for (uint32_t i = 0; i < STREAM_PERIOD; i++) {
		bool put;
		uint64_t key = source_op(src, client, i, &put);

		s->ops[i] = (struct op){
			.key = (uint32_t)key,
			.rank = (uint16_t)place_rank(p, key),
			.shard = (uint8_t)place_shard(p, key),
			.put = put,
		};
	}
	return 0;
}

void stream_fini(struct stream *s)
{
	free(s->ops);
	s->ops = NULL;
}

uint64_t stream_digest(const struct stream *s, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += stream_term(s, i);
	return sum;
}
