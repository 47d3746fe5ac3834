/* SPDX-License-Identifier: MIT */
/* Search in arrays that are ordered by a number. */
#ifndef TENT_SEARCH_H
#define TENT_SEARCH_H

#include <stdint.h>

/* The index of the first of @n elements whose key is greater than @key; @n if none is. */
static inline uint32_t search_behind(const void *array, uint32_t n,
	uint64_t (*key_of)(const void *array, uint32_t i), uint64_t key)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (key_of(array, mid) <= key)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

#endif
