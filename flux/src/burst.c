/* SPDX-License-Identifier: MIT */
/*
 * The slow paths of sending: the bursts of calls and of answers, and the end of calls when a node
 * leaves.
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/probe.h"
#include "post.h"

/* Calls before flux_priv_call_begin() decides again, if a cell holds only one message. */
#define ALWAYS_ALONE (1u << 30)

/*
 * Must be called if no id is free: either all are in flight, or this is the first call to the peer.
 * In the first case takes back the ids of posts that have been consumed. In the second case sets
 * the bit that makes the peer poll this node's ring.
 */
COLD static int out_open(struct flux_node *node, struct flux_out *o)
{
	uint32_t n = node->max_inflight, to = (uint32_t)(o - node->out);

	if (flux_priv_inflight(o) || o->posts_open) {
		if (posts_look(o))
			return 0;
		posts_ask(node, to);
		flux_priv_publish(node); /* the caller waits for answers before its next call */
		return -EAGAIN;
	}
	for (uint32_t i = 0; i < n; i++)
		o->ids[i] = i;
	o->ids_head = 0;
	o->ids_max = o->ids_tail = n;
	/*
	 * Pairs with the load in senders_load(). Relaxed: the peer may see the bit late, as it may
	 * see a call late.
	 */
	__atomic_fetch_or(&node->flux->shared[to]->senders[node->index / 64],
		1ull << (node->index % 64), __ATOMIC_RELAXED);
	return 0;
}

/* ---- bursts ---- */

/*
 * Returns the desired size of a burst of calls that includes the next call. Calls that the response
 * function makes do not count as calls in a row.
 */
static uint32_t out_wish(const struct flux_node *node, const struct flux_out *o)
{
	uint32_t now = flux_priv_inflight(o) + o->posts_open + 1;

	if (node->gathers && o->in_a_row)
		return CELLRING_BURST;
	return cellring_call_limit(now > o->window ? now : o->window, o->in_a_row);
}

uint32_t bursts_collected(const struct flux_node *node)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < FLUX_OPEN; i++) {
		const struct cellring_burst *b = &node->open[i]->ring;

		assert(i < node->n_open ? b->to != NULL : !b->to);
		sum += cellring_burst_held(b);
	}
	return sum;
}

/* Counts an event, and publishes everything after FLUX_GATHER events. */
static void gathered(struct flux_node *node)
{
	if (unlikely(++node->gathered >= FLUX_GATHER))
		flux_priv_publish(node);
	assert(node->gathered < FLUX_GATHER);
}

/* Returns the address of the pointer to this burst in its struct flux_in or flux_out. */
static struct flux_burst **burst_owner(struct flux_node *node, const struct flux_burst *b)
{
	/* An open burst is either for calls or for answers. */
	assert((b->call_to == FLUX_NOBODY) != (b->reply_to == FLUX_NOBODY));
	return b->call_to == FLUX_NOBODY ? &node->in[b->reply_to].burst :
					   &node->out[b->call_to].burst;
}

static bool burst_peer_left(const struct flux_node *node, const struct flux_burst *b)
{
	return has_left(b->call_to == FLUX_NOBODY ? node->in[b->reply_to].peer :
						    node->out[b->call_to].peer);
}

/* Returns the desired size of an open burst. */
static uint32_t burst_wish(const struct flux_node *node, const struct flux_burst *b)
{
	return b->call_to == FLUX_NOBODY ? node->in[b->reply_to].together :
					   out_wish(node, &node->out[b->call_to]);
}

/* Counts the messages of a burst that is about to be published. */
ALWAYS_INLINE void burst_count(struct flux_node *node, const struct flux_burst *b, uint32_t count)
{
	PROBE(flux, publish, node->index, b->call_to, b->reply_to, count);
	container_of(b->ring.to, struct flux_cursor, at)->count += count;
	node->burst_more += count - 1;
	flux_priv_published(node);
}

/*
 * Makes the next call go to flux_priv_call_begin(). alone_end was not updated while the burst was
 * open, so after 2^31 calls it would seem to be ahead of ids_head.
 */
static void out_decides(struct flux_out *o)
{
	o->alone_end = o->ids_head;
}

/* Closes a burst, which must be empty. The last open burst takes its place in node->open. */
static void burst_close(struct flux_node *node, struct flux_burst *b)
{
	struct flux_burst *last = node->open[--node->n_open];

	assert(b->ring.next == b->ring.stage && node->open[b->at] == b);
	*burst_owner(node, b) = NULL;
	if (b->call_to != FLUX_NOBODY)
		out_decides(&node->out[b->call_to]);
	cellring_burst_close(&b->ring);
	node->open[node->n_open] = b;
	node->open[b->at] = last;
	last->at = b->at;
}

/*
 * Opens a burst again, with the size that is desired now and the ring's present lap (cellring.h).
 * Closes it if the peer has left, or if the next message must be published alone.
 */
static void burst_renew(struct flux_node *node, struct flux_burst *b)
{
	if (unlikely(burst_peer_left(node, b)) ||
		!cellring_burst_open(&b->ring, b->ring.to, burst_wish(node, b)))
		burst_close(node, b);
}

/*
 * Returns true if an open burst still has the right size and lap, and its peer has not left. The
 * size of a burst of answers is always right: when in->together changes, in_arrived() closes the
 * burst. A burst of the greatest size keeps this size as long as bursts become full.
 */
ALWAYS_INLINE bool burst_is_right(const struct flux_node *node, const struct flux_burst *b,
	bool full)
{
	const struct flux_out *o;
	uint32_t wish, most = b->ring.to->most;

	if (unlikely(cellring_burst_stale(&b->ring)))
		return false;
	if (b->call_to == FLUX_NOBODY)
		return !has_left(node->in[b->reply_to].peer);
	o = &node->out[b->call_to];
	if (full && b->ring.limit == CELLRING_BURST)
		return !has_left(o->peer);
	wish = out_wish(node, o);
	return !has_left(o->peer) && (wish < most ? wish : most) == b->ring.limit;
}

static void burst_write(struct flux_node *node, struct flux_burst *b)
{
	burst_count(node, b, cellring_burst_held(&b->ring));
	cellring_burst_write_part(&b->ring);
}

void flux_priv_burst_publish(struct flux_node *node, struct flux_burst *b)
{
	burst_count(node, b, b->ring.limit);
	cellring_burst_write_full(&b->ring);
	if (unlikely(!burst_is_right(node, b, true)))
		burst_renew(node, b);
	gathered(node); /* a full burst */
}

void flux_priv_burst_flush(struct flux_node *node, struct flux_burst *b)
{
	if (b->ring.next != b->ring.stage)
		burst_write(node, b);
	if (node->n_open > FLUX_KEPT)
		burst_close(node, b);
	else if (!burst_is_right(node, b, false))
		burst_renew(node, b);
}

void burst_turn_ends(struct flux_node *node, struct flux_burst *b)
{
	flux_priv_burst_flush(node, b);
	gathered(node); /* the answers of a turn */
}

void flux_priv_burst_end(struct flux_node *node, struct flux_burst *b)
{
	if (b->ring.next != b->ring.stage)
		burst_write(node, b);
	burst_close(node, b);
}

void bursts_end(struct flux_node *node)
{
	while (node->n_open)
		flux_priv_burst_end(node, node->open[node->n_open - 1]);
}

/* Closes the burst of calls to a peer if the next call must be published immediately. */
void flux_priv_out_few(struct flux_node *node, struct flux_out *o)
{
	if (out_wish(node, o) <= 1)
		flux_priv_burst_end(node, o->burst);
}

/* Returns a closed burst. If all bursts are open, closes all of them first. */
static struct flux_burst *burst_take(struct flux_node *node)
{
	struct flux_burst *b;

	if (unlikely(node->n_open == FLUX_OPEN))
		bursts_end(node);
	b = node->open[node->n_open];
	b->at = node->n_open++;
	b->call_to = b->reply_to = FLUX_NOBODY;
	b->polled = NULL;
	return b;
}

int flux_priv_call_begin(struct flux_node *node, struct flux_out *o)
{
	struct flux_burst *b;
	uint32_t limit;
	int r;

	if (unlikely(has_left(o->peer)))
		return -EPIPE;
	if (unlikely(flux_priv_out_full(o))) {
		r = out_open(node, o);
		if (r < 0 || o->burst) /* there is room in the open burst */
			return r;
	}
	gathered(node); /* a call */
	if (unlikely(!o->next))
		flux_priv_out_link(node, o);
	limit = out_wish(node, o);
	if (limit <= 1 || o->req.at.most <= 1) {
		flux_priv_out_alone(o);
		if (o->req.at.most <= 1)
			o->alone_end = o->ids_head + ALWAYS_ALONE;
		PROBE(flux, publish, node->index, (uint64_t)(o - node->out), FLUX_NOBODY, 1);
		return 1;
	}
	b = burst_take(node);
	b->call_to = (uint64_t)(o - node->out);
	flux_priv_mark_unfenced(node, (uint32_t)b->call_to);
	o->burst = b;
	cellring_burst_open(&b->ring, &o->req.at, limit);
	return 0;
}

int flux_priv_reply_begin(struct flux_node *node, struct flux_in *in)
{
	struct flux_burst *b;

	if (unlikely(has_left(in->peer)))
		return -EPIPE;
	gathered(node); /* an answer */
	if (in->together <= 1 || in->resp.at.most <= 1) {
		PROBE(flux, publish, node->index, FLUX_NOBODY, in->from, 1);
		return 1;
	}
	b = burst_take(node);
	b->reply_to = in->from;
	flux_priv_mark_unfenced(node, in->from);
	in->burst = b;
	cellring_burst_open(&b->ring, &in->resp.at, in->together);
	return 0;
}

/*
 * Ends every call in flight to this peer, because the peer or this node has left. Returns their
 * number.
 */
COLD int flux_priv_out_abort(struct flux_node *node, struct flux_out *o, flux_response_fn *fn,
	void *arg)
{
	uint32_t max = o->ids_max + o->posts_open, id = o->post_first;
	int n = 0;

	if (o->burst)
		flux_priv_burst_end(node, o->burst);
	if (!flux_priv_inflight(o))
		return 0;
	memset(node->ended, 0, max);
	for (uint32_t i = o->ids_head; i != o->ids_tail; i++)
		node->ended[o->ids[i & o->ids_mask]] = 1;
	for (uint32_t i = 0; i < o->posts_open; i++, id = (uint32_t)o->tokens[id])
		node->ended[id] = 1;
	o->ids_max = flux_priv_inflight(o); /* counts down to 0 below */
	o->ids_head = o->ids_tail;
	for (id = 0; id < max; id++) {
		if (node->ended[id])
			continue;
		o->ids_max--;
		node->aborted++;
		n++;
		fn(arg, o->tokens[id], NULL, 0);
	}
	return n;
}
