/* SPDX-License-Identifier: MIT */
/* Sorts samples, and computes their median. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

#include <stdlib.h>

static inline int order_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void order_sort(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), order_compare);
}

/* Sorts the n >= 1 samples, and returns their median. */
static inline double order_median(double *v, size_t n)
{
	order_sort(v, n);
	return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

#endif
