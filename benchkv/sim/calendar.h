/* SPDX-License-Identifier: MIT */
/*
 * Requests that become visible to a daemon at some time: a ring of buckets, each of
 * CALENDAR_NS. A slot (a client's place for one request) stands in one bucket at most.
 * Within a bucket the order is that of insertion.
 */
#ifndef BENCHKV_SIM_CALENDAR_H
#define BENCHKV_SIM_CALENDAR_H

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#define CALENDAR_NS 32u
#define CALENDAR_NONE UINT32_MAX

struct calendar {
	uint32_t *first, *last; /* by bucket */
	uint32_t *next; /* by slot; shared by the calendars of a rank */
	uint64_t from; /* bucket number: all before are empty for good */
	uint64_t mask;
	uint32_t waiting;
};

/* Buckets for span_ns of time. 0 or -ENOMEM. */
static inline int calendar_init(struct calendar *c, uint64_t span_ns, uint32_t *next)
{
	uint64_t n = 64;

	while (n < span_ns / CALENDAR_NS + 2)
		n *= 2;
	*c = (struct calendar){.next = next, .mask = n - 1};
	c->first = malloc(n * sizeof(*c->first));
	c->last = malloc(n * sizeof(*c->last));
	if (!c->first || !c->last)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		c->first[i] = CALENDAR_NONE;
	return 0;
}

static inline void calendar_fini(struct calendar *c)
{
	free(c->first);
	free(c->last);
}

/* A slot is visible from the end of the bucket of ns on; not before what is taken already. */
static inline void calendar_put(struct calendar *c, uint32_t slot, uint64_t ns)
{
	uint64_t b = ns / CALENDAR_NS;
	uint64_t i;

	if (b < c->from)
		b = c->from;
	assert(b - c->from <= c->mask);
	i = b & c->mask;
	c->next[slot] = CALENDAR_NONE;
	if (c->first[i] == CALENDAR_NONE)
		c->first[i] = slot;
	else
		c->next[c->last[i]] = slot;
	c->last[i] = slot;
	c->waiting++;
}

/* Takes one that is visible at ns, or CALENDAR_NONE. */
static inline uint32_t calendar_take(struct calendar *c, uint64_t ns)
{
	uint64_t end = ns / CALENDAR_NS;

	if (!c->waiting) {
		c->from = end > c->from ? end : c->from;
		return CALENDAR_NONE;
	}
	for (; c->from < end; c->from++) {
		uint32_t *first = &c->first[c->from & c->mask];
		uint32_t slot = *first;

		if (slot != CALENDAR_NONE) {
			*first = c->next[slot];
			c->waiting--;
			return slot;
		}
	}
	return CALENDAR_NONE;
}

/* When the next one becomes visible, looking no further than until_ns. */
static inline uint64_t calendar_next(const struct calendar *c, uint64_t until_ns)
{
	uint64_t end = until_ns / CALENDAR_NS;

	for (uint64_t b = c->from; c->waiting && b < end; b++)
		if (c->first[b & c->mask] != CALENDAR_NONE)
			return (b + 1) * CALENDAR_NS;
	return until_ns;
}

#endif
