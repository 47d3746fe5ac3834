/* SPDX-License-Identifier: MIT */
/*
 * Endpoints, the messages that they gather, WRITEs under way, and the adapter. Each context of the
 * adapter has a server for sending and one for receiving, which process one WRITE at a time.
 *
 * The messages of a WRITE are gathered in a batch, which is passed to the receiver with the WRITE.
 * A single message is in the event itself. A posted WRITE is a parcel in the mail to the thread
 * that simulates the receiver. That thread turns the parcel into an event of the receiving context.
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

#define WIRE_MESSAGE_BYTES 64 /* size of a message, and of the metadata of a WRITE */
#define WIRE_RESPONSE (1u << 31)

/* ---- batches of messages ---- */

/*
 * A message is the number of the call's slot in the calling rank, with WIRE_RESPONSE if it is a
 * response. If calls carry words (control_word()), room for one word per message follows the slots.
 */
struct batch {
	struct batch *next; /* the next free batch */
	uint32_t room; /* messages that fit */
	uint32_t kind; /* size class */
	uint32_t slots[];
};

#define POOL_KINDS 24 /* size classes; a batch has 64 << kind bytes, without words */
#define POOL_SPARE 1024 /* maximum number of free batches of a kind that are kept */

/*
 * The free batches of a thread. A batch is freed by the thread that received it, whose core has it
 * in its cache. Each thread receives about as many batches as it posts.
 */
struct pool {
	struct batch *free[POOL_KINDS];
	uint32_t n[POOL_KINDS];
	bool words;
};

void pool_fini(struct pool *p);

/*
 * Returns a batch with the messages of @full and twice its room or more, and frees @full. If @full
 * is NULL, returns the smallest batch. NULL: no memory, and @full is not freed.
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
	struct batch *gathered; /* messages that are not posted yet; NULL: none */
	uint32_t room; /* of `gathered`; 0 if that is NULL */
	uint32_t calls, replies; /* in `gathered` */
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
	struct timeline arrivals; /* WRITEs under way, by their arrival at the receiving server */
};

/* Frees the batch of a WRITE that nobody will receive. */
static inline void event_fini(const struct event *e)
{
	if (e->messages > 1)
		free(e->batch);
}

/* A WRITE on its way. */
struct parcel {
	struct event event;
	uint32_t to; /* daemon */
};

/* Parcels in the order in which they were posted. Has one writer, hence a cache line of its own. */
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

/* Posts a WRITE with only the i-th gathered message. The caller then calls endpoint_posted(). */
int wire_post_one(const struct route *r, struct endpoint *e, uint32_t i, uint64_t ns);

/* Must be called when all gathered messages are posted: the endpoint is empty again. */
static inline void endpoint_posted(struct endpoint *e)
{
	e->gathered = NULL;
	e->room = 0;
	e->pending += e->calls;
	e->calls = e->replies = 0;
}

/* The time of the next completion of the WRITEs known so far; UINT64_MAX: there is none. */
static inline uint64_t wire_next(const struct machine *m, struct nic *nic)
{
	const struct event *e = timeline_first(&nic->arrivals);

	if (!e)
		return UINT64_MAX;
	return (e->ns > nic->recv_free ? e->ns : nic->recv_free) + (uint64_t)m->recv_ns;
}

/* Moves the next WRITE to *e_p and returns true, if it has completed at @ns. */
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
