/* SPDX-License-Identifier: MIT */
/*
 * latrec: records latencies of operations that are posted to a queue and complete later.
 *
 * A recorder keeps histograms of two latencies, in nanoseconds: from the post to the completion
 * (service), and from the time at which the operation was due to its completion (response).
 * In a closed loop the two are the same. In an open loop operations are due at times that do not
 * depend on earlier operations. If an operation has to wait because an earlier one was slow, only
 * its response time contains the wait: a measurement from the post omits it.
 *
 *	struct latrec_clock clock;
 *	struct latrec *r;
 *	struct latrec_ep *ep;
 *	latrec_clock_init(&clock, LATREC_CLOCK_AUTO);
 *	latrec_create(NULL, &r);
 *	latrec_ep_create(r, 128, &ep);                          // one per queue pair
 *
 *	now = latrec_clock_now(&clock);
 *	latrec_ep_post(ep, now, now);                           // then post a signaled batch
 *	latrec_ep_complete(ep, latrec_clock_now(&clock));       // when its completion has come
 *
 *	latrec_print(r, latrec_clock_name(&clock), stdout);
 *
 * Stamps are nanoseconds below 2^63 of any clock: struct latrec_clock, the time stamps of a NIC's
 * completions, or a virtual time. The two stamps of one operation must be of the same clock.
 *
 * One stamp belongs to one completion. So in a queue where only the last request of a batch is
 * signaled, a sample is the latency of a batch, from its post to the completion of its last
 * request. The sample contains the caller's work between the stamp and the doorbell, the queue, the
 * network, the other side, and the time until the caller polls the completion.
 *
 * Histograms: values below 256 are exact; each power of two above has 128 buckets of equal
 * width, and a bucket is reported by its largest value. A reported value is at most
 * 1/128 (0.79 %) above the sample and never below it, for all 64-bit values. Count,
 * mean, smallest and largest value are exact. A histogram always has 59,432 bytes;
 * a recorder has three of them, of which a closed loop uses two. Only latrec_create() and
 * latrec_ep_create() allocate memory; latrec_hist_import() allocates some while it runs.
 *
 * Percentiles are nearest-rank: the value of rank ceil(q * count) of the sorted samples; nothing
 * is interpolated.
 *
 * Threads: a recorder, its endpoints, and a histogram must be used by one thread at a time. Give
 * each thread a recorder and merge the recorders at the end. A struct latrec_clock is constant
 * after latrec_clock_init() and can be shared.
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

#define LATREC_BUCKETS 7424u
#define LATREC_MAX_COUNT ((uint64_t)INT64_MAX) /* values in a histogram that is merged or read */
#define LATREC_MAX_DEPTH (1u << 24)
#define LATREC_WINDOW_NS 100000000ull /* default length of a window: 100 ms */

struct latrec;
struct latrec_clock;
struct latrec_ep;

/* ---- histograms ---- */

/*
 * A histogram of 64-bit values. All zero is empty. The fields are public only so that a histogram
 * can be embedded in a struct. Read `count` if needed, and use the functions below for the rest.
 */
struct latrec_hist {
	uint64_t count;
	uint64_t sum_low, sum_high; /* of all values, 128 bits */
	uint64_t min;
	uint64_t span; /* largest value - min */
	uint64_t bucket[LATREC_BUCKETS];
};

/* Empties the histogram. */
void latrec_hist_clear(struct latrec_hist *h);

/* Adds one value. */
LATREC_INLINE void latrec_hist_record(struct latrec_hist *h, uint64_t value);

/*
 * Adds a value n times.
 * 0; -EOVERFLOW: there would be more than LATREC_MAX_COUNT values, so nothing was added.
 */
int latrec_hist_record_n(struct latrec_hist *h, uint64_t value, uint64_t n);

/*
 * Adds all values of another histogram.
 * 0; -EOVERFLOW: there would be more than LATREC_MAX_COUNT values, so nothing was added.
 */
int latrec_hist_merge(struct latrec_hist *to, const struct latrec_hist *from);

/* Smallest value, largest value and mean; 0 if the histogram is empty. */
LATREC_INLINE uint64_t latrec_hist_min(const struct latrec_hist *h);
LATREC_INLINE uint64_t latrec_hist_max(const struct latrec_hist *h);
double latrec_hist_mean(const struct latrec_hist *h);
/* Standard deviation of the population, computed from the middles of the buckets. */
double latrec_hist_stddev(const struct latrec_hist *h);

/*
 * Returns the value of rank ceil(q * count), or at most 1/128 more; for the first and the last rank
 * it is exact. q is taken as a decimal fraction: when q * count differs from an integer by rounding
 * only, that integer is the rank. A q below 0 or not a number is taken as 0, above 1 as 1. Returns
 * 0 if the histogram is empty.
 */
uint64_t latrec_hist_quantile(const struct latrec_hist *h, double q);

/*
 * Writes the histogram as text, version 1, to a stream. The last line has a check sum (FNV-1a,
 * 64 bits) of all lines before it. A stream may hold several histograms, one after another. The
 * format is described in latrec(7).
 * 0; -errno of the stream (-ENOSPC, ...): discard the output.
 */
int latrec_hist_export(const struct latrec_hist *h, FILE *out);

/*
 * Reads a histogram that latrec_hist_export() wrote, from the position of the stream, and leaves
 * the stream after the last line. *h_p is written on success only.
 * 0; -ENODATA: the stream was at its end; -EBADMSG: torn, changed, or not a histogram at all (the
 * position of the stream is then unspecified); -EPROTONOSUPPORT: of another version; -ENOMEM;
 * -errno of the stream.
 */
int latrec_hist_import(FILE *in, struct latrec_hist *h_p);

/*
 * Writes the percentile distribution as HdrHistogram does (.hgrm, five ticks per half distance),
 * for its plotting tools. Values are divided by unit_ns: 1000 for microseconds.
 * 0; -EINVAL: unit_ns is not greater than 0; -errno of the stream.
 */
int latrec_hist_print_hgrm(const struct latrec_hist *h, double unit_ns, FILE *out);

/* ---- recorders ---- */

struct latrec_attr {
	/*
	 * sizeof(struct latrec_attr), or 0 for the fields up to window_ns, which every version has.
	 * A later version may add fields after them.
	 */
	size_t size;
	/* Response times are recorded too: operations are due at times of their own (open loop). */
	bool intended;
	/*
	 * Length of the windows, of which the worst is reported. A sample belongs to the window of
	 * its completion. 0: LATREC_WINDOW_NS. Each end of a window costs about ten microseconds.
	 */
	uint64_t window_ns;
};

/* Operations that were not recorded, by reason. */
struct latrec_stats {
	uint64_t refused; /* posts while the endpoint's FIFO was full */
	uint64_t unmatched; /* completions without a post */
	uint64_t backwards; /* completions before their post: the clock was set back */
	uint64_t dropped; /* removed by latrec_ep_drop() */
};

/*
 * A window: of the response times if the recorder has them, else of the service times. The worst
 * window is the one with the highest p99; of equal ones, the one with the higher mean.
 */
struct latrec_window {
	uint64_t start_ns; /* by the caller's clock; the first begins with the first sample */
	uint64_t length_ns;
	uint64_t count;
	double mean_ns;
	uint64_t p99_ns; /* nearest rank */
	uint64_t max_ns; /* at most 1/128 above the largest sample */
};

/*
 * Creates a recorder. attr may be NULL for the defaults. The caller owns *r_p and must destroy it
 * with latrec_destroy().
 * 0; -ENOMEM; -E2BIG: attr has fields that this version does not know, and they are not 0: use a
 * newer library, or leave them 0.
 */
int latrec_create(const struct latrec_attr *attr, struct latrec **r_p);

/* r may be NULL. Its endpoints must have been destroyed. */
void latrec_destroy(struct latrec *r);

/*
 * Records one operation whose stamps the caller kept. A due time after the post is taken as the
 * time of the post; without attr.intended the due time is ignored. 0; -ERANGE: done_ns is before
 * posted_ns: the operation was not recorded, but counted as backwards.
 */
LATREC_INLINE int latrec_record(struct latrec *r, uint64_t due_ns, uint64_t posted_ns,
	uint64_t done_ns);

/* The service times, valid until latrec_destroy(). */
const struct latrec_hist *latrec_service(const struct latrec *r);
/* The response times; NULL without attr.intended. */
const struct latrec_hist *latrec_response(const struct latrec *r);
/*
 * Writes the counters to *stats_p, which has size bytes: sizeof(*stats_p). A counter that an older
 * library does not have is left as it was.
 */
void latrec_get_stats(const struct latrec *r, struct latrec_stats *stats_p, size_t size);

/*
 * Writes the worst window to *window_p, which has size bytes: sizeof(*window_p). The current window
 * counts as well.
 * 0; -ENODATA: nothing has been recorded yet.
 */
int latrec_worst_window(const struct latrec *r, struct latrec_window *window_p, size_t size);

/* Discards all recorded operations, e.g. after a warm-up. Operations in flight stay in flight. */
void latrec_reset(struct latrec *r);

/*
 * Adds the samples of another recorder, its counters, and its worst window if that is worse.
 * 0; -EINVAL: only one of the two has response times; -EOVERFLOW: see latrec_hist_merge(). After an
 * error nothing has changed.
 */
int latrec_merge(struct latrec *to, const struct latrec *from);

/*
 * Writes a table for people: count, mean, percentiles and the largest value in microseconds, the
 * worst window, the operations that were not recorded, the method, and @clock, a name of the clock.
 * 0 or -errno of the stream.
 */
int latrec_print(const struct latrec *r, const char *clock, FILE *out);

/* ---- endpoints ---- */

/*
 * Creates the FIFO of one queue whose completions come in the order of its posts, e.g. the send
 * side of a queue pair. depth: the number of completions that can be outstanding, at most
 * LATREC_MAX_DEPTH; it is rounded up to a power of two. r must live longer than the endpoint.
 * 0; -EINVAL: depth is 0 or too large; -ENOMEM.
 */
int latrec_ep_create(struct latrec *r, uint32_t depth, struct latrec_ep **ep_p);

/* Destroys the endpoint and discards its operations in flight. ep may be NULL. */
void latrec_ep_destroy(struct latrec_ep *ep);

/*
 * Records a post. Must be called before the batch is posted, once for each completion that will
 * come. due_ns: when the operation should have begun; now_ns: now. In a closed loop pass now_ns
 * twice. A due time after now_ns is taken as now_ns. 0; -EAGAIN: depth posts are outstanding, and
 * nothing has changed. Then do not post a signaled batch before a completion has been taken, or
 * later completions will be matched with the wrong stamps.
 */
LATREC_INLINE int latrec_ep_post(struct latrec_ep *ep, uint64_t due_ns, uint64_t now_ns);

/*
 * Takes back the last latrec_ep_post(), because posting failed.
 * 0; -ENOENT: nothing is outstanding.
 */
int latrec_ep_unpost(struct latrec_ep *ep);

/*
 * Records the oldest outstanding post as completed at now_ns.
 * 0; -ENOENT: nothing is outstanding; -ERANGE: now_ns is before the post, which is no longer
 * outstanding, but has not been recorded. Both errors are counted.
 */
LATREC_INLINE int latrec_ep_complete(struct latrec_ep *ep, uint64_t now_ns);

/*
 * Removes the oldest outstanding post without recording it, because it completed with an error.
 * 0; -ENOENT: nothing is outstanding.
 */
int latrec_ep_drop(struct latrec_ep *ep);

/* Returns the number of posts that have not completed. */
uint32_t latrec_ep_pending(const struct latrec_ep *ep);

/* ---- clocks ---- */

enum latrec_clock_source {
	/*
	 * The processor's counter if it can be trusted, else CLOCK_MONOTONIC_RAW. x86-64: the TSC
	 * if it is invariant and the kernel offers it as a clock source (which the kernel stops
	 * when the cores disagree). arm64: cntvct_el0.
	 */
	LATREC_CLOCK_AUTO,
	LATREC_CLOCK_COUNTER, /* the counter, even if it cannot be trusted */
	LATREC_CLOCK_MONOTONIC_RAW,
};

/* Constant after latrec_clock_init(). */
struct latrec_clock {
	uint64_t mult; /* ns per tick * 2^32; 0: no counter */
	uint64_t base_ticks;
	uint64_t base_ns; /* CLOCK_MONOTONIC_RAW at base_ticks */
	uint32_t error_ppm; /* largest error of the rate */
	uint32_t step_ns; /* smallest observed advance, rounded up; a counter can be coarse */
	enum latrec_clock_source source; /* the source that is used */
	char name[116];
};

/*
 * Prepares a clock. A counter is calibrated against CLOCK_MONOTONIC_RAW, which takes about 20 ms
 * (and sleeps meanwhile); its stamps continue those of CLOCK_MONOTONIC_RAW.
 * 0; -EINVAL: no such source; -ENOTSUP: LATREC_CLOCK_COUNTER, and the processor has no counter
 * that runs at a constant rate: use another source; -errno of clock_gettime(2).
 */
int latrec_clock_init(struct latrec_clock *clock_p, enum latrec_clock_source source);

/* Nanoseconds of CLOCK_MONOTONIC_RAW, within clock->error_ppm since latrec_clock_init(). */
LATREC_INLINE uint64_t latrec_clock_now(const struct latrec_clock *clock);

/* Describes source, rate and largest error of the clock; valid as long as the clock. */
const char *latrec_clock_name(const struct latrec_clock *clock);

#include "latrec_inline.h"

#ifdef __cplusplus
}
#endif

#endif
