/* SPDX-License-Identifier: MIT */
/*
 * Latencies over time, for --interval. Each client counts the latencies of an interval in buckets;
 * the buckets of all clients of a rank, then of all ranks, are added. The first interval begins
 * with the measured part of the client's run. An operation belongs to the interval in which the
 * client read its reply.
 */
#ifndef BENCHKV_SERIES_H
#define BENCHKV_SERIES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/compiler.h"

#define SERIES_MAX 3600u /* intervals of a run; later replies count in the last one */
#define SERIES_BITS 6 /* values below 2^SERIES_BITS are exact; above, 32 buckets per power of 2 */
#define SERIES_TOP 40 /* values from 2^SERIES_TOP ns (18 minutes) on share the last bucket */
#define SERIES_BUCKETS ((SERIES_TOP - SERIES_BITS + 2u) << (SERIES_BITS - 1))

/* A client's counts of a run. */
struct series_recorder {
	uint64_t start_ns, every_ns;
	uint64_t end_ns; /* end of the current interval; UINT64_MAX: it is the last one */
	uint64_t *now; /* the buckets of the current interval */
	uint64_t *all; /* the buckets of each interval; NULL: no series is wanted */
	uint32_t n, most; /* number of intervals that have begun, and its limit */
};

/*
 * The series of a run: words in ascending order. A word has an interval (the upper 12 bits), a
 * bucket (12 bits), and the count of that bucket, which is not 0 (the lower 40 bits).
 */
struct series {
	uint64_t *words;
	size_t n;
};

/*
 * The maximum number of intervals of a run. @duration_ns 0: the duration is not known. @every_ns 0:
 * returns 0.
 */
uint32_t series_most(uint64_t duration_ns, uint64_t every_ns);

/* 0 or -ENOMEM. */
int series_recorder_init(struct series_recorder *r, uint64_t every_ns, uint32_t most);
void series_recorder_fini(struct series_recorder *r);

/* Must be called at the start of a run. @start_ns: when its measurement begins. */
void series_restart(struct series_recorder *r, uint64_t start_ns);

/* Begins the interval of @now_ns. */
void series_advance(struct series_recorder *r, uint64_t now_ns);

static inline uint32_t series_bucket(uint64_t value)
{
	uint64_t top, shift;

	if (unlikely(value >> SERIES_TOP))
		return SERIES_BUCKETS - 1;
	top = 63 - (uint64_t)__builtin_clzll(value | ((1u << SERIES_BITS) - 1));
	shift = top - (SERIES_BITS - 1);
	return (uint32_t)((shift << (SERIES_BITS - 1)) + (value >> shift));
}

/* Counts a latency. @now_ns must not be earlier than in the last call. */
static inline void series_record(struct series_recorder *r, uint64_t now_ns, uint64_t latency_ns)
{
	if (unlikely(now_ns >= r->end_ns))
		series_advance(r, now_ns);
	r->now[series_bucket(latency_ns)]++;
}

/* Adds the series of a client. 0 or -ENOMEM. */
int series_add_recorder(struct series *to, const struct series_recorder *r);

/* Adds another series. 0 or -ENOMEM. */
int series_add(struct series *to, const struct series *s);

/* Writes the encoding of a series: the number of words, then the words. */
void series_write(const struct series *s, FILE *out);

/*
 * Checks bytes of another process that begin with an encoded series of at most @most intervals.
 * Returns the length of the encoding, or -EBADMSG. The words of *s_p stay in @data, which must be
 * aligned as a word.
 */
int64_t series_unpack(const void *data, size_t len, uint32_t most, struct series *s_p);

void series_fini(struct series *s);

/* The figures of an interval. Latencies are upper ends of buckets, at most 1/32 too high. */
struct series_row {
	uint64_t ops, p50, p99, p999, max;
};

/* The number of intervals of a run of @elapsed_ns, and not less than @s contains. */
uint32_t series_count(const struct series *s, uint64_t elapsed_ns, uint64_t every_ns,
	uint32_t most);

/* Computes the row of an interval, whose words begin at index *at. Moves *at past them. */
void series_row(const struct series *s, uint32_t interval, size_t *at, struct series_row *row_p);

#endif
