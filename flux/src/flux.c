/* SPDX-License-Identifier: MIT */
/* The network: memory, and the slow paths of flux_inline.h. */
#pragma GCC visibility push(default)
#include "flux.h"
#pragma GCC visibility pop

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/probe.h"
#include "base/sized.h"
#include "base/sleep.h"
#include "base/wait.h"
#include "base/wakefd.h"

#define YIELD_PERIOD_NS (200 * NSEC_PER_USEC)
#define NO_BIT UINT32_MAX
#define YIELD_LOOK 8 /* flushes per reading of the clock */

#define PAGE 4096u
#define INFLIGHT 256u
/* Slots per call in flight, and the minimum. More slots do not fit into the first-level cache. */
#define TIMES 4u
#define LEAST 64u
#define PAYLOAD ((uint32_t)(CACHE_LINE - sizeof(struct cellring_message)))

static_assert(FLUX_MAX_CAPACITY <= 1u << CELLRING_ID_BITS, "an id is a message's");
static_assert(FLUX_MAX_PAYLOAD <= CELLRING_LENGTH_MAX, "a length is a message's");

/* One mapping holds this struct, a block of pages per node, and the rings. */
struct flux {
	struct flux_attr attr;
	size_t bytes;
	struct flux_node *node[FLUX_MAX_NODES];
	struct flux_shared *shared[FLUX_MAX_NODES]; /* of the nodes */
	struct wakefd wake[FLUX_MAX_NODES]; /* of the nodes */
};

/* The offsets of all parts of the mapping. The data of a node has pages of its own. */
struct layout {
	/* Offsets in a node's block; struct flux_shared is at 0. */
	size_t node, out, in, tokens, ids, ended, held;
	size_t block; /* bytes */
	size_t blocks, rings; /* offsets in the mapping */
	struct cellring_plan req, resp;
	size_t pitch; /* bytes from one ring to the next */
	size_t bytes;
};

static void burst_close(struct flux_burst *b)
{
	cellring_burst_close(&b->ring);
	b->call_to = b->reply_to = FLUX_NOBODY;
}

static int attr_resolve(struct flux_attr *a)
{
	if (a->reserved)
		return -E2BIG;
	if (!a->max_inflight)
		a->max_inflight =
			a->capacity && a->capacity <= INFLIGHT ? a->capacity - 1 : INFLIGHT;
	if (!a->capacity && a->max_inflight <= FLUX_MAX_CAPACITY / TIMES)
		a->capacity = a->max_inflight * TIMES > LEAST ? a->max_inflight * TIMES : LEAST;
	if (!a->capacity)
		a->capacity = FLUX_MAX_CAPACITY;
	if (!a->payload_size)
		a->payload_size = PAYLOAD;
	if (!a->reply_size)
		a->reply_size = a->payload_size;
	if (!a->nodes || a->nodes > FLUX_MAX_NODES || a->capacity > FLUX_MAX_CAPACITY ||
		!a->max_inflight || a->max_inflight >= a->capacity ||
		a->payload_size > FLUX_MAX_PAYLOAD || a->reply_size > FLUX_MAX_PAYLOAD)
		return -EINVAL;
	return 0;
}

static int layout_plan(const struct flux_attr *a, struct layout *l)
{
	size_t ids = (size_t)a->nodes * a->max_inflight, rings;
	size_t longest;

	l->node = align_up(sizeof(struct flux_shared), 2 * CACHE_LINE);
	l->out = l->node + align_up(sizeof(struct flux_node), 2 * CACHE_LINE);
	l->in = l->out + a->nodes * sizeof(struct flux_out);
	l->tokens = l->in + a->nodes * sizeof(struct flux_in);
	l->ids = l->tokens + ids * sizeof(uint64_t);
	l->ended = l->ids + a->nodes * pow2_ceil(a->max_inflight) * sizeof(uint32_t);
	l->held = l->ended + a->max_inflight;
	l->block = align_up(l->held + ids, PAGE);
	l->blocks = align_up(sizeof(struct flux), PAGE);
	l->rings = l->blocks + a->nodes * l->block;
	l->req = cellring_plan_for(a->payload_size, a->max_inflight, a->capacity);
	l->resp = cellring_plan_for(a->reply_size, a->max_inflight, a->capacity);
	longest = cellring_bytes(&l->req) > cellring_bytes(&l->resp) ? cellring_bytes(&l->req) :
								       cellring_bytes(&l->resp);
	/*
	 * Half a page and a cache line are added, because the slots that a node writes and reads
	 * at the same time would otherwise have the same low address bits, and a load waits for
	 * an earlier store whose low 12 address bits are the same.
	 */
	l->pitch = align_up(longest, PAGE) + PAGE / 2 + CACHE_LINE;
	if (__builtin_mul_overflow((size_t)2 * a->nodes * a->nodes, l->pitch, &rings) ||
		__builtin_add_overflow(l->rings, rings, &l->bytes))
		return -ENOMEM;
	return 0;
}

/* A cursor of the ring for requests (which = 0) or responses (1) of one node's calls to another. */
static struct flux_cursor cursor_at(char *map, const struct layout *l, const struct flux_attr *a,
	uint32_t from, uint32_t to, uint32_t which)
{
	size_t ring = 2 * ((size_t)from * a->nodes + to) + which;
	struct flux_cursor c = {.count = 0};

	cellring_cursor_init(&c.at, map + l->rings + ring * l->pitch, which ? &l->resp : &l->req);
	return c;
}

static void pair_init(char *map, const struct layout *l, const struct flux_attr *a,
	struct flux_node *node, uint32_t p)
{
	char *block = (char *)node->self;
	const struct flux_shared *peer = (struct flux_shared *)(map + l->blocks + p * l->block);
	size_t ids = (size_t)p * a->max_inflight;

	node->out[p] = (struct flux_out){
		.req = cursor_at(map, l, a, node->index, p, 0),
		.resp = cursor_at(map, l, a, node->index, p, 1),
		.tokens = (uint64_t *)(block + l->tokens) + ids,
		.ids = (uint32_t *)(block + l->ids) + p * pow2_ceil(a->max_inflight),
		.ids_mask = (uint32_t)pow2_ceil(a->max_inflight) - 1,
		.peer = peer,
	};
	node->in[p] = (struct flux_in){
		.req = cursor_at(map, l, a, p, node->index, 0),
		.resp = cursor_at(map, l, a, p, node->index, 1),
		.held = (uint8_t *)(block + l->held) + ids,
		.peer = peer,
		.from = p,
	};
}

static void node_init(struct flux *f, const struct layout *l, uint32_t i)
{
	char *map = (char *)f, *block = map + l->blocks + i * l->block;
	struct flux_node *node = (struct flux_node *)(block + l->node);
	const struct flux_attr *a = &f->attr;

	*node = (struct flux_node){
		.out = (struct flux_out *)(block + l->out),
		.in = (struct flux_in *)(block + l->in),
		.capacity = a->capacity,
		.nodes = a->nodes,
		.payload_size = a->payload_size,
		.reply_size = a->reply_size,
		.max_inflight = a->max_inflight,
		.index = i,
		.words = (a->nodes + 63) / 64,
		.rx = (struct flux_in *)(block + l->in),
		.ended = (uint8_t *)(block + l->ended),
		.self = (struct flux_shared *)block,
		.flux = f,
	};
	burst_close(&node->burst);
	for (uint32_t p = 0; p < a->nodes; p++)
		pair_init(map, l, a, node, p);
	f->node[i] = node;
	f->wake[i] = WAKEFD_NONE;
	f->shared[i] = node->self;
}

int flux_create(const struct flux_attr *attr, struct flux **f_p)
{
	struct flux_attr a;
	struct layout l;
	struct flux *f;
	int r;

	r = SIZED_ATTR(&a, attr, reserved);
	if (!r)
		r = attr_resolve(&a);
	if (r < 0)
		return r;
	r = layout_plan(&a, &l);
	if (r < 0)
		return r;
	/* A slot of zeros has never been written. A page is allocated when it is first touched. */
	f = mmap(NULL, l.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		-1, 0);
	if (f == MAP_FAILED)
		return -ENOMEM;
	f->attr = a;
	f->bytes = l.bytes;
	for (uint32_t i = 0; i < a.nodes; i++)
		node_init(f, &l, i);
	*f_p = f;
	return 0;
}

void flux_get_attr(const struct flux *f, struct flux_attr *attr_p, size_t size)
{
	struct flux_attr a = f->attr;

	a.size = size < sizeof(a) ? size : sizeof(a);
	sized_out(attr_p, size, &a, sizeof(a));
}

void flux_destroy(struct flux *f)
{
	if (!f)
		return;
	for (uint32_t i = 0; i < f->attr.nodes; i++)
		wakefd_close(&f->wake[i]);
	munmap(f, f->bytes);
}

struct flux_node *flux_get_node(struct flux *f, uint32_t index)
{
	return index < f->attr.nodes ? f->node[index] : NULL;
}

/*
 * Pairs with the store in flux_leave(). A call that misses the store is ended by flux_poll(); a
 * response that misses the store is never read.
 */
static bool has_left(const struct flux_shared *peer)
{
	return __atomic_load_n(&peer->left, __ATOMIC_RELAXED);
}

/*
 * Must be called if no id is free: either all are in flight, or this is the first call to the peer.
 * In the second case it sets the bit that makes the peer poll this node's ring.
 */
COLD static int out_open(struct flux_node *node, struct flux_out *o)
{
	uint32_t n = node->max_inflight, to = (uint32_t)(o - node->out);

	if (flux_priv_inflight(o)) {
		flux_priv_publish(node); /* the caller waits for answers before its next call */
		return -EAGAIN;
	}
	for (uint32_t i = 0; i < n; i++)
		o->ids[i] = i;
	o->ids_head = 0;
	o->ids_max = o->ids_tail = n;
	/* Pairs with the load in senders_load(), which may see the bit late, like any call. */
	__atomic_fetch_or(&node->flux->shared[to]->senders[node->index / 64],
		1ull << (node->index % 64), __ATOMIC_RELAXED);
	return 0;
}

/* Inserts a peer into the circular list that flux_poll() visits, as the next one. */
static void out_link(struct flux_node *node, struct flux_out *o)
{
	if (!node->polled)
		node->polled = o->next = o;
	o->next = node->polled->next;
	node->polled->next = o;
}

/* ---- bursts ---- */

/* Returns the desired size of a burst of calls that includes the next call. */
static uint32_t out_wish(const struct flux_out *o)
{
	uint32_t now = flux_priv_inflight(o) + 1;

	return cellring_call_limit(now > o->window ? now : o->window, o->in_a_row);
}

int flux_priv_call_begin(struct flux_node *node, uint32_t to)
{
	struct flux_out *o;
	int r;

	if (unlikely(to >= node->nodes))
		return -EINVAL;
	o = &node->out[to];
	if (unlikely(has_left(o->peer)))
		return -EPIPE;
	if (unlikely(flux_priv_out_full(o))) {
		r = out_open(node, o);
		if (r < 0)
			return r;
	}
	if (node->burst.ring.to)
		flux_priv_burst_end(node);
	if (unlikely(!o->next))
		out_link(node, o);
	if (!cellring_burst_open(&node->burst.ring, &o->req.at, out_wish(o)))
		return 1;
	flux_priv_mark_unfenced(node, to);
	node->burst.call_to = to;
	node->burst.peer = o->peer;
	return 0;
}

int flux_priv_reply_begin(struct flux_node *node, uint32_t from, uint32_t id)
{
	struct flux_in *in;

	if (unlikely(from >= node->nodes || !node->in[from].held[id]))
		return -EINVAL;
	in = &node->in[from];
	if (unlikely(has_left(in->peer))) {
		in->held[id] = 0;
		return -EPIPE;
	}
	if (node->burst.ring.to)
		flux_priv_burst_end(node);
	if (!cellring_burst_open(&node->burst.ring, &in->resp.at, in->together))
		return 1;
	flux_priv_mark_unfenced(node, from);
	node->burst.reply_to = from;
	node->burst.peer = in->peer;
	return 0;
}

/* Counts the messages of a burst that is about to be published. */
ALWAYS_INLINE void burst_count(struct flux_node *node, uint32_t count)
{
	PROBE(flux, publish, node->index, node->burst.call_to, node->burst.reply_to, count);
	container_of(node->burst.ring.to, struct flux_cursor, at)->count += count;
	flux_priv_published(node);
}

/* Returns the desired size of the open burst. */
static uint32_t burst_wish(const struct flux_node *node)
{
	const struct flux_burst *b = &node->burst;

	return b->call_to == FLUX_NOBODY ? node->in[b->reply_to].together :
					   out_wish(&node->out[b->call_to]);
}

/* Returns true if the open burst still has the right size and lap, and its peer has not left. */
static bool burst_is_right(const struct flux_node *node)
{
	const struct flux_burst *b = &node->burst;
	uint32_t wish, most = b->ring.to->most;

	if (unlikely(cellring_burst_stale(&b->ring) || has_left(b->peer)))
		return false;
	if (b->call_to == FLUX_NOBODY)
		return true;
	wish = burst_wish(node);
	return (wish < most ? wish : most) == b->ring.limit;
}

/* Opens the next burst to the same ring, or closes it. */
static void burst_renew(struct flux_node *node)
{
	struct flux_burst *b = &node->burst;

	/* The burst is open, either for calls or for answers. */
	assert(b->ring.to && (b->call_to == FLUX_NOBODY) != (b->reply_to == FLUX_NOBODY));
	if (unlikely(has_left(b->peer)) ||
		!cellring_burst_open(&b->ring, b->ring.to, burst_wish(node)))
		burst_close(b);
}

void flux_priv_burst_publish(struct flux_node *node)
{
	burst_count(node, node->burst.ring.limit);
	cellring_burst_write_full(&node->burst.ring);
	if (unlikely(!burst_is_right(node)))
		burst_renew(node);
}

void flux_priv_burst_flush(struct flux_node *node)
{
	struct cellring_burst *b = &node->burst.ring;

	burst_count(node, cellring_burst_held(b));
	cellring_burst_write_part(b);
	if (!burst_is_right(node))
		burst_renew(node);
}

void flux_priv_burst_end(struct flux_node *node)
{
	flux_priv_publish(node);
	burst_close(&node->burst);
}

/* Ends every call in flight to this peer: the peer, or this node, has left. Returns how many. */
COLD int flux_priv_out_abort(struct flux_node *node, struct flux_out *o, flux_response_fn *fn,
	void *arg)
{
	uint32_t max = o->ids_max;
	int n = 0;

	if (node->burst.ring.to == &o->req.at)
		flux_priv_burst_end(node);
	if (!flux_priv_inflight(o))
		return 0;
	memset(node->ended, 0, max);
	for (uint32_t i = o->ids_head; i != o->ids_tail; i++)
		node->ended[o->ids[i & o->ids_mask]] = 1;
	o->ids_max = flux_priv_inflight(o); /* counts down to 0 below */
	o->ids_head = o->ids_tail;
	for (uint32_t id = 0; id < max; id++) {
		if (node->ended[id])
			continue;
		o->ids_max--;
		node->aborted++;
		n++;
		fn(arg, o->tokens[id], NULL, 0);
	}
	return n;
}

/* Returns the first marked index that is >= i, or NO_BIT. */
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

/* Removes a peer that has left from the senders, once its ring is empty. */
static void senders_drop(struct flux_node *node, const struct flux_in *in)
{
	/* Pairs with the release in flux_leave(): all its calls are visible now. */
	if (likely(!__atomic_load_n(&in->peer->left, __ATOMIC_ACQUIRE)))
		return;
	if (!cellring_ready(&in->req.at))
		/* Pairs with out_open() of other peers, whose bits must stay. */
		__atomic_fetch_and(&node->self->senders[in->from / 64], ~(1ull << (in->from % 64)),
			__ATOMIC_RELAXED);
}

/* Returns the next peer after rx, in circular order, that has a call for this node, or NULL. */
static struct flux_in *in_search(struct flux_node *node)
{
	uint32_t start = node->rx->from + 1, i = start;
	uint64_t bits[FLUX_WORDS];
	struct flux_in *in;

	senders_load(node, bits);
	for (;;) {
		i = bits_next(bits, node->words, i);
		if (i == NO_BIT) {
			i = bits_next(bits, node->words, 0);
			if (i == NO_BIT)
				return NULL;
		}
		in = &node->in[i];
		if (cellring_ready(&in->req.at))
			return in;
		senders_drop(node, in);
		bits[i / 64] &= ~(1ull << (i % 64));
		i++;
	}
}

/* Accepts a burst of calls. Its answers are collected into bursts of the same size. */
static void in_arrived(struct flux_node *node, struct flux_in *in, uint64_t head)
{
	uint32_t together = CELLRING_TOGETHER(head);

	node->rx_budget -= flux_priv_cursor_arrived(&in->req, head);
	if (likely(in->together == together))
		return;
	in->together = together;
	if (node->burst.reply_to == in->from)
		flux_priv_burst_end(node);
}

struct flux_in *flux_priv_in_next(struct flux_node *node)
{
	struct flux_in *in = node->rx;
	uint64_t head = cellring_look(&in->req.at);

	if (!head || CELLRING_COUNT(head) > node->rx_budget) {
		flux_priv_publish(node);
		in = in_search(node);
		flux_priv_looked(node, in != NULL);
		if (!in) {
			cellring_await(&node->rx->req.at);
			return NULL;
		}
		node->rx = in;
		node->rx_budget = FLUX_TURN;
		head = cellring_look(&in->req.at);
	}
	in_arrived(node, in, head);
	return in;
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

	if (!wakefd_post_cold(&f->wake[peer], &f->shared[peer]->state))
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

void flux_priv_flush_published(struct flux_node *node)
{
	/*
	 * Pairs with sleep_prepare_as() for wait_sleep() and flux_arm(): either the peer sees what
	 * was published, or this node sees that the peer is asleep.
	 */
	sleep_fence();
	for (uint32_t i = 0; (i = bits_next(node->unfenced_peers, node->words, i)) != NO_BIT; i++) {
		uint32_t *state = &node->flux->shared[i]->state;

		peer_wake(node, i);
		/* Pairs with state_set(). */
		node->hungry |= __atomic_load_n(state, __ATOMIC_RELAXED) == SLEEP_WAITING;
	}
	memset(node->unfenced_peers, 0, sizeof(node->unfenced_peers));
	/* The open burst will be published later. One of the two fields is FLUX_NOBODY. */
	if (node->burst.ring.to)
		flux_priv_mark_unfenced(node,
			(uint32_t)(node->burst.call_to & node->burst.reply_to));
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
		/* Pairs with the store in flux_leave(). */
		if (flux_priv_inflight(o) &&
			(cellring_ready(&o->resp.at) ||
				__atomic_load_n(&o->peer->left, __ATOMIC_RELAXED)))
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
		if (cellring_ready(&node->in[i].req.at))
			return true;
	return false;
}

static bool node_ready(const struct flux_node *node)
{
	return responses_ready(node) || requests_ready(node);
}

static void state_set(struct flux_node *node, uint32_t state)
{
	/* Pairs with the loads in flux_priv_flush_published(). */
	__atomic_store_n(&node->self->state, state, __ATOMIC_RELAXED);
}

/* Returns false if a signal interrupted the sleep. */
static bool wait_sleep(struct flux_node *node, uint64_t timeout_ns)
{
	int r;

	/* Pairs with sleep_fence() in flux_priv_flush_published() and flux_leave(). */
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
		if (wait_step(w))
			go_on = wait_sleep(node, timeout_ns - spent);
		spent = clock_ns() - start;
	}
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
	/* Pairs with sleep_fence() in flux_priv_flush_published() and flux_leave(). */
	wakefd_prepare(wake, &node->self->state);
	if (node_ready(node)) {
		sleep_cancel(&node->self->state);
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
	flux_priv_burst_end(node);
	flux_flush(node);
	/* Pairs with the loads of left in flux_priv_out_poll(), senders_drop() and node_ready(). */
	__atomic_store_n(&node->self->left, 1, __ATOMIC_RELEASE);
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

/* Returns the number of messages written into a ring, with those of the open burst. */
static uint64_t sent_count(const struct flux_node *node, const struct flux_cursor *c)
{
	const struct cellring_burst *b = &node->burst.ring;

	return c->count + (b->to == &c->at ? cellring_burst_held(b) : 0);
}

/* Returns the number of messages that the reader of a ring has taken. */
static uint64_t taken_count(const struct flux_cursor *c)
{
	return c->count - cellring_left(&c->at);
}

void flux_node_get_stats(const struct flux_node *node, struct flux_stats *stats_p, size_t size)
{
	struct flux_stats s = {
		.aborted = node->aborted,
		.flushes = node->flushes,
		.wakes = node->wakes,
		.sleeps = node->sleeps,
		.yields = node->yields,
	};

	for (uint32_t p = 0; p < node->nodes; p++) {
		s.calls += sent_count(node, &node->out[p].req);
		s.responses += taken_count(&node->out[p].resp);
		s.requests += taken_count(&node->in[p].req);
		s.replies += sent_count(node, &node->in[p].resp);
	}
	sized_out(stats_p, size, &s, sizeof(s));
}
