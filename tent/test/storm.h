/* SPDX-License-Identifier: MIT */
/*
 * Tests with many simultaneous faults ("storms"). This file describes the memory that the processes
 * of a storm share: the schedule that was drawn, and the progress of the processes. The root
 * process maps the memory before it forks the others, so the addresses are the same in all.
 *
 * An engine has worker threads, which submit batches all the time, a taker, which takes notices,
 * and a visitor. The visitor often imports a peer's segment, writes to the peer and releases the
 * segment, and registers and unregisters memory.
 */
#ifndef TENT_TEST_STORM_H
#define TENT_TEST_STORM_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/futex.h"
#include "support/storm.h"
#include "tent.h"

#define KIB 1024ull
#define PROCESSES 4
#define ENGINES 5
#define THREADS 2
#define RAILS 6 /* adapters in the file storm.topology; the first half is RoCE */
#define VALUES 400 /* limit of notices from one engine to another; each has its own value */
#define BRIEFS 2 /* registrations of an engine that end during the storm */
#define BRIEF_LEN (8 * KIB) /* bytes of a brief that one thread of one importing engine uses */
#define VISIT_LEN (4 * KIB)
#define TEXT (256 * KIB)
#define GUARD_MS 60000 /* time limit of waits, so that the test does not hang */

enum storm_rails {
	ADAPTERS,
	SHM,
	TCP,
	BOTH, /* adapters and TCP */
};

enum notice_state {
	NOTICE_NONE,
	NOTICE_ARMED, /* its request is under way */
	NOTICE_ENDED, /* its request has succeeded */
	NOTICE_FAILED,
};

struct notice {
	atomic_int state;
	atomic_int seen;
	const uint8_t *at; /* the destination of the request's bytes */
	uint64_t len, sum; /* the number of bytes and their checksum */
};

/* One engine's part of the schedule, and the data that the engine publishes to the others. */
struct plan {
	atomic_uint
		news; /* +1 after each notice that the engine takes, and when may_die becomes true */
	int process;
	enum storm_rails kind;
	uint32_t rails; /* a bit per adapter; with SHM: the number of rails */
	uint32_t tcp; /* the number of rails over TCP */
	uint32_t threads, priorities, max_tasks;
	uint32_t rounds; /* minimum number of loops of a worker (storm-work.c) */
	int rail_wait_ms;
	uint64_t parts;
	const char *mode; /* the value of "scheduler" in the configuration */
	uint32_t imports; /* a bit per engine */
	/*
	 * Memory for the requests of the engines' visitor threads. First a destination for the
	 * visitor of each engine, then a source of this engine's visitor for each engine.
	 */
	uint8_t *visits;
	uint8_t *remote, *local, *briefs[BRIEFS];
	atomic_bool gone[BRIEFS]; /* unregistered */
	char text[TEXT];
	struct notice notices[ENGINES * VALUES];
};

struct world {
	uint64_t seed;
	uint64_t area; /* bytes of memory of one thread for one peer, on either side */
	uint32_t n_processes, n_engines;
	bool hca;
	/* +1 when exported, imported, finished or over changes, and when a process ends */
	atomic_uint news;
	uint32_t cancels, notifies; /* percent of batches to cancel, of requests with a notice */
	atomic_uint exported, imported; /* number of processes that have done this */
	atomic_uint finished; /* a bit per process */
	atomic_bool over; /* all live processes have finished */
	atomic_bool calm; /* no more faults are drawn */
	atomic_bool may_die[PROCESSES];
	pid_t pids[PROCESSES];
	atomic_uint requests, failed, cancelled, told;
	struct plan plans[ENGINES];
};

static inline uint64_t storm_below(uint64_t *seed, uint64_t n)
{
	return test_rand(seed) % n;
}

static inline bool storm_has_adapters(const struct plan *p)
{
	return p->kind == ADAPTERS || p->kind == BOTH;
}

static inline bool storm_chance(uint64_t *seed, uint32_t percent)
{
	return storm_below(seed, 100) < percent;
}

static inline uint64_t storm_sum(const uint8_t *bytes, size_t n)
{
	uint64_t h = n;

	for (size_t i = 0; i < n; i++)
		h = (h ^ bytes[i]) * 1099511628211ull;
	return h;
}

/*
 * The memory that one thread of initiator @from uses for target @to. storm_remote(): at the target.
 * storm_local(): at the initiator.
 */
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

/* Wakes the threads that wait for a change in STORM_AWAIT(). */
static inline void storm_tell(atomic_uint *news)
{
	atomic_fetch_add(news, 1);
	futex_wake((const uint32_t *)news, INT_MAX);
}

/* Sleeps until @news is not @was any more, or until @end, in ns. Called after @end, it fails. */
static inline void storm_sleep(const atomic_uint *news, uint32_t was, uint64_t end)
{
	uint64_t now = clock_ns();

	CHECK(now < end);
	futex_wait((const uint32_t *)news, was, end - now);
}

/* Sleeps until @cond holds, which is evaluated again after each change of @news. */
#define STORM_AWAIT(news, cond, ms)                                                                \
	do {                                                                                       \
		uint64_t end_ = clock_ns() + (ms)*NSEC_PER_MSEC;                                   \
		uint32_t was_;                                                                     \
		while (was_ = atomic_load(news), !(cond))                                          \
			storm_sleep(news, was_, end_);                                             \
	} while (0)

struct engine {
	struct world *w;
	const struct plan *p;
	uint32_t id;
	struct tent *t;
	struct tent_segment *segments[ENGINES];
	atomic_uint values[ENGINES]; /* number of notice values in use, per peer */
	atomic_uint freed; /* number of freed batches; workers wait for it when tent_submit() has no
			      task left */
	int ending; /* an eventfd: readable when the taker and visitor must end */
	pthread_t taker, visitor;
	struct worker {
		struct engine *e;
		uint32_t thread;
		uint64_t seed;
		uint8_t *remote[ENGINES], *local[ENGINES]; /* the contents that are expected */
		bool lost[ENGINES]; /* the contents of the peer's memory are not defined any more */
		uint32_t denied; /* the briefs for which a request has failed: a bit per engine and
				    index of `briefs` */
		pthread_t pthread;
	} workers[THREADS];
};

/* storm-work.c */
void storm_worker_start(struct engine *e, uint32_t thread);
void storm_worker_join(struct worker *k);
/* Compares the worker's memory for the last time. The caller must have destroyed the engine. */
void storm_worker_free(struct worker *k);
bool storm_ended(struct tent_batch *b);
/* Frees a batch that has ended, and wakes workers that wait for a free task. */
void storm_batch_free(struct engine *e, struct tent_batch *b);

/* storm-engines.c: runs the engines of a process and their threads. Returns its exit status. */
int storm_process(struct world *w, int process);

/*
 * storm-verbs.c: checks that the adapters hold no object of this process any more. @some: the
 * process has created objects.
 */
void storm_check_objects(bool some);

#endif
