/* SPDX-License-Identifier: MIT */
/*
 * latrec: records latencies of operations that are posted to a queue and complete later.
 *
 * A recorder keeps a histogram of service times, from the post to the completion, in nanoseconds;
 * with attr.intended also one of response times, from the due time to the completion. The due time
 * is the time at which the operation should have begun. In a closed loop the two latencies are the
 * same. In an open loop the due times do not depend on earlier operations: if an operation has to
 * wait because an earlier operation was slow, only the response time contains the wait.
 *
 *	struct latrec_clock clock;
 *	struct latrec *r;
 *	struct latrec_ep *ep;
 *	latrec_clock_init(LATREC_CLOCK_AUTO, &clock, sizeof(clock));
 *	latrec_create(NULL, &r);
 *	latrec_ep_create(r, 128, &ep);                          // one per queue pair
 *
 *	now = latrec_clock_now(&clock);
 *	latrec_ep_post(ep, now, now);                           // then post a signaled batch
 *	latrec_ep_complete(ep, latrec_clock_now(&clock));       // when its completion has come
 *
 *	latrec_print(r, latrec_clock_name(&clock), stdout);
 *
 * A stamp is a time in nanoseconds, below 2^63, from any clock: struct latrec_clock, the time
 * stamps of a NIC's completions, or a virtual time. All stamps of an operation must be from the
 * same clock.
 *
 * Each completion is one sample. If only the last request of a batch is signaled, the sample is the
 * latency of the batch, from its post to the completion of its last request. The sample contains
 * the caller's work between the stamp and the doorbell, the time in the queue, in the network and
 * at the other side, and the time until the caller polls the completion.
 *
 * latrec(7) describes the buckets of a histogram and their memory. A recorder has two histograms,
 * or three if it records response times. The library allocates memory in three cases, apart from
 * the stream of a file that latrec_clock_init() opens and closes:
 *
 *	- The functions whose names end in _create allocate what they create.
 *	- latrec_hist_import() allocates a histogram, and frees it before it returns.
 *	- A histogram in which a bucket reaches 2^31 values becomes twice as large; so do a
 *	  histogram into which it is copied or imported, and one that has 2^31 values in total
 *	  after a merge.
 *
 * Threads: a recorder with its endpoints, or a histogram, may be used by only one thread at a time,
 * its owner. Give each thread a recorder and merge the recorders at the end. While the owner
 * records, other threads may call only latrec_snapshot() or latrec_hist_snapshot(). A struct
 * latrec_clock is constant after latrec_clock_init() and can be shared.
 *
 * Errors are returned as negative errno values; errno itself is unspecified.
 */
#ifndef LATREC_H
#define LATREC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Linkage of the functions that are compiled into their callers. Only src/ffi.c of the library
 * defines this macro: liblatrec exports the same functions, for programs in other languages.
 */
#ifndef LATREC_INLINE
#define LATREC_INLINE static inline
#endif

#define LATREC_PRECISION 128u /* default precision of a histogram */
#define LATREC_MAX_PRECISION 4096u
#define LATREC_MAX_COUNT ((uint64_t)INT64_MAX) /* of values; latrec_hist_record() ignores it */
#define LATREC_MAX_DEPTH (1u << 24)
#define LATREC_WINDOW_NS 100000000ull /* default length of a window: 100 ms */

struct latrec; /* a recorder */
struct latrec_hist; /* a histogram of 64-bit values */
struct latrec_clock;
struct latrec_ep;

/* ---- histograms ---- */

struct latrec_hist_attr {
	size_t size; /* as in struct latrec_attr; 0: the fields up to precision are read */
	/*
	 * The range of values, from low to high, extended to whole buckets. low 0 means 1, and high
	 * 0 means UINT64_MAX. All values below the range are counted together, and so are all
	 * values above it. To record a value out of the range, the inline function calls the
	 * library. Count, sum, minimum and maximum include the values out of the range. A quantile
	 * below the range is returned as the value just below the range, or as the maximum if that
	 * is smaller; a quantile above the range is returned as the maximum. Rank 1 is exact.
	 */
	uint64_t low, high;
	/*
	 * The number of buckets for each power of two: itself a power of two, from 2 to
	 * LATREC_MAX_PRECISION; 0: LATREC_PRECISION. A quantile within the range is at most the
	 * fraction 1/precision too large, and never too small.
	 */
	uint32_t precision;
};

/*
 * Creates an empty histogram; @attr may be NULL for the defaults. The caller owns *h_p and must
 * destroy it with latrec_hist_destroy(). Returns 0. -EINVAL: the range is empty, or the precision
 * is not allowed. -E2BIG: see latrec_create(). -ENOMEM.
 */
int latrec_hist_create(const struct latrec_hist_attr *attr, struct latrec_hist **h_p);

/* Destroys the histogram. @h may be NULL. */
void latrec_hist_destroy(struct latrec_hist *h);

/*
 * Returns the memory of the histogram in bytes. A bucket has 4 bytes. When any bucket reaches 2^31
 * values, or a merge makes the total 2^31 or more, 4 more bytes are allocated for each bucket. If
 * this allocation fails for a bucket, the histogram tries again with each further value of that
 * bucket. After 2^31 more values it stops counting the values of that bucket.
 */
size_t latrec_hist_bytes(const struct latrec_hist *h);

/* Empties the histogram. */
void latrec_hist_clear(struct latrec_hist *h);

/*
 * Copies a histogram while its owner may be recording. The calling thread must be the owner of @to,
 * a histogram with the same range and precision. The copy is the state at one moment between the
 * call and its return: its count is the sum of its buckets, and sum, minimum and maximum are those
 * of the counted values. If values come faster than they can be copied, the owner makes the copy
 * within its next record. The function waits until a record in progress has ended. Returns 0.
 * -EINVAL: range or precision differ. -ENOMEM: see latrec_hist_bytes(); @to is then unspecified:
 * clear it.
 */
int latrec_hist_snapshot(struct latrec_hist *h, struct latrec_hist *to);

/* Adds one value. */
LATREC_INLINE void latrec_hist_record(struct latrec_hist *h, uint64_t value);

/*
 * Adds a value @n times. Returns 0. -EOVERFLOW: there would be more than LATREC_MAX_COUNT values.
 * -ENOMEM: see latrec_hist_bytes(). After an error nothing was added.
 */
int latrec_hist_record_n(struct latrec_hist *h, uint64_t value, uint64_t n);

/*
 * Adds all values of another histogram. Returns 0. -EINVAL: range or precision differ. -EOVERFLOW:
 * there would be more than LATREC_MAX_COUNT values. -ENOMEM: see latrec_hist_bytes(). After an
 * error nothing was added.
 */
int latrec_hist_merge(struct latrec_hist *to, const struct latrec_hist *from);

/* Returns the number of values in the histogram. */
uint64_t latrec_hist_count(const struct latrec_hist *h);
/* Return the smallest value, the largest value and the mean, or 0 if the histogram is empty. */
uint64_t latrec_hist_min(const struct latrec_hist *h);
uint64_t latrec_hist_max(const struct latrec_hist *h);
double latrec_hist_mean(const struct latrec_hist *h);
/* Returns the standard deviation of the population, computed from the middles of the buckets. */
double latrec_hist_stddev(const struct latrec_hist *h);

/*
 * Returns the value of rank ceil(q * count), where rank 1 is the smallest value. The result may be
 * larger than that value, by at most the fraction 1/precision if the value is in the histogram's
 * range (else see struct latrec_hist_attr); for the first and the last rank it is exact. If
 * q * count differs from an integer only by rounding, that integer is the rank. A q
 * that is below 0 or not a number counts as 0, a q above 1 counts as 1. Returns 0 if the histogram
 * is empty.
 */
uint64_t latrec_hist_quantile(const struct latrec_hist *h, double q);

/* A bucket: values that a histogram counts together. */
struct latrec_range {
	/*
	 * The smallest and the largest value that belong to it. For the values below the range, low
	 * is the minimum of the histogram; for the values above it, high is the maximum.
	 */
	uint64_t low, high;
	uint64_t count; /* number of recorded values */
};

/*
 * Finds the next bucket that has values; the order is ascending:
 *
 *	for (uint32_t at = 0; (at = latrec_hist_next(h, at, &range, sizeof(range)));)
 *
 * @at is 0, or the return value of the last call. Writes *range_p; @size is sizeof(*range_p).
 * Returns a number for the next call, or 0 if there is no further bucket; *range_p is then
 * unchanged.
 */
uint32_t latrec_hist_next(const struct latrec_hist *h, uint32_t at, struct latrec_range *range_p,
	size_t size);

/*
 * Writes the histogram as text, version 1, to a stream. The last line has a check sum (FNV-1a,
 * 64 bits) of all lines before it. A stream may hold several histograms, one after another. The
 * format is described in latrec(7). Returns 0, or -errno of the stream (-ENOSPC, ...): discard the
 * output.
 */
int latrec_hist_export(const struct latrec_hist *h, FILE *out);

/*
 * Reads a histogram that latrec_hist_export() wrote. Its text must begin at the position of the
 * stream; afterwards the stream is after the text's last line. The caller passes @h_p, a histogram
 * with the range and the precision of the exported one; *h_p is overwritten on success only.
 * Returns 0.
 * -ENODATA: the stream was at its end. -EBADMSG: the text is incomplete or changed, has another
 * precision or a bucket that *h_p does not have, or is not a histogram; the position of the stream
 * is then unspecified.
 * -EPROTONOSUPPORT: the text is of another version. -ENOMEM, or -errno of the stream.
 */
int latrec_hist_import(FILE *in, struct latrec_hist *h_p);

/*
 * Writes the percentile distribution in the format that HdrHistogram's plotting tools read (.hgrm,
 * with five ticks per half distance). Values are divided by @unit_ns: 1000 for microseconds.
 * Returns 0, -EINVAL if @unit_ns is not greater than 0, or -errno of the stream.
 */
int latrec_hist_print_hgrm(const struct latrec_hist *h, double unit_ns, FILE *out);

/* ---- recorders ---- */

struct latrec_attr {
	/*
	 * sizeof(struct latrec_attr). 0: only the fields up to window_ns, which every version has,
	 * are read. A later version may add fields at the end.
	 */
	size_t size;
	/* If true, also records response times: operations have their own due times (open loop). */
	bool intended;
	/*
	 * Length of the windows, of which the worst is reported (struct latrec_window); 0:
	 * LATREC_WINDOW_NS. A sample belongs to the window in which it completed, but a sample that
	 * completed before the open window began is counted in the open window. So operations must
	 * be recorded in the order of their completions. The first record after the end of a window
	 * takes about ten microseconds longer.
	 */
	uint64_t window_ns;
	/* Range and precision of the histograms, as in struct latrec_hist_attr; read if size is not
	 * 0. */
	uint64_t low, high;
	uint32_t precision;
};

/* Operations that were not recorded, by reason. */
struct latrec_stats {
	uint64_t refused; /* posts while the endpoint's FIFO of stamps was full */
	uint64_t unmatched; /* completions without a post */
	uint64_t backwards; /* completions with an earlier stamp than their post */
	uint64_t dropped; /* removed by latrec_ep_drop() */
};

/*
 * A window, with figures of the response times if the recorder has them, otherwise of the service
 * times. The worst window is the window with the highest p99; of windows with the same p99, the
 * one with the higher mean.
 */
struct latrec_window {
	uint64_t start_ns; /* by the caller's clock; the first begins at the first completion */
	uint64_t length_ns;
	uint64_t count;
	double mean_ns;
	uint64_t p99_ns; /* nearest rank */
	uint64_t max_ns; /* up to the fraction 1/precision larger, if it is in the range */
};

/*
 * Creates a recorder. @attr may be NULL for the defaults. The caller owns *r_p and must destroy it
 * with latrec_destroy(). Returns 0. -EINVAL: as from latrec_hist_create(). -E2BIG: a field of @attr
 * that this version of the library does not know is not 0: use a newer library, or set the field to
 * 0. -ENOMEM.
 */
int latrec_create(const struct latrec_attr *attr, struct latrec **r_p);

/* Destroys a recorder, whose endpoints must have been destroyed. @r may be NULL. */
void latrec_destroy(struct latrec *r);

/*
 * Records one operation whose stamps the caller has stored. A due time after the post counts as the
 * time of the post; without attr.intended the due time is ignored. Returns 0, or -ERANGE if
 * @done_ns is before @posted_ns; the operation is then not recorded, only counted in
 * latrec_stats.backwards.
 */
LATREC_INLINE int latrec_record(struct latrec *r, uint64_t due_ns, uint64_t posted_ns,
	uint64_t done_ns);

/* Returns the histogram of the service times, valid until latrec_destroy(). */
const struct latrec_hist *latrec_service(const struct latrec *r);
/* Returns the histogram of the response times, or NULL without attr.intended. */
const struct latrec_hist *latrec_response(const struct latrec *r);
/*
 * Writes the counters to *stats_p; @size is sizeof(*stats_p). If the library is older than the
 * program and lacks a counter, that counter is unchanged.
 */
void latrec_get_stats(const struct latrec *r, struct latrec_stats *stats_p, size_t size);

/*
 * Writes the worst window to *window_p; @size is sizeof(*window_p). The window that has not ended
 * yet counts as well. Returns 0, or -ENODATA if nothing has been recorded yet.
 */
int latrec_worst_window(const struct latrec *r, struct latrec_window *window_p, size_t size);

/*
 * Copies a recorder while its owner may be recording. The calling thread must be the owner of @to,
 * a recorder that was created with the same attributes. The copy is the state at one moment, see
 * latrec_hist_snapshot(): both histograms and the worst window are those of the same operations.
 * Each counter of struct latrec_stats is read at some time during the call. Returns 0. -EINVAL:
 * only one of the two has response times, or range or precision differ. -ENOMEM: see
 * latrec_hist_bytes(); @to is then unspecified: reset it.
 */
int latrec_snapshot(struct latrec *r, struct latrec *to);

/* Discards the recorded operations and counters, but not the operations in flight. */
void latrec_reset(struct latrec *r);

/*
 * Adds the samples and counters of another recorder. The worst window becomes the worse of the two.
 * Returns 0. -EINVAL: only one of the two has response times, or range or precision differ.
 * -EOVERFLOW, -ENOMEM: as from latrec_hist_merge(). After an error nothing has changed.
 */
int latrec_merge(struct latrec *to, const struct latrec *from);

/*
 * Writes a readable table: count, mean, percentiles and the largest value in microseconds, the
 * worst window, the operations that were not recorded, the method of the percentiles, and @clock,
 * the name of the clock. Returns 0 or -errno of the stream.
 */
int latrec_print(const struct latrec *r, const char *clock, FILE *out);

/* ---- endpoints ---- */

/*
 * Creates the FIFO of one queue whose completions come in the order of its posts, e.g. the send
 * side of a queue pair. @depth is the maximum number of outstanding posts, at most
 * LATREC_MAX_DEPTH; it is rounded up to a power of two. @r must live longer than the endpoint.
 * Returns 0, -EINVAL if @depth is 0 or too large, or -ENOMEM.
 */
int latrec_ep_create(struct latrec *r, uint32_t depth, struct latrec_ep **ep_p);

/* Destroys the endpoint and discards its operations in flight. @ep may be NULL. */
void latrec_ep_destroy(struct latrec_ep *ep);

/*
 * Records a post. The caller must call this before it posts the batch, once for each completion
 * that will come. @now_ns is the present time; @due_ns is the time at which the operation should
 * have begun. In a closed loop pass @now_ns twice. A due time after @now_ns counts as @now_ns.
 * Returns 0, or -EAGAIN if the FIFO is full; the post is then only counted in latrec_stats.refused.
 * After -EAGAIN the caller must record a completion, and call this function again before it posts
 * the batch; otherwise later completions would be matched with the wrong stamps.
 */
LATREC_INLINE int latrec_ep_post(struct latrec_ep *ep, uint64_t due_ns, uint64_t now_ns);

/*
 * Takes back the last latrec_ep_post(), for a caller that then failed to post the batch. Returns 0,
 * or -ENOENT if nothing is outstanding.
 */
int latrec_ep_unpost(struct latrec_ep *ep);

/*
 * Records the oldest outstanding post as completed at @now_ns. Returns 0. -ENOENT: nothing is
 * outstanding. -ERANGE: @now_ns is before the post, which is removed without being recorded. Both
 * errors are counted in struct latrec_stats.
 */
LATREC_INLINE int latrec_ep_complete(struct latrec_ep *ep, uint64_t now_ns);

/*
 * Removes the oldest outstanding post without recording it, because it completed with an error.
 * Returns 0, or -ENOENT if nothing is outstanding.
 */
int latrec_ep_drop(struct latrec_ep *ep);

/* Returns the number of posts that have not completed. */
uint32_t latrec_ep_pending(const struct latrec_ep *ep);

/* ---- clocks ---- */

enum latrec_clock_source {
	/*
	 * The processor's counter if it can be trusted, otherwise CLOCK_MONOTONIC_RAW. x86-64: the
	 * TSC if it is invariant and the kernel offers it as a clock source (the kernel withdraws a
	 * TSC on which the cores disagree). arm64: cntvct_el0.
	 */
	LATREC_CLOCK_AUTO,
	LATREC_CLOCK_COUNTER, /* the counter, even if it cannot be trusted */
	LATREC_CLOCK_MONOTONIC_RAW,
};

/*
 * Constant after latrec_clock_init(). A later version may add fields at the end.
 */
struct latrec_clock {
	uint64_t mult; /* ns per tick * 2^32; 0: no counter */
	uint64_t base_ticks;
	uint64_t base_ns; /* CLOCK_MONOTONIC_RAW at base_ticks */
	uint32_t error_ppm; /* largest error of the rate */
	uint32_t step_ns; /* smallest advance of the counter that was observed, rounded up */
	enum latrec_clock_source source; /* the source that is used */
	char name[116];
};

/*
 * Initialises a clock; @size is sizeof(*clock_p). A counter is calibrated against
 * CLOCK_MONOTONIC_RAW, so its stamps are times of that clock; the calibration sleeps for about 20
 * ms. Returns 0. -EINVAL: there is no such source. -ENOTSUP: LATREC_CLOCK_COUNTER was given, and
 * the processor has no counter that runs at a constant rate, or the calibration failed: use another
 * source. Otherwise -errno of clock_gettime(2).
 */
int latrec_clock_init(enum latrec_clock_source source, struct latrec_clock *clock_p, size_t size);

/*
 * Returns the time of CLOCK_MONOTONIC_RAW in nanoseconds. The error grows by at most
 * clock->error_ppm millionths of the time since latrec_clock_init().
 */
LATREC_INLINE uint64_t latrec_clock_now(const struct latrec_clock *clock);

/* Returns a text with source, rate and largest error of the clock; valid as long as the clock. */
const char *latrec_clock_name(const struct latrec_clock *clock);

#include "latrec_inline.h"

#ifdef __cplusplus
}
#endif

#endif
