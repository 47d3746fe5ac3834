/* SPDX-License-Identifier: MIT */
/* Groups loops by the number of completions or messages that they found, as in published tables. */
#ifndef BENCHKV_BUCKET_H
#define BENCHKV_BUCKET_H

#include <stdint.h>

#define BUCKETS 5 /* 0, 1, 2 to 10, 11 to 100, more */

static inline uint32_t bucket_of(uint32_t n)
{
	return n < 2 ? n : n <= 10 ? 2 : n <= 100 ? 3 : 4;
}

static inline const char *bucket_name(uint32_t n)
{
	static const char *const names[BUCKETS] = {"0", "1", "2-10", "11-100", ">100"};

	return names[bucket_of(n)];
}

#endif
