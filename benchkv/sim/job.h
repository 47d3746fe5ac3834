/* SPDX-License-Identifier: MIT */
/* A simulated job: its ranks, daemons and clients. sim.c makes and runs it, loop.c is a daemon. */
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
	uint32_t index;
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
	uint32_t word; /* of the control, which goes with the call */
};

struct sim {
	const struct sim_config *c;
	struct machine m;
	struct machine_costs costs;
	struct rank *ranks;
	struct daemon *daemons; /* of all ranks */
	struct timeline order; /* the next step of each daemon */
	uint32_t n_daemons;
	uint64_t random, end, traced;
	uint64_t ahead; /* nothing that is done now reaches another rank's CQ earlier */
	uint64_t ops;
	struct latrec_hist latency;
	int error;
};

/* xorshift64* (S. Vigna 2014); the state is never 0. */
static inline uint64_t sim_draw(struct sim *s)
{
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dull;
}

/* 0 <= x < n, by the upper bits. */
static inline uint32_t sim_draw_below(struct sim *s, uint32_t n)
{
	return (uint32_t)((sim_draw(s) >> 32) * n >> 32);
}

/* The daemon of a rank that has its endpoint to a peer, or serves the slot if that is itself. */
static inline struct daemon *rank_owner(struct rank *r, uint32_t peer, uint32_t slot)
{
	uint32_t d = r->sim->c->daemons;

	if (d == 1)
		return r->daemons;
	return &r->daemons[peer == r->index ? slot % d : (r->index + peer) % d];
}

/* A poll or a part of it; after the last one of a loop, the rest of the loop. */
void daemon_step(struct daemon *d);

/* Brings the integral of a rank's calls in flight up to ns, then changes their number. */
void rank_count_inflight(struct rank *r, uint64_t ns, int change);

#endif
