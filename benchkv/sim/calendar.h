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

struct bucket {
	uint32_t first, last; /* of an empty one: undefined */
};

struct calendar {
	struct bucket *buckets;
	uint64_t *full; /* a bit for each bucket that is not empty */
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
	c->buckets = malloc(n * sizeof(*c->buckets));
	c->full = calloc(n / 64, sizeof(*c->full));
	return c->buckets && c->full ? 0 : -ENOMEM;
}

static inline void calendar_fini(struct calendar *c)
{
	free(c->buckets);
	free(c->full);
}

/* The first bucket from `from` on that is not empty, or end. Looks at 64 at a time. */
static inline uint64_t calendar_seek(const struct calendar *c, uint64_t from, uint64_t end)
{
	while (from < end) {
		uint64_t word = c->full[(from & c->mask) / 64] >> (from % 64);

		if (word) {
			from += (uint64_t)__builtin_ctzll(word);
			return from < end ? from : end;
		}
		from += 64 - from % 64;
	}
	return end;
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
	if (c->full[i / 64] >> (i % 64) & 1)
		c->next[c->buckets[i].last] = slot;
	else
		c->buckets[i].first = slot;
	c->buckets[i].last = slot;
	c->full[i / 64] |= 1ull << (i % 64);
	c->waiting++;
}

/* Takes one that is visible at ns, or CALENDAR_NONE. */
static inline uint32_t calendar_take(struct calendar *c, uint64_t ns)
{
	uint64_t end = ns / CALENDAR_NS, i;
	uint32_t slot;

	if (end <= c->from)
		return CALENDAR_NONE;
	c->from = c->waiting ? calendar_seek(c, c->from, end) : end;
	if (c->from == end)
		return CALENDAR_NONE;
	i = c->from & c->mask;
	slot = c->buckets[i].first;
	c->buckets[i].first = c->next[slot];
	if (c->next[slot] == CALENDAR_NONE)
		c->full[i / 64] &= ~(1ull << (i % 64));
	c->waiting--;
	return slot;
}

/* When the next one becomes visible, looking no further than until_ns. */
static inline uint64_t calendar_next(const struct calendar *c, uint64_t until_ns)
{
	uint64_t end = until_ns / CALENDAR_NS;
	uint64_t b = c->waiting ? calendar_seek(c, c->from, end) : end;

	return b < end ? (b + 1) * CALENDAR_NS : until_ns;
}

#endif
