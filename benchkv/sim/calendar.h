/* SPDX-License-Identifier: MIT */
/*
 * The requests for a daemon, ordered by the time at which they become visible to it: a ring of
 * buckets, each of CALENDAR_NS. A slot, which a client uses for one request at a time, is in one
 * bucket at most. The requests of a bucket are in the order of their insertion.
 *
 * A bucket is a circular list; the calendar stores its last slot. The ring is kept short: it is
 * scanned all the time and should stay in the cache.
 */
#ifndef BENCHKV_SIM_CALENDAR_H
#define BENCHKV_SIM_CALENDAR_H

#include <errno.h>
#include <stdint.h>

#include "base/compiler.h"

#define CALENDAR_NS 32u
#define CALENDAR_NONE UINT32_MAX
#define CALENDAR_LEAST 256u /* buckets; a power of two, of at least 64 */
#define CALENDAR_SLOT_BITS 20
#define CALENDAR_DEST_BITS 12
#define CALENDAR_TRIM 64u /* calls of calendar_take() that find no request, between two trims */

/* The request in a slot: the next slot of the bucket and, in the upper bits, the target rank. */
struct request {
	uint32_t bits;
};

static inline struct request request_of(uint32_t next, uint32_t dest)
{
	return (struct request){next | dest << CALENDAR_SLOT_BITS};
}

static inline uint32_t request_next(struct request r)
{
	return r.bits & ((1u << CALENDAR_SLOT_BITS) - 1);
}

static inline uint32_t request_dest(struct request r)
{
	return r.bits >> CALENDAR_SLOT_BITS;
}

struct calendar {
	uint32_t *last; /* by bucket; undefined for an empty bucket */
	uint64_t *full; /* a bit for each bucket that is not empty */
	struct request *slots; /* shared by the calendars of a rank */
	uint64_t mask;
	uint64_t from; /* bucket number: all buckets before it are empty and stay empty */
	uint64_t most; /* bucket number: all buckets after it are empty */
	uint64_t peak; /* the largest value of `most - from` since the last trim */
	uint32_t takes;
};

/* 0 or -ENOMEM. */
int calendar_init(struct calendar *c, struct request *slots);
void calendar_fini(struct calendar *c);

/* Makes room for buckets up to this one. 0 or -ENOMEM. */
int calendar_grow(struct calendar *c, uint64_t bucket);

/* Shortens the ring if it was longer than necessary since the last trim. */
void calendar_trim(struct calendar *c);

/* The first bucket from @from on that is not empty, or @end. Tests 64 buckets at a time. */
static inline uint64_t calendar_seek(const struct calendar *c, uint64_t from, uint64_t end)
{
	uint64_t stop = end <= c->most ? end : c->most + 1;

	while (from < stop) {
		uint64_t word = c->full[(from & c->mask) / 64] >> (from % 64);

		if (word) {
			from += (uint64_t)__builtin_ctzll(word);
			return from < stop ? from : end;
		}
		from += 64 - from % 64;
	}
	return end;
}

/*
 * Inserts a request into the bucket of @ns, or into bucket `from` if that is later. The request
 * becomes visible at the end of its bucket. 0 or -ENOMEM.
 */
static inline int calendar_put(struct calendar *c, uint32_t slot, uint32_t dest, uint64_t ns)
{
	uint64_t b = ns / CALENDAR_NS, i, word;
	uint32_t first = slot;

	if (b < c->from)
		b = c->from;
	if (unlikely(b - c->from > c->mask) && calendar_grow(c, b))
		return -ENOMEM;
	c->most = b > c->most ? b : c->most;
	i = b & c->mask;
	word = c->full[i / 64];
	if (word >> (i % 64) & 1) {
		struct request *last = &c->slots[c->last[i]];

		first = request_next(*last);
		*last = request_of(slot, request_dest(*last));
	}
	c->slots[slot] = request_of(first, dest);
	c->full[i / 64] = word | 1ull << (i % 64);
	c->last[i] = slot;
	return 0;
}

/*
 * Removes the requests of the first bucket that is visible at @ns. Returns the last slot of its
 * list, whose next slot is the first of the list; CALENDAR_NONE: there is no such bucket.
 */
static inline uint32_t calendar_take(struct calendar *c, uint64_t ns)
{
	uint64_t end = ns / CALENDAR_NS, i;

	if (end <= c->from)
		return CALENDAR_NONE;
	if (c->most > c->from + c->peak)
		c->peak = c->most - c->from;
	c->from = calendar_seek(c, c->from, end);
	if (c->from == end) {
		if (unlikely(++c->takes % CALENDAR_TRIM == 0))
			calendar_trim(c);
		return CALENDAR_NONE;
	}
	i = c->from & c->mask;
	c->full[i / 64] &= ~(1ull << (i % 64));
	return c->last[i];
}

/* The time at which the next request becomes visible, or until_ns if that is earlier. */
static inline uint64_t calendar_next(const struct calendar *c, uint64_t until_ns)
{
	uint64_t end = until_ns / CALENDAR_NS;
	uint64_t b = calendar_seek(c, c->from, end);

	return b < end ? (b + 1) * CALENDAR_NS : until_ns;
}

#endif
