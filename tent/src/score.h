/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of mode smart, without state: scores, their order, shares, and the
 * moving average of bandwidth. Bandwidths may have any unit, but must all have the same.
 */
#ifndef TENT_SCORE_H
#define TENT_SCORE_H

#include <stdbool.h>
#include <stdint.h>

struct score {
	double value;
	uint32_t rail;
};

/* (in-flight bytes + slice) / bandwidth, times the penalty of the rail's tier. */
static inline double score_value(uint64_t inflight, uint64_t slice, double bandwidth,
	double tier_penalty)
{
	return ((double)inflight + (double)slice) / bandwidth * tier_penalty;
}

/*
 * A strict order: by value, then by rail. The jitter is part of the value and is drawn
 * once per score, so that two comparisons of the same scores agree.
 */
static inline bool score_before(const struct score *a, const struct score *b)
{
	return a->value < b->value || (a->value == b->value && a->rail < b->rail);
}

/* The weight of a rail when several slices are placed: the larger, the better. */
static inline double score_weight(double value, double epsilon)
{
	return 1.0 / (value + epsilon);
}

/* The number of slices for weight @w; @all is the sum of the weights. Rounded down. */
static inline uint32_t score_share(double w, double all, uint32_t slices)
{
	return (uint32_t)(w / all * (double)slices);
}

/*
 * @alpha is the weight of the old value: with 0 the result is @observed, with 1 it is @old.
 * The result is limited to between min and max times the theoretical bandwidth.
 */
static inline double score_ewma(double old, double observed, double alpha, double theoretical,
	double min_multiplier, double max_multiplier)
{
	double x = alpha * old + (1.0 - alpha) * observed;

	if (x < min_multiplier * theoretical)
		return min_multiplier * theoretical;
	return x < max_multiplier * theoretical ? x : max_multiplier * theoretical;
}

#endif
