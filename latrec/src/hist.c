/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <float.h>

#include "base/sized.h"

/* Extends the smallest and the largest value to include min and max. */
static void widen(struct hist *f, uint64_t min, uint64_t max)
{
	/* Both stores pair with the loads of head_load(). */
	if (!f->hot.count || min < f->min)
		__atomic_store_n(&f->min, min, __ATOMIC_RELEASE);
	if (max > f->max)
		__atomic_store_n(&f->max, max, __ATOMIC_RELEASE);
}

static void add_sum(struct latrec_hist *h, u128 more, uint64_t n)
{
	u128 sum = hist_sum(h) + more;

	/* All stores pair with the loads of head_load(), which reads the count first. */
	__atomic_store_n(&h->sum_high, (uint64_t)(sum >> 64), __ATOMIC_RELEASE);
	__atomic_store_n(&h->sum_low, (uint64_t)sum, __ATOMIC_RELEASE);
	__atomic_store_n(&h->count, h->count + n, __ATOMIC_RELEASE);
}

/* Adds a value n times. Before that, makes the copy that another thread may have requested. */
static int record(struct latrec_hist *h, uint64_t value, uint64_t n)
{
	struct hist *f = hist_own(h);
	struct wish *w = wish_take(&f->wanted);
	int err;

	if (w)
		wish_answer(w, hist_copy((struct latrec_hist *)w->to, h));
	err = hist_add(f, hist_place(f, value), n);
	if (err)
		return err;
	widen(f, value, value);
	add_sum(h, (u128)value * n, n);
	hist_gate(f);
	return 0;
}

COLD void latrec_priv_hist_record(struct latrec_hist *h, uint64_t value)
{
	if (record(h, value, 1))
		count_one(&hist_own(h)->lost);
}

static bool fits(const struct latrec_hist *h, uint64_t more)
{
	return h->count <= LATREC_MAX_COUNT && more <= LATREC_MAX_COUNT - h->count;
}

int latrec_hist_record_n(struct latrec_hist *h, uint64_t value, uint64_t n)
{
	if (!n)
		return 0;
	return fits(h, n) ? record(h, value, n) : -EOVERFLOW;
}

int latrec_hist_merge(struct latrec_hist *to, const struct latrec_hist *from)
{
	const struct hist *f = hist_of(from);
	struct hist *t = hist_own(to);
	uint64_t last = hist_place(f, f->max);

	if (!hist_alike(to, from))
		return -EINVAL;
	if (!from->count)
		return 0;
	if (!fits(to, from->count))
		return -EOVERFLOW;
	if ((to->count + from->count) >> CARRY_BITS && hist_reserve(to))
		return -ENOMEM;
	for (uint64_t at = hist_place(f, f->min); at <= last; at++)
		hist_add(t, at, hist_at(f, at));
	widen(t, f->min, f->max);
	add_sum(to, hist_sum(from), from->count);
	count_more(&t->lost, f->lost);
	hist_gate(t);
	return 0;
}

/* ---- figures ---- */

uint64_t latrec_hist_count(const struct latrec_hist *h)
{
	return h->count;
}

uint64_t latrec_hist_min(const struct latrec_hist *h)
{
	return hist_of(h)->min;
}

uint64_t latrec_hist_max(const struct latrec_hist *h)
{
	return hist_of(h)->max;
}

/*
 * Returns the range of values of a place. That of the first place begins at min, the last ends at
 * max.
 */
static struct latrec_range range_of(const struct hist *f, uint64_t at)
{
	struct latrec_range range = {place_low(f, at), place_high(f, at), hist_at(f, at)};

	if (!at)
		range.low = f->min;
	if (at == f->places - 1)
		range.high = f->max;
	return range;
}

uint32_t latrec_hist_next(const struct latrec_hist *h, uint32_t at, struct latrec_range *range_p,
	size_t size)
{
	const struct hist *f = hist_of(h);
	struct latrec_range range;

	while (at < f->places && !hist_at(f, at))
		at++;
	if (at >= f->places)
		return 0;
	range = range_of(f, at);
	sized_out(range_p, size, &range, sizeof(range));
	return at + 1;
}

double latrec_hist_mean(const struct latrec_hist *h)
{
	return h->count ? (double)hist_sum(h) / (double)h->count : 0;
}

/* Newton's method, from above. The function avoids a dependency on libm. */
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
	struct latrec_range range;

	for (uint32_t at = 0; (at = latrec_hist_next(h, at, &range, sizeof(range)));) {
		double off = (double)range.low / 2 + (double)range.high / 2 - mean;

		squares += (double)range.count * off * off;
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

uint64_t hist_value(const struct hist *h, const struct hist *before, uint64_t rank)
{
	uint64_t seen = 0;

	for (uint64_t at = 0; at < h->places; at++) {
		seen += hist_at(h, at) - (before ? hist_at(before, at) : 0);
		if (seen >= rank)
			return place_value(h, at);
	}
	return h->max;
}

uint64_t latrec_hist_quantile(const struct latrec_hist *h, double q)
{
	uint64_t rank;

	if (!h->count)
		return 0;
	rank = hist_rank(q, h->count);
	return rank == 1 ? latrec_hist_min(h) : hist_value(hist_of(h), NULL, rank);
}
