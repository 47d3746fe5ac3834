/* SPDX-License-Identifier: MIT */
/*
 * The trace of a daemon with endpoints: a sample per TRACE_EVERY_NS. It is in memory while the
 * daemon runs, and is written as CSV when the daemon has ended.
 */
#ifndef BENCHKV_TRACE_H
#define BENCHKV_TRACE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define TRACE_EVERY_NS 1000000ull
#define TRACE_MAX (1u << 20) /* samples, of 17 minutes; later ones are not kept */

enum trace_phase {
	TRACE_LOCAL,
	TRACE_CHANNELS,
	TRACE_NETWORK,
	TRACE_CALLS,
	TRACE_RETRY,
	TRACE_FLUSH,
	TRACE_FORWARD,
	TRACE_PHASES,
};

extern const char *const trace_phase_names[TRACE_PHASES];

/* A sample describes one loop. Times are those of clock_ns(). */
struct trace_sample {
	uint64_t time_ns; /* when the loop began */
	uint64_t loop_ns; /* duration of the loop */
	uint64_t phase_ns[TRACE_PHASES]; /* when each phase began */
	uint32_t outstanding; /* requests of own clients to other ranks that are under way */
	uint32_t waiting; /* outstanding requests that wait for room or credit */
	uint32_t held; /* requests of other ranks for which another daemon had no room */
	uint32_t cqes, messages, polls; /* of this loop */
	uint32_t u; /* of adaptive.h; the next three are its filtered observations */
	float e, rtt_us, rho; /* share of empty loops, round trip, loop time / round trip */
	uint32_t unconsumed; /* controls auto and little: WRITEs with calls, not consumed */
};

struct trace {
	struct trace_sample *samples; /* NULL: no trace is wanted */
	uint32_t n;
	uint64_t start_ns, due_ns;
};

/* Returns 0 or -ENOMEM. */
int trace_init(struct trace *t);
void trace_fini(struct trace *t);

/* Returns true if a sample is due. Called once per loop, if a trace is wanted. */
static inline bool trace_due(const struct trace *t, uint64_t now_ns)
{
	return now_ns >= t->due_ns && t->n < TRACE_MAX;
}

void trace_add(struct trace *t, const struct trace_sample *sample);

/* trace_write_names() writes the header line, trace_write() the lines of a daemon. */
void trace_write_names(FILE *out);
void trace_write(const struct trace *t, uint32_t daemon, FILE *out);

#endif
