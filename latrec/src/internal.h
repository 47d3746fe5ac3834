/* SPDX-License-Identifier: MIT */
/* Declarations that the files of the library share. */
#ifndef LATREC_INTERNAL_H
#define LATREC_INTERNAL_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/compiler.h"
#pragma GCC visibility push(default)
#include "latrec.h"
#pragma GCC visibility pop

__extension__ typedef unsigned __int128 u128;

static inline u128 hist_sum(const struct latrec_hist *h)
{
	return (u128)h->sum_high << 64 | h->sum_low;
}

static inline uint32_t bucket_shift(uint32_t bucket)
{
	uint32_t shift = bucket >> LATREC_HALF_BITS;

	return shift ? shift - 1 : 0;
}

/* The smallest and the largest value that are counted in a bucket. */
static inline uint64_t bucket_low(uint32_t bucket)
{
	uint32_t shift = bucket_shift(bucket);

	return (bucket - ((uint64_t)shift << LATREC_HALF_BITS)) << shift;
}

static inline uint64_t bucket_high(uint32_t bucket)
{
	return bucket_low(bucket) + ((1ull << bucket_shift(bucket)) - 1);
}

/* Returns the value that is reported for a bucket, at most the largest value of the histogram. */
static inline uint64_t bucket_value(const struct latrec_hist *h, uint32_t bucket)
{
	uint64_t high = bucket_high(bucket), max = latrec_hist_max(h);

	return high < max ? high : max;
}

/* The rank of a quantile among count values, 1 to count; count is not 0. */
uint64_t hist_rank(double q, uint64_t count);

/* Returns 0, or -errno of the writes to the stream. errno must have been 0 before them. */
static inline int stream_status(FILE *out)
{
	if (!fflush(out) && !ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

/*
 * One reading of the counter and of CLOCK_MONOTONIC_RAW: the clock was read between
 * ticks - width / 2 and ticks + width / 2.
 */
struct clock_pair {
	uint64_t ticks, width, ns;
};

/* Sets the rate from two pairs, the later one last. 0, or -ERANGE: one of the two stood still. */
int clock_fit(struct latrec_clock *c, const struct clock_pair *from, const struct clock_pair *to);

/* Returns true if @sources, a list as in sysfs, contains the clock. */
bool clock_listed(const char *sources, const char *name);

#endif
