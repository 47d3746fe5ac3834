/* SPDX-License-Identifier: MIT */
/*
 * A simulated job: its ranks, daemons and clients. sim.c makes it, crew.c runs it, loop.c is a
 * daemon.
 */
#ifndef BENCHKV_SIM_JOB_H
#define BENCHKV_SIM_JOB_H

#include "calendar.h"
#include "latrec.h"
#include "sim.h"
#include "wire.h"

/* What a daemon counts after the warm-up. */
struct counts {
	uint64_t loops, loop_ns, responses, writes, messages;
	uint64_t bucket[BUCKETS];
};

/* A daemon and its context. */
struct daemon {
	struct rank *rank;
	uint64_t now; /* the beginning of its next step, then the running time of that step */
	struct nic nic;
	struct calendar requests;
	struct endpoint *eps; /* by rank */
	uint32_t *dirty; /* ranks with gathered messages */
	uint32_t n_dirty;
	uint32_t under_way; /* requests to other ranks */
	uint32_t *held; /* slots whose replies wait */
	uint32_t n_held;
	uint64_t held_since;
	struct control_load *loads;
	struct control control;
	/* The loop. */
	enum { AT_LOOP, AT_POLL, AT_DRAIN } at; /* what the next step begins with */
	uint64_t loop_began;
	struct control_polls polls;
	uint64_t rtt_sum;
	struct counts counts;
};

struct rank {
	struct sim *sim;
	struct part *part;
	uint32_t index;
	uint64_t random;
	uint32_t inflight; /* calls without a response */
	uint64_t inflight_at, inflight_sum; /* integral over time, after the warm-up */
	struct daemon *daemons;
	struct slot *slots; /* client * depth + i */
	uint32_t *next; /* of the calendars, by slot */
	uint64_t *client_free; /* by client */
};

/* A client's place for one request. */
struct slot {
	uint64_t start; /* when the client made the request */
	uint64_t called; /* when the daemon took it, if it is for another rank */
	uint32_t dest, client;
};

/* The ranks that a thread simulates, and what it counts. */
struct part {
	struct sim *sim;
	uint32_t index, first, end; /* ranks */
	uint64_t window, until; /* the present one, and its end */
	uint64_t ops;
	int error;
	struct latrec_hist latency;
};

struct sim {
	const struct sim_config *c;
	struct machine m;
	struct machine_costs costs;
	struct rank *ranks;
	struct daemon *daemons; /* of all ranks */
	uint32_t n_daemons;
	uint64_t end, traced;
	uint64_t ahead; /* a window: nothing that is done now reaches another rank's CQ earlier */
	struct part *parts;
	uint32_t n_parts;
	uint32_t *part_of; /* by rank */
	struct mail *mail[2]; /* of odd and of even windows; from a part to a part */
};

/* xorshift64* (S. Vigna 2014); the state is never 0. */
static inline uint64_t rank_draw(struct rank *r)
{
	r->random ^= r->random >> 12;
	r->random ^= r->random << 25;
	r->random ^= r->random >> 27;
	return r->random * 0x2545f4914f6cdd1dull;
}

/* 0 <= x < n, by the upper bits. */
static inline uint32_t rank_draw_below(struct rank *r, uint32_t n)
{
	return (uint32_t)((rank_draw(r) >> 32) * n >> 32);
}

/* The daemon of a rank that has its endpoint to a peer, or serves the slot if that is itself. */
static inline struct daemon *rank_owner(struct rank *r, uint32_t peer, uint32_t slot)
{
	uint32_t d = r->sim->c->daemons;

	if (d == 1)
		return r->daemons;
	return &r->daemons[peer == r->index ? slot % d : (r->index + peer) % d];
}

/*
 * The daemon of a rank that has its endpoint to a peer, by number. It does not look at the rank, whose
 * thread writes there all the time.
 */
static inline uint32_t sim_owner(const struct sim *s, uint32_t rank, uint32_t peer)
{
	uint32_t d = s->c->daemons;

	return d == 1 ? rank : rank * d + (rank + peer) % d;
}

/*
 * A poll or the part of it that is in the window; after the last one of a loop, the rest of the
 * loop.
 */
void daemon_step(struct daemon *d);

/* Where a thread puts what is for a rank, or finds what has come for it from another one. */
static inline struct mail *sim_mail(struct sim *s, uint64_t window, uint32_t from, uint32_t to)
{
	return &s->mail[window % 2][from * s->n_parts + to];
}

/* Runs a job from its beginning to its end, in as many threads as it has parts. 0, -ENOMEM, -EAGAIN. */
int crew_run(struct sim *s);

/* Brings the integral of a rank's calls in flight up to ns, then changes their number. */
void rank_count_inflight(struct rank *r, uint64_t ns, int change);

#endif
