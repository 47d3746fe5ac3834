/* SPDX-License-Identifier: MIT */
/*
 * What the processes of a storm share: what was drawn, and what each knows of the others. The
 * root process makes it before it forks them, so that its addresses are the same in all.
 */
#ifndef TENT_TEST_STORM_H
#define TENT_TEST_STORM_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/test.h"
#include "tent.h"

#define KIB 1024ull
#define PROCESSES 4
#define ENGINES 5
#define THREADS 2
#define RAILS 6 /* of storm.topology; the first half is RoCE */
#define VALUES 400 /* of notices, from one engine to another */
#define VOLATILES 2 /* registrations of an engine that end during the storm */
#define VOLATILE_LEN (8 * KIB) /* of each, for one thread of an initiator */
#define VISIT_LEN (4 * KIB)
#define TEXT (256 * KIB)
#define GUARD_MS 30000 /* against hanging */

enum notice_state {
	NOTICE_NONE,
	NOTICE_ARMED, /* its request is under way */
	NOTICE_ENDED, /* well */
	NOTICE_FAILED,
};

struct notice {
	atomic_int state;
	atomic_int seen;
	const uint8_t *at; /* what its request moves, where it goes */
	uint64_t len, sum;
};

/* What was drawn of an engine, and what it tells the others. */
struct plan {
	int process;
	bool shm;
	uint32_t rails; /* a bit per adapter; of shm their number */
	uint32_t threads, priorities, max_tasks;
	uint32_t rounds; /* at least */
	int rail_wait_ms;
	uint64_t parts;
	const char *mode; /* of the configuration */
	uint32_t imports; /* a bit per engine */
	uint8_t *visits; /* of each engine here, and of this one there */
	uint8_t *remote, *local, *volatiles[VOLATILES];
	atomic_bool gone[VOLATILES]; /* unregistered */
	char text[TEXT];
	struct notice notices[ENGINES * VALUES];
};

struct world {
	uint64_t seed;
	uint64_t area; /* bytes, of one thread for one peer, on either side */
	uint32_t n_processes, n_engines;
	bool hca;
	uint32_t cancels, notifies; /* percent of batches, of requests */
	atomic_uint exported, imported; /* processes */
	atomic_uint finished; /* a bit per process */
	atomic_bool calm; /* the weather is */
	atomic_bool over; /* all that live have finished */
	atomic_bool may_die[PROCESSES];
	pid_t pids[PROCESSES];
	atomic_uint requests, failed, cancelled, told;
	struct plan plans[ENGINES];
};

static inline uint64_t storm_draw(uint64_t *seed, uint64_t n)
{
	return test_rand(seed) % n;
}

static inline bool storm_chance(uint64_t *seed, uint32_t percent)
{
	return storm_draw(seed, 100) < percent;
}

static inline void storm_fill(uint64_t *seed, uint8_t *bytes, size_t n)
{
	uint64_t x = 0;

	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			x = test_rand(seed);
		bytes[i] = (uint8_t)(x >> i % 8 * 8);
	}
}

static inline uint64_t storm_sum(const uint8_t *bytes, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 1099511628211ull;
	return h;
}

/* The memory of one thread of an initiator, at a target and here. */
static inline uint8_t *storm_remote(const struct world *w, uint32_t from, uint32_t thread,
	uint32_t to)
{
	return w->plans[to].remote + (from * THREADS + thread) * w->area;
}

static inline uint8_t *storm_local(const struct world *w, uint32_t from, uint32_t thread,
	uint32_t to)
{
	return w->plans[from].local + (to * THREADS + thread) * w->area;
}

static inline bool storm_may_die(const struct world *w, uint32_t engine)
{
	return atomic_load(&w->may_die[w->plans[engine].process]);
}

/* Waits until a count of the others has been reached. */
static inline void storm_await(const atomic_uint *count, uint32_t n)
{
	uint64_t end = clock_ns() + GUARD_MS * NSEC_PER_MSEC;

	while (atomic_load(count) < n) {
		CHECK(clock_ns() < end);
		usleep(500);
	}
}

/* storm-engines.c: a process, its engines and their threads; its exit status. */
int storm_process(struct world *w, int process);

#endif
