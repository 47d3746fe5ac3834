/* SPDX-License-Identifier: MIT */
/* The client: connection, waiting, and the end of the server. */
#include <errno.h>
#include <stdlib.h>

#include "base/probe.h"
#include "loan.h"
#include "post.h"

#define CONNECT_NS NSEC_PER_SEC /* the longest wait for a clean place */
#define ASK_NS (20 * NSEC_PER_MSEC) /* between two requests to the server for a clean place */
#define CLIENT_ALIVE_NS (10 * NSEC_PER_MSEC) /* between two checks that the server is alive */

struct client {
	struct shmipc_client hot;
	struct waiter w;
	struct shmipc_layout layout;
	struct shmipc_header *header;
	uint32_t index;
};

static struct client *client_of(struct shmipc_client *hot)
{
	return container_of(hot, struct client, hot);
}

static const struct live_type live_client = {LIVE_MAGIC, PREFIX, "client", WAITER_STATES,
	.field = {
		{"in-flight", LIVE_AT(struct client, hot.called),
			LIVE_LESS(struct client, hot.answered)},
		{"depth", LIVE_AT(struct client, hot.depth)},
		{"calls", LIVE_AT(struct client, hot.called)},
		{"responses", LIVE_AT(struct client, hot.answered)},
		WAITER_FIELDS(struct client, w),
		{"error", LIVE_AT(struct client, w.err), .form = LIVE_SIGNED},
	}};

/* ---- waiting ---- */

static bool client_ready(const struct client *c)
{
	return cellring_ready(&c->hot.resp);
}

static bool client_room(const struct client *c)
{
	if (c->w.err)
		return false;
	return c->hot.asked == SHMIPC_ASKED_ROOM || (c->hot.asked && posts_news(&c->hot));
}

static bool client_pending(const struct client *c)
{
	return shmipc_client_pending(&c->hot) || c->hot.asked || c->hot.push;
}

/* Returns false, because no call remains unpublished: the ring has room for depth calls. */
static bool client_publish(struct client *c)
{
	shmipc_priv_client_publish(&c->hot);
	return false;
}

/* Makes shmipc_client_call() fail by its limit of open calls, without an extra test. */
static void client_closed(struct client *c)
{
	c->hot.open_max = 0;
}

static int client_call(struct client *c, const void *req, uint32_t len)
{
	int err = shmipc_client_call(&c->hot, req, len, 0);

	return err ? err : (int)c->hot.calls[(c->hot.called - 1) & c->hot.calls_mask].free;
}

/* Polls for a blocking call, which waits only for its own response, not for room. */
static int client_poll(struct client *c, shmipc_response_fn *fn, void *arg)
{
	int n = shmipc_client_poll(&c->hot, fn, arg);

	c->hot.asked = SHMIPC_ASKED_NOT;
	return n;
}

static bool client_is_open(const struct client *c, uint32_t id)
{
	return c->hot.calls[id].state == SHMIPC_CALL_BUSY;
}

static void client_give_up(struct client *c, uint32_t id)
{
	c->hot.calls[id].state = SHMIPC_CALL_GIVEN_UP;
}

/* Acquire: pairs with the release in announce_end(); the server's last replies are visible. */
static bool server_ended(const struct client *c)
{
	return __atomic_load_n(&c->header->closed, __ATOMIC_ACQUIRE);
}

/* Nothing to do: each client detects the server's death by itself. */
static void server_died(struct client *c)
{
}

#include "base/waitclient.h"

/* The public header cannot include base, so it repeats the value. */
static_assert(SHMIPC_IDLE_POLLS == IDLE_POLLS, "the public header includes nothing of base");

/* ---- connect ---- */

#define COMPARE(size_) differ |= want->size_ && want->size_ != a->size_;

/* Checks the header, and the sizes in it against those that the caller wants. */
static int header_check(const struct shm_region *region, const struct shmipc_attr *want,
	struct shmipc_layout *l_p)
{
	const struct shmipc_header *h = region->addr;
	const struct shmipc_attr *a = &l_p->attr;
	bool differ = false;
	int err;

	/* Acquire: pairs with the release in server_publish(). */
	if (!__atomic_load_n(&h->magic, __ATOMIC_ACQUIRE))
		return -EAGAIN;
	err = shmipc_header_check(h, region->size, l_p);
	if (err)
		return err;
	SHMIPC_SIZES(COMPARE)
	return differ ? -EPROTO : 0;
}

/* Returns true if the server is dead. Makes a system call. */
static bool server_is_dead(const struct client *c)
{
	return shm_locked(&c->w.region, SHM_SERVER) == 0;
}

static bool place_is_clean(const struct client *c, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&c->layout, c->header, index);
	/* Acquire: pairs with the release in place_clean(): the bit and the rings are zero. */
	uint64_t epoch = __atomic_load_n(&place->server_epoch, __ATOMIC_ACQUIRE);

	/* Both relaxed: place_find() reads them again with the lock held, when they are stable. */
	return !(__atomic_load_n(&c->header->active[index / 64], __ATOMIC_RELAXED) >> index % 64 &
		       1) &&
	       __atomic_load_n(&place->client_epoch, __ATOMIC_RELAXED) != epoch;
}

/* Tells the server that a place has changed. Returns client_wake()'s result. */
static int server_notify(struct client *c)
{
	/* Release: pairs with the acquire in shmipc_priv_server_rescan(). */
	__atomic_fetch_add(&c->header->changes, 1, __ATOMIC_RELEASE);
	return client_wake(c);
}

/*
 * Like server_notify(), but also wakes a server that sleeps although its sleep word says that it
 * runs: another client has reset the word, and died before it sent the wake-up.
 */
static int server_rouse(struct client *c)
{
	int err = server_notify(c);

	return err ? err : waiter_wake_anyway(&c->w);
}

static void place_notify(void *arg)
{
	server_notify(arg);
}

/*
 * Takes a place that is clean and whose lock this client holds. If this client dies after this, no
 * other client gets the place before the server has cleaned it.
 */
static void place_take(struct client *c, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&c->layout, c->header, index);
	uint64_t epoch = __atomic_load_n(&place->server_epoch, __ATOMIC_RELAXED);

	c->index = index;
	c->hot.place = place;
	c->w.word = &place->client_state;
	c->w.addr = &place->client_addr;
	waiter_say(&c->w, SLEEP_RUNNING);
	/* Relaxed: published by the bit; pairs with the load in all_reach(). */
	__atomic_store_n(&place->client_addr.netns, wakefd_netns(), __ATOMIC_RELAXED);
	/* Relaxed: published by the bit; pairs with the load in peer_admit(). */
	__atomic_store_n(&place->client_epoch, epoch, __ATOMIC_RELAXED);
}

/* Lets the server see that this client has come. */
static void place_enter(struct client *c)
{
	/* Release: pairs with the acquire in place_has_bit(). */
	__atomic_fetch_or(&c->header->active[c->index / 64], 1ull << c->index % 64,
		__ATOMIC_RELEASE);
	server_notify(c);
}

static void place_leave(struct client *c)
{
	/* Release: pairs with the acquire in place_has_bit(). */
	__atomic_fetch_and(&c->header->active[c->index / 64], ~(1ull << c->index % 64),
		__ATOMIC_RELEASE);
	server_notify(c);
}

/*
 * Returns true if there is a place that no client holds, so that the server may clean it. The
 * search begins with the place that was found last, because each test of a lock is a system call.
 */
static bool place_is_abandoned(struct client *c, uint32_t *at)
{
	uint32_t n = c->layout.attr.max_clients;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = (*at + i) % n;

		if (shm_locked(&c->w.region, CLIENT_BYTE(index)) == 0) {
			*at = index;
			return true;
		}
	}
	return false;
}

/*
 * Returns 0 if it took a place, otherwise -EAGAIN. *raced_p is true after -EAGAIN if there was a
 * clean place that another client was taking.
 */
static int place_find(struct client *c, bool *raced_p)
{
	*raced_p = false;
	for (uint32_t i = 0; i < c->layout.attr.max_clients; i++) {
		if (!place_is_clean(c, i))
			continue;
		*raced_p = true;
		if (shm_lock(&c->w.region, CLIENT_BYTE(i)) != 0)
			continue;
		if (place_is_clean(c, i)) {
			place_take(c, i);
			waiter_introduce(&c->w, &c->header->door, i, place_notify, c);
			place_enter(c);
			return 0;
		}
		shm_unlock(&c->w.region, CLIENT_BYTE(i));
	}
	return -EAGAIN;
}

/*
 * Must be called if the locks of all places are held. Returns -EUSERS, or an error of the wake-up.
 * If the server takes events, each client sends it an introduction with a descriptor of the
 * region's file. Until the server has read the descriptor, the lock of a client that died or left
 * stays held. So a sleeping server is woken to read it.
 */
static int place_none(struct client *c)
{
	int err = 0;

	/* Relaxed: written before the magic, and constant since. */
	if (__atomic_load_n(&c->header->door.name, __ATOMIC_RELAXED))
		err = server_rouse(c);
	return err ? err : -EUSERS;
}

/*
 * Takes a place. If none is clean, requests that the server clean those of dead clients, and waits.
 */
static int place_wait(struct client *c)
{
	struct waiter_deadline all = waiter_deadline(CONNECT_NS), ask = waiter_deadline(0);
	struct wait w = WAIT_INIT;
	uint32_t at = 0;
	bool raced;
	int err;

	while (place_find(c, &raced) != 0) {
		if (!raced && !place_is_abandoned(c, &at))
			return place_none(c);
		if (!waiter_left(&all))
			return -EAGAIN;
		if (server_ended(c) || server_is_dead(c))
			return -ECONNREFUSED;
		if (!waiter_left(&ask)) {
			/* Relaxed: published by the add in server_notify(). */
			__atomic_store_n(&c->header->reclaim, 1, __ATOMIC_RELAXED);
			err = server_rouse(c);
			if (err)
				return err;
			ask = waiter_deadline(ASK_NS);
		}
		if (wait_step(&w))
			clock_nap(NSEC_PER_MSEC);
	}
	return 0;
}

static int calls_init(struct shmipc_client *hot)
{
	uint32_t n = (uint32_t)pow2_ceil(hot->depth);

	hot->calls = calloc_lines(n, sizeof(*hot->calls));
	if (!hot->calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < hot->depth; i++)
		hot->calls[i].free = i;
	hot->calls_mask = n - 1;
	hot->open_max = hot->depth;
	return 0;
}

/* Does the part of connect that comes after the region is mapped. */
static int client_init(struct client *c, const struct shmipc_attr *attr)
{
	struct shmipc_client *hot = &c->hot;
	int err;

	c->header = c->w.region.addr;
	c->w.server_word = &c->header->server_state;
	c->w.server_addr = &c->header->server_addr;
	err = header_check(&c->w.region, attr, &c->layout);
	if (err)
		return err;
	if (server_ended(c))
		return -ECONNREFUSED;
	hot->depth = c->layout.attr.depth;
	hot->req_size = c->layout.attr.req_size;
	hot->alone = CELLRING_FEW - 1;
	hot->resp_size = c->layout.attr.resp_size;
	hot->push_max = c->layout.attr.pushes;
	hot->idle_left = SHMIPC_IDLE_POLLS;
	hot->server_state = &c->header->server_state;
	err = calls_init(hot);
	if (!err)
		err = loans_client_init(&c->layout, &hot->loans);
	if (err)
		return err;
	err = place_wait(c);
	if (err)
		return err;
	err = waiter_check_reach(&c->w); /* after the fence that server_notify() has executed */
	if (err) {
		place_leave(c);
		return err;
	}
	hot->req = shmipc_req_start(&c->layout, hot->place);
	hot->resp = shmipc_resp_start(&c->layout, hot->place);
	cellring_burst_close(&hot->burst);
	if (hot->loans)
		hot->loans->place = hot->place;
	return 0;
}

static void client_free(struct client *c)
{
	free(c->hot.calls);
	loans_client_free(c->hot.loans);
	free(c);
}

static void client_replace(struct client *c, const struct client *fresh)
{
	shmipc_push_fn *push = c->hot.push;
	void *push_arg = c->hot.push_arg;

	free(c->hot.calls);
	loans_client_free(c->hot.loans);
	c->hot = fresh->hot;
	c->hot.push = push;
	c->hot.push_arg = push_arg;
	cellring_burst_close(&c->hot.burst); /* its `to` points into `fresh` */
	c->layout = fresh->layout; /* differs in a size that was 0, and so was not compared */
	c->header = fresh->header;
	c->index = fresh->index;
}

static bool client_busy(const struct client *c)
{
	return shmipc_client_pending(&c->hot) || (c->hot.loans && c->hot.loans->out);
}

#include "base/waitconnect.h"

/* ---- slow paths of call, poll and flush ---- */

/* Frees the room of consumed posts. Returns 0, or the error that ended the connection. */
static int look_at_posts(struct client *c)
{
	if (c->w.err)
		return c->w.err;
	return posts_look(&c->hot) ? client_end(c, -EPROTO) : 0;
}

/*
 * Must be called only if, by the last known count of the server, `depth` calls and posts are in
 * flight, or if the connection is over. If it finds room, it still returns -EAGAIN, and the
 * caller's next try succeeds. This keeps the hot path short.
 */
COLD int shmipc_priv_client_refused(struct shmipc_client *hot)
{
	int err = look_at_posts(client_of(hot));

	if (err)
		return err;
	hot->asked = shmipc_client_pending(hot) < hot->open_max ? SHMIPC_ASKED_ROOM :
		     hot->posts_open                            ? SHMIPC_ASKED :
								  SHMIPC_ASKED_NOT;
	shmipc_priv_client_publish(hot); /* the caller waits for answers before its next call */
	return -EAGAIN;
}

int shmipc_client_commit(struct shmipc_client *hot, void *loan, uint32_t len, uint64_t token)
{
	uint32_t open = shmipc_client_pending(hot), id, chunk;
	int err = loans_client_find(hot, loan, len, &chunk);
	uint64_t word;

	if (err)
		return err;
	if (open >= hot->open_max)
		return shmipc_priv_client_refused(hot);
	id = hot->calls[hot->called++ & hot->calls_mask].free;
	hot->calls[id].state = SHMIPC_CALL_LOANED;
	hot->calls[id].token = token;
	loans_client_sent(hot, id, chunk, len);
	word = loan_word(chunk, len);
	shmipc_priv_client_put(hot, open, id | LOAN_BIT, &word, sizeof(word));
	return 0;
}

COLD int shmipc_priv_client_spoilt(struct shmipc_client *hot)
{
	return client_end(client_of(hot), -EPROTO);
}

/*
 * Handles a message that is not the response to a normal call. Calls the user's function for a
 * push, or for a response to a call with a loan, and returns 1. Drops a response to a call that was
 * given up, and returns 0. Returns -EPROTO for any other message.
 */
COLD int shmipc_priv_client_stray(struct shmipc_client *hot, shmipc_response_fn *fn, void *arg)
{
	uint64_t head = cellring_head(hot->resp.slot);
	uint32_t id = CELLRING_ID(head);
	struct client *c = client_of(hot);

	if (id == SHMIPC_ONE_WAY)
		return push_take(hot, head) < 0 ? client_end(c, -EPROTO) : 1;
	if (hot->loans && loans_client_take(hot, head, fn, arg))
		return 1;
	/*
	 * The poll has refused the message, whose head was read once more above. An id of an open
	 * call means that the message is too long, or that the server has overwritten the head.
	 */
	if (id >= hot->depth || hot->calls[id].state != SHMIPC_CALL_GIVEN_UP)
		return client_end(c, -EPROTO);
	hot->calls[id].state = SHMIPC_CALL_FREE;
	hot->calls[(hot->depth + hot->answered++) & hot->calls_mask].free = id;
	c->w.given_up--;
	cellring_next(&hot->resp);
	return 0;
}

/* ---- bursts ---- */

static uint32_t in_flight(const struct shmipc_client *hot)
{
	return shmipc_client_pending(hot) + hot->posts_open;
}

/* Returns the desired size of a burst with this many calls and posts in flight. */
static uint32_t burst_wish(const struct shmipc_client *hot, uint32_t open)
{
	uint32_t limit =
		cellring_call_limit(open > hot->window ? open : hot->window, hot->in_a_row);

	return limit < hot->req.most ? limit : hot->req.most;
}

int shmipc_priv_client_begin(struct shmipc_client *hot)
{
	return cellring_burst_open(&hot->burst, &hot->req, burst_wish(hot, in_flight(hot)));
}

void shmipc_priv_client_full(struct shmipc_client *hot)
{
	struct cellring_burst *b = &hot->burst;
	uint32_t limit = burst_wish(hot, in_flight(hot) + 1);

	cellring_burst_write_full(b);
	PROBE(shmipc, client_publish, hot, b->limit);
	shmipc_priv_client_published(hot);
	if (unlikely(limit != b->limit || cellring_burst_stale(b)))
		cellring_burst_open(b, b->to, limit);
}

void shmipc_priv_client_part(struct shmipc_client *hot)
{
	struct cellring_burst *b = &hot->burst;
	uint32_t limit = burst_wish(hot, in_flight(hot));

	PROBE(shmipc, client_publish, hot, (uint32_t)(b->next - b->stage) / b->stride);
	cellring_burst_write_part(b);
	shmipc_priv_client_published(hot);
	if (limit != b->limit || cellring_burst_stale(b))
		cellring_burst_open(b, b->to, limit);
}

void shmipc_priv_client_end_burst(struct shmipc_client *hot)
{
	shmipc_priv_client_publish(hot);
	cellring_burst_close(&hot->burst);
}

/* ---- waiting, for the public header ---- */

void shmipc_priv_client_wake_test(struct shmipc_client *hot)
{
	client_wake(client_of(hot));
}

/* After a wait has returned 1, for room or for a response, the client no longer waits for room. */
static int client_told(struct client *c, int r)
{
	if (r != 1 || !c->hot.asked)
		return r;
	c->hot.asked = SHMIPC_ASKED_NOT;
	look_at_posts(c);
	return r;
}

int shmipc_client_wait(struct shmipc_client *hot, uint64_t timeout_ns)
{
	return client_told(client_of(hot), client_wait(client_of(hot), timeout_ns));
}

int shmipc_client_arm(struct shmipc_client *hot)
{
	return client_told(client_of(hot), client_arm(client_of(hot)));
}

int shmipc_client_call_wait(struct shmipc_client *hot, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p)
{
	struct client *c = client_of(hot);

	if (!c->w.other && shmipc_client_pending(hot) != c->w.given_up)
		return -EBUSY;
	look_at_posts(c);
	hot->asked = SHMIPC_ASKED_NOT;
	return client_call_wait(c, req, len, resp, capacity, timeout_ns, len_p);
}

uint32_t shmipc_client_posts(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);

	if (posts_look(hot) && !c->w.err)
		client_end(c, -EPROTO);
	if (c->w.err)
		client_closed(c);
	hot->asked = hot->posts_open ? SHMIPC_ASKED : SHMIPC_ASKED_NOT;
	return hot->posts_open;
}

int shmipc_client_abort(struct shmipc_client *hot, shmipc_response_fn *fn, void *arg)
{
	struct client *c = client_of(hot);
	int n = 0;

	if (!c->w.err)
		return -EBUSY;
	for (uint32_t id = 0; id < hot->depth; id++) {
		struct shmipc_call *call = &hot->calls[id];
		bool wanted = call->state != SHMIPC_CALL_GIVEN_UP;

		if (call->state == SHMIPC_CALL_FREE)
			continue;
		if (call->state == SHMIPC_CALL_LOANED)
			loans_client_end(hot, id);
		call->state = SHMIPC_CALL_FREE; /* the id stays unused: there are no more calls */
		hot->answered++;
		if (wanted) {
			n++;
			fn(arg, call->token, NULL, 0);
		}
	}
	c->w.given_up = 0;
	return n;
}

/* ---- attributes and statistics ---- */

void *shmipc_client_extra(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);

	return shmipc_place_extra(&c->layout, hot->place);
}

uint32_t shmipc_client_index(const struct shmipc_client *hot)
{
	return container_of(hot, const struct client, hot)->index;
}

void shmipc_client_get_stats(const struct shmipc_client *hot, struct shmipc_client_stats *stats_p,
	size_t size)
{
	const struct client *c = container_of(hot, const struct client, hot);
	const struct shmipc_client_stats stats = {.calls = hot->called,
		.responses = hot->answered,
		.posts = hot->posts,
		.pushes = hot->pushes,
		.sleeps = c->w.sleeps,
		.wakes = c->w.wakes};

	sized_out(stats_p, size, &stats, sizeof(stats));
}
