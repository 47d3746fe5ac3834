/* SPDX-License-Identifier: MIT */
/* The server's side of delegrpc, without the hot path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/lines.h"
#include "base/probe.h"
#include "server.h"

#define YIELD_NS (150 * NSEC_PER_USEC) /* between two yields of a busy server */
#define MAX_BUSY (1u << 16) /* maximum number of polls between two readings of the clock */
#define STAGED 256 /* larger response slots are not collected, because that copies them twice */

static const struct live_type live_server = {LIVE_MAGIC, PREFIX, "server", WAITER_STATES,
	.field = {
		{"unanswered", LIVE_AT(struct server, hot.received),
			LIVE_LESS(struct server, hot.replied)},
		{"slots-in-use", LIVE_VIA(struct server, hot.control),
			LIVE_AT(struct delegrpc_control, head),
			LIVE_LESS(struct delegrpc_control, tail)},
		{"slots", LIVE_AT(struct server, hot.ring_depth)},
		{"requests", LIVE_AT(struct server, hot.received)},
		{"replies", LIVE_AT(struct server, hot.replied)},
		{"posts", LIVE_AT(struct server, hot.posts)},
		{"bad", LIVE_AT(struct server, hot.bad)},
		{"holes", LIVE_AT(struct server, holes)},
		WAITER_FIELDS(struct server, w),
		{"error", LIVE_AT(struct server, hot.broken), .form = LIVE_SIGNED},
	}};

/* ---- waiting ---- */

static int server_poll(struct server *s)
{
	int n = delegrpc_server_poll(&s->hot);

	return n ? n : guests_look(s, true);
}

static void server_flush(struct server *s)
{
	delegrpc_server_flush(&s->hot);
}

static int look_for_holes(struct server *s);

static bool server_rest(struct server *s)
{
	return look_for_holes(s);
}

/*
 * Returns true if a sleep needs a time limit: a position is reserved and not filled, and its client
 * may die without waking the server; or a client could not be woken for lack of a descriptor; or a
 * server that takes events has clients, whose deaths do not wake it.
 */
static bool server_owes(const struct server *s)
{
	/* Relaxed: a client whose reservation this load misses wakes us, unless it dies before. */
	return __atomic_load_n(&s->hot.control->head, __ATOMIC_RELAXED) != s->hot.cursor ||
	       s->hot.n_unfenced_peers || s->members.here;
}

static const struct wakefd_addr *server_client(const struct server *s, uint32_t id)
{
	struct delegrpc_line *line = &s->lines[id];
	/* Acquire: pairs with the release in take_over(); the namespace is visible then. */
	uint32_t taken = __atomic_load_n(&line->taken, __ATOMIC_ACQUIRE);

	return taken && taken != DELEGRPC_COMING ? address_of(&line->address) : NULL;
}

#include "base/waitserver.h"

/* Returns wakefd_wake()'s result. */
static int wake_client(struct server *s, uint32_t client)
{
	struct delegrpc_line *line = &s->lines[client];

	return server_wake(s, client, &line->state, address_of(&line->address));
}

/* ---- life ---- */

/* Fills in everything except the magic and the door; the region's memory is zero. */
static void init_region(struct server *s, const struct delegrpc_layout *l)
{
	struct delegrpc_header *h = s->header;

	h->version = DELEGRPC_VERSION;
	h->max_clients = s->attr.max_clients;
	h->ring_depth = s->attr.ring_depth;
	h->resp_depth = s->attr.resp_depth;
	h->server_alive = 1;
	h->req_size = s->attr.req_size;
	h->resp_size = s->attr.resp_size;
	h->region_size = l->size;
	h->server_address.netns = wakefd_netns();
}

static void init_hot(struct server *s, const struct delegrpc_layout *l)
{
	struct delegrpc_server *hot = &s->hot;
	unsigned char *base = s->w.region.addr;

	hot->control = (void *)(base + l->control);
	hot->requests = base + l->requests;
	hot->responses = base + l->responses;
	hot->max_clients = s->attr.max_clients;
	hot->ring_depth = s->attr.ring_depth;
	hot->ring_shift = (uint32_t)__builtin_ctz(s->attr.ring_depth);
	hot->req_size = s->attr.req_size;
	hot->req_stride = l->req_stride;
	hot->resp_depth = s->attr.resp_depth;
	hot->resp_shift = (uint32_t)__builtin_ctz(s->attr.resp_depth);
	hot->resp_size = s->attr.resp_size;
	hot->resp_stride = l->resp_stride;
	hot->resp_pitch = l->resp_pitch;
	hot->burst.client = DELEGRPC_ID_NONE;
	hot->busy = s->busy_polls = 1;
}

static void server_free(struct server *s)
{
	free(s->hot.peers);
	free(s->hot.open);
	free(s->hot.unfenced_peers);
	free(s->hot.stage);
	free(s->guests.of);
	members_free(&s->members);
	free(s);
}

int delegrpc_server_create(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_server **server_p)
{
	struct shm_access access;
	struct delegrpc_layout l;
	struct server *s = calloc_lines(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->w.wake = WAKEFD_NONE;
	err = SIZED_ATTR(&s->attr, attr, set);
	if (!err)
		err = attr_complete(&s->attr);
	if (!err)
		err = shm_access_init(&access, s->attr.mode, s->attr.gid, s->attr.set);
	if (err)
		goto fail;
	err = -ENOMEM;
	s->hot.peers = calloc(s->attr.max_clients, sizeof(*s->hot.peers));
	s->hot.unfenced_peers = calloc(s->attr.max_clients, sizeof(*s->hot.unfenced_peers));
	s->hot.open =
		calloc((size_t)s->attr.max_clients * s->attr.resp_depth, sizeof(*s->hot.open));
	s->hot.stage = calloc(DELEGRPC_BATCH, STAGED);
	if (!s->hot.peers || !s->hot.unfenced_peers || !s->hot.open || !s->hot.stage)
		goto fail;
	if (s->attr.events && guests_init(s))
		goto fail;
	layout_of(&s->attr, &l);
	err = shm_create_for(PREFIX, name, l.size, &access, &s->w.region);
	if (err)
		goto fail;
	s->header = s->w.region.addr;
	s->w.word = &s->header->server_state;
	s->w.addr = address_of(&s->header->server_address);
	s->lines = (void *)((unsigned char *)s->w.region.addr + l.lines);
	init_region(s, &l);
	init_hot(s, &l);
	if (s->attr.events)
		err = wakefd_door(&s->w.wake, address_of(&s->header->door));
	if (err)
		goto fail_close;
	/* The region is complete. Pairs with the acquire load in check_header(). */
	__atomic_store_n(&s->header->magic, DELEGRPC_MAGIC, __ATOMIC_RELEASE);
	s->w.live = live_add(&live_server, s, name);
	*server_p = &s->hot;
	return 0;
fail_close:
	shm_close(&s->w.region);
fail:
	server_free(s);
	return err;
}

static void announce_end(struct server *s)
{
	delegrpc_priv_server_publish(&s->hot);
	/* Release, after the replies: pairs with the acquire in delegrpc_priv_alive(). */
	__atomic_store_n(&s->header->server_alive, 0, __ATOMIC_RELEASE);
	sleep_fence();
	for (uint32_t i = 0; i < s->attr.max_clients; i++)
		wake_client(s, i);
}

/* Returns the result of skip_holes(). If the ring is broken, tells clients that the server ends. */
static int look_for_holes(struct server *s)
{
	bool was_broken = s->hot.broken;
	int more = skip_holes(s);

	if (more < 0 && !was_broken)
		announce_end(s);
	return more;
}

/*
 * Must be called after many empty polls (cursor == found). Checks whether a dead client's
 * reservation blocks the ring. Returns the result of the poll.
 */
int delegrpc_priv_unstick(struct delegrpc_server *server)
{
	int more = look_for_holes(server_of(server));

	if (more > 0)
		server->empty = DELEGRPC_STUCK_POLLS - 1; /* the next empty poll continues */
	return more < 0 ? more : 0;
}

void delegrpc_server_get_attr(const struct delegrpc_server *server, struct delegrpc_attr *attr_p,
	size_t size)
{
	const struct server *s = container_of(server, struct server, hot);

	attr_out(attr_p, size, &s->attr, &s->w.region);
}

void delegrpc_server_get_stats(const struct delegrpc_server *server,
	struct delegrpc_server_stats *stats_p, size_t size)
{
	const struct server *s = container_of(server, struct server, hot);
	const struct delegrpc_burst *burst = &server->burst;
	uint32_t held = burst->client == DELEGRPC_ID_NONE ? 0 : burst->limit - burst->room;
	const struct delegrpc_server_stats stats = {
		.requests = server->received,
		.replies = server->replied,
		.stale_replies = s->stale,
		.bad_requests = server->bad,
		.holes = s->holes,
		.looks = s->looks,
		/* A reply that belongs to no burst was published alone. */
		.bursts = s->bursts + server->replied - s->collected - held,
		.sleeps = s->w.sleeps,
		.wakes = s->w.wakes,
		.yields = s->yields,
		.posts = server->posts,
	};

	sized_out(stats_p, size, &stats, sizeof(stats));
}

/* ---- bursts of replies ---- */

/* Opens a burst for replies to this client. Returns false if the reply must be published alone. */
bool delegrpc_priv_begin_burst(struct delegrpc_server *server, uint32_t client)
{
	const struct delegrpc_peer *peer = &server->peers[client];
	struct delegrpc_burst *burst = &server->burst;
	uint32_t limit = peer->burst;
	uint32_t at = peer->next & (server->resp_depth - 1);

	delegrpc_priv_server_publish(server);
	if (limit > server->resp_depth - at) /* no burst crosses the end of the ring */
		limit = server->resp_depth - at;
	if (limit <= 1 || server->resp_stride > STAGED)
		return false;
	burst->next = server->stage;
	burst->client = client;
	burst->stamp = delegrpc_priv_stamp(peer->next, server->resp_shift, peer->generation);
	burst->limit = burst->room = limit;
	return true;
}

/* The first stamp of the burst is stored last: once a client sees it, the rest is visible, too. */
void delegrpc_priv_publish_replies(struct delegrpc_server *server)
{
	struct delegrpc_burst *burst = &server->burst;
	uint32_t n;

	/* Pairs with the acquire load in delegrpc_priv_response_word(). */
	cellring_publish(delegrpc_priv_reply_slot(server, burst->client), server->stage,
		(size_t)(burst->next - server->stage));
	n = burst->limit - burst->room;
	PROBE(delegrpc, server_publish, server, burst->client, n);
	delegrpc_priv_replied(server, burst->client, n);
	container_of(server, struct server, hot)->bursts++;
	container_of(server, struct server, hot)->collected += n;
	burst->client = DELEGRPC_ID_NONE;
}

/*
 * Drops collected replies whose client has gone, when the first request of its successor is
 * received. They must not be written into the successor's ring: their positions and stamp are the
 * former client's.
 */
static void drop_replies(struct server *s)
{
	struct delegrpc_burst *burst = &s->hot.burst;
	uint32_t n = burst->limit - burst->room;

	s->hot.replied -= n;
	s->stale += n;
	burst->client = DELEGRPC_ID_NONE;
}

/* ---- rare cases of the hot path ---- */

/* Must be called at the first request of a client that has taken this id. */
void delegrpc_priv_new_peer(struct delegrpc_server *server, uint32_t client, uint64_t generation)
{
	struct server *s = server_of(server);
	struct delegrpc_peer *peer = &server->peers[client];

	if (server->burst.client == client)
		drop_replies(s);
	memset(&server->open[(size_t)client * server->resp_depth], 0,
		server->resp_depth * sizeof(*server->open));
	peer->generation = generation;
	peer->next = 0;
	/* Relaxed: pairs with the load in next_generation(). */
	__atomic_store_n(&s->lines[client].served, generation, __ATOMIC_RELAXED);
	if (client >= s->met)
		s->met = client + 1;
}

/* Drops the request just received. Its slot is given back now, or with the slots before it. */
void delegrpc_priv_drop(struct delegrpc_server *server)
{
	server->bad++;
	if (server->tail == server->cursor - 1)
		delegrpc_server_advance_tail(server);
}

/* Receives a post. Returns false if the index is not that of a post. */
bool delegrpc_priv_take_post(struct delegrpc_server *server, uint32_t client, uint32_t index)
{
	if (index != DELEGRPC_POST_INDEX)
		return false;
	server->peers[client].posted = server->cursor;
	server->posts++;
	delegrpc_priv_owe(server, client);
	return true;
}

/* Returns the error of a reply that was not written. */
int delegrpc_priv_refuse(struct delegrpc_server *server, uint32_t client, uint64_t id, uint32_t len)
{
	uint64_t generation = id >> DELEGRPC_ID_SHIFT;

	if (client >= server->max_clients || (uint16_t)id >= server->resp_depth || !generation)
		return -EINVAL;
	if (len > server->resp_size)
		return -EMSGSIZE;
	if (server->peers[client].generation == generation)
		return -EINVAL;
	server_of(server)->stale++;
	return -EPIPE;
}

COLD static void wake_sleeping(struct server *s, uint32_t client)
{
	if (wake_client(s, client) < 0) /* try again next time */
		delegrpc_priv_owe(&s->hot, client);
}

/*
 * One fence orders all replies since the last fence, and the store of the tail, before the loads of
 * the clients' states. Pairs with sleep_prepare_as(). A client is checked again next time if its
 * posts have been received, but their slots have not been given back.
 */
void delegrpc_priv_server_wake_test(struct delegrpc_server *server)
{
	struct server *s = server_of(server);
	uint32_t n = server->n_unfenced_peers;

	server->n_unfenced_peers = 0;
	server->unfenced = 0;
	sleep_fence();
	for (uint32_t i = 0; i < n; i++) {
		uint32_t client = server->unfenced_peers[i];

		server->peers[client].unfenced = 0;
		if (unlikely(sleep_is_asleep(&s->lines[client].state)))
			wake_sleeping(s, client);
		if (unlikely((int64_t)(server->peers[client].posted - server->tail) > 0))
			delegrpc_priv_owe(server, client);
	}
}

static bool anybody_waits(const struct server *s)
{
	for (uint32_t i = 0; i < s->met; i++) {
		/* Relaxed: a hint. If a new state is seen late, the yield is one period late. */
		if (__atomic_load_n(&s->lines[i].state, __ATOMIC_RELAXED) != DELEGRPC_RUNNING)
			return true;
	}
	return false;
}

/*
 * Yields the core at intervals if a client waits. A server that always finds work would otherwise
 * never yield its core, and a client on that core would run only when the scheduler preempts the
 * server, every few milliseconds. The number of polls between two readings of the clock is adapted
 * so that the readings are 75 to 300 us apart.
 */
void delegrpc_priv_server_busy(struct delegrpc_server *server)
{
	struct server *s = server_of(server);
	uint64_t now = clock_ns(), since = now - s->looked_ns;

	if (since < YIELD_NS / 2 && s->busy_polls < MAX_BUSY)
		s->busy_polls *= 2;
	else if (since > YIELD_NS * 2 && s->busy_polls > 1)
		s->busy_polls /= 2;
	server->busy = s->busy_polls;
	s->looked_ns = now;
	if (now - s->yielded_ns < YIELD_NS)
		return;
	s->yielded_ns = now;
	if (anybody_waits(s)) {
		s->yields++;
		sched_yield();
	}
}
