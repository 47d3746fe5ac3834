/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <float.h>
#include <string.h>

static_assert(LATREC_BUCKETS == (64 - LATREC_BITS + 2) << LATREC_HALF_BITS, "all of 64 bits");
static_assert(sizeof(struct latrec_hist) == 59432, "as the header says");

void latrec_hist_clear(struct latrec_hist *h)
{
	memset(h, 0, sizeof(*h));
}

COLD void latrec_hist_widen(struct latrec_hist *h, uint64_t value)
{
	uint64_t max = latrec_hist_max(h);

	if (!h->count)
		h->min = max = value;
	if (value < h->min)
		h->min = value;
	h->span = (value > max ? value : max) - h->min;
}

static bool fits(const struct latrec_hist *h, uint64_t more)
{
	return h->count <= LATREC_MAX_COUNT && more <= LATREC_MAX_COUNT - h->count;
}

static void add_sum(struct latrec_hist *h, u128 more)
{
	u128 sum = hist_sum(h) + more;

	h->sum_low = (uint64_t)sum;
	h->sum_high = (uint64_t)(sum >> 64);
}

int latrec_hist_record_n(struct latrec_hist *h, uint64_t value, uint64_t n)
{
	if (!n)
		return 0;
	if (!fits(h, n))
		return -EOVERFLOW;
	if (latrec_hist_outside(h, value))
		latrec_hist_widen(h, value);
	h->bucket[latrec_bucket(value)] += n;
	h->count += n;
	add_sum(h, (u128)value * n);
	return 0;
}

int latrec_hist_merge(struct latrec_hist *to, const struct latrec_hist *from)
{
	if (!from->count)
		return 0;
	if (!fits(to, from->count))
		return -EOVERFLOW;
	latrec_hist_widen(to, latrec_hist_min(from));
	if (latrec_hist_max(from) > latrec_hist_max(to))
		to->span = latrec_hist_max(from) - to->min;
	for (uint32_t i = 0; i < LATREC_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->count += from->count;
	add_sum(to, hist_sum(from));
	return 0;
}

uint32_t latrec_hist_next(const struct latrec_hist *h, uint32_t at, struct latrec_range *range_p)
{
	while (at < LATREC_BUCKETS && !h->bucket[at])
		at++;
	if (at >= LATREC_BUCKETS)
		return 0;
	*range_p = (struct latrec_range){bucket_low(at), bucket_high(at), h->bucket[at]};
	return at + 1;
}

double latrec_hist_mean(const struct latrec_hist *h)
{
	return h->count ? (double)hist_sum(h) / (double)h->count : 0;
}

/* Newton's method, from above; avoids a dependency on libm. */
static double square_root(double x)
{
	double root = x > 1 ? x : 1, next;

	if (!(x > 0))
		return 0;
	while ((next = (root + x / root) / 2) < root)
		root = next;
	return root;
}

double latrec_hist_stddev(const struct latrec_hist *h)
{
	double mean = latrec_hist_mean(h), squares = 0;

	for (uint32_t i = 0; i < LATREC_BUCKETS; i++) {
		double off = (double)bucket_low(i) / 2 + (double)bucket_high(i) / 2 - mean;

		squares += (double)h->bucket[i] * off * off;
	}
	return h->count ? square_root(squares / (double)h->count) : 0;
}

uint64_t hist_rank(double q, uint64_t count)
{
	double want = q * (double)count;
	uint64_t rank;

	if (!(q > 0))
		return 1;
	if (q >= 1 || want >= (double)count)
		return count;
	/* Because of rounding, .07 * 100 is a little more than 7. */
	rank = (uint64_t)(want - want * 4 * DBL_EPSILON) + 1;
	return rank < count ? rank : count;
}

uint64_t latrec_hist_quantile(const struct latrec_hist *h, double q)
{
	uint64_t rank, seen = 0;
	uint32_t i = 0;

	if (!h->count)
		return 0;
	rank = hist_rank(q, h->count);
	if (rank == 1)
		return h->min;
	while (i < LATREC_BUCKETS && (seen += h->bucket[i]) < rank)
		i++;
	return i < LATREC_BUCKETS ? bucket_value(h, i) : latrec_hist_max(h);
}
