/* SPDX-License-Identifier: MIT */
/*
 * A queue of events, sorted by time, and events of the same time by sender. It is a ring of buckets
 * with a bit for each bucket that is not empty. The events of a bucket are a sorted list. An event
 * too far ahead for the ring is put into the last bucket, and is inserted again when that bucket
 * becomes the first. Insertion and removal take constant time if `span_ns` is about the time from
 * the first event to the last.
 */
#ifndef BENCHKV_SIM_TIMELINE_H
#define BENCHKV_SIM_TIMELINE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define TIMELINE_BUCKETS 1024u /* a power of two, of at least 64 */
#define TIMELINE_NONE UINT32_MAX

struct batch;

/* A WRITE that arrives at the receiver's adapter. */
struct event {
	uint64_t ns;
	uint32_t next;
	uint32_t from; /* the rank that sent it; its events for one receiver differ in ns */
	uint32_t messages;
	uint32_t consumed; /* the sender's `received`, see struct endpoint */
	union {
		struct {
			uint32_t slot, word;
		} one; /* if messages == 1 */
		struct batch *batch; /* if messages > 1 */
	};
};

struct timeline {
	struct event *events; /* the events in the buckets, and a list of free ones */
	uint32_t size, free, n;
	uint32_t shift; /* a bucket is 1 << shift ns */
	uint64_t from; /* bucket number: all buckets before it are empty */
	uint64_t full[TIMELINE_BUCKETS / 64];
	uint32_t first[TIMELINE_BUCKETS];
};

static inline void timeline_init(struct timeline *t, uint64_t span_ns)
{
	*t = (struct timeline){.free = TIMELINE_NONE};
	while (span_ns >> t->shift > TIMELINE_BUCKETS)
		t->shift++;
}

static inline void timeline_fini(struct timeline *t)
{
	free(t->events);
}

/* Makes room for more events. 0 or -ENOMEM. */
int timeline_grow(struct timeline *t);

static inline bool event_before(const struct event *a, const struct event *b)
{
	return a->ns < b->ns || (a->ns == b->ns && a->from < b->from);
}

/* Inserts the event with this index in `events` into its bucket. */
static inline void timeline_insert(struct timeline *t, uint32_t id)
{
	struct event *e = &t->events[id];
	uint64_t b = e->ns >> t->shift;
	uint32_t i, *link;

	if (b < t->from)
		t->from = b;
	if (b - t->from >= TIMELINE_BUCKETS)
		b = t->from + TIMELINE_BUCKETS - 1;
	i = (uint32_t)(b % TIMELINE_BUCKETS);
	link = &t->first[i];
	if (!(t->full[i / 64] >> (i % 64) & 1)) {
		*link = TIMELINE_NONE;
		t->full[i / 64] |= 1ull << (i % 64);
	}
	while (*link != TIMELINE_NONE && event_before(&t->events[*link], e))
		link = &t->events[*link].next;
	e->next = *link;
	*link = id;
}

/* Inserts a copy of an event. 0 or -ENOMEM. */
static inline int timeline_put(struct timeline *t, const struct event *e)
{
	uint32_t id;

	if (t->free == TIMELINE_NONE && timeline_grow(t))
		return -ENOMEM;
	if (!t->n++)
		t->from = e->ns >> t->shift;
	id = t->free;
	t->free = t->events[id].next;
	t->events[id] = *e;
	timeline_insert(t, id);
	return 0;
}

/* Removes the first event of a bucket, and returns its index in `events`. */
static inline uint32_t timeline_remove(struct timeline *t, uint32_t i)
{
	uint32_t id = t->first[i];

	t->first[i] = t->events[id].next;
	if (t->first[i] == TIMELINE_NONE)
		t->full[i / 64] &= ~(1ull << (i % 64));
	return id;
}

/* Returns the first event, or NULL. After that t->from is its bucket. */
static inline const struct event *timeline_first(struct timeline *t)
{
	if (!t->n)
		return NULL;
	for (;;) {
		uint32_t i = (uint32_t)(t->from % TIMELINE_BUCKETS);
		uint64_t word = t->full[i / 64] >> (i % 64);
		const struct event *e;

		if (!word) {
			t->from += 64 - i % 64;
			continue;
		}
		t->from += (uint64_t)__builtin_ctzll(word);
		i = (uint32_t)(t->from % TIMELINE_BUCKETS);
		e = &t->events[t->first[i]];
		if (e->ns >> t->shift == t->from)
			return e;
		timeline_insert(t, timeline_remove(t, i));
	}
}

/* Removes and returns the first event. Must follow timeline_first(), which has returned it. */
static inline struct event timeline_take(struct timeline *t)
{
	uint32_t id = timeline_remove(t, (uint32_t)(t->from % TIMELINE_BUCKETS));
	struct event e = t->events[id];

	t->events[id].next = t->free;
	t->free = id;
	t->n--;
	return e;
}

#endif
