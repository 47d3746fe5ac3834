/* SPDX-License-Identifier: MIT */
/*
 * The functions of flux.h through which every message passes. Include flux.h instead of this file.
 * Names that flux.h does not describe are private to the library.
 *
 * Between an ordered pair of nodes there are two rings, requests and responses, each with
 * one writer and one reader. cellring.h describes a ring, why its reader never sees a wrong
 * message, and a condition on space. That condition holds here: a node has at most max_inflight
 * calls outstanding to a peer, and a ring has more cells than that; a call must not be read any
 * more once it is answered; a call is outstanding until its response is passed to the response
 * function, which reads one response at a time, and a post until the peer's count shows that the
 * post was read. So when a writer is about to write a cell, the former contents of the cell have
 * been read, regardless of the order of the answers.
 *
 * A burst has a quarter of the messages in flight, so that one burst is filled while others are
 * in transit or are being read. Calls that are made in succession, without a poll in between, are
 * published together, up to eight, because the node reads no answer before its next poll.
 *
 * A node that makes many calls between two polls, and several to each peer, collects up to eight
 * calls to a peer even if few are in flight: the next poll publishes them.
 *
 * A node collects for each peer separately, so it may call or answer peers in any order.
 * flux_priv_publish() publishes all collected messages at the times that flux.h lists. The limit of
 * 512 messages follows from FLUX_GATHER: all is published after so many events. An event is a burst
 * that is opened or becomes full, a message that is published alone, or the end of a peer's turn that
 * publishes answers. Each publishes at most eight messages, so at most 8 * FLUX_GATHER messages
 * belong to these events, and at most 7 * FLUX_OPEN are in bursts that have stayed open: 480 in all.
 */
#ifndef FLUX_INLINE_H
#define FLUX_INLINE_H

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cellring.h>

#define FLUX_POLL_MAX 8 /* responses per poll if one peer owes some */
#define FLUX_POLL_EACH 32 /* responses of each peer per poll if several owe some */
#define FLUX_TURN 32 /* calls of one peer before the turn of the next one */
#define FLUX_UNFENCED 64 /* a flush is due after this value of flux_node.unfenced, ... */
#define FLUX_VAIN 8 /* ... or after this many polls that find nothing after the last burst */
#define FLUX_OPEN 32 /* bursts that a node has open at the same time */
#define FLUX_KEPT 4 /* if more bursts are open, polls close them */
#define FLUX_GATHER 32 /* after this many events all messages are published */
#define FLUX_ROW 16 /* after so many calls between two polls, calls are always collected, ... */
#define FLUX_ROW_EACH 2 /* ... if these are on average at least this many per called peer */
#define FLUX_NOBODY UINT64_MAX /* not the index of any node */
#define FLUX_ONE 0x11u /* count and `together` of a message that is published alone */
#define FLUX_ONE_WAY CELLRING_ID_MASK /* the id of a post in the ring; no call has it */
#define FLUX_WORDS (FLUX_MAX_NODES / 64)
#define FLUX_LINE __attribute__((aligned(64)))
#define FLUX_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FLUX_PRIV_INLINE static inline __attribute__((always_inline))

/* The part of a node that its peers read or write. Each cache line has one use and is rarely written. */
struct flux_shared {
	FLUX_LINE uint32_t left; /* not 0: the node has left */
	FLUX_LINE uint32_t state; /* running, yielding, asleep or armed */
	FLUX_LINE uint64_t senders[FLUX_WORDS]; /* bitmap of the nodes that have called this node */
};

/* The position of the writer in a ring. */
struct flux_cursor {
	FLUX_LINE struct cellring_cursor at;
	uint64_t count; /* messages written */
};

/*
 * A node's calls to one peer; private to the node's thread. There are few counters, because every
 * store per message uses an entry of the store buffer, in which stores to the rings wait. Each
 * counter is updated either by calls or by responses; otherwise each load of the counter would wait
 * for the previous store. The number of calls in flight is computed from the number of free ids.
 *
 * The first three cache lines have most of the fields that calls and polls access.
 */
struct flux_out {
	FLUX_LINE struct cellring_cursor resp;
	struct flux_out *next; /* in the circle of peers that poll visits, or NULL */
	struct flux_cursor req;
	uint64_t *tokens; /* [id] */
	uint32_t *ids; /* queue of free ids: [index & ids_mask] */
	uint32_t ids_head; /* index at which a call takes an id */
	uint32_t ids_tail; /* index at which a response puts its id */
	uint32_t ids_mask;
	uint32_t ids_max; /* number of ids for calls: 0 at first, and when the peer has left */
	uint32_t window; /* calls in flight at the last poll, except polls without new calls */
	uint32_t polled_head; /* value of ids_head at the poll that set `window` */
	uint32_t returned_head; /* value of ids_head from which in_a_row is counted */
	uint32_t in_a_row; /* calls made in succession before the poll that set `window` */
	uint32_t alone_end; /* calls are published alone while ids_head is before this */
	/* A post occupies an id, so posts and calls together are at most max_inflight. */
	uint32_t posts_open; /* posts that are not known to be consumed */
	struct flux_burst *burst; /* the open burst of calls, or NULL */
	const struct flux_shared *peer; /* the peer's; after this node has left, this node's */
	const uint32_t *consumed; /* posts that the peer has consumed, modulo 2^32 */
	uint64_t responses; /* number of arrived responses */
	uint64_t posts; /* number of posts made */
	uint32_t post_first, post_last; /* ids of open posts; tokens[id]: id of the next one */
};

/* A peer's calls to a node; private to the node's thread. */
struct flux_in {
	FLUX_LINE struct cellring_cursor req;
	struct flux_in *next; /* in the circle of peers that have called the node, or NULL */
	struct flux_cursor resp;
	struct flux_burst *burst; /* the open burst of answers, or NULL */
	uint8_t *held; /* [id]: received and not answered yet */
	uint32_t from;
	uint32_t together; /* answers to publish together, as the peer's last burst requests */
	uint64_t requests; /* number of arrived requests */
	const struct flux_shared *peer;
	uint32_t *consumed; /* the published count of consumed posts of this peer */
	uint64_t posts; /* consumed posts of this peer, including those not in *consumed yet */
};

/*
 * The messages that a node collects for one ring and publishes together.
 *
 *	closed		ring.to is NULL
 *	calls		call_to is the peer, whose flux_out.burst points here; collects calls
 *	answers		reply_to is the peer, whose flux_in.burst points here; collects answers
 *
 * flux_priv_call_begin() and flux_priv_reply_begin() open a burst; flux_priv_burst_end() publishes
 * its messages and closes it. flux_priv_burst_publish() and flux_priv_burst_flush() publish the
 * messages and leave the burst open. If the burst's size or the ring's lap has changed, they open
 * the burst again. They close it if the peer has left or if messages must be published one by one.
 * While more than FLUX_KEPT bursts are open, flux_priv_burst_flush() closes the burst, empty or
 * not, because every poll checks all open bursts.
 */
struct flux_burst {
	uint64_t call_to; /* the peer whose calls are collected, or FLUX_NOBODY */
	uint64_t reply_to; /* the peer whose answers are collected, or FLUX_NOBODY */
	unsigned char *polled; /* ring.next at the last poll that left answers in the burst */
	uint32_t at; /* index in flux_node.open */
	struct cellring_burst ring;
};

struct flux_node {
	FLUX_LINE struct flux_out *out; /* [nodes] */
	struct flux_in *in; /* [nodes] */
	uint32_t capacity; /* messages in a ring, from the attributes or the default */
	uint32_t nodes;
	uint32_t payload_size;
	uint32_t reply_size;
	uint32_t max_inflight;
	uint32_t index; /* this node's own index */
	uint32_t words; /* words of 64 bits in a bitmap of the nodes */
	const uint32_t *departures; /* number of nodes of the network that have left */
	FLUX_LINE struct flux_in *rx; /* the peer whose turn it is */
	struct flux_out *polled; /* the peer that the last poll visited last, or NULL */
	uint32_t rx_budget; /* further calls that may be taken from rx in this turn */
	uint32_t n_open;
	/*
	 * 0 if nothing was published since the last flush. Otherwise the number of publications
	 * since then (of a burst, or of a count of posts), plus the number of calls of
	 * flux_priv_looked() with a @found that is not 0.
	 */
	uint32_t unfenced;
	uint32_t vain; /* polls that found nothing since the last burst */
	uint64_t burst_more; /* messages of the published bursts, without the first of each burst */
	uint32_t gathered; /* events since everything collected was published; see FLUX_GATHER */
	uint32_t gathers; /* not 0: collects for all peers, see flux_priv_row() */
	struct flux_shared *self;
	/*
	 * [peer]: 1 if this peer got messages since the last flush. Not a bitmap, because a store
	 * is faster than setting a bit.
	 */
	FLUX_LINE uint8_t unfenced_peers[FLUX_MAX_NODES];
	uint64_t senders[FLUX_WORDS]; /* bitmap of the peers in the circle of rx */
	struct flux *flux;
	uint8_t *ended; /* [id]: scratch memory of flux_priv_out_abort() */
	uint64_t yielded_ns;
	uint64_t aborted, flushes, wakes, sleeps, yields;
	uint32_t hungry; /* not 0: a peer was found yielding since this node last yielded */
	uint32_t yield_looks;
	uint32_t left_seen; /* value of *departures at the last senders_drop() */
	uint64_t room_asked[FLUX_WORDS]; /* bitmap: a wait ends when these peers consume posts */
	struct flux_burst *open[FLUX_OPEN]; /* the open bursts, then the closed ones */
};

/* The parts that are not inline. */
/*
 * The slow parts of flux_call() and flux_reply(). They return 1 if the message must be published
 * alone, 0 if it belongs to the peer's open burst, or -errno.
 */
int flux_priv_call_begin(struct flux_node *node, struct flux_out *o);
int flux_priv_reply_begin(struct flux_node *node, struct flux_in *in);
/* Publish a full burst (the first function), or one that is not full and may be empty. */
void flux_priv_burst_publish(struct flux_node *node, struct flux_burst *b);
void flux_priv_burst_flush(struct flux_node *node, struct flux_burst *b);
void flux_priv_burst_end(struct flux_node *node, struct flux_burst *b);
void flux_priv_out_few(struct flux_node *node, struct flux_out *o);
int flux_priv_out_abort(struct flux_node *node, struct flux_out *o, flux_response_fn *fn,
	void *arg);
/*
 * Finds the next calls. Must be called when all accepted calls of the peer whose turn it is have
 * been taken. @own is the head of the next burst of that peer, or 0 if none has arrived.
 */
struct flux_in *flux_priv_in_next(struct flux_node *node, uint64_t own);
/* Must be called for each post that was received, when its payload has been read. */
void flux_priv_consumed(struct flux_node *node, struct flux_in *in);
void flux_priv_flush_published(struct flux_node *node);

/*
 * Accepts the burst with this head, which has arrived, and returns how many messages it has. If the
 * count is larger than any that a peer writes, memory has been overwritten.
 */
FLUX_PRIV_INLINE uint32_t flux_priv_arrived(struct cellring_cursor *c, uint64_t head)
{
	uint32_t count = cellring_arrive(c, head);

	if (FLUX_UNLIKELY(!count))
		__builtin_trap();
	return count;
}

/*
 * Returns true if no node of the network has left. Acquire: pairs with the release in flux_leave().
 */
FLUX_PRIV_INLINE int flux_priv_all_here(const struct flux_node *node)
{
	return !__atomic_load_n(node->departures, __ATOMIC_ACQUIRE);
}

/* Makes the next flush check whether this peer sleeps. */
FLUX_PRIV_INLINE void flux_priv_mark_unfenced(struct flux_node *node, uint32_t peer)
{
	node->unfenced_peers[peer] = 1;
}

/* Counts a burst that was published after the last flush. */
FLUX_PRIV_INLINE void flux_priv_published(struct flux_node *node)
{
	node->unfenced++;
	node->vain = 0;
}

/* Publishes a single message, which is written directly into the ring. */
FLUX_PRIV_INLINE void flux_priv_put(struct flux_node *node, struct flux_cursor *c, uint32_t peer,
	uint32_t id, const void *payload, uint32_t len)
{
	c->count++;
	cellring_put(&c->at, id, payload, len);
	flux_priv_mark_unfenced(node, peer);
	flux_priv_published(node);
}

/* Adds a message to the burst, and publishes the burst when it is full. */
FLUX_PRIV_INLINE void flux_priv_burst_add(struct flux_node *node, struct flux_burst *b, uint32_t id,
	const void *payload, uint32_t len)
{
	if (cellring_burst_add(&b->ring, id, payload, len))
		flux_priv_burst_publish(node, b);
}

/* Returns true if a poll must publish or close this open burst. */
FLUX_PRIV_INLINE int flux_priv_burst_due(const struct flux_node *node, const struct flux_burst *b)
{
	return b->ring.next != b->ring.stage || node->n_open > FLUX_KEPT;
}

/*
 * Publishes everything that has been collected, except the burst @stays. The loop begins with the
 * last open burst, because closing a burst moves the last open one to its place.
 *
 * If @stays has the greatest size, a node that polls after each answer polls several times before
 * that burst is full. Checking another burst in each of these polls takes longer than opening that
 * burst again, so all other bursts are closed.
 */
FLUX_PRIV_INLINE void flux_priv_publish_but(struct flux_node *node, const struct flux_burst *stays)
{
	const int ends = stays && stays->ring.limit == CELLRING_BURST;

	for (uint32_t i = node->n_open; i-- > 0;) {
		struct flux_burst *b = node->open[i];

		if (b == stays)
			continue;
		if (ends)
			flux_priv_burst_end(node, b);
		else if (flux_priv_burst_due(node, b))
			flux_priv_burst_flush(node, b);
	}
}

FLUX_PRIV_INLINE void flux_priv_publish(struct flux_node *node)
{
	flux_priv_publish_but(node, NULL);
	node->gathered = 0;
}

/*
 * Must be called after each check for messages: a poll, a receive that has turned to another peer
 * or found nothing, a step of a wait. A flush executes a fence, which waits until the core has got
 * the cache lines of the last burst. So the flush comes only some empty polls after the burst.
 */
FLUX_PRIV_INLINE void flux_priv_looked(struct flux_node *node, int found)
{
	if (!node->unfenced)
		return;
	if (found ? ++node->unfenced >= FLUX_UNFENCED : ++node->vain >= FLUX_VAIN)
		flux_priv_flush_published(node);
}

FLUX_PRIV_INLINE uint32_t flux_priv_inflight(const struct flux_out *o)
{
	return o->ids_max - (o->ids_tail - o->ids_head);
}

/* Returns true if no id is free: all are in flight, or there are none yet. */
FLUX_PRIV_INLINE int flux_priv_out_full(const struct flux_out *o)
{
	return o->ids_head == o->ids_tail;
}

/*
 * Returns true if a message to a peer without an open burst may be published alone at once: nothing
 * is collected (so the message need not be counted for FLUX_GATHER), the node does not collect
 * calls for all peers, and no node has left.
 */
FLUX_PRIV_INLINE int flux_priv_alone(const struct flux_node *node)
{
	return !(node->n_open | node->gathers) && flux_priv_all_here(node);
}

/* Inserts a peer into the circular list that flux_poll() visits, as the next one. */
FLUX_PRIV_INLINE void flux_priv_out_link(struct flux_node *node, struct flux_out *o)
{
	if (!node->polled)
		node->polled = o->next = o;
	o->next = node->polled->next;
	node->polled->next = o;
}

/*
 * Lets the next calls be published alone, until CELLRING_FEW - 1 may be in flight; then
 * flux_priv_call_begin() decides again. Responses in between only reduce the number in flight.
 */
FLUX_PRIV_INLINE void flux_priv_out_alone(struct flux_out *o)
{
	uint32_t others = flux_priv_inflight(o) + o->posts_open;

	o->alone_end = o->ids_head + (others < CELLRING_FEW ? CELLRING_FEW - 1 - others : 0);
}

/*
 * Decides like flux_priv_call_begin(), but without a function call if the last call was published
 * alone.
 */
FLUX_PRIV_INLINE int flux_priv_call_starts(struct flux_node *node, struct flux_out *o)
{
	if (flux_priv_out_full(o) || (int32_t)(o->alone_end - o->ids_head) <= 0 ||
		!flux_priv_alone(node))
		return flux_priv_call_begin(node, o);
	if (!o->next)
		flux_priv_out_link(node, o);
	CELLRING_PROBE4(flux, publish, node->index, (uint64_t)(o - node->out), FLUX_NOBODY, 1);
	return 1;
}

/*
 * Decides like flux_priv_reply_begin(), but without a function call if answers are not collected.
 */
FLUX_PRIV_INLINE int flux_priv_reply_starts(struct flux_node *node, struct flux_in *in)
{
	if (in->together > 1 || !flux_priv_alone(node))
		return flux_priv_reply_begin(node, in);
	CELLRING_PROBE4(flux, publish, node->index, FLUX_NOBODY, in->from, 1);
	return 1;
}

/* Adds the id of a post to the queue of open posts. */
FLUX_PRIV_INLINE void flux_priv_post_add(struct flux_out *o, uint32_t id)
{
	o->ids_max--;
	if (o->posts_open)
		o->tokens[o->post_last] = id;
	else
		o->post_first = id;
	o->post_last = id;
	o->posts_open++;
	o->posts++;
}

/* Makes a call with this token, or a post, which has none. */
FLUX_PRIV_INLINE int flux_priv_send(struct flux_node *node, uint32_t to, const void *payload,
	uint32_t len, int is_post, uint64_t token)
{
	struct flux_out *o;
	int alone = 0;
	uint32_t id;

	if (FLUX_UNLIKELY(len > node->payload_size))
		return -EMSGSIZE;
	if (FLUX_UNLIKELY(to >= node->nodes))
		return -EINVAL;
	o = &node->out[to];
	if (!o->burst || FLUX_UNLIKELY(flux_priv_out_full(o))) {
		alone = flux_priv_call_starts(node, o);
		if (alone < 0)
			return alone;
	}
	id = o->ids[o->ids_head++ & o->ids_mask];
	if (is_post) {
		flux_priv_post_add(o, id);
		id = FLUX_ONE_WAY;
	} else {
		o->tokens[id] = token;
	}
	if (alone)
		flux_priv_put(node, &o->req, to, id, payload, len);
	else
		flux_priv_burst_add(node, o->burst, id, payload, len);
	return 0;
}

FLUX_INLINE int flux_call(struct flux_node *node, uint32_t to, const void *payload, uint32_t len,
	uint64_t token)
{
	return flux_priv_send(node, to, payload, len, 0, token);
}

/* Handles at most @max of the responses that have arrived, and returns how many. */
FLUX_PRIV_INLINE int flux_priv_out_take(struct flux_out *o, flux_response_fn *fn, void *arg,
	int max)
{
	struct cellring_cursor *at = &o->resp;
	const unsigned char *ready = at->ready;
	unsigned char *slot = at->slot;
	int n = 0;

	do {
		uint64_t head = cellring_head(slot);
		uint32_t id = CELLRING_ID(head);
		const void *payload = cellring_payload(slot);
		uint64_t token = o->tokens[id];

		slot += at->stride;
		/* fn may call flux_call(), which takes ids and adds those of consumed posts. */
		o->ids[o->ids_tail++ & o->ids_mask] = id;
		fn(arg, token, payload, CELLRING_LENGTH(head));
	} while (++n < max && slot != ready);
	at->slot = slot;
	if (slot == ready)
		cellring_step(at, at->next);
	return n;
}

/* Handles a response that was published alone. */
FLUX_PRIV_INLINE void flux_priv_out_take_one(struct flux_out *o, uint64_t head,
	flux_response_fn *fn, void *arg)
{
	unsigned char *next = cellring_ahead(&o->resp);
	uint32_t id = CELLRING_ID(head);
	uint64_t token = o->tokens[id];

	o->responses++;
	o->ids[o->ids_tail++ & o->ids_mask] = id;
	fn(arg, token, cellring_payload(o->resp.slot), CELLRING_LENGTH(head));
	cellring_step(&o->resp, next);
}

/*
 * Returns the head of the next burst of responses, or 0 if none has arrived. Sets *left_p to true
 * if the peer has left, so that no burst will follow those that have arrived.
 */
FLUX_PRIV_INLINE uint64_t flux_priv_out_look(struct flux_node *node, struct flux_out *o,
	int *left_p)
{
	uint64_t head = cellring_look(&o->resp);

	if (!head) {
		/*
		 * Pairs with the release in flux_leave(): everything that the peer published before
		 * is visible now, so a response that has not arrived will never come.
		 */
		*left_p = FLUX_UNLIKELY(!flux_priv_all_here(node)) &&
			  __atomic_load_n(&o->peer->left, __ATOMIC_ACQUIRE) != 0;
		if (!FLUX_UNLIKELY(*left_p)) {
			cellring_await(&o->resp);
			return 0;
		}
		head = cellring_look(&o->resp);
	}
	return head;
}

/*
 * Records how many calls the node keeps in flight: the number at a poll, if there were new calls
 * since the previous poll. Between two polls there may be fewer, or none if a loop polls until it
 * gets nothing and then makes its calls. Also records how many of the new calls were made in
 * succession: those since returned_head.
 */
FLUX_PRIV_INLINE uint32_t flux_priv_out_window(struct flux_node *node, struct flux_out *o)
{
	if (o->ids_head == o->polled_head)
		return 0;
	o->polled_head = o->ids_head;
	o->in_a_row = o->ids_head - o->returned_head;
	o->returned_head = o->ids_head;
	o->window = flux_priv_inflight(o);
	if (o->burst && o->window < CELLRING_FEW)
		flux_priv_out_few(node, o);
	return o->in_a_row;
}

/* Handles at most max responses of one peer, and ends all calls to it if it has left. */
FLUX_PRIV_INLINE int flux_priv_out_poll(struct flux_node *node, struct flux_out *o,
	flux_response_fn *fn, void *arg, int max)
{
	int n = 0, left = 0;
	uint64_t head;

	do {
		if (o->resp.slot == o->resp.ready) {
			head = flux_priv_out_look(node, o, &left);
			if (!head)
				return FLUX_UNLIKELY(left) ?
					       n + flux_priv_out_abort(node, o, fn, arg) :
					       n;
			if (CELLRING_COUNT(head) == 1) {
				flux_priv_out_take_one(o, head, fn, arg);
				n++;
				continue;
			}
			o->responses += flux_priv_arrived(&o->resp, head);
		}
		n += flux_priv_out_take(o, fn, arg, max - n);
	} while (n < max && flux_priv_inflight(o));
	return n;
}

/*
 * Decides whether calls are collected for all peers: they are, if many calls were made in one of
 * the last two intervals between polls that had calls. One interval is not enough: a poll may leave
 * a few responses, which the next poll takes, and then few calls follow that poll.
 */
FLUX_PRIV_INLINE void flux_priv_row(struct flux_node *node, uint32_t calls, uint32_t callees)
{
	node->gathers >>= 1;
	if (calls >= FLUX_ROW && calls >= FLUX_ROW_EACH * callees)
		node->gathers |= 2;
}

/*
 * Polls the peers that owe responses. They form a circular list. A visit removes a peer that owes
 * no responses any more, and closes its open burst. A peer that fn adds is inserted after @last, so
 * it is visited by the next poll.
 *
 * With one peer, a low limit of responses keeps both sides at work at the same time. With several
 * peers the limit is higher, because the calls that follow the poll are published together.
 */
FLUX_PRIV_INLINE int flux_priv_poll_circle(struct flux_node *node, flux_response_fn *fn, void *arg)
{
	struct flux_out *last = node->polled, *prev = last, *o;
	int n = 0, most = prev->next == prev ? FLUX_POLL_MAX : FLUX_POLL_EACH;
	uint32_t calls = 0, callees = 0, row;

	do {
		o = prev->next;
		if (flux_priv_inflight(o)) {
			row = flux_priv_out_window(node, o);
			calls += row;
			callees += row != 0;
			n += flux_priv_out_poll(node, o, fn, arg, most);
			if ((int32_t)(o->alone_end - o->ids_head) < (int32_t)CELLRING_FEW - 1 &&
				o->window < CELLRING_FEW && !o->burst)
				flux_priv_out_alone(o);
			prev = o;
		} else {
			if (o->burst)
				flux_priv_burst_end(node, o->burst);
			prev->next = o->next;
			o->next = NULL;
			prev = o == prev ? NULL : prev;
		}
	} while (o != last);
	node->polled = prev;
	if (calls)
		flux_priv_row(node, calls, callees);
	return n;
}

/*
 * Returns the burst of answers that a poll may leave unpublished, or NULL: the answers to the peer
 * whose turn it is, if the node has answered since the last poll and has more calls of this peer to
 * answer, so that the next answers can join the burst. Otherwise they are published, because a node
 * that polls again without answering may be waiting for something else.
 */
FLUX_PRIV_INLINE struct flux_burst *flux_priv_answers_on(struct flux_node *node)
{
	const struct cellring_cursor *at = &node->rx->req;
	struct flux_burst *b = node->rx->burst;

	if (!b || b->ring.next == b->ring.stage)
		return NULL;
	if (b->polled == b->ring.next || !cellring_ready(at))
		return NULL;
	b->polled = b->ring.next;
	return b;
}

/*
 * Publishes the calls and answers that the response function has made. The calls do not count as
 * calls in succession, because responses come between them.
 */
FLUX_PRIV_INLINE void flux_priv_poll_returns(struct flux_node *node)
{
	for (uint32_t i = node->n_open; i-- > 0;) {
		struct flux_burst *b = node->open[i];
		uint64_t to = b->call_to;

		if (to != FLUX_NOBODY)
			node->out[to].returned_head = node->out[to].ids_head;
		if (flux_priv_burst_due(node, b))
			flux_priv_burst_flush(node, b);
	}
	node->gathered = 0;
}

FLUX_INLINE int flux_poll(struct flux_node *node, flux_response_fn *fn, void *arg)
{
	struct flux_burst *stays = NULL;
	int n = 0;

	if (node->n_open) {
		stays = flux_priv_answers_on(node);
		if (!stays || node->n_open > 1)
			flux_priv_publish_but(node, stays);
	}
	if (!stays)
		node->gathered = 0;
	if (node->polled)
		n = flux_priv_poll_circle(node, fn, arg);
	if (n && node->n_open) /* fn may have made calls or replies */
		flux_priv_poll_returns(node);
	flux_priv_looked(node, n || stays);
	return n;
}

/* A message that has arrived. */
struct flux_arrival {
	struct flux_in *in; /* the peer */
	unsigned char *slot;
	unsigned char *next; /* the next cell, or NULL if cellring_next() must find it */
	uint64_t head;
};

/*
 * Returns true if there is a message, which flux_priv_in_pass() must consume. Calls no function for
 * messages that were published alone by the peer whose turn it is.
 */
FLUX_PRIV_INLINE int flux_priv_in_find(struct flux_node *node, struct flux_arrival *a)
{
	struct flux_in *in = node->rx;

	a->next = NULL;
	if (in->req.slot == in->req.ready) {
		uint64_t head = cellring_look(&in->req);

		if ((uint32_t)head >> CELLRING_ID_BITS == FLUX_ONE && in->together == 1 &&
			node->rx_budget) {
			node->rx_budget--;
			in->requests++;
			a->in = in;
			a->slot = in->req.slot;
			a->next = cellring_ahead(&in->req);
			a->head = head;
			return 1;
		}
		in = flux_priv_in_next(node, head);
		if (!in)
			return 0;
	}
	a->in = in;
	a->slot = in->req.slot;
	a->head = cellring_head(a->slot);
	return 1;
}

FLUX_PRIV_INLINE void flux_priv_in_pass(const struct flux_arrival *a)
{
	if (a->next)
		cellring_step(&a->in->req, a->next);
	else
		cellring_next(&a->in->req);
}

FLUX_INLINE int flux_try_recv_raw(struct flux_node *node, uint32_t *from_p, uint64_t *flux_token_p,
	void *payload, uint32_t capacity, uint32_t *len_p)
{
	struct flux_arrival a;
	struct flux_in *in;
	uint32_t id, len;

	if (!flux_priv_in_find(node, &a))
		return 0;
	in = a.in;
	id = CELLRING_ID(a.head);
	len = CELLRING_LENGTH(a.head);
	cellring_take(payload, cellring_payload(a.slot), len, capacity, node->payload_size);
	*from_p = in->from;
	if (len_p)
		*len_p = len;
	flux_priv_in_pass(&a);
	if (FLUX_UNLIKELY(id == FLUX_ONE_WAY)) {
		*flux_token_p = FLUX_POST;
		flux_priv_consumed(node, in);
		return 1;
	}
	in->held[id] = 1;
	*flux_token_p = (uint64_t)in->from << 32 | id;
	return 1;
}

FLUX_INLINE int flux_reply(struct flux_node *node, uint64_t flux_token, const void *payload,
	uint32_t len)
{
	uint32_t from = (uint32_t)(flux_token >> 32), id = (uint32_t)flux_token;
	struct flux_in *in;
	int alone = 0;

	if (FLUX_UNLIKELY(len > node->reply_size))
		return -EMSGSIZE;
	if (FLUX_UNLIKELY(id >= node->max_inflight || from >= node->nodes))
		return -EINVAL;
	in = &node->in[from];
	if (FLUX_UNLIKELY(!in->held[id]))
		return -EINVAL;
	in->held[id] = 0;
	if (!in->burst) {
		alone = flux_priv_reply_starts(node, in);
		if (alone < 0)
			return alone;
	}
	if (alone)
		flux_priv_put(node, &in->resp, from, id, payload, len);
	else
		flux_priv_burst_add(node, in->burst, id, payload, len);
	return 0;
}

FLUX_INLINE uint32_t flux_pending(const struct flux_node *node)
{
	const struct flux_out *o = node->polled;
	uint32_t sum = 0;

	if (o)
		do {
			sum += flux_priv_inflight(o);
			o = o->next;
		} while (o != node->polled);
	return sum;
}

FLUX_INLINE void flux_flush(struct flux_node *node)
{
	flux_priv_publish(node);
	if (node->unfenced)
		flux_priv_flush_published(node);
}

FLUX_INLINE int flux_serve(struct flux_node *node, flux_serve_fn *fn, void *arg, uint32_t max)
{
	uint32_t n = 0;

	for (; n < max; n++) {
		struct flux_arrival a;
		struct flux_req req;

		if (!flux_priv_in_find(node, &a))
			break;
		req.from = a.in->from;
		req.len = CELLRING_LENGTH(a.head);
		/* The sender does not write the slot again before it has the answer or the new
		 * count of posts. */
		flux_priv_in_pass(&a);
		if (FLUX_UNLIKELY(CELLRING_ID(a.head) == FLUX_ONE_WAY)) {
			req.token = FLUX_POST;
			fn(arg, &req, cellring_payload(a.slot));
			flux_priv_consumed(node, a.in);
			continue;
		}
		req.token = (uint64_t)a.in->from << 32 | CELLRING_ID(a.head);
		a.in->held[CELLRING_ID(a.head)] = 1;
		fn(arg, &req, cellring_payload(a.slot));
	}
	if (n)
		flux_flush(node);
	return (int)n;
}

#endif
