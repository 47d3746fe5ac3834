/* SPDX-License-Identifier: MIT */
/*
 * The paths of flux.h that every message takes. Include flux.h, not this; what is not
 * described there is private to the library.
 *
 * Between an ordered pair of nodes there are two rings, requests and responses, each with
 * one writer and one reader. A message is {head, payload}, a multiple of 8 bytes. Messages to
 * one ring are published in bursts of one to FLUX_BURST, which stand side by side. A ring is
 * an array of cells, whole cache lines each, and each burst has a cell of its own: who reads
 * one burst does not hold a line that the next one is written to. A cell begins with the head
 * of its first message, which has the number of the writer's pass round the ring, its lap,
 * and how many messages there are: a reader that expects this lap knows that the burst is
 * whole. No payload ever stands where a reader looks for a lap. Nobody ever writes what
 * another one writes. There is no head and no tail: a node has at most max_inflight calls
 * outstanding to a peer and there are more cells than that, a call has been copied out
 * before it is answered, and a response counts as outstanding until it is handled; so whoever
 * is about to write a cell knows that all that it held has been read, in whatever order the
 * answers came.
 *
 * A burst is collected in private memory and copied to the ring in one go, and the head of
 * the first is stored last, with release. The reader takes no line away from the writer in
 * the middle, and the lines of a burst travel at the same time: a core has so many stores
 * that wait for a line, and those of the work between two messages would count as well.
 * A burst is a quarter of what is in flight, so that one is made while others travel and are
 * read.
 */
#ifndef FLUX_INLINE_H
#define FLUX_INLINE_H

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FLUX_FEW 8 /* with fewer calls in flight each message travels alone */
#define FLUX_BURST 8 /* messages published together, and responses per poll */
#define FLUX_TURN 32 /* calls of one peer before the next one's turn */
#define FLUX_UNFENCED 64 /* bursts and polls, until sleeping peers are woken, ... */
#define FLUX_VAIN 8 /* or looks in vain after the last burst */
#define FLUX_STAGED 128 /* bytes in a message; longer ones are written in place, one by one */
#define FLUX_LONG 192 /* bytes in a burst whose lines are fetched when it arrives */
#define FLUX_NOBODY UINT64_MAX /* no node's index */
#define FLUX_WORDS (FLUX_MAX_NODES / 64)
#define FLUX_LINE __attribute__((aligned(64)))
#define FLUX_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FLUX_INLINE static inline __attribute__((always_inline))

/*
 * What precedes the payload. Only the id is not 0 after the first of a burst. With calls there
 * comes how many answers are to travel together: the burst may have been published before it
 * was full.
 */
struct flux_slot {
	uint64_t head; /* lap, 32 bits; count, 4; together, 4; id, 24 (FLUX_MAX_CAPACITY) */
};

#define FLUX_ID_BITS 24
#define FLUX_ID(head) ((uint32_t)(head) & ((1u << FLUX_ID_BITS) - 1))
#define FLUX_COUNT(head) ((uint32_t)(head) >> (FLUX_ID_BITS + 4))
#define FLUX_TOGETHER(head) ((uint32_t)(head) >> FLUX_ID_BITS & 15)
#define FLUX_HEAD(lap, count, together)                                                            \
	((uint64_t)(lap) << 32 | (count) << (FLUX_ID_BITS + 4) | (together) << FLUX_ID_BITS)

/* What the peers of a node read: each line has one use, and is written seldom. */
struct flux_shared {
	FLUX_LINE uint32_t left; /* set once */
	FLUX_LINE uint32_t state; /* running, yielding or asleep */
	FLUX_LINE uint64_t senders[FLUX_WORDS]; /* who has ever called it */
};

/* One side's place in a ring. Laps are compared for equality only; 1 follows on the last. */
struct flux_cursor {
	FLUX_LINE unsigned char *slot; /* the next message: writer: begins a cell */
	unsigned char *ready; /* reader: what stands before this has arrived */
	unsigned char *next; /* reader: where the cell after these begins */
	unsigned char *begin, *end; /* of the ring */
	uint64_t count; /* messages written, or arrived */
	uint32_t lap;
	uint32_t stride; /* bytes in a message */
	uint32_t cell; /* bytes in a cell */
	uint32_t most; /* messages in a cell */
};

/*
 * A node's calls to one peer; private to the node's thread. A store that every message makes
 * takes one of the places in which the stores to the rings wait, and a counter that a
 * response lowers and a call raises again is a chain of loads that wait for stores. So there
 * are few, and each is moved by one side: what is in flight is what the free ids lack.
 */
struct flux_out {
	struct flux_cursor resp, req;
	uint64_t *tokens; /* [id] */
	uint32_t *ids; /* free ones, a queue: [index & ids_mask] */
	uint32_t ids_head; /* where a call takes one */
	uint32_t ids_tail; /* where a response puts it */
	uint32_t ids_mask;
	uint32_t ids_max; /* when nothing is in flight; 0: never called, or has left */
	struct flux_out *next; /* in the circle of those that poll visits, or NULL */
	const struct flux_shared *peer; /* the own node's once that has left */
};

/* A peer's calls to a node; private to the node's thread. */
struct flux_in {
	struct flux_cursor req, resp;
	uint8_t *held; /* [id]: received and not answered yet */
	const struct flux_shared *peer;
	uint32_t from;
	uint32_t together; /* answers that its last burst of calls wants to travel together */
};

/*
 * Messages that a node makes and publishes together, all to one ring: calls, or answers. It
 * stays with this ring until something else is to be sent, or few calls are in flight.
 */
struct flux_burst {
	unsigned char *next; /* in the node's stage; at its start: none are collected */
	unsigned char *full; /* where next is when the burst is published */
	uint64_t call_to; /* whom calls are collected for, or FLUX_NOBODY */
	uint64_t reply_to; /* or whom answers are */
	uint32_t stride;
	uint32_t limit; /* messages that are to travel together */
	uint32_t lap; /* of the ring, when head was made */
	struct flux_cursor *to; /* NULL: no ring */
	uint64_t head; /* of the first of a full burst, without its id */
	const struct flux_shared *peer;
};

struct flux_node {
	FLUX_LINE struct flux_out *out; /* [nodes] */
	struct flux_in *in; /* [nodes] */
	uint32_t capacity; /* of a ring, as asked for or chosen: messages */
	uint32_t nodes;
	uint32_t payload_size;
	uint32_t reply_size;
	uint32_t max_inflight;
	uint32_t index; /* its own */
	uint32_t words; /* of 64 nodes */
	FLUX_LINE struct flux_in *rx; /* whose turn it is */
	struct flux_out *polled; /* the last that poll has visited, or NULL */
	uint32_t rx_budget; /* calls that rx may still give, beyond those that are ready */
	uint32_t unfenced; /* bursts, and polls after them, since the last flush */
	uint32_t vain; /* looks in vain since the last burst */
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
/* What flux_call() and flux_reply() need: 1: the message travels alone; 0: in a burst; -errno. */
int flux_call_begin(struct flux_node *node, uint32_t to);
int flux_reply_begin(struct flux_node *node, uint32_t from, uint32_t id);
void flux_burst_publish(struct flux_node *node); /* a full one */
void flux_burst_flush(struct flux_node *node); /* what there is */
void flux_burst_end(struct flux_node *node); /* that too; then it has no ring */
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

FLUX_INLINE unsigned char *flux_cell_after(const struct flux_cursor *c, unsigned char *cell)
{
	return cell + c->cell == c->end ? c->begin : cell + c->cell;
}

/* To the next cell. */
FLUX_INLINE void flux_cursor_step(struct flux_cursor *c, unsigned char *next)
{
	c->slot = c->ready = next;
	if (FLUX_UNLIKELY(next == c->begin) && !++c->lap)
		c->lap = 1;
}

/* The first head of the burst that the reader expects next, or 0 if it has not arrived. */
FLUX_INLINE uint64_t flux_cursor_look(const struct flux_cursor *c)
{
	const struct flux_slot *slot = (const struct flux_slot *)c->slot;
	/* Pairs with the release in flux_put() and burst_copy(). */
	uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE);

	return head >> 32 == c->lap ? head : 0;
}

FLUX_INLINE int flux_cursor_ready(const struct flux_cursor *c)
{
	return c->slot != c->ready || flux_cursor_look(c);
}

/*
 * The burst with this head has arrived. The next one may have as well, so its first line is
 * fetched; and all lines of a long one, which come together then. The lines of a short one
 * are touched at once anyway.
 */
FLUX_INLINE void flux_cursor_arrived(struct flux_cursor *c, uint64_t head)
{
	c->ready = c->slot + FLUX_COUNT(head) * c->stride;
	c->count += FLUX_COUNT(head);
	c->next = flux_cell_after(c, c->slot);
	assert(c->ready > c->slot && c->ready <= c->slot + c->cell);
	__builtin_prefetch(c->next);
	if (c->ready - c->slot >= FLUX_LONG)
		for (const unsigned char *line = c->slot + 64; line < c->ready; line += 64)
			__builtin_prefetch(line);
}

/* The next flush looks whether this peer sleeps. */
FLUX_INLINE void flux_dirty(struct flux_node *node, uint32_t peer)
{
	node->dirty[peer / 64] |= 1ull << (peer % 64);
}

/* One more burst that no flush has followed yet. */
FLUX_INLINE void flux_published(struct flux_node *node)
{
	node->unfenced++;
	node->vain = 0;
}

/* A message that travels alone is written in place. */
FLUX_INLINE void flux_put(struct flux_node *node, struct flux_cursor *c, uint32_t peer, uint32_t id,
	const void *payload, uint32_t len)
{
	struct flux_slot *slot = (struct flux_slot *)c->slot;
	uint64_t head = FLUX_HEAD(c->lap, 1u, 1u) | id;

	flux_cursor_step(c, flux_cell_after(c, c->slot));
	c->count++;
	flux_copy(slot + 1, payload, len);
	/* Release: pairs with the acquire in flux_cursor_look(). */
	__atomic_store_n(&slot->head, head, __ATOMIC_RELEASE);
	flux_dirty(node, peer);
	flux_published(node);
}

/*
 * The lines that the burst will be copied to, when its first message is made: earlier, the
 * reader would take the first of them back, as long as it waits for it.
 */
FLUX_INLINE void flux_burst_own(const struct flux_node *node)
{
	const struct flux_burst *b = &node->burst;

	for (ptrdiff_t i = 0; i < b->full - node->stage; i += 64) {
#ifdef __x86_64__
		/* The builtin asks for a shared line where the compiler may not use this. */
		__asm__ volatile("prefetchw %0" : : "m"(b->to->slot[i]));
#else
		__builtin_prefetch(b->to->slot + i, 1);
#endif
	}
}

/* One more message of the burst. */
FLUX_INLINE void flux_burst_add(struct flux_node *node, uint32_t id, const void *payload,
	uint32_t len)
{
	struct flux_burst *b = &node->burst;
	struct flux_slot *slot = (struct flux_slot *)b->next;

	if ((unsigned char *)slot == node->stage)
		flux_burst_own(node);
	b->next += b->stride;
	slot->head = id;
	flux_copy(slot + 1, payload, len);
	if (b->next == b->full)
		flux_burst_publish(node);
}

FLUX_INLINE void flux_publish(struct flux_node *node)
{
	if (node->burst.next != node->stage)
		flux_burst_flush(node);
}

/*
 * After a look for messages: a poll, a receive that has turned to another peer or found
 * nothing, a step of a wait. The fence of the flush waits until the lines of the last burst
 * have come, so it stands where that was some looks ago and there is nothing else to do.
 */
FLUX_INLINE void flux_looked(struct flux_node *node, int found)
{
	if (!node->unfenced)
		return;
	if (found ? ++node->unfenced >= FLUX_UNFENCED : ++node->vain >= FLUX_VAIN)
		flux_flush_published(node);
}

FLUX_INLINE uint32_t flux_inflight(const struct flux_out *o)
{
	return o->ids_max - (o->ids_tail - o->ids_head);
}

/* All ids are in flight, or there are none yet. */
FLUX_INLINE int flux_out_full(const struct flux_out *o)
{
	return o->ids_head == o->ids_tail;
}

FLUX_INLINE int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token)
{
	struct flux_out *o;
	int alone = 0;
	uint32_t id;

	if (FLUX_UNLIKELY(len > node->payload_size))
		return -EINVAL;
	if (to != node->burst.call_to || FLUX_UNLIKELY(flux_out_full(&node->out[to]))) {
		alone = flux_call_begin(node, to);
		if (alone < 0)
			return alone;
	}
	o = &node->out[to];
	id = o->ids[o->ids_head++ & o->ids_mask];
	o->tokens[id] = token;
	if (alone)
		flux_put(node, &o->req, to, id, payload, len);
	else
		flux_burst_add(node, id, payload, len);
	return 0;
}

/* Takes what has arrived, but at most max responses, and returns how many. */
FLUX_INLINE int flux_out_take(struct flux_out *o, flux_response_fn *fn, void *arg, int max)
{
	const unsigned char *ready = o->resp.ready;
	unsigned char *slot = o->resp.slot;
	uint32_t tail = o->ids_tail;
	int n = 0;

	do {
		const struct flux_slot *s = (const struct flux_slot *)slot;
		uint32_t id = FLUX_ID(s->head);
		uint64_t token = o->tokens[id];

		slot += o->resp.stride;
		o->ids[tail++ & o->ids_mask] = id;
		o->ids_tail = tail; /* fn may call */
		fn(arg, token, s + 1);
	} while (++n < max && slot != ready);
	o->resp.slot = slot;
	if (slot == ready)
		flux_cursor_step(&o->resp, o->resp.next);
	return n;
}

/* Has a response arrived? If not, and the peer has left, none will. */
FLUX_INLINE int flux_out_look(struct flux_out *o, int *left_p)
{
	uint64_t head = flux_cursor_look(&o->resp);

	if (!head) {
		/*
		 * Pairs with the release in flux_leave(): what the peer published before is
		 * visible now, so only what is not there is lost.
		 */
		*left_p = __atomic_load_n(&o->peer->left, __ATOMIC_ACQUIRE) != 0;
		if (!FLUX_UNLIKELY(*left_p))
			return 0;
		head = flux_cursor_look(&o->resp);
		if (!head)
			return 0;
	}
	flux_cursor_arrived(&o->resp, head);
	return 1;
}

/* Handles at most max responses of one peer, and ends all its calls if it has left. */
FLUX_INLINE int flux_out_poll(struct flux_node *node, struct flux_out *o, flux_response_fn *fn,
	void *arg, int max)
{
	int n = 0, left = 0;

	do {
		if (o->resp.slot == o->resp.ready && !flux_out_look(o, &left))
			return FLUX_UNLIKELY(left) ? n + flux_out_abort(node, o, fn, arg) : n;
		n += flux_out_take(o, fn, arg, max - n);
	} while (n < max);
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
			if (node->burst.to == &o->req)
				flux_burst_end(node);
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
	uint64_t to;
	int n = 0;

	flux_publish(node);
	if (node->polled)
		n = flux_poll_circle(node, fn, arg);
	to = node->burst.call_to;
	if (to != FLUX_NOBODY && flux_inflight(&node->out[to]) < FLUX_FEW)
		flux_burst_end(node);
	flux_publish(node);
	flux_looked(node, n);
	return n;
}

FLUX_INLINE int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p, uint64_t *flux_token_p,
	void *payload, uint32_t len)
{
	struct flux_in *in = node->rx;
	const struct flux_slot *slot;
	uint32_t id;

	if (FLUX_UNLIKELY(node->payload_size < len))
		return -EINVAL;
	if (in->req.slot == in->req.ready) {
		in = flux_in_next(node);
		if (!in)
			return 0;
	}
	slot = (const struct flux_slot *)in->req.slot;
	id = FLUX_ID(slot->head);
	flux_copy(payload, slot + 1, len);
	in->held[id] = 1;
	*from_p = in->from;
	*flux_token_p = (uint64_t)in->from << 32 | id;
	in->req.slot += in->req.stride;
	if (in->req.slot == in->req.ready)
		flux_cursor_step(&in->req, in->req.next);
	return 1;
}

FLUX_INLINE int flux_reply(struct flux_node *node, uint64_t flux_token, const void *payload,
	uint32_t len)
{
	uint32_t from = (uint32_t)(flux_token >> 32), id = (uint32_t)flux_token;
	struct flux_in *in;
	int alone = 0;

	if (FLUX_UNLIKELY(len > node->reply_size || id >= node->max_inflight))
		return -EINVAL;
	if (from != node->burst.reply_to) {
		alone = flux_reply_begin(node, from, id);
		if (alone < 0)
			return alone;
	}
	in = &node->in[from];
	if (FLUX_UNLIKELY(!in->held[id]))
		return -EINVAL;
	in->held[id] = 0;
	if (alone)
		flux_put(node, &in->resp, from, id, payload, len);
	else
		flux_burst_add(node, id, payload, len);
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
