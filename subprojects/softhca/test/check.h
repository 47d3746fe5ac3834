/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_CHECK_H
#define SOFTHCA_TEST_CHECK_H

/* A failed check prints its place and its condition, and ends the test with status 1. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (a_ != b_) {                                                                    \
			fprintf(stderr, "%s:%d: %s: %s = %lld, not %s = %lld\n", __FILE__,         \
				__LINE__, __func__, #a, a_, #b, b_);                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *a_ = (a), *b_ = (b);                                                   \
		if (strcmp(a_, b_)) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s = \"%s\", not \"%s\"\n", __FILE__,          \
				__LINE__, __func__, #a, a_, b_);                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
