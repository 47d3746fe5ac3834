/* SPDX-License-Identifier: MIT */
/* Code that fuzzers share: the input, which is taken in pieces, and checks. */
#ifndef SUPPORT_FUZZ_H
#define SUPPORT_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

static inline size_t input_left(const struct input *in)
{
	return (size_t)(in->end - in->at);
}

/* The next bytes as a little-endian number; bytes after the end are 0. */
static inline uint64_t take(struct input *in, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes && in->at < in->end; i++)
		v |= (uint64_t)*in->at++ << (8 * i);
	return v;
}

static inline void must(bool so)
{
	if (!so)
		abort();
}

#endif
