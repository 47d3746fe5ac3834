/* SPDX-License-Identifier: MIT */
/*
 * The sizes of values, and their bytes. A value has 8 bytes, which msg.h describes, and may have
 * further bytes. The first 8 bytes determine the number of the further bytes, by the distribution
 * of --value-size, and their content. So the further bytes can be checked with the first 8.
 */
#ifndef BENCHKV_SIZES_H
#define BENCHKV_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIZES_LEAST 8u /* bytes of a value: those of msg.h */
#define SIZES_MOST 65536u
#define SIZES_PARTS 8
#define SIZES_NAME_MAX 160

/* A range of equally likely sizes, and its weight. */
struct size_part {
	uint32_t low, high; /* bytes */
	uint32_t weight;
};

struct sizes {
	struct size_part part[SIZES_PARTS];
	uint32_t parts; /* 0: all values have SIZES_LEAST bytes */
	uint32_t weight; /* sum over all parts */
};

/* Reads "N", "A-B", or "SIZE:WEIGHT,..." with sizes of these two forms. 0 or -EINVAL. */
int sizes_parse(const char *text, struct sizes *s_p);
/* Writes the text that sizes_parse() reads, for reports. */
void sizes_name(const struct sizes *s, char name[SIZES_NAME_MAX]);

uint32_t sizes_most(const struct sizes *s);
double sizes_mean(const struct sizes *s);
/* A hash of the distribution, which is equal for equal distributions. */
uint64_t sizes_mark(const struct sizes *s);

/* The number of further bytes of a value whose first 8 bytes are @value. */
uint32_t sizes_rest(const struct sizes *s, uint64_t value);

/* Write and check the further bytes. */
void sizes_fill(uint64_t value, void *to, uint32_t rest);
bool sizes_right(uint64_t value, const void *at, uint32_t rest);

#endif
