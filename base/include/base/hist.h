/* SPDX-License-Identifier: MIT */
/*
 * Log-linear histogram of 64-bit values: exact below 2^HIST_BITS, then
 * 2^(HIST_BITS - 1) equal buckets per power of two, so a quantile is at most
 * 2^-(HIST_BITS - 1) = 1/64 above the true value. Merging is addition, so the
 * histograms of threads and machines can be summed. Layout after HdrHistogram
 * (G. Tene): bucket = exponent and leading mantissa bits.
 */
#ifndef BASE_HIST_H
#define BASE_HIST_H

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#define HIST_BITS 7
#define HIST_HALF (1u << (HIST_BITS - 1))
#define HIST_BUCKETS ((64 - HIST_BITS + 2) * HIST_HALF)

struct hist {
	uint64_t count;
	uint64_t sum;
	uint64_t min; /* UINT64_MAX while empty */
	uint64_t max;
	uint64_t bucket[HIST_BUCKETS];
};

static inline void hist_init(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

static inline uint32_t hist_index(uint64_t v)
{
	uint32_t shift;

	if (v < 2 * HIST_HALF)
		return (uint32_t)v;
	shift = 63 - (uint32_t)__builtin_clzll(v) - (HIST_BITS - 1);
	return shift * HIST_HALF + (uint32_t)(v >> shift);
}

/* The largest value that falls into bucket i. */
static inline uint64_t hist_upper(uint32_t i)
{
	uint32_t shift = i < 2 * HIST_HALF ? 0 : i / HIST_HALF - 1;
	uint64_t mant = i - (uint64_t)shift * HIST_HALF;

	return ((mant + 1) << shift) - 1;
}

static inline void hist_add(struct hist *h, uint64_t v)
{
	h->bucket[hist_index(v)]++;
	h->count++;
	h->sum += v;
	if (v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
}

static inline void hist_merge(struct hist *to, const struct hist *from)
{
	for (uint32_t i = 0; i < HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
	to->sum += from->sum;
	if (from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
}

/*
 * The smallest bucket bound that at least the fraction q of the values does not
 * exceed (nearest rank), never above the largest value seen; 0 while empty.
 */
static inline uint64_t hist_quantile(const struct hist *h, double q)
{
	double want = q * (double)h->count;
	uint64_t rank = (uint64_t)want, seen = 0;

	if (!h->count)
		return 0;
	if ((double)rank < want || !rank)
		rank++;
	if (rank > h->count)
		rank = h->count;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= rank)
			return hist_upper(i) < h->max ? hist_upper(i) : h->max;
	}
	return h->max;
}

static inline double hist_mean(const struct hist *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0.0;
}

#endif
