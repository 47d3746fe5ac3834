/* SPDX-License-Identifier: MIT */
/* Functions of tests for histograms. Includes the library's internal declarations. */
#ifndef LATREC_TEST_HIST_H
#define LATREC_TEST_HIST_H

#include "support/test.h"
#include "ends.h"
#include "internal.h"

/* Creates a histogram, for use with HIST. */
static inline struct latrec_hist *new_hist(uint64_t low, uint64_t high, uint32_t precision)
{
	const struct latrec_hist_attr attr = {.low = low, .high = high, .precision = precision};
	struct latrec_hist *h = NULL;

	CHECK_EQ(latrec_hist_create(&attr, &h), 0);
	return h;
}

/* Returns true if two histograms have the same values, in the same buckets. */
static inline bool same(const struct latrec_hist *a, const struct latrec_hist *b)
{
	const struct hist *f = hist_of(a), *g = hist_of(b);

	if (!hist_alike(a, b))
		return false;
	for (uint64_t at = 0; at < f->places; at++)
		if (hist_at(f, at) != hist_at(g, at))
			return false;
	return a->count == b->count && hist_sum(a) == hist_sum(b) && f->min == g->min &&
	       f->max == g->max;
}

#endif
