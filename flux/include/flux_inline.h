/* SPDX-License-Identifier: MIT */
/*
 * The paths of flux.h that every message takes. Include flux.h, not this; what is not
 * described there is private to the library.
 *
 * Between an ordered pair of nodes there are two rings, requests and responses, each with
 * one writer and one reader. A slot is {head, payload}, a multiple of 8 bytes; the head
 * has the number of the writer's pass round the ring, so a reader that expects this number
 * knows that the slot is whole, and nobody ever writes what another one writes. There is
 * no head and no tail: a node has at most max_inflight < capacity calls outstanding to a
 * peer, a call has been copied out before it is answered, and a response counts as
 * outstanding until it is handled; so whoever is about to write a slot knows that its last
 * content has been read, in whatever order the answers came.
 *
 * Messages to one ring are published in bursts of up to FLUX_BURST: they are collected in
 * private memory, copied to the ring in one go, and the head of the first is stored last,
 * with release. The reader, which looks at that head, takes no line away from the writer
 * in the middle, and the lines of a burst travel at the same time: a core has so many stores
 * that wait for a line, and those of the work between two messages would count as well.
 * A burst is a quarter of what is in flight, so that the peer works meanwhile.
 */
#ifndef FLUX_INLINE_H
#define FLUX_INLINE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLUX_BURST 8    /* messages published together, and responses per poll */
#define FLUX_TURN 32    /* calls of one peer before the next one's turn */
#define FLUX_UNFENCED 16 /* bursts and polls, until sleeping peers are woken */
#define FLUX_STAGED 128 /* bytes in a slot; larger ones are written in place, one by one */
#define FLUX_NO_ID UINT32_MAX
#define FLUX_WORDS (FLUX_MAX_NODES / 64)
#define FLUX_LINE __attribute__((aligned(64)))
#define FLUX_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FLUX_INLINE static inline __attribute__((always_inline))

/*
 * What precedes the payload in a slot. The id has FLUX_ID_BITS (FLUX_MAX_CAPACITY); above
 * it stands how many messages were to be published together, in a request as many as are
 * best answered together. It is never 0, so no head that was written is 0.
 */
struct flux_slot {
	uint64_t head; /* lap, 32 bits; burst, 8; id, 24 */
};

#define FLUX_ID_BITS 24
#define FLUX_ID(head) ((uint32_t)(head) & ((1u << FLUX_ID_BITS) - 1))

/* What the peers of a node read: each line has one use, and is written seldom. */
struct flux_shared {
	FLUX_LINE uint32_t left;                /* set once */
	FLUX_LINE uint32_t state;               /* running, yielding or asleep */
	FLUX_LINE uint64_t senders[FLUX_WORDS]; /* who has ever called it */
};

/* One side's place in a ring. Laps are compared for equality only and may wrap. */
struct flux_cursor {
	unsigned char *slot, *end; /* of the ring */
	uint32_t lap;
	uint32_t stride; /* bytes in a slot */
};

/*
 * A node's calls to one peer; private to the node's thread. A store that every message makes
 * takes one of the places in which the stores to the rings wait, so there are few: what is
 * in flight is what the stack of free ids lacks.
 */
struct flux_out {
	FLUX_LINE struct flux_cursor resp;
	uint64_t *tokens;               /* [id] */
	uint32_t *ids;                  /* free ones, a stack */
	uint32_t n_ids;                 /* its height */
	uint32_t ids_max;               /* when nothing is in flight; 0: never called, or has left */
	const struct flux_shared *peer; /* the own node's once that has left */
	FLUX_LINE struct flux_cursor req;
	struct flux_out *next; /* in the circle of those that poll visits, or NULL */
};

/* A peer's calls to a node; private to the node's thread. */
struct flux_in {
	FLUX_LINE struct flux_cursor req;
	struct flux_cursor resp;
	uint8_t *held; /* [id]: 0, or received and not answered yet: the burst it asks for */
	const struct flux_shared *peer;
	uint32_t from;
};

/* Messages that a node has made and not published yet, all to one ring. */
struct flux_burst {
	struct flux_cursor *to; /* NULL: there are none */
	unsigned char *next;    /* in the node's stage */
	unsigned char *full;    /* where next is when the burst is published */
	uint64_t head;          /* of each of them, without the id */
	uint32_t peer;
};

struct flux_node {
	FLUX_LINE struct flux_out *out; /* [nodes] */
	struct flux_in *in;             /* [nodes] */
	uint32_t capacity; /* slots in a ring */
	uint32_t nodes;
	uint32_t payload_size;
	uint32_t reply_size;
	uint32_t max_inflight;
	uint32_t index;               /* its own */
	uint32_t words;               /* of 64 nodes */
	FLUX_LINE struct flux_in *rx; /* whose turn it is */
	struct flux_out *polled;      /* the last that poll has visited, or NULL */
	uint32_t rx_budget;           /* calls that rx may still give */
	uint32_t unfenced;            /* bursts, and polls after them, since the last flush */
	FLUX_LINE struct flux_burst burst;
	FLUX_LINE struct flux_shared *self;
	struct flux *flux;
	uint8_t *ended; /* [id]: room for flux_out_abort() */
	uint64_t dirty[FLUX_WORDS]; /* peers published to since the last flush */
	uint64_t yielded_ns;
	uint64_t aborted, flushes, wakes, sleeps, yields;
	uint32_t hungry; /* a peer was yielding since this node last did */
	uint32_t yield_looks;
	FLUX_LINE unsigned char stage[FLUX_BURST * FLUX_STAGED];
};

/* The parts that are not inline. */
int flux_out_open(struct flux_node *node, struct flux_out *o);
/* How many messages from now on travel together: 1, or the burst is begun. Or -EPIPE. */
int flux_call_begin(struct flux_node *node, struct flux_out *o);
int flux_reply_begin(struct flux_node *node, struct flux_in *in, uint32_t limit);
void flux_burst_publish(struct flux_node *node);
int flux_out_abort(struct flux_node *node, struct flux_out *o, flux_response_fn *fn, void *arg);
struct flux_in *flux_in_next(struct flux_node *node);
void flux_flush_published(struct flux_node *node);

/*
 * Scalar words on purpose: a message is often written word by word just before, and a wider
 * load would wait until these stores have left the core, behind all that wait for a line.
 */
FLUX_INLINE void flux_copy(void *to, const void *from, uint32_t len)
{
	uint32_t i = 0;

	if (!__builtin_constant_p(len) || len > 64) {
		memcpy(to, from, len);
		return;
	}
#pragma GCC unroll 8
	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)from + i, 8);
		__asm__("" : "+r"(word)); /* or the compiler makes wide loads of them */
		memcpy((char *)to + i, &word, 8);
	}
	memcpy((char *)to + i, (const char *)from + i, len - i);
}

FLUX_INLINE void flux_cursor_advance(
	const struct flux_node *node, struct flux_cursor *c, size_t bytes)
{
	c->slot += bytes;
	if (FLUX_UNLIKELY(c->slot == c->end)) {
		c->slot -= (size_t)node->capacity * c->stride;
		c->lap++;
	}
}

/* The head of the slot that the reader expects next, or 0 if it has not been written. */
FLUX_INLINE uint64_t flux_cursor_ready(const struct flux_cursor *c)
{
	const struct flux_slot *slot = (const struct flux_slot *)c->slot;
	/* Pairs with the release in flux_put() and burst_copy(): after a first head, all heads. */
	uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);

	return head >> 32 == c->lap ? head : 0;
}

FLUX_INLINE void flux_published(struct flux_node *node, uint32_t peer)
{
	node->dirty[peer / 64] |= 1ull << (peer % 64);
	node->unfenced++;
}

/* A message that travels alone is written in place. */
FLUX_INLINE void flux_put(struct flux_node *node, struct flux_cursor *c, uint32_t id,
	const void *payload, uint32_t len)
{
	struct flux_slot *slot = (struct flux_slot *)c->slot;
	uint64_t head = (uint64_t)c->lap << 32 | 1u << FLUX_ID_BITS | id;

	flux_cursor_advance(node, c, c->stride);
	flux_copy(slot + 1, payload, len);
	/* Release: pairs with the acquire in flux_cursor_ready(). */
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
}

/* One more message to the ring that the burst is for. */
FLUX_INLINE void flux_burst_add(
	struct flux_node *node, uint32_t id, const void *payload, uint32_t len)
{
	struct flux_burst *b = &node->burst;
	struct flux_slot *slot = (struct flux_slot *)b->next;

	b->next += b->to->stride;
	slot->head = b->head | id;
	flux_copy(slot + 1, payload, len);
	if (b->next == b->full)
		flux_burst_publish(node);
}

/* Together is what flux_call_begin() or flux_reply_begin() gave. */
FLUX_INLINE void flux_send(struct flux_node *node, struct flux_cursor *c, uint32_t peer,
	int together, uint32_t id, const void *payload, uint32_t len)
{
	if (together > 1) {
		flux_burst_add(node, id, payload, len);
		return;
	}
	flux_put(node, c, id, payload, len);
	flux_published(node, peer);
}

FLUX_INLINE void flux_publish(struct flux_node *node)
{
	if (node->burst.to)
		flux_burst_publish(node);
}

/*
 * After a poll, or a receive that has turned to another peer or found nothing. The fence of
 * the flush waits until the lines of the last burst have come, so there is nothing else to do.
 */
FLUX_INLINE void flux_looked(struct flux_node *node, int found)
{
	if (node->unfenced && (!found || ++node->unfenced >= FLUX_UNFENCED))
		flux_flush_published(node);
}

FLUX_INLINE uint32_t flux_inflight(const struct flux_out *o)
{
	return o->ids_max - o->n_ids;
}

static inline int flux_call(
	struct flux_node *node, uint32_t to, const void *payload, uint32_t len, uint64_t token)
{
	struct flux_out *o;
	int together = FLUX_BURST;
	uint32_t id;

	if (FLUX_UNLIKELY(to >= node->nodes || len > node->payload_size))
		return -EINVAL;
	o = &node->out[to];
	if (FLUX_UNLIKELY(o->n_ids == 0)) {
		int r = flux_out_open(node, o);

		if (r < 0)
			return r;
	}
	if (node->burst.to != &o->req) {
		together = flux_call_begin(node, o);
		if (together < 0)
			return together;
	}
	id = o->ids[--o->n_ids];
	o->tokens[id] = token;
	flux_send(node, &o->req, to, together, id, payload, len);
	return 0;
}

/* Takes the response with this head and hands it on. */
FLUX_INLINE void flux_out_take(struct flux_node *node, struct flux_out *o, uint64_t head,
	flux_response_fn *fn, void *arg)
{
	const struct flux_slot *slot = (const struct flux_slot *)o->resp.slot;
	uint64_t token = o->tokens[FLUX_ID(head)];

	o->ids[o->n_ids++] = FLUX_ID(head);
	flux_cursor_advance(node, &o->resp, o->resp.stride);
	/* The next line of the burst, while fn makes of this response what it likes. */
	__builtin_prefetch(o->resp.slot + 64);
	fn(arg, token, slot + 1);
}

/* Handles at most max responses of one peer, and ends all its calls if it has left. */
FLUX_INLINE int flux_out_poll(
	struct flux_node *node, struct flux_out *o, flux_response_fn *fn, void *arg, int max)
{
	uint64_t head;
	int n = 0;

	do {
		head = flux_cursor_ready(&o->resp);
		if (!head) {
			/*
			 * Pairs with the release in flux_leave(): what the peer published
			 * before is visible now, so only what is not there is lost.
			 */
			if (!FLUX_UNLIKELY(__atomic_load_n(&o->peer->left, __ATOMIC_ACQUIRE)))
				return n;
			head = flux_cursor_ready(&o->resp);
			if (!head)
				return n + flux_out_abort(node, o, fn, arg);
		}
		flux_out_take(node, o, head, fn, arg);
	} while (++n < max);
	return n;
}

/*
 * The peers that owe responses stand in a circle; one that owes none drops out when it is
 * visited. What fn puts into the circle comes after last, so it has its turn next time.
 */
FLUX_INLINE int flux_poll_circle(struct flux_node *node, flux_response_fn *fn, void *arg)
{
	struct flux_out *last = node->polled, *prev = last, *o;
	int n = 0;

	do {
		o = prev->next;
		if (flux_inflight(o)) {
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

FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg)
{
	int n = 0;

	flux_publish(node);
	if (node->polled)
		n = flux_poll_circle(node, fn, arg);
	flux_looked(node, n);
	return n;
}

static inline int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p,
	uint64_t *flux_token_p, void *payload, uint32_t len)
{
	struct flux_in *in = node->rx;
	uint64_t head = flux_cursor_ready(&in->req);

	if (FLUX_UNLIKELY(len > node->payload_size))
		return -EINVAL;
	if (FLUX_UNLIKELY(!head || !node->rx_budget)) {
		in = flux_in_next(node);
		flux_looked(node, in != NULL);
		if (!in)
			return 0;
		head = ((const struct flux_slot *)in->req.slot)->head;
	}
	node->rx_budget--;
	memcpy(payload, in->req.slot + sizeof(struct flux_slot), len);
	in->held[FLUX_ID(head)] = (uint8_t)(head >> FLUX_ID_BITS);
	*from_p = in->from;
	*flux_token_p = (uint64_t)in->from << 32 | FLUX_ID(head);
	flux_cursor_advance(node, &in->req, in->req.stride);
	return 1;
}

static inline int flux_reply(
	struct flux_node *node, uint64_t flux_token, const void *payload, uint32_t len)
{
	uint32_t from = (uint32_t)(flux_token >> 32), id = (uint32_t)flux_token, limit;
	struct flux_in *in;
	int together = FLUX_BURST;

	if (FLUX_UNLIKELY(
		    from >= node->nodes || id >= node->max_inflight || len > node->reply_size))
		return -EINVAL;
	in = &node->in[from];
	limit = in->held[id];
	if (FLUX_UNLIKELY(!limit))
		return -EINVAL;
	in->held[id] = 0;
	if (node->burst.to != &in->resp) {
		together = flux_reply_begin(node, in, limit);
		if (together < 0)
			return together;
	}
	flux_send(node, &in->resp, from, together, id, payload, len);
	return 0;
}

static inline uint32_t flux_pending(const struct flux_node *node)
{
	const struct flux_out *o = node->polled;
	uint32_t sum = 0;

	if (o)
		do {
			sum += flux_inflight(o);
			o = o->next;
		} while (o != node->polled);
	return sum;
}

static inline void flux_flush(struct flux_node *node)
{
	flux_publish(node);
	if (node->unfenced)
		flux_flush_published(node);
}

#endif
