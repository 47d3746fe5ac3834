/* SPDX-License-Identifier: MIT */
/* Declarations that the files of the library share. */
#ifndef LATREC_INTERNAL_H
#define LATREC_INTERNAL_H

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/compiler.h"
#pragma GCC visibility push(default)
#include "latrec.h"
#pragma GCC visibility pop

__extension__ typedef unsigned __int128 u128;

#define CARRY_BITS 31 /* low bits of a count, which are in bucket[]; the others are in carry[] */

/*
 * A "place" is an index of bucket[] and carry[]. The recording thread writes the fields; other
 * threads write only `wanted` and hot.gate. Another thread may copy the fields at any time;
 * src/copy.c explains how that thread finds out whether its copy is the state at one moment.
 */
struct hist {
	struct latrec_hist hot;
	uint64_t min, max; /* 0: empty */
	uint64_t low, high; /* smallest and largest value of the buckets in the range */
	uint64_t first; /* number of the bucket of `low`, less 1 */
	uint32_t half; /* log2 of the number of buckets per power of two */
	uint32_t places; /* length of bucket[]; its first and last counter: values out of range */
	uint32_t changes; /* odd while counts are cleared or moved between the arrays */
	uint32_t *bucket;
	uint32_t *carry; /* NULL: all counts fit in bucket[] */
	struct wish *wanted;
	uint64_t lost; /* values that their counters could not count */
};

static inline struct hist *hist_own(struct latrec_hist *h)
{
	return (struct hist *)(void *)h;
}

static inline const struct hist *hist_of(const struct latrec_hist *h)
{
	return (const struct hist *)(const void *)h;
}

static inline u128 hist_sum(const struct latrec_hist *h)
{
	return (u128)h->sum_high << 64 | h->sum_low;
}

/* Adds to a counter that another thread may be copying. */
static inline void count_more(uint64_t *counter, uint64_t n)
{
	/* Pairs with the loads of words_copy(). */
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELEASE);
}

static inline void count_one(uint64_t *counter)
{
	count_more(counter, 1);
}

/* Returns the number of values that a place has counted. */
static inline uint64_t hist_at(const struct hist *f, uint64_t at)
{
	return f->bucket[at] + (f->carry ? (uint64_t)f->carry[at] << CARRY_BITS : 0);
}

/* Returns the place that counts a value. */
uint64_t hist_place(const struct hist *f, uint64_t value);

/* The smallest and the largest value that are counted in a place. */
uint64_t place_low(const struct hist *f, uint64_t at);
uint64_t place_high(const struct hist *f, uint64_t at);

/* Returns the value that is reported for a place, at most the largest value of the histogram. */
static inline uint64_t place_value(const struct hist *f, uint64_t at)
{
	uint64_t high = place_high(f, at);

	return high < f->max ? high : f->max;
}

/*
 * Initialises a histogram in the caller's memory. Returns 0, or an error of latrec_hist_create().
 */
int hist_init(struct hist *f, const struct latrec_hist_attr *attr);
void hist_free(struct hist *f);
/* Returns true if two histograms have the same range and precision. */
bool hist_alike(const struct latrec_hist *a, const struct latrec_hist *b);
/* Makes room for counts from 2^31 on. Returns 0 or -ENOMEM. */
int hist_reserve(struct latrec_hist *h);
/* Adds n to a place and to nothing else. Returns 0, or -ENOMEM: the count is as before. */
int hist_add(struct hist *f, uint64_t at, uint64_t n);
/*
 * Sets hot.from and hot.gate: the inline code then counts values without a call into the library,
 * except a new smallest or largest value, and values out of the range or above LATREC_EXACT. See
 * latrec_inline.h.
 */
void hist_gate(struct hist *f);

/* ---- copies by another thread ---- */

/* A second thread's request for a copy; the recording thread makes the copy. */
struct wish {
	void *to;
	int err; /* valid once done is 1 */
	uint32_t done;
};

static inline void change_begin(uint32_t *changes)
{
	/* Relaxed: the release stores that follow make this store visible to change_seen(). */
	__atomic_store_n(changes, *changes + 1, __ATOMIC_RELAXED);
}

static inline void change_end(uint32_t *changes)
{
	/* Pairs with the first change_seen() of a copy. */
	__atomic_store_n(changes, *changes + 1, __ATOMIC_RELEASE);
}

static inline uint32_t change_seen(const uint32_t *changes)
{
	/* Pairs with change_end(). */
	return __atomic_load_n(changes, __ATOMIC_ACQUIRE);
}

/*
 * Copies a histogram, whose owner may be recording, to a histogram with the same range and
 * precision. Returns 0, or -EAGAIN if the copy is not the state at one moment, or @to lacks room
 * (hist_reserve()).
 */
int hist_copy(struct latrec_hist *to, const struct latrec_hist *from);

/* Allocates the carries of @to if a copy of @from needs them. Returns 0 or -ENOMEM. */
int hist_copy_room(struct latrec_hist *to, const struct latrec_hist *from);

/* Copies 64-bit words that another thread may be reading or writing. */
void words_copy(void *to, const void *from, size_t bytes);

/* Clears minimum, maximum, sum and count; another thread may be reading them. */
void hist_clear_head(struct hist *f);

/* Called by the recording thread: takes the wish of another thread, or returns NULL. */
struct wish *wish_take(struct wish **slot);
void wish_answer(struct wish *w, int err);

/*
 * Requests a copy from the recording thread, and waits for a limited time until that thread
 * begins the copy. Returns the result of the copy, or -EAGAIN if that thread has recorded nothing
 * meanwhile, or if another thread already requests a copy.
 */
int wish_ask(struct wish **slot, uint64_t *gate, void *to);

/* Returns the rank of quantile @q in a set of @count values: 1 to @count. @count must not be 0. */
uint64_t hist_rank(double q, uint64_t count);
/* Returns the value of a rank among the values in @h that are not in @before (may be NULL). */
uint64_t hist_value(const struct hist *h, const struct hist *before, uint64_t rank);

/* Returns 0, or -errno of the writes to the stream. errno must have been 0 before them. */
static inline int stream_status(FILE *out)
{
	if (!fflush(out) && !ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

/*
 * One reading of the counter and of CLOCK_MONOTONIC_RAW: the clock was read between
 * ticks - width / 2 and ticks + width / 2.
 */
struct clock_pair {
	uint64_t ticks, width, ns;
};

/*
 * Sets the rate, the base and the error of @c from two readings; @from is the earlier one. Returns
 * 0, or -ERANGE: the counter or CLOCK_MONOTONIC_RAW did not advance, or the rate cannot be computed
 * from these readings.
 */
int clock_fit(struct latrec_clock *c, const struct clock_pair *from, const struct clock_pair *to);

/* Returns true if @sources, a list as in sysfs, contains the clock. */
bool clock_listed(const char *sources, const char *name);

#endif
