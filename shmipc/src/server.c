/* SPDX-License-Identifier: MIT */
/* The server: creation, clients, waiting, and periodic work. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/members.h"
#include "base/probe.h"
#include "loan.h"

static_assert(CLIENT_BYTE(7) == MEMBER_BYTE(7), "the same");

#define NOBODY UINT64_MAX /* not a handle: its index would be SHMIPC_MAX_CLIENTS */
#define BUDGET 2048 /* requests and polls between two readings of the clock */
#define YIELD_NS (150 * NSEC_PER_USEC)
#define PROBE_NS (1 * NSEC_PER_MSEC) /* between checks that one client is alive */
#define RECLAIM_NS (10 * NSEC_PER_MSEC) /* between checks of all clients */

struct server {
	struct shmipc_server hot;
	struct waiter w;
	struct shmipc_layout layout;
	struct shmipc_header *header;
	uint8_t *open; /* shmipc_peer.open of all peers, by index * depth + id */
	/* Times of the last yield, of the last check of one client, and of the last check of all
	 * clients. */
	uint64_t yielded, probed, reclaimed;
	uint32_t probe; /* index of the client that was checked last */
	bool reclaim; /* a client has requested a check of all clients */
	bool peers_wait; /* a client waits and has yielded its core */
	struct members members;
	struct shmipc_server_stats stats; /* except those that the hot path counts */
};

static struct server *server_of(struct shmipc_server *hot)
{
	return container_of(hot, struct server, hot);
}

static const struct live_type live_server = {LIVE_MAGIC, PREFIX, "server", WAITER_STATES,
	.field = {
		{"clients", LIVE_AT(struct server, hot.n_active)},
		{"most", LIVE_AT(struct server, hot.max_clients)},
		{"unanswered", LIVE_AT(struct server, hot.requests),
			LIVE_LESS(struct server, hot.replies)},
		{"requests", LIVE_AT(struct server, hot.requests)},
		{"replies", LIVE_AT(struct server, hot.replies)},
		{"bad", LIVE_AT(struct server, stats.bad_requests)},
		WAITER_FIELDS(struct server, w),
	}};

static bool is_connected(const struct shmipc_peer *peer)
{
	return peer->handle != NOBODY;
}

/* The epoch has 52 bits here: if a place is taken every 10 us, they wrap after 1400 years. */
static uint64_t peer_handle(const struct shmipc_peer *peer)
{
	return peer->index | peer->epoch << 12;
}

static void peer_rewind(struct server *s, struct shmipc_peer *peer)
{
	struct shmipc_place *place = shmipc_place(&s->layout, s->header, peer->index);

	peer->req = shmipc_req_start(&s->layout, place);
	peer->resp = shmipc_resp_start(&s->layout, place);
	peer->state = &place->client_state;
	peer->place = place;
	peer->handle = NOBODY;
	peer->together = 1;
	peer->posts = peer->pushes = peer->pushes_seen = 0;
	memset(peer->open, 0, s->hot.depth);
}

/* Acquire: pairs with the releases in place_enter() and place_leave(). */
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
	struct shmipc_place *place = peer->place;

	ring_clean(peer->req);
	ring_clean(peer->resp);
	/* Both relaxed: published by the release of server_epoch. */
	__atomic_store_n(&place->posts, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&place->pushes, 0, __ATOMIC_RELAXED);
	/* Relaxed: published by the next store; pairs with the load in place_is_clean(). */
	__atomic_fetch_and(&s->header->active[index / 64], ~(1ull << index % 64), __ATOMIC_RELAXED);
	/* Release: pairs with the acquire in place_is_clean(), after which the rings are clean. */
	__atomic_store_n(&place->server_epoch, ++peer->epoch, __ATOMIC_RELEASE);
}

/*
 * Returns true if no client may have the place yet, because the event of its last client's end has
 * not been taken, or because the server may still read a request in a loan of that client.
 */
static bool place_kept(const struct server *s, uint32_t index)
{
	return members_kept(&s->members, index) || loans_server_keep(&s->hot, index);
}

/*
 * Ends the connection of a place. A place that is kept (see place_kept()) is cleaned later, when
 * the event has been taken or the last request has been answered.
 */
static void place_end(struct server *s, uint32_t index)
{
	struct shmipc_peer *peer = &s->hot.peers[index];
	bool died = place_has_bit(s, index), came = is_connected(peer);

	assert(s->hot.burst.to != &peer->resp); /* callers must close the burst first */
	if (s->hot.loans)
		loans_server_end(&s->hot, peer);
	peer_rewind(s, peer);
	if (came) {
		s->stats.reclaimed += died;
		s->stats.departures += !died;
		members_ended(&s->members, index, died ? MEMBER_DIED : MEMBER_LEFT);
	} else {
		members_forget(&s->members, index);
	}
	if (!place_kept(s, index))
		place_clean(s, index);
}

/*
 * Admits the client that set the bit of a place. The client holds the lock of its place, unless it
 * is hostile.
 */
static void peer_admit(struct server *s, uint32_t index)
{
	struct shmipc_peer *peer = &s->hot.peers[index];

	/* Relaxed: ordered by the bit, which the client sets after its epoch. */
	if (__atomic_load_n(&peer->place->client_epoch, __ATOMIC_RELAXED) != peer->epoch)
		return;
	peer->handle = peer_handle(peer);
	s->stats.connects++;
	members_admit(&s->members, &s->w, index);
}

static void active_rebuild(struct server *s)
{
	struct shmipc_server *hot = &s->hot;

	hot->visit = hot->n_visits = 0; /* a client in `visits` may have gone */
	hot->n_active = 0;
	for (uint32_t i = 0; i < hot->max_clients; i++)
		if (is_connected(&hot->peers[i]))
			hot->active[hot->n_active++] = &hot->peers[i];
	s->stats.clients = hot->n_active;
}

/*
 * Must be called if a client has connected, disconnected, or requested a search for dead clients.
 */
COLD void shmipc_priv_server_rescan(struct shmipc_server *hot)
{
	struct server *s = server_of(hot);
	struct shmipc_header *h = s->header;

	shmipc_priv_server_end_burst(hot); /* its replies must not reach the next client */
	/* Acquire: pairs with the release in server_notify(). */
	hot->seen = __atomic_load_n(&h->changes, __ATOMIC_ACQUIRE);
	members_meet(&s->members, &s->w);
	for (uint32_t i = 0; i < hot->max_clients; i++) {
		bool bit = place_has_bit(s, i);

		if (bit && !is_connected(&hot->peers[i]) && !place_kept(s, i))
			peer_admit(s, i);
		else if (!bit && is_connected(&hot->peers[i]))
			place_end(s, i);
	}
	active_rebuild(s);
	/* Relaxed: only a hint; pairs with the store in place_wait(). */
	if (__atomic_load_n(&h->reclaim, __ATOMIC_RELAXED)) {
		s->reclaim = true;
		hot->budget = 0;
	}
}

/*
 * Calls place_end() if the place was taken, is not kept, and no client holds its lock. Returns true
 * if it did.
 */
static bool place_reclaim(struct server *s, uint32_t index)
{
	struct shmipc_peer *peer = &s->hot.peers[index];
	/*
	 * Relaxed: a living client holds its lock from before it stores client_epoch until after it
	 * has cleared its bit. If this load misses a store, a later check sees it.
	 */
	bool taken = __atomic_load_n(&peer->place->client_epoch, __ATOMIC_RELAXED) == peer->epoch;

	if ((!taken && !is_connected(peer)) || place_kept(s, index))
		return false;
	if (shm_locked(&s->w.region, CLIENT_BYTE(index)) != 0)
		return false;
	place_end(s, index);
	return true;
}

static void reclaim_all(struct server *s)
{
	bool changed = false;

	members_meet(&s->members, &s->w);
	/* Relaxed: if this overwrites a new request, place_wait() repeats the request. */
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
	shmipc_priv_server_end_burst(hot); /* its replies must not reach the next client */
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
		members_meet(&s->members, &s->w);
		if (place_reclaim(s, s->probe))
			active_rebuild(s);
	}
}

/* ---- waiting ---- */

static int server_poll(struct server *s)
{
	int n = shmipc_server_poll(&s->hot);

	return n ? n : s->members.count != 0;
}

static void server_flush(struct server *s)
{
	shmipc_server_flush(&s->hot);
}

/* Makes the poll before a sleep read the clock and check for dead clients. */
static bool server_rest(struct server *s)
{
	s->hot.budget = 0;
	s->reclaim |= s->members.here != 0; /* polls will be rare: each checks all clients */
	return false;
}

/*
 * Returns true if a sleep needs a time limit: some clients could not be woken for lack of a
 * descriptor, or a server that takes events has clients, whose deaths do not wake it.
 */
static bool server_owes(const struct server *s)
{
	return s->hot.n_unfenced_peers || s->members.here;
}

static const struct wakefd_addr *server_client(const struct server *s, uint32_t index)
{
	if (!place_has_bit(s, index))
		return NULL;
	return &s->hot.peers[index].place->client_addr;
}

#include "base/waitserver.h"

/* ---- waking ---- */

/* Returns wakefd_wake()'s result. */
static int peer_wake(struct server *s, const struct shmipc_peer *peer)
{
	struct shmipc_place *place = peer->place;

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
	/* Orders the stores that published replies before the loads of the clients' state words:
	 * pairs with sleep_prepare_as(). */
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

/* Returns 1 for a post with a valid length. Any other message is counted as bad: returns 0. */
int shmipc_priv_server_is_post(struct shmipc_server *hot, uint64_t head)
{
	if (CELLRING_ID(head) == SHMIPC_ONE_WAY && CELLRING_LENGTH(head) <= hot->req_size)
		return 1;
	server_of(hot)->stats.bad_requests++;
	return 0;
}

/* Takes a request in a loan and returns 1, or returns 0 if the message is not a valid one. */
COLD int shmipc_priv_server_loaned(struct shmipc_server *hot, const unsigned char *slot,
	struct shmipc_req *req_p, void *buf, uint32_t capacity, const void **in_place_p)
{
	struct shmipc_peer *peer = hot->visits[hot->visit].peer;
	const void *payload;

	if (!hot->loans || !loans_server_take(hot, peer, slot, req_p, &payload))
		return 0;
	if (in_place_p)
		*in_place_p = payload;
	else
		cellring_copy(buf, payload, req_p->len < capacity ? req_p->len : capacity);
	return 1;
}

/*
 * Must be called for an answer to a client that does not have its place any more. The last answer
 * cleans the place immediately, because the bit of a dead client is still set and would admit the
 * client again.
 */
COLD int shmipc_priv_server_gone(struct shmipc_server *hot, uint64_t client, uint32_t id)
{
	struct shmipc_peer *peer = &hot->peers[SHMIPC_CLIENT_INDEX(client)];

	if (is_connected(peer) || client != peer_handle(peer) || id >= hot->depth)
		return -EPIPE;
	if (loans_server_drop(hot, peer->index, id) && !place_kept(server_of(hot), peer->index))
		place_clean(server_of(hot), peer->index);
	return -EPIPE;
}

int shmipc_server_commit(struct shmipc_server *hot, uint64_t client, uint32_t id, uint32_t len)
{
	uint64_t word = loan_word(0, len);
	struct shmipc_peer *peer;
	int err = loans_server_find(hot, client, id, &peer);

	if (err == -EPIPE)
		return shmipc_priv_server_gone(hot, client, id);
	if (err)
		return err;
	if (len > hot->loans->layout.attr.loan_resp_size)
		return -EMSGSIZE;
	peer->open[id] = 0;
	hot->replies++;
	hot->loans->resp_len = len;
	shmipc_priv_server_put(hot, peer, id | LOAN_BIT, &word, sizeof(word));
	return 0;
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

int shmipc_priv_server_untold(struct shmipc_server *hot)
{
	return server_of(hot)->members.count != 0;
}

int shmipc_server_event(struct shmipc_server *hot, struct shmipc_event *event_p, size_t size)
{
	struct server *s = server_of(hot);
	struct member_event event;

	if (!s->members.of)
		return -EINVAL;
	if (!members_take(&s->members, &event))
		return 0;
	if (event.kind != MEMBER_CAME) {
		loans_server_forget(hot, event.index);
		place_clean(s, event.index);
	}
	sized_out(event_p, size, &event, sizeof(event));
	return 1;
}

void *shmipc_server_extra(struct shmipc_server *hot, uint64_t client)
{
	struct server *s = server_of(hot);
	uint32_t index = SHMIPC_CLIENT_INDEX(client);

	if (index >= hot->max_clients || hot->peers[index].handle != client)
		return NULL;
	return shmipc_place_extra(&s->layout, hot->peers[index].place);
}

void shmipc_server_get_attr(const struct shmipc_server *hot, struct shmipc_attr *attr_p,
	size_t size)
{
	const struct server *s = container_of(hot, const struct server, hot);

	attr_out(attr_p, size, &s->layout.attr, &s->w.region);
}

void shmipc_server_get_stats(const struct shmipc_server *hot, struct shmipc_server_stats *stats_p,
	size_t size)
{
	const struct server *s = container_of(hot, const struct server, hot);
	struct shmipc_server_stats stats = s->stats;

	stats.requests = hot->requests;
	stats.replies = hot->replies;
	stats.posts = hot->posts;
	stats.pushes = hot->pushes;
	stats.refused_pushes = hot->refused_pushes;
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
	free(s->hot.copy);
	loans_server_free(s->hot.loans);
	free(s->open);
	members_free(&s->members);
	free(s);
}

/* Allocates everything but the region. Returns NULL if there is no memory. */
static struct server *server_alloc(const struct shmipc_layout *l)
{
	struct server *s = calloc_lines(1, sizeof(*s));
	size_t n = l->attr.max_clients;

	if (!s)
		return NULL;
	s->w.wake = WAKEFD_NONE;
	s->layout = *l;
	s->hot.max_clients = l->attr.max_clients;
	s->hot.depth = l->attr.depth;
	s->hot.req_size = l->attr.req_size;
	s->hot.resp_size = l->attr.resp_size;
	s->hot.tells = l->attr.events;
	s->hot.push_max = l->attr.pushes;
	cellring_burst_close(&s->hot.burst);
	s->hot.peers = calloc_lines(n, sizeof(*s->hot.peers));
	s->hot.active = calloc_lines(n, sizeof(*s->hot.active));
	s->hot.visits = calloc_lines(n, sizeof(*s->hot.visits));
	s->hot.unfenced_peers = calloc_lines(n, sizeof(*s->hot.unfenced_peers));
	s->hot.copy = calloc_lines(1, l->attr.req_size);
	s->open = calloc(n, l->attr.depth);
	if (!s->hot.peers || !s->hot.active || !s->hot.visits || !s->hot.unfenced_peers ||
		!s->open || !s->hot.copy || loans_server_init(&s->layout, &s->hot.loans) ||
		(l->attr.events && !members_init(&s->members, l->attr.max_clients))) {
		server_free(s);
		return NULL;
	}
	return s;
}

#define STORE(size_) h->size_ = a->size_;

/* Fills in the region. The magic, stored last, tells clients that the region is complete. */
static void server_publish(struct server *s)
{
	struct shmipc_header *h = s->header;
	const struct shmipc_attr *a = &s->layout.attr;

	h->version = SHMIPC_VERSION;
	h->size = s->layout.size;
	SHMIPC_SIZES(STORE)
	h->server_addr.netns = wakefd_netns();
	for (uint32_t i = 0; i < a->max_clients; i++) {
		s->hot.peers[i].index = i;
		s->hot.peers[i].open = s->open + (size_t)i * a->depth;
		peer_rewind(s, &s->hot.peers[i]);
		s->hot.peers[i].epoch = 1;
		s->hot.peers[i].place->server_epoch = 1;
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
	err = shm_create_for(PREFIX, name, l.size, &access, &s->w.region);
	if (err) {
		server_free(s);
		return err;
	}
	s->header = s->w.region.addr;
	if (s->hot.loans)
		s->hot.loans->header = s->header;
	s->w.word = &s->header->server_state;
	s->w.addr = &s->header->server_addr;
	if (l.attr.events)
		err = wakefd_door(&s->w.wake, &s->header->door);
	if (err) {
		shm_close(&s->w.region);
		server_free(s);
		return err;
	}
	server_publish(s);
	s->w.live = live_add(&live_server, s, name);
	*server_p = &s->hot;
	return 0;
}

static void announce_end(struct server *s)
{
	shmipc_priv_server_publish(&s->hot);
	/* Release: a client that sees `closed` also sees the last reply. Pairs with the acquire in
	 * server_ended(). */
	__atomic_store_n(&s->header->closed, 1, __ATOMIC_RELEASE);
	sleep_fence(); /* pairs with the fence in sleep_prepare_as() */
	for (uint32_t i = 0; i < s->hot.n_active; i++)
		peer_wake(s, s->hot.active[i]);
}
