/* SPDX-License-Identifier: MIT */
/* Memory that shares no cache line with other data, because several threads use it. */
#ifndef BASE_LINES_H
#define BASE_LINES_H

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define LINE_PAIR (2 * CACHE_LINE) /* the unit of an adjacent-line prefetcher */

/* Returns zeroed memory of whole pairs of lines, or NULL. n * size must not overflow. */
static inline void *calloc_lines(size_t n, size_t size)
{
	size_t bytes = align_up(n * size, LINE_PAIR);
	void *p = aligned_alloc(LINE_PAIR, bytes);

	return p ? memset(p, 0, bytes) : NULL;
}

#endif
