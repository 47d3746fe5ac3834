/* SPDX-License-Identifier: MIT */
/*
 * The paths of flux.h that every message takes. Include flux.h, not this; what is not
 * described there is private to the library.
 *
 * Between an ordered pair of nodes there are two rings, requests and responses, each with
 * one writer and one reader. A slot is {lap, id, payload}, a multiple of 64 bytes; the
 * writer stores the number of its pass round the ring last, so a reader that expects this
 * number knows that the slot is whole, and nobody ever writes what another one writes.
 * There is no head and no tail: a node has at most max_inflight < capacity calls
 * outstanding to a peer, a call has been copied out before it is answered, and a response
 * counts as outstanding until it is handled; so whoever is about to write a slot knows
 * that its last content has been read, in whatever order the answers came.
 */
#ifndef FLUX_INLINE_H
#define FLUX_INLINE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLUX_BURST 8 /* responses per poll */
#define FLUX_TURN 32 /* calls of one peer before the next one's turn */
#define FLUX_NO_ID UINT32_MAX
#define FLUX_WORDS (FLUX_MAX_NODES / 64)
#define FLUX_LINE __attribute__((aligned(64)))
#define FLUX_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FLUX_INLINE static inline __attribute__((always_inline))

/* What precedes the payload in a slot. */
struct flux_slot {
	uint32_t lap;
	uint32_t id;
};

/* What the peers of a node read: each line has one use, and is written seldom. */
struct flux_shared {
	FLUX_LINE uint32_t left;                /* set once */
	FLUX_LINE uint32_t state;               /* running, yielding or asleep */
	FLUX_LINE uint64_t senders[FLUX_WORDS]; /* who has ever called it */
};

/* One side's place in a ring. Laps are compared for equality only and may wrap. */
struct flux_cursor {
	unsigned char *slot;
	uint32_t room; /* slots up to the end of the ring */
	uint32_t lap;
};

/* A call that waits for its response, or a link of the free list. */
struct flux_entry {
	uint64_t token;
	uint32_t next;
	uint32_t ended; /* it was free when the peer left */
};

/* A node's calls to one peer; private to the node's thread. */
struct flux_out {
	FLUX_LINE struct flux_cursor req;
	struct flux_cursor resp;
	struct flux_entry *entries;
	const struct flux_shared *peer; /* the own node's once that has left */
	struct flux_out *next;          /* in the circle of those that poll visits, or NULL */
	uint32_t free;                  /* first free entry, or FLUX_NO_ID */
	uint32_t inflight;
};

/* A peer's calls to a node; private to the node's thread. */
struct flux_in {
	FLUX_LINE struct flux_cursor req;
	struct flux_cursor resp;
	uint8_t *held; /* [id]: received and not answered yet */
	const struct flux_shared *peer;
	uint32_t from;
};

struct flux_node {
	FLUX_LINE struct flux_out *out; /* [nodes] */
	struct flux_in *in;             /* [nodes] */
	size_t stride;                  /* bytes in a slot */
	size_t ring;                    /* bytes in a ring */
	uint32_t capacity;              /* slots in a ring */
	uint32_t nodes;
	uint32_t payload_size;
	uint32_t max_inflight;
	uint32_t index;               /* its own */
	uint32_t words;               /* of 64 nodes */
	FLUX_LINE struct flux_in *rx; /* whose turn it is */
	struct flux_out *polled;      /* the last that poll has visited, or NULL */
	uint32_t rx_budget;           /* calls that rx may still give */
	uint32_t burst_to;            /* the peer published to last, FLUX_NO_ID if all is flushed */
	uint64_t dirty[FLUX_WORDS];   /* peers published to since the last flush */
	FLUX_LINE struct flux_shared *self;
	struct flux *flux;
	uint64_t yielded_ns;
	uint64_t aborted, flushes, wakes, sleeps, yields;
	uint32_t hungry; /* a peer was yielding since this node last did */
	uint32_t looks;
};

/* The parts that are not inline. */
int flux_out_open(struct flux_node *node, struct flux_out *o);
void flux_out_link(struct flux_node *node, struct flux_out *o);
int flux_out_abort(struct flux_node *node, struct flux_out *o, flux_response_fn *fn, void *arg);
struct flux_in *flux_in_next(struct flux_node *node);
void flux_flush_published(struct flux_node *node);

FLUX_INLINE void flux_cursor_step(const struct flux_node *node, struct flux_cursor *c)
{
	c->slot += node->stride;
	if (FLUX_UNLIKELY(--c->room == 0)) {
		c->slot -= node->ring;
		c->room = node->capacity;
		c->lap++;
	}
}

/* The slot that the reader expects next, or NULL if it has not been written. */
FLUX_INLINE const struct flux_slot *flux_cursor_ready(const struct flux_cursor *c)
{
	const struct flux_slot *slot = (const struct flux_slot *)c->slot;

	/* Pairs with the release in flux_cursor_publish(): lap, then id and payload. */
	return __atomic_load_n(&slot->lap, __ATOMIC_ACQUIRE) == c->lap ? slot : NULL;
}

FLUX_INLINE void flux_cursor_publish(const struct flux_node *node, struct flux_cursor *c,
	uint32_t id, const void *payload, uint32_t len)
{
	struct flux_slot *slot = (struct flux_slot *)c->slot;

	slot->id = id;
	memcpy(slot + 1, payload, len);
	/* Pairs with the acquire in flux_cursor_ready(). */
	__atomic_store_n(&slot->lap, c->lap, __ATOMIC_RELEASE);
	flux_cursor_step(node, c);
}

FLUX_INLINE void flux_published(struct flux_node *node, uint32_t to)
{
	if (FLUX_UNLIKELY(node->burst_to != to)) {
		node->burst_to = to;
		node->dirty[to / 64] |= 1ull << (to % 64);
	}
}

static inline int flux_call(
	struct flux_node *node, uint32_t to, const void *payload, uint32_t len, uint64_t token)
{
	struct flux_out *o;
	uint32_t id;
	int r;

	if (FLUX_UNLIKELY(to >= node->nodes || len > node->payload_size))
		return -EINVAL;
	o = &node->out[to];
	/* Pairs with the store in flux_leave(); a call that misses it is ended by flux_poll(). */
	if (FLUX_UNLIKELY(__atomic_load_n(&o->peer->left, __ATOMIC_RELAXED)))
		return -EPIPE;
	if (FLUX_UNLIKELY(o->free == FLUX_NO_ID)) {
		r = flux_out_open(node, o);
		if (r < 0)
			return r;
	}
	if (FLUX_UNLIKELY(!o->next))
		flux_out_link(node, o);
	id = o->free;
	o->free = o->entries[id].next;
	o->entries[id].token = token;
	o->inflight++;
	flux_cursor_publish(node, &o->req, id, payload, len);
	flux_published(node, to);
	return 0;
}

/* Takes the response in slot and hands it on. */
FLUX_INLINE void flux_out_take(struct flux_node *node, struct flux_out *o,
	const struct flux_slot *slot, flux_response_fn *fn, void *arg)
{
	struct flux_entry *e = &o->entries[slot->id];

	e->next = o->free;
	o->free = slot->id;
	o->inflight--;
	flux_cursor_step(node, &o->resp);
	fn(arg, e->token, slot + 1);
}

/* Handles at most max responses of one peer, and ends all its calls if it has left. */
FLUX_INLINE int flux_out_poll(
	struct flux_node *node, struct flux_out *o, flux_response_fn *fn, void *arg, int max)
{
	const struct flux_slot *slot;
	int n = 0;

	do {
		slot = flux_cursor_ready(&o->resp);
		if (!slot) {
			/*
			 * Pairs with the release in flux_leave(): what the peer published
			 * before is visible now, so only what is not there is lost.
			 */
			if (!FLUX_UNLIKELY(__atomic_load_n(&o->peer->left, __ATOMIC_ACQUIRE)))
				return n;
			slot = flux_cursor_ready(&o->resp);
			if (!slot)
				return n + flux_out_abort(node, o, fn, arg);
		}
		flux_out_take(node, o, slot, fn, arg);
	} while (++n < max);
	return n;
}

/*
 * The peers that owe responses stand in a circle; one that owes none drops out when it is
 * visited. What fn puts into the circle comes after last, so it has its turn next time.
 */
FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg)
{
	struct flux_out *last = node->polled, *prev = last, *o;
	int n = 0;

	flux_flush(node);
	if (!last)
		return 0;
	do {
		o = prev->next;
		if (o->inflight) {
			n += flux_out_poll(node, o, fn, arg, FLUX_BURST - n);
			prev = o;
		} else {
			prev->next = o->next;
			o->next = NULL;
			prev = o == prev ? NULL : prev;
		}
	} while (o != last && n < FLUX_BURST);
	node->polled = prev;
	return n;
}

static inline int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p,
	uint64_t *flux_token_p, void *payload, uint32_t len)
{
	struct flux_in *in = node->rx;
	const struct flux_slot *slot = flux_cursor_ready(&in->req);

	if (FLUX_UNLIKELY(len > node->payload_size))
		return -EINVAL;
	if (FLUX_UNLIKELY(!slot || !node->rx_budget)) {
		in = flux_in_next(node);
		if (!in)
			return 0;
		slot = (const struct flux_slot *)in->req.slot;
	}
	node->rx_budget--;
	memcpy(payload, slot + 1, len);
	in->held[slot->id] = 1;
	*from_p = in->from;
	*flux_token_p = (uint64_t)in->from << 32 | slot->id;
	flux_cursor_step(node, &in->req);
	return 1;
}

static inline int flux_reply(
	struct flux_node *node, uint64_t flux_token, const void *payload, uint32_t len)
{
	uint32_t from = (uint32_t)(flux_token >> 32), id = (uint32_t)flux_token;
	struct flux_in *in;

	if (FLUX_UNLIKELY(
		    from >= node->nodes || id >= node->max_inflight || len > node->payload_size))
		return -EINVAL;
	in = &node->in[from];
	if (FLUX_UNLIKELY(!in->held[id]))
		return -EINVAL;
	in->held[id] = 0;
	/* Pairs with the store in flux_leave(); nobody reads a response that misses it. */
	if (FLUX_UNLIKELY(__atomic_load_n(&in->peer->left, __ATOMIC_RELAXED)))
		return -EPIPE;
	flux_cursor_publish(node, &in->resp, id, payload, len);
	flux_published(node, from);
	return 0;
}

static inline uint32_t flux_pending(const struct flux_node *node)
{
	const struct flux_out *o = node->polled;
	uint32_t sum = 0;

	if (o)
		do {
			sum += o->inflight;
			o = o->next;
		} while (o != node->polled);
	return sum;
}

static inline void flux_flush(struct flux_node *node)
{
	if (node->burst_to != FLUX_NO_ID)
		flux_flush_published(node);
}

#endif
