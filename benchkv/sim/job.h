/* SPDX-License-Identifier: MIT */
/*
 * A simulated job: its ranks, daemons and clients. sim.c creates the job, crew.c runs it in
 * threads, and loop.c simulates a daemon.
 */
#ifndef BENCHKV_SIM_JOB_H
#define BENCHKV_SIM_JOB_H

#include <pthread.h>

#include "calendar.h"
#include "latrec.h"
#include "sim.h"
#include "wire.h"

/* The counters of a daemon after the warm-up. */
struct counts {
	uint64_t loops, loop_ns, responses, writes, messages;
	uint64_t bucket[BUCKETS];
};

/* A call of another rank that has arrived. */
struct call {
	uint32_t from, slot, word; /* word: see control_word() */
};

/* Calls that the next loop serves first. */
struct backlog {
	struct call *calls;
	uint32_t n, size;
};

/* A daemon and its context. */
struct daemon {
	struct rank *rank;
	uint64_t now; /* the beginning of the next step; during a step, the current time */
	struct nic nic;
	struct calendar requests;
	struct endpoint *eps; /* by rank */
	struct control_load *loads; /* the endpoints with gathered messages */
	uint32_t n_dirty;
	uint32_t under_way; /* requests to other ranks */
	uint32_t *held; /* slots whose replies are held */
	uint32_t n_held;
	uint64_t held_since;
	struct backlog backlog;
	uint32_t served; /* calls of other ranks that were served in this loop */
	uint32_t serves; /* limit of @served */
	struct control control;
	/* The loop. */
	enum { AT_LOOP, AT_POLL, AT_DRAIN } at; /* where the next step begins */
	uint64_t loop_began;
	struct control_polls polls;
	uint64_t rtt_sum;
	struct counts counts;
};

/*
 * Calls without a response. A change of their number at time t adds (end - t) * change to the
 * integral of the number over the time after the warm-up. `sum` contains the parts -t * change, so
 * the integral is sum + n * end.
 */
struct inflight {
	uint32_t n;
	uint64_t at; /* the last change, or the end of the warm-up */
	uint64_t sum;
};

struct rank {
	struct sim *sim;
	struct part *part;
	uint32_t index;
	uint64_t random;
	struct inflight inflight;
	struct daemon *daemons;
	/* Indexed by slot. Request i of a client has the slot client * depth + i. */
	struct request *requests; /* entries of the daemons' calendars */
	uint64_t *start; /* when the client made the request */
	uint64_t *called; /* when a daemon gathered it; NULL: not needed by control or trace */
	bool *answered; /* the response is on its way to the client's daemon; NULL: delegation */
	uint64_t *client_free; /* by client: when it can make its next request */
	/* Replies that a client has seen while it waits for others; NULL: no client waits. */
	uint32_t *seen; /* slots; those of a client begin at index client * depth */
	uint32_t *n_seen; /* by client */
};

/* The ranks that a thread simulates, and the thread's counters. */
struct part {
	struct sim *sim;
	struct crew *crew; /* all threads, see crew.c */
	pthread_t thread;
	uint32_t index, first, end; /* ranks */
	uint64_t window, until; /* the current window, and its end */
	int error;
	struct pool pool;
	struct latrec_hist *latency;
};

struct sim {
	const struct sim_config *c;
	struct machine m;
	struct machine_costs costs;
	uint64_t per_depth; /* see sim_client() */
	struct rank *ranks;
	struct daemon *daemons; /* of all ranks */
	uint32_t n_daemons;
	uint64_t end, traced;
	/* For the trace, if the control does not filter the polls' values. */
	struct adaptive filtered;
	uint64_t ahead; /* length of a window: the shortest time from a post to the peer's CQE */
	struct part *parts;
	uint32_t n_parts;
	uint32_t *part_of; /* by rank */
	struct mail *mail[2]; /* of even and of odd windows; see sim_mail() */
	int error; /* 0, or -ENOMEM while the job is created */
};

/* xorshift64* (S. Vigna 2014); the state is never 0. */
static inline uint64_t draw(uint64_t *random)
{
	uint64_t x = *random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*random = x;
	return x * 0x2545f4914f6cdd1dull;
}

/* Returns a random number x, 0 <= x < n, from the upper bits. */
static inline uint32_t draw_below(uint64_t *random, uint32_t n)
{
	return (uint32_t)((draw(random) >> 32) * n >> 32);
}

/* The client of a slot: slot / depth, without a division. Exact for the first 2^20 slots. */
#define SIM_DEPTH_SHIFT 42
static inline uint32_t sim_client(const struct sim *s, uint32_t slot)
{
	return (uint32_t)(slot * s->per_depth >> SIM_DEPTH_SHIFT);
}

/*
 * The index in sim.daemons of the rank's daemon that has the endpoint to a peer. Does not read
 * struct rank, which another thread writes all the time.
 */
static inline uint32_t sim_owner(const struct sim *s, uint32_t rank, uint32_t peer)
{
	uint32_t d = s->c->daemons;

	return d == 1 ? rank : rank * d + (rank + peer) % d;
}

/* The daemon that has the rank's endpoint to a peer. If the peer is the rank: the slot's daemon. */
static inline struct daemon *rank_owner(struct rank *r, uint32_t peer, uint32_t slot)
{
	const struct sim *s = r->sim;

	return peer == r->index ? &r->daemons[slot % s->c->daemons] :
				  &s->daemons[sim_owner(s, r->index, peer)];
}

/* The daemon to which the slot's client sends a request for a peer. */
static inline struct daemon *rank_taker(struct rank *r, uint32_t peer, uint32_t slot)
{
	const struct sim *s = r->sim;

	if (!s->c->meta)
		return rank_owner(r, peer, slot);
	return &r->daemons[sim_client(s, slot) % s->c->daemons];
}

/*
 * Simulates a step of a daemon: a poll, or the part of a poll that is in the window. The step of
 * the last poll of a loop also contains the rest of the loop.
 */
void daemon_step(struct daemon *d);

/* The mail that one part sends to another one in a window. */
static inline struct mail *sim_mail(struct sim *s, uint64_t window, uint32_t from, uint32_t to)
{
	return &s->mail[window % 2][from * s->n_parts + to];
}

/* Runs a job from its beginning to its end, with a thread for each part. 0, -ENOMEM, -EAGAIN. */
int crew_run(struct sim *s);

static inline void inflight_change(struct inflight *f, uint64_t ns, int change)
{
	f->at = ns > f->at ? ns : f->at;
	f->sum -= (uint64_t)change * f->at;
	f->n += (uint32_t)change;
}

#endif
