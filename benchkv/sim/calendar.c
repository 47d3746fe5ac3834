/* SPDX-License-Identifier: MIT */
#include "calendar.h"

#include <stdlib.h>

int calendar_init(struct calendar *c, struct request *slots)
{
	*c = (struct calendar){.slots = slots, .mask = CALENDAR_LEAST - 1};
	c->last = malloc(CALENDAR_LEAST * sizeof(*c->last));
	c->full = calloc(CALENDAR_LEAST / 64, sizeof(*c->full));
	return c->last && c->full ? 0 : -ENOMEM;
}

void calendar_fini(struct calendar *c)
{
	free(c->last);
	free(c->full);
}

/* Replaces the ring by one of @n buckets, which must have room for the waiting requests. */
static int resize(struct calendar *c, uint64_t n)
{
	uint32_t *last = malloc(n * sizeof(*last));
	uint64_t *full = calloc(n / 64, sizeof(*full));
	uint64_t end = c->most + 1;

	if (!last || !full) {
		free(last);
		free(full);
		return -ENOMEM;
	}
	for (uint64_t b = c->from; (b = calendar_seek(c, b, end)) < end; b++) {
		uint64_t i = b & (n - 1);

		last[i] = c->last[b & c->mask];
		full[i / 64] |= 1ull << (i % 64);
	}
	calendar_fini(c);
	c->last = last;
	c->full = full;
	c->mask = n - 1;
	return 0;
}

int calendar_grow(struct calendar *c, uint64_t bucket)
{
	return resize(c, pow2_ceil(bucket - c->from + 1));
}

void calendar_trim(struct calendar *c)
{
	uint64_t n = pow2_ceil(c->peak + 1);

	if (n < CALENDAR_LEAST)
		n = CALENDAR_LEAST;
	c->peak = 0;
	if (n <= c->mask)
		(void)resize(c, n); /* on failure the ring keeps its length */
}
