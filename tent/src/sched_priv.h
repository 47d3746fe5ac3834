/* SPDX-License-Identifier: MIT */
/*
 * The scheduler's objects and the functions between its files. Each file calls only functions of
 * the files below it:
 *
 *	sched.c, create.c	the interface of sched.h
 *	early.c		baseline, smart: post bound slices	pull.c	cuts and posts when a rail has room
 *	health.c	states of rails
 *	bind.c		baseline, smart: choose rails at submit
 *	slice.c		slices, requests, the ledger
 *	turns.c		priority classes	rail.c	measurements of a rail	plan.c	cuts
 */
#ifndef TENT_SCHED_PRIV_H
#define TENT_SCHED_PRIV_H

#include "base/slab.h"
#include "defects.h"
#include "plan.h"
#include "rail.h"
#include "sched.h"
#include "score.h"

#define NUMA_NS 100.0 /* latency for each 1.0 of a tier's penalty above 1.0 */
#define NO_SLICE UINT32_MAX
#define NO_RAIL SCHED_NO_RAIL
#define NO_REQUEST UINT32_MAX

/* A slice or a mark. A mark has length 0 and no request; @offset is its position. */
struct slice {
	uint64_t user; /* of a mark */
	uint64_t offset, length;
	uint64_t charged; /* bytes in the rail's ledger for this slice */
	uint64_t posted_at;
	uint32_t request;
	uint32_t generation; /* incremented whenever the slice's token becomes invalid */
	uint32_t rail; /* NO_RAIL: the slice waits for a rail */
	uint32_t next, prev; /* in the slice's list */
	uint32_t errors;
	bool posted;
	bool again; /* a rail that had the slice has failed */
	bool alone; /* nothing else was posted on the rail at the time of this slice's post */
	int status; /* of a mark: the last error */
};

struct list {
	uint32_t head, tail; /* NO_SLICE: empty */
};

struct request {
	struct plan plan; /* bytes that are not cut yet, in mode pull */
	uint64_t user, block;
	uint64_t submitted_at, due;
	uint32_t location, priority;
	uint32_t open; /* number of slices that have not ended */
	uint32_t worth; /* number of rails that the request may wake; see sched_attr.wake_ns */
	uint32_t next; /* in a queue, or in the list of requests that have ended */
	int status; /* the first error */
};

/*
 * The requests of one location and priority that have bytes to cut, in the order of their due
 * times. The due time of a request is computed from its submission and its length, so a short
 * request overtakes a long one that has not waited long. If few requests are open, this order also
 * keeps the rails busy, because the requests that remain at the end are long.
 */
struct queue {
	uint32_t head;
	struct list again; /* slices of failed rails, which are cut already and are served first */
	uint64_t bytes; /* of the requests and of `again` */
};

/* A priority class, see turns.c. */
struct class
{
	uint64_t waiting; /* bytes in queues, and slices that are bound */
	double served; /* bytes divided by the weight of the class */
};

struct sched {
	struct tent_config config;
	const struct rail_ops *ops;
	void *arg;
	uint32_t n_rails, n_locations, n_groups;
	uint8_t *tiers, *best_tier; /* best_tier: of each location */
	struct rail *rails;
	struct list *posted; /* of each rail: the posted slices */
	struct list *bound; /* bound[priority * n_rails + rail]: slices to be posted on the rail */
	struct queue *queues; /* queues[location * SCHED_PRIORITIES + priority] */
	uint64_t *no_rail_at; /* since when a location has no rail; SCHED_NEVER: it has one */
	struct class classes[SCHED_PRIORITIES];
	double served; /* the highest class.served that a class had when it was served */
	double group_rates[SCHED_MAX_GROUPS];
	double link_rates; /* sum over all rails */
	struct slice *slices;
	struct request *requests;
	struct slab slice_ids, request_ids;
	uint32_t ended_head, ended_tail; /* requests for which rail_ops.done must be called */
	uint32_t next_location; /* the location whose turn it is */
	uint32_t round_robin; /* the next rail in turn, for baseline and for smart's every hundredth
				 decision */
	uint64_t calls; /* number of smart's decisions */
	uint64_t random;
	uint32_t n_up; /* rails in state UP */
	uint32_t n_timed; /* rails that silence can exclude */
	bool some_unreachable; /* some no_rail_at is not SCHED_NEVER */
	uint64_t wake_ns;
	uint32_t most_awake;
	uint32_t worth; /* sum of request.worth */
	uint64_t probe_timeout_ns, first_open_ns, no_rail_ns;
	uint32_t marks; /* number of marks under way */
	uint64_t wake_at; /* when to decide again about slices that wait for a busy rail */
	struct sched_stats stats;
};

static inline uint8_t sched_tier(const struct sched *s, uint32_t location, uint32_t rail)
{
	return s->tiers[location * s->n_rails + rail];
}

/* The latency that memory on another NUMA node adds to a slice. */
static inline double sched_numa_ns(const struct sched *s, uint32_t location, uint32_t rail)
{
	double penalty = s->config.numa_penalties[sched_tier(s, location, rail)];

	return penalty > 1 ? (penalty - 1) * NUMA_NS : 0;
}

static inline bool rail_in_use(const struct rail *r)
{
	return r->state == RAIL_UP || r->state == RAIL_HALF;
}

static inline bool slice_is_mark(const struct slice *sl)
{
	return sl->request == NO_REQUEST;
}

/* True: slices of this location may be given to the rail. */
static inline bool sched_usable(const struct sched *s, uint32_t location, uint32_t rail)
{
	return rail_in_use(&s->rails[rail]) &&
	       (!s->config.strict_numa || sched_tier(s, location, rail) == s->best_tier[location]);
}

static inline uint32_t slice_priority(const struct sched *s, uint32_t id)
{
	return s->requests[s->slices[id].request].priority;
}

static inline struct queue *sched_queue(struct sched *s, uint32_t location, uint32_t priority)
{
	return &s->queues[location * SCHED_PRIORITIES + priority];
}

static inline struct list *sched_bound(struct sched *s, uint32_t rail, uint32_t priority)
{
	return &s->bound[priority * s->n_rails + rail];
}

static inline uint64_t slice_token(const struct sched *s, uint32_t id)
{
	return (uint64_t)s->slices[id].generation << 32 | id;
}

static inline bool request_all_cut(const struct request *q)
{
	return !plan_left(&q->plan);
}

/* Makes a slice or a mark with these values. It is in no list. NO_SLICE: there are too many. */
static inline uint32_t slice_take(struct sched *s, const struct slice *values)
{
	uint32_t id = slab_get(&s->slice_ids), generation;

	if (id == SLAB_NONE)
		return NO_SLICE;
	generation = s->slices[id].generation;
	s->slices[id] = *values;
	s->slices[id].generation = generation;
	s->slices[id].rail = NO_RAIL;
	return id;
}

/* ---- turns.c: classes ---- */

/*
 * class_grow(): @n more bytes or slices wait, see class.waiting. class_shrink(): @n fewer wait.
 * class_serve(): @bytes were posted.
 */
void class_grow(struct sched *s, uint32_t priority, uint64_t n);
void class_shrink(struct sched *s, uint32_t priority, uint64_t n);
void class_serve(struct sched *s, uint32_t priority, uint64_t bytes);
/*
 * The class that is served next: one that has waiting bytes or slices, and whose bit in @without is
 * 0. SCHED_PRIORITIES: there is no such class.
 */
uint32_t class_next(const struct sched *s, uint32_t without);

/* ---- slice.c ---- */

bool sched_reachable(const struct sched *s, uint32_t location);

void list_append(struct sched *s, struct list *l, uint32_t id);
void list_remove(struct sched *s, struct list *l, uint32_t id);

/* The ledger of a rail counts the bytes of the slices that it was given and that have not ended. */
void ledger_charge(struct sched *s, uint32_t id, uint32_t rail, uint64_t bytes);
void ledger_release(struct sched *s, uint32_t id);

/* Makes a slice of a request, see slice_take(). */
uint32_t slice_new(struct sched *s, uint32_t request, uint64_t offset, uint64_t length);
/* Ends a slice that is in no list. The end of its last slice ends the request. */
void slice_end(struct sched *s, uint32_t id);
/* Puts a slice that is in no list into queue.again of its request's queue. */
void slice_wait(struct sched *s, uint32_t id);
void slice_unwait(struct sched *s, uint32_t id);
/*
 * Posts a slice that is charged to a rail, and removes it from @from, which may be NULL. Returns 0,
 * or the error of rail_ops.post; then only rail.full may have changed.
 */
int slice_post(struct sched *s, uint64_t now, uint32_t id, struct list *from);
/* Removes a slice or a mark from its rail's list of posted slices and from the ledger. */
void slice_unpost(struct sched *s, uint32_t id);
/*
 * Counts an error of a slice or a mark, other than a flush. After several errors of one slice its
 * request fails: otherwise a slice that no rail can carry would exclude one rail after the other.
 */
void slice_error(struct sched *s, uint32_t id, int status);
void mark_end(struct sched *s, uint32_t id, int status);

/*
 * Fails a request: drops its bytes that are not cut, and its slices that wait for a rail. It ends
 * after its posted slices.
 */
void request_fail(struct sched *s, uint32_t request, int status);

/* ---- bind.c: rails for slices, at submit ---- */

/* The number of slices that bind_request() will need. */
uint64_t bind_count(const struct plan *p, uint32_t max_slices);
/* Cuts and binds a new request; the caller must have checked that enough slices are free. */
void bind_request(struct sched *s, uint32_t request, uint32_t max_slices);
/* Binds a slice of a failed rail to another rail. If no rail is up, the slice waits. */
void bind_again(struct sched *s, uint32_t id);
/* Undoes the binding of a slice that is not posted. */
void bind_undo(struct sched *s, uint32_t id);

/* ---- health.c: states of rails ---- */

/* The state in which a rail begins. */
void rail_begin(struct rail *r, bool closed);
/* Ends the use of a rail; its posted slices wait for the fence. */
void rail_fail(struct sched *s, uint64_t now, uint32_t rail);
/* A slice or a mark has arrived on the rail: HALF becomes UP. */
void rail_well(struct sched *s, uint32_t rail);
/* Handles rails whose deadline has passed. Returns the next deadline. */
uint64_t health_run(struct sched *s, uint64_t now);

/* ---- early.c (modes baseline and smart), pull.c (mode pull): post waiting slices ---- */

void early_run(struct sched *s, uint64_t now);
void pull_run(struct sched *s, uint64_t now);

#endif
