/* SPDX-License-Identifier: MIT */
/* Finding the rings with calls, waking, waiting and leaving. */
#include "network.h"
#include "post.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/probe.h"
#include "base/sized.h"
#include "base/sleep.h"
#include "base/wait.h"

#define YIELD_PERIOD_NS (200 * NSEC_PER_USEC)
#define NO_BIT UINT32_MAX
#define YIELD_LOOK 8 /* number of flushes per reading of the clock */

/* Returns the index of the first set bit from bit i on, or NO_BIT. */
static uint32_t bits_next(const uint64_t *bits, uint32_t words, uint32_t i)
{
	uint64_t mask = ~0ull << (i % 64);

	for (uint32_t w = i / 64; w < words; w++, mask = ~0ull)
		if (bits[w] & mask)
			return w * 64 + (uint32_t)__builtin_ctzll(bits[w] & mask);
	return NO_BIT;
}

static void senders_load(const struct flux_node *node, uint64_t *bits)
{
	/* Pairs with out_open() and with senders_drop(). */
	for (uint32_t w = 0; w < node->words; w++)
		bits[w] = __atomic_load_n(&node->self->senders[w], __ATOMIC_RELAXED);
}

/* Makes the circle of rx consist of these peers, in the order of their indexes. */
COLD static void senders_link(struct flux_node *node, const uint64_t *bits)
{
	struct flux_in *first = NULL, *last = NULL, *rx = node->rx;

	for (uint32_t i = 0; i < node->nodes; i++)
		node->in[i].next = NULL;
	for (uint32_t i = 0; (i = bits_next(bits, node->words, i)) != NO_BIT; i++) {
		struct flux_in *in = &node->in[i];

		if (!first)
			first = in;
		else
			last->next = in;
		last = in;
	}
	/* The circle is never empty: without senders it keeps rx, whose ring is then empty. */
	if (!first)
		first = last = rx;
	last->next = first;
	if (!rx->next)
		node->rx = first;
	memcpy(node->senders, bits, sizeof(node->senders));
}

/* Returns true if a peer has called the node for the first time. */
static bool senders_new(const struct flux_node *node)
{
	uint32_t w = 0;

	do
		/* Pairs with out_open() and with senders_drop(). */
		if (node->senders[w] != __atomic_load_n(&node->self->senders[w], __ATOMIC_RELAXED))
			return true;
	while (unlikely(++w < node->words));
	return false;
}

COLD static struct flux_in *senders_join(struct flux_node *node)
{
	uint64_t bits[FLUX_WORDS] = {0};

	senders_load(node, bits);
	senders_link(node, bits);
	return flux_priv_in_next(node, cellring_look(&node->rx->req));
}

/*
 * Removes the peers that have left from the senders, once their rings are empty. Must be called if
 * more nodes have left than when it was called last.
 */
COLD static void senders_drop(struct flux_node *node, uint32_t left)
{
	uint64_t bits[FLUX_WORDS] = {0};

	senders_load(node, bits);
	for (uint32_t i = 0; (i = bits_next(bits, node->words, i)) != NO_BIT; i++) {
		const struct flux_in *in = &node->in[i];

		/* Pairs with the release in flux_leave(): all its calls are visible now. */
		if (!__atomic_load_n(&in->peer->left, __ATOMIC_ACQUIRE))
			continue;
		if (cellring_ready(&in->req)) {
			left = node->left_seen; /* check the peer again after its last call */
			continue;
		}
		bits[i / 64] &= ~(1ull << (i % 64));
		/* Pairs with out_open() of other peers, whose bits must stay. */
		__atomic_fetch_and(&node->self->senders[i / 64], ~(1ull << (i % 64)),
			__ATOMIC_RELAXED);
	}
	senders_link(node, bits);
	node->left_seen = left;
}

/* Accepts a burst of calls, whose head says how many answers to publish together. */
static struct flux_in *in_arrived(struct flux_node *node, struct flux_in *in, uint64_t head)
{
	uint32_t together = CELLRING_TOGETHER(head), count = flux_priv_arrived(&in->req, head);

	node->rx_budget -= count;
	in->requests += count;
	if (likely(in->together == together))
		return in;
	in->together = together;
	if (in->burst)
		flux_priv_burst_end(node, in->burst);
	return in;
}

/* Must be called if no call has arrived. */
static NOINLINE struct flux_in *in_none(struct flux_node *node)
{
	/* Pairs with the add in flux_leave(). */
	uint32_t left = __atomic_load_n(&node->flux->departures, __ATOMIC_ACQUIRE);

	flux_priv_publish(node); /* nothing was found */
	flux_priv_looked(node, 0);
	if (unlikely(left != node->left_seen))
		senders_drop(node, left);
	cellring_await(&node->rx->req);
	return NULL;
}

/* Begins the turn of a peer. */
static NOINLINE struct flux_in *in_turn(struct flux_node *node, struct flux_in *in, uint64_t head)
{
	node->rx = in;
	node->rx_budget = FLUX_TURN;
	flux_priv_looked(node, 1);
	return in_arrived(node, in, head);
}

/* Publishes the answers of the turn that ends. */
static NOINLINE struct flux_in *in_turn_ends(struct flux_node *node, uint64_t own)
{
	burst_turn_ends(node, node->rx->burst);
	return flux_priv_in_next(node, own);
}

/* Each branch ends in a tail call, so that this function saves no registers. */
struct flux_in *flux_priv_in_next(struct flux_node *node, uint64_t own)
{
	struct flux_in *rx = node->rx, *in;
	uint64_t head;

	if (own && CELLRING_COUNT(own) <= node->rx_budget)
		return in_arrived(node, rx, own);
	if (rx->burst && rx->burst->ring.next != rx->burst->ring.stage)
		return in_turn_ends(node, own);
	if (unlikely(senders_new(node)))
		return senders_join(node);
	for (in = rx->next; in != rx; in = in->next) {
		head = cellring_look(&in->req);
		if (head)
			return in_turn(node, in, head);
	}
	return own ? in_turn(node, rx, own) : in_none(node);
}

/*
 * Yields the core from time to time, if a peer to which this node has published was yielding. The
 * peer may be on the same core, and would otherwise get one burst per time slice of the kernel.
 */
static void yield_if_due(struct flux_node *node)
{
	uint64_t now;

	if (node->yield_looks++ % YIELD_LOOK)
		return;
	now = clock_ns();
	if (now - node->yielded_ns < YIELD_PERIOD_NS)
		return;
	sched_yield();
	node->hungry = 0;
	node->yields++;
	node->yielded_ns = now;
}

COLD static void wake_sleeping(struct flux_node *node, uint32_t peer)
{
	struct flux *f = node->flux;

	if (!wakefd_post(&f->wake[peer], &f->shared[peer]->state))
		return;
	node->wakes++;
	PROBE(flux, wake, node->index, peer);
}

/* The caller must call sleep_fence() before. */
static void peer_wake(struct flux_node *node, uint32_t peer)
{
	if (unlikely(sleep_is_asleep(&node->flux->shared[peer]->state)))
		wake_sleeping(node, peer);
}

/* Wakes those of eight peers that got messages since the last flush. */
static void eight_wake(struct flux_node *node, uint32_t first)
{
	for (uint32_t i = first; i < first + 8; i++) {
		if (!node->unfenced_peers[i])
			continue;
		peer_wake(node, i);
		/* Pairs with state_set(). */
		node->hungry |= __atomic_load_n(&node->flux->shared[i]->state, __ATOMIC_RELAXED) ==
				SLEEP_WAITING;
	}
}

void flux_priv_flush_published(struct flux_node *node)
{
	/*
	 * Pairs with sleep_prepare_as() for wait_sleep() and flux_arm(): either the peer sees what
	 * was published, or this node sees that the peer is asleep.
	 */
	sleep_fence();
	for (uint32_t i = 0; i < node->nodes; i += 8) {
		uint64_t eight;

		memcpy(&eight, &node->unfenced_peers[i], sizeof(eight));
		if (!eight)
			continue;
		eight_wake(node, i);
		memset(&node->unfenced_peers[i], 0, sizeof(eight));
	}
	/*
	 * Bursts that are open are published later, so their peers stay marked. One of the two
	 * fields is FLUX_NOBODY, all ones.
	 */
	for (uint32_t i = 0; i < node->n_open; i++)
		flux_priv_mark_unfenced(node,
			(uint32_t)(node->open[i]->call_to & node->open[i]->reply_to));
	node->unfenced = 0;
	node->flushes++;
	if (node->hungry)
		yield_if_due(node);
}

/* Returns true if flux_poll() would find something. */
static bool responses_ready(const struct flux_node *node)
{
	const struct flux_out *o = node->polled;

	if (!o)
		return false;
	do {
		if (flux_priv_inflight(o) && (cellring_ready(&o->resp) || has_left(o->peer)))
			return true;
		o = o->next;
	} while (o != node->polled);
	return false;
}

/* Returns true if flux_try_recv_raw() would find something. */
static bool requests_ready(const struct flux_node *node)
{
	uint64_t bits[FLUX_WORDS];

	senders_load(node, bits);
	for (uint32_t i = 0; (i = bits_next(bits, node->words, i)) != NO_BIT; i++)
		if (cellring_ready(&node->in[i].req))
			return true;
	return false;
}

/* Returns the number of other nodes that have left and that flux_left() has not returned. */
static uint32_t untold(const struct flux_node *node)
{
	const struct flux *f = node->flux;

	/* Acquire: pairs with the addition in flux_leave(), which follows the store of `left`. */
	return __atomic_load_n(&f->departures, __ATOMIC_ACQUIRE) - node->self->left -
	       f->told[node->index].n;
}

/* Returns true if the peer has consumed posts, or never will because it has left. */
static bool out_has_room(const struct flux_out *o)
{
	return posts_news(o) || has_left(o->peer);
}

/* Returns true if one of the peers in room_asked has room. */
static bool room_ready(const struct flux_node *node)
{
	const uint64_t *asked = node->room_asked;

	for (uint32_t i = 0; (i = bits_next(asked, node->words, i)) != NO_BIT; i++)
		if (out_has_room(&node->out[i]))
			return true;
	return false;
}

/* Removes the peers that have room from room_asked, because their room ends one wait only. */
static void room_told(struct flux_node *node)
{
	uint64_t *asked = node->room_asked;

	for (uint32_t i = 0; (i = bits_next(asked, node->words, i)) != NO_BIT; i++)
		if (out_has_room(&node->out[i]))
			asked[i / 64] &= ~(1ull << i % 64);
}

static bool node_ready(const struct flux_node *node)
{
	return responses_ready(node) || requests_ready(node) || room_ready(node) ||
	       (node->flux->told[node->index].asks && untold(node));
}

static void state_set(struct flux_node *node, uint32_t state)
{
	/* Pairs with the load in eight_wake(). */
	__atomic_store_n(&node->self->state, state, __ATOMIC_RELAXED);
}

/* Returns false if a signal interrupted the sleep. */
static bool wait_sleep(struct flux_node *node, uint64_t timeout_ns)
{
	int r;

	/* sleep_prepare() pairs with sleep_fence() in flux_priv_flush_published(), flux_leave(). */
	assert(!bursts_collected(node));
	sleep_prepare(&node->self->state);
	if (node_ready(node)) {
		sleep_cancel(&node->self->state);
		return true;
	}
	node->sleeps++;
	PROBE(flux, sleep, node->index, timeout_ns);
	r = sleep_enter(&node->self->state, timeout_ns);
	PROBE(flux, awake, node->index, r);
	return r != -EINTR;
}

/* Waits by yielding the core, then sleeping. Reads the clock once per yield. */
static int wait_long(struct flux_node *node, struct wait *w, uint64_t timeout_ns)
{
	uint64_t start = clock_ns(), spent = 0;
	bool go_on = true;
	int r;

	/* Shows busy peers, which may be on the same core, that this node waits. */
	state_set(node, SLEEP_WAITING);
	while (!(r = node_ready(node)) && spent < timeout_ns && go_on) {
		if (wait_step(w)) {
			live_wait(node->flux->live[node->index], start);
			go_on = wait_sleep(node, timeout_ns - spent);
		}
		spent = clock_ns() - start;
	}
	live_wake(node->flux->live[node->index]);
	if (r) /* if r is 0, the next wait reports room that has come since */
		room_told(node);
	state_set(node, SLEEP_RUNNING);
	node->yielded_ns = start + spent;
	return r;
}

int flux_wait(struct flux_node *node, uint64_t timeout_ns)
{
	struct wait w = WAIT_INIT;

	flux_priv_publish(node);
	while (w.empty < WAIT_SPINS) {
		if (node_ready(node)) {
			flux_priv_looked(node, 1);
			room_told(node);
			return 1;
		}
		if (!timeout_ns)
			break;
		flux_priv_looked(node, 0);
		wait_step(&w);
	}
	flux_flush(node);
	if (!timeout_ns)
		return 0;
	return wait_long(node, &w, timeout_ns);
}

int flux_fd(struct flux_node *node)
{
	struct wakefd *wake = &node->flux->wake[node->index];
	int err;

	if (wake->fd >= 0)
		return wake->fd;
	err = wakefd_open_event(wake);
	return err ? err : wake->fd;
}

int flux_arm(struct flux_node *node)
{
	struct wakefd *wake = &node->flux->wake[node->index];

	if (wake->fd < 0)
		return -EBADF;
	flux_flush(node);
	assert(!bursts_collected(node));
	/* Pairs with sleep_fence() in flux_priv_flush_published() and flux_leave(). */
	wakefd_prepare(wake, &node->self->state);
	if (node_ready(node)) {
		sleep_cancel(&node->self->state);
		room_told(node);
		return 1;
	}
	node->sleeps++;
	PROBE(flux, arm, node->index);
	return 0;
}

void flux_leave(struct flux_node *node)
{
	if (node->self->left)
		return;
	bursts_end(node);
	flux_flush(node);
	/*
	 * Pairs with the loads of left in flux_priv_out_look(), senders_drop(), has_left(),
	 * is_silent().
	 */
	__atomic_store_n(&node->self->left, 1, __ATOMIC_RELEASE);
	/* Release: pairs with the loads in untold(), in_none() and flux_priv_all_here(). */
	__atomic_fetch_add(&node->flux->departures, 1, __ATOMIC_RELEASE);
	/*
	 * Pairs with sleep_prepare_as(): a peer that waits for an answer sees `left` or is woken.
	 */
	sleep_fence();
	for (uint32_t p = 0; p < node->nodes; p++) {
		/* From now on all peers count as having left. */
		node->out[p].peer = node->self;
		node->in[p].peer = node->self;
		peer_wake(node, p);
	}
}

/* Returns true if nothing will come any more from a node that has left. */
static bool is_silent(const struct flux_node *node, uint32_t peer)
{
	/* Acquire: pairs with the release in flux_leave(): all its calls are visible now. */
	return __atomic_load_n(&node->flux->shared[peer]->left, __ATOMIC_ACQUIRE) &&
	       !flux_priv_inflight(&node->out[peer]) && !cellring_ready(&node->in[peer].req);
}

int flux_left(struct flux_node *node, uint32_t *peer_p)
{
	struct told *told = &node->flux->told[node->index];

	told->asks = true;
	for (uint32_t p = 0; untold(node) && p < node->nodes; p++) {
		if (p == node->index || told->nodes[p / 64] >> p % 64 & 1 || !is_silent(node, p))
			continue;
		flux_priv_out_abort(node, &node->out[p], NULL, NULL); /* closes an open burst */
		told->nodes[p / 64] |= 1ull << p % 64;
		told->n++;
		*peer_p = p;
		return 1;
	}
	return 0;
}

/* Returns the number of messages written into a ring, with those of its open burst. */
static uint64_t sent_count(const struct flux_cursor *c, const struct flux_burst *b)
{
	return c->count + (b ? cellring_burst_held(&b->ring) : 0);
}

/* Returns the number of messages that the reader of a ring has taken. */
static uint64_t taken_count(const struct cellring_cursor *c, uint64_t arrived)
{
	return arrived - cellring_left(c);
}

void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p, size_t size)
{
	struct flux_stats s = {
		.aborted = node->aborted,
		.flushes = node->flushes,
		.wakes = node->wakes,
		.sleeps = node->sleeps,
		.yields = node->yields,
		.bursts = -node->burst_more,
	};

	for (uint32_t p = 0; p < node->nodes; p++) {
		s.calls += sent_count(&node->out[p].req, node->out[p].burst) - node->out[p].posts;
		s.posts += node->out[p].posts;
		s.responses += taken_count(&node->out[p].resp, node->out[p].responses);
		s.requests +=
			taken_count(&node->in[p].req, node->in[p].requests) - node->in[p].posts;
		s.received_posts += node->in[p].posts;
		s.replies += sent_count(&node->in[p].resp, node->in[p].burst);
		s.bursts += node->out[p].req.count + node->in[p].resp.count;
	}
	sized_out(stats_p, size, &s, sizeof(s));
}
