/* SPDX-License-Identifier: MIT */
/* The server: creation, clients, waiting, and periodic work. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "base/waiter.h"
#include "layout.h"

#define NOBODY UINT64_MAX /* no handle is equal to it: its index would be SHMIPC_MAX_CLIENTS */
#define BUDGET 2048 /* requests and polls between two readings of the clock */
#define YIELD_NS (150 * NSEC_PER_USEC)
#define PROBE_NS (1 * NSEC_PER_MSEC) /* between checks that one client is alive */
#define RECLAIM_NS (10 * NSEC_PER_MSEC) /* between checks of all clients */

struct server {
	struct shmipc_server hot;
	struct waiter w;
	struct shmipc_layout layout;
	struct shmipc_header *header;
	uint8_t *open; /* of all peers, by index * depth + id */
	uint64_t yielded, probed, reclaimed; /* times of the last yield, check of one and of all */
	uint32_t probe; /* index of the client that was checked last */
	bool reclaim; /* a client has requested a check of all */
	bool peers_wait; /* a client waits and has yielded its core */
	struct shmipc_server_stats stats; /* except those that the hot path counts */
};

static struct server *server_of(struct shmipc_server *hot)
{
	return container_of(hot, struct server, hot);
}

static bool is_connected(const struct shmipc_peer *peer)
{
	return peer->handle != NOBODY;
}

static void peer_rewind(struct server *s, struct shmipc_peer *peer)
{
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, peer->index);

	peer->req = shmipc_req_start(&s->layout, place);
	peer->resp = shmipc_resp_start(&s->layout, place);
	peer->state = &place->client_state;
	peer->handle = NOBODY;
	peer->together = 1;
	memset(peer->open, 0, s->hot.depth);
}

/* Acquire: pairs with the releases in place_take() and shmipc_client_disconnect(). */
static bool place_has_bit(const struct server *s, uint32_t index)
{
	return __atomic_load_n(&s->header->active[index / 64], __ATOMIC_ACQUIRE) >> index % 64 & 1;
}

static void ring_clean(struct cellring_cursor ring)
{
	for (unsigned char *cell = ring.begin; cell != ring.end; cell += ring.cell)
		/* Relaxed: published by the release of server_epoch. */
		__atomic_store_n(&((struct cellring_message *)cell)->head, 0, __ATOMIC_RELAXED);
}

/* Prepares the place for the next client, whatever the last one wrote there. */
static void place_clean(struct server *s, uint32_t index)
{
	struct shmipc_peer *peer = &s->hot.peers[index];
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, index);

	assert(s->hot.burst.to != &peer->resp); /* callers must close the burst first */
	if (is_connected(peer) && place_has_bit(s, index))
		s->stats.reclaimed++;
	else if (is_connected(peer))
		s->stats.departures++;
	peer_rewind(s, peer);
	ring_clean(peer->req);
	ring_clean(peer->resp);
	/* Relaxed: published by the next store; pairs with the load in place_is_clean(). */
	__atomic_fetch_and(&s->header->active[index / 64], ~(1ull << index % 64), __ATOMIC_RELAXED);
	/* Release: pairs with the acquire in place_is_clean(): the rings are zero then. */
	__atomic_store_n(&place->server_epoch, ++peer->epoch, __ATOMIC_RELEASE);
}

/* Admits the client that set the bit of a place. It holds the lock, unless it is hostile. */
static void peer_admit(struct server *s, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, index);
	struct shmipc_peer *peer = &s->hot.peers[index];

	/* Relaxed: ordered by the bit, which was set after it. */
	if (__atomic_load_n(&place->client_epoch, __ATOMIC_RELAXED) != peer->epoch)
		return;
	/* The epoch has 52 bits: a place that is taken every 10 us needs 1400 years to wrap it. */
	peer->handle = index | peer->epoch << 12;
	s->stats.connects++;
}

static void active_rebuild(struct server *s)
{
	struct shmipc_server *hot = &s->hot;

	hot->n_active = 0;
	for (uint32_t i = 0; i < hot->max_clients; i++)
		if (is_connected(&hot->peers[i]))
			hot->active[hot->n_active++] = &hot->peers[i];
	s->stats.clients = hot->n_active;
}

/* Must be called if a client has connected, disconnected, or requested a search for dead ones. */
COLD void shmipc_priv_server_rescan(struct shmipc_server *hot)
{
	struct server *s = server_of(hot);
	struct shmipc_header *h = s->header;

	shmipc_priv_server_end_burst(hot); /* so that its replies cannot reach the next client */
	/* Acquire: pairs with the release in server_notify(). */
	hot->seen = __atomic_load_n(&h->changes, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < hot->max_clients; i++) {
		bool bit = place_has_bit(s, i);

		if (bit && !is_connected(&hot->peers[i]))
			peer_admit(s, i);
		else if (!bit && is_connected(&hot->peers[i]))
			place_clean(s, i);
	}
	active_rebuild(s);
	/* Relaxed: only a hint; pairs with the store in place_wait(). */
	if (__atomic_load_n(&h->reclaim, __ATOMIC_RELAXED)) {
		s->reclaim = true;
		hot->budget = 0;
	}
}

/* Cleans the place if no living client holds it. */
static bool place_reclaim(struct server *s, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, index);
	struct shmipc_peer *peer = &s->hot.peers[index];
	/*
	 * Relaxed: a living client holds its lock from before it takes the epoch until after it
	 * has cleared its bit. If this load misses a store, a later check sees it.
	 */
	bool taken = __atomic_load_n(&place->client_epoch, __ATOMIC_RELAXED) == peer->epoch;

	if (!taken && !is_connected(peer))
		return false;
	if (shm_locked(&s->w.region, CLIENT_BYTE(index)) != 0)
		return false;
	place_clean(s, index);
	return true;
}

static void reclaim_all(struct server *s)
{
	bool changed = false;

	/* Relaxed: pairs with the store in place_wait(), which that function repeats. */
	__atomic_store_n(&s->header->reclaim, 0, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < s->hot.max_clients; i++)
		changed |= place_reclaim(s, i);
	if (changed)
		active_rebuild(s);
}

/* Every BUDGET messages or polls: yields the core if a client waits, and cleans up dead clients. */
COLD void shmipc_priv_server_rest(struct shmipc_server *hot)
{
	struct server *s = server_of(hot);
	uint64_t now = clock_ns();

	hot->budget = BUDGET;
	shmipc_priv_server_end_burst(hot); /* so that its replies cannot reach the next client */
	if (s->peers_wait && now - s->yielded >= YIELD_NS) {
		s->peers_wait = false;
		sched_yield();
		now = clock_ns();
		s->yielded = now;
		s->stats.yields++;
	}
	if (s->reclaim && now - s->reclaimed >= RECLAIM_NS) {
		s->reclaim = false;
		s->reclaimed = now;
		reclaim_all(s);
	} else if (now - s->probed >= PROBE_NS) {
		s->probed = now;
		s->probe = s->probe + 1 < hot->max_clients ? s->probe + 1 : 0;
		if (place_reclaim(s, s->probe))
			active_rebuild(s);
	}
}

/* ---- waiting ---- */

static int server_poll(struct server *s)
{
	return shmipc_server_poll(&s->hot);
}

static void server_flush(struct server *s)
{
	shmipc_server_flush(&s->hot);
}

/* Makes the poll before a sleep read the clock and check for dead clients. */
static bool server_rest(struct server *s)
{
	s->hot.budget = 0;
	return false;
}

/* True if some clients could not be woken for lack of a descriptor. */
static bool server_owes(const struct server *s)
{
	return s->hot.n_unfenced_peers;
}

static const struct wakefd_addr *server_client(const struct server *s, uint32_t index)
{
	if (!place_has_bit(s, index))
		return NULL;
	return &shmipc_place(&s->layout, s->header, index)->client_addr;
}

#define WAITER_LAYER shmipc
#include "base/waitserver.h"

int shmipc_server_wait(struct shmipc_server *hot, uint64_t timeout_ns)
{
	return server_wait(server_of(hot), timeout_ns);
}

int shmipc_server_fd(struct shmipc_server *hot)
{
	return server_fd(server_of(hot));
}

int shmipc_server_arm(struct shmipc_server *hot)
{
	return server_arm(server_of(hot));
}

/* ---- waking ---- */

/* Returns wakefd_wake()'s result. */
static int peer_wake(struct server *s, const struct shmipc_peer *peer)
{
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, peer->index);

	return server_wake(s, peer->index, &place->client_state, &place->client_addr);
}

/* Must be called if a client that got a reply yields or sleeps. */
static void peer_waits(struct server *s, struct shmipc_peer *peer)
{
	int woken = peer_wake(s, peer); /* loads the word again, after the fence */

	s->peers_wait |= woken == 0;
	if (woken < 0) /* try again next time */
		shmipc_priv_server_published(&s->hot, peer);
}

void shmipc_priv_server_wake_test(struct shmipc_server *hot)
{
	struct server *s = server_of(hot);
	uint32_t n = hot->n_unfenced_peers;

	hot->n_unfenced_peers = 0;
	hot->unfenced = 0;
	/* Orders the laps before the loads of the words: pairs with sleep_prepare_as(). */
	sleep_fence();
	for (uint32_t i = 0; i < n; i++) {
		struct shmipc_peer *peer = hot->unfenced_peers[i];

		peer->unfenced = 0;
		/* Relaxed: the fences order it; pairs with the stores in client_sleep(). */
		if (unlikely(__atomic_load_n(peer->state, __ATOMIC_RELAXED) != SLEEP_RUNNING))
			peer_waits(s, peer);
	}
}

/* ---- bursts ---- */

/* Treats a burst with an impossible count, from a hostile client, as one request. */
COLD uint32_t shmipc_priv_server_forged(struct shmipc_peer *peer)
{
	return cellring_arrive(&peer->req, CELLRING_HEAD(0, 1, 1));
}

/* Counts a request with an impossible id or length, which is dropped without a reply. */
COLD void shmipc_priv_server_drop(struct shmipc_server *hot)
{
	server_of(hot)->stats.bad_requests++;
}

int shmipc_priv_server_begin(struct shmipc_server *hot, struct shmipc_peer *peer)
{
	shmipc_priv_server_end_burst(hot);
	hot->burst_peer = peer;
	return cellring_burst_open(&hot->burst, &peer->resp, peer->together);
}

void shmipc_priv_server_full(struct shmipc_server *hot)
{
	struct cellring_burst *b = &hot->burst;

	cellring_burst_write_full(b);
	shmipc_priv_server_published(hot, hot->burst_peer);
	PROBE(shmipc, server_publish, hot, hot->burst_peer->index, b->limit);
	if (unlikely(cellring_burst_stale(b)))
		cellring_burst_open(b, b->to, b->limit);
}

void shmipc_priv_server_part(struct shmipc_server *hot)
{
	struct cellring_burst *b = &hot->burst;

	PROBE(shmipc, server_publish, hot, hot->burst_peer->index,
		(uint32_t)(b->next - b->stage) / b->stride);
	cellring_burst_write_part(b);
	shmipc_priv_server_published(hot, hot->burst_peer);
	if (cellring_burst_stale(b))
		cellring_burst_open(b, b->to, b->limit);
}

void shmipc_priv_server_end_burst(struct shmipc_server *hot)
{
	shmipc_priv_server_publish(hot);
	cellring_burst_close(&hot->burst);
}

/* ---- the rest of the interface ---- */

void *shmipc_server_extra(struct shmipc_server *hot, uint64_t client)
{
	struct server *s = server_of(hot);
	uint32_t index = SHMIPC_CLIENT_INDEX(client);

	if (index >= hot->max_clients || hot->peers[index].handle != client)
		return NULL;
	return shmipc_place_extra(&s->layout, shmipc_place(&s->layout, s->header, index));
}

void shmipc_server_get_attr(const struct shmipc_server *hot, struct shmipc_attr *attr_p,
	size_t size)
{
	const struct server *s = container_of(hot, const struct server, hot);

	shmipc_attr_out(attr_p, size, &s->layout, &s->w.region);
}

void shmipc_server_get_stats(const struct shmipc_server *hot, struct shmipc_server_stats *stats_p,
	size_t size)
{
	const struct server *s = container_of(hot, const struct server, hot);
	struct shmipc_server_stats stats = s->stats;

	stats.requests = hot->requests;
	stats.replies = hot->replies;
	stats.sleeps = s->w.sleeps;
	stats.wakes = s->w.wakes;
	sized_out(stats_p, size, &stats, sizeof(stats));
}

static void server_free(struct server *s)
{
	free(s->hot.peers);
	free(s->hot.active);
	free(s->hot.visits);
	free(s->hot.unfenced_peers);
	free(s->open);
	free(s);
}

/* Allocates everything but the region. Returns NULL if there is no memory. */
static struct server *server_alloc(const struct shmipc_layout *l)
{
	struct server *s = shmipc_alloc(1, sizeof(*s));
	size_t n = l->attr.max_clients;

	if (!s)
		return NULL;
	s->w.wake = WAKEFD_NONE;
	s->layout = *l;
	s->hot.max_clients = l->attr.max_clients;
	s->hot.depth = l->attr.depth;
	s->hot.req_size = l->attr.req_size;
	s->hot.resp_size = l->attr.resp_size;
	cellring_burst_close(&s->hot.burst);
	s->hot.peers = shmipc_alloc(n, sizeof(*s->hot.peers));
	s->hot.active = shmipc_alloc(n, sizeof(*s->hot.active));
	s->hot.visits = shmipc_alloc(n, sizeof(*s->hot.visits));
	s->hot.unfenced_peers = shmipc_alloc(n, sizeof(*s->hot.unfenced_peers));
	s->open = calloc(n, l->attr.depth);
	if (!s->hot.peers || !s->hot.active || !s->hot.visits || !s->hot.unfenced_peers ||
		!s->open) {
		server_free(s);
		return NULL;
	}
	return s;
}

/* Fills in the region. The magic, stored last, tells clients that the region is complete. */
static void server_publish(struct server *s)
{
	struct shmipc_header *h = s->header;
	const struct shmipc_attr *a = &s->layout.attr;

	h->version = SHMIPC_VERSION;
	h->max_clients = a->max_clients;
	h->depth = a->depth;
	h->req_size = a->req_size;
	h->resp_size = a->resp_size;
	h->extra_size = a->extra_size;
	h->size = s->layout.size;
	h->server_addr.netns = wakefd_netns();
	for (uint32_t i = 0; i < a->max_clients; i++) {
		s->hot.peers[i].index = i;
		s->hot.peers[i].open = s->open + (size_t)i * a->depth;
		peer_rewind(s, &s->hot.peers[i]);
		s->hot.peers[i].epoch = 1;
		shmipc_place(&s->layout, h, i)->server_epoch = 1;
	}
	s->hot.changes = &h->changes;
	/* Release: pairs with the acquire in header_check(). */
	__atomic_store_n(&h->magic, SHMIPC_MAGIC, __ATOMIC_RELEASE);
}

int shmipc_server_create(const char *name, const struct shmipc_attr *attr,
	struct shmipc_server **server_p)
{
	struct shmipc_attr want;
	struct shm_access access;
	struct shmipc_layout l;
	struct server *s;
	int err;

	err = SIZED_ATTR(&want, attr, set);
	if (!err)
		err = shmipc_layout_plan(&want, &l);
	if (!err)
		err = shm_access_init(&access, want.mode, want.gid, want.set);
	if (err)
		return err;
	s = server_alloc(&l);
	if (!s)
		return -ENOMEM;
	err = shm_create_for(SHMIPC_PREFIX, name, l.size, &access, &s->w.region);
	if (err) {
		server_free(s);
		return err;
	}
	s->header = s->w.region.addr;
	s->w.word = &s->header->server_state;
	s->w.addr = &s->header->server_addr;
	server_publish(s);
	*server_p = &s->hot;
	return 0;
}

int shmipc_server_unlink(struct shmipc_server *hot)
{
	return shm_remove_name(&server_of(hot)->w.region);
}

void shmipc_server_destroy(struct shmipc_server *hot)
{
	struct server *s;

	if (!hot)
		return;
	s = server_of(hot);
	if (s->w.region.fd >= 0) { /* it is -1 in a forked child; the parent continues to serve */
		shmipc_priv_server_publish(hot);
		/* Release: pairs with the acquire in server_ended(), after the last reply. */
		__atomic_store_n(&s->header->closed, 1, __ATOMIC_RELEASE);
		sleep_fence(); /* pairs with the one in sleep_prepare() */
		for (uint32_t i = 0; i < hot->n_active; i++)
			peer_wake(s, hot->active[i]);
	}
	wakefd_close(&s->w.wake);
	shm_close(&s->w.region);
	server_free(s);
}
