/* SPDX-License-Identifier: MIT */
/*
 * Endpoints, the messages that they gather, WRITEs under way, and the serial servers of the
 * adapter's contexts.
 *
 * The messages of a WRITE stay where they were gathered, in a batch that is passed to the receiver
 * with the WRITE; a single message is in the event itself. A posted WRITE is a parcel, which a
 * thread's mail carries to the thread that simulates the receiver. There it becomes an event of the
 * receiving context.
 */
#ifndef BENCHKV_SIM_WIRE_H
#define BENCHKV_SIM_WIRE_H

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/compiler.h"
#include "machine.h"
#include "timeline.h"

#define WIRE_MESSAGE_BYTES 64 /* of a message, and of the metadata of a WRITE */
#define WIRE_RESPONSE (1u << 31)

/* ---- batches of messages ---- */

/*
 * A message is the slot of the rank that called, with WIRE_RESPONSE if it is the response. Behind
 * the messages are the words that go with the calls, if the control tells its peers something.
 */
struct batch {
	struct batch *next; /* the next free batch */
	uint32_t room; /* messages that fit */
	uint32_t kind; /* of its size */
	uint32_t slots[];
};

#define POOL_KINDS 24 /* slots and the rest have 64 << kind bytes */
#define POOL_SPARE 1024 /* free batches of a kind that are kept */

/*
 * Free batches of a thread. A batch becomes free where it was received: it is in that core's cache,
 * and each thread receives about as many as it posts.
 */
struct pool {
	struct batch *free[POOL_KINDS];
	uint32_t n[POOL_KINDS];
	bool words;
};

void pool_fini(struct pool *p);

/*
 * Replaces a full batch, or NULL, by a batch with twice the room and the same messages. NULL: no
 * memory.
 */
struct batch *pool_larger(struct pool *p, struct batch *full);

static inline void pool_put(struct pool *p, struct batch *b)
{
	uint32_t kind = b->kind;

	if (unlikely(p->n[kind] == POOL_SPARE)) {
		free(b);
		return;
	}
	p->n[kind]++;
	b->next = p->free[kind];
	p->free[kind] = b;
}

static inline uint32_t *batch_words(struct batch *b)
{
	return b->slots + b->room;
}

/* ---- endpoints ---- */

struct endpoint {
	struct batch *gathered; /* NULL: nothing */
	uint32_t room; /* of `gathered`; 0: nothing is gathered */
	uint32_t calls, replies; /* gathered */
	uint32_t writes; /* total number of posted WRITEs */
	uint32_t received; /* WRITEs of the peer that this side has processed */
	uint32_t consumed; /* this side's WRITEs that the peer has acknowledged as processed */
	uint32_t pending : 31; /* calls posted and not answered */
	uint32_t dirty : 1;
};

/* Gathers a message. 0 or -ENOMEM. */
static inline int endpoint_append(struct endpoint *e, struct pool *p, uint32_t slot, uint32_t word)
{
	uint32_t n = e->calls + e->replies;

	if (n == e->room) {
		struct batch *larger = pool_larger(p, e->gathered);

		if (!larger)
			return -ENOMEM;
		e->gathered = larger;
		e->room = larger->room;
	}
	e->gathered->slots[n] = slot;
	if (p->words)
		batch_words(e->gathered)[n] = word;
	e->calls += !(slot & WIRE_RESPONSE);
	e->replies += slot >> 31;
	return 0;
}

/* ---- WRITEs ---- */

/* The adapter's side of a context. */
struct nic {
	uint64_t send_free, recv_free; /* when the servers will be idle */
	struct timeline
		arrivals; /* WRITEs under way to it, when they are at the receiving server */
};

/* A WRITE on its way. */
struct parcel {
	struct event event;
	uint32_t to; /* daemon */
};

/* Parcels in the order in which they were posted. In a cache line of its own: each has one writer. */
struct mail {
	_Alignas(64) struct parcel *parcels;
	size_t size, n;
};

/* The path of a WRITE. */
struct route {
	const struct machine *machine;
	struct nic *nic;
	struct pool *pool;
	struct mail *mail;
	uint32_t from; /* rank */
	uint32_t to; /* daemon */
};

/* Posts a WRITE at ns with everything gathered, which must not be empty. 0 or -ENOMEM. */
int wire_post(const struct route *r, struct endpoint *e, uint64_t ns);

/* Posts a WRITE with the i-th gathered message alone. After all of them: endpoint_posted(). */
int wire_post_one(const struct route *r, struct endpoint *e, uint32_t i, uint64_t ns);

/* Marks the endpoint as empty after a post. */
static inline void endpoint_posted(struct endpoint *e)
{
	e->gathered = NULL;
	e->room = 0;
	e->pending += e->calls;
	e->calls = e->replies = 0;
}

/* The time of the next completion, as far as is known; UINT64_MAX: none. */
static inline uint64_t wire_next(const struct machine *m, struct nic *nic)
{
	const struct event *e = timeline_first(&nic->arrivals);

	if (!e)
		return UINT64_MAX;
	return (e->ns > nic->recv_free ? e->ns : nic->recv_free) + (uint64_t)m->recv_ns;
}

/* Takes the next WRITE if it has completed by @ns, else returns false. */
static inline bool wire_receive(const struct machine *m, struct nic *nic, uint64_t ns,
	struct event *e_p)
{
	uint64_t done = wire_next(m, nic);

	if (!nic->arrivals.n || done > ns)
		return false;
	*e_p = timeline_take(&nic->arrivals);
	nic->recv_free = done;
	return true;
}

#endif
