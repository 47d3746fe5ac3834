/* SPDX-License-Identifier: MIT */
/* The client: connection, waiting, and the end of the server. */
#include <errno.h>
#include <stdlib.h>

#include "base/idle.h"
#include "base/probe.h"
#include "base/shm.h"
#include "layout.h"
#include "wait.h"

#define CONNECT_NS NSEC_PER_SEC /* the longest wait for a clean place */
#define ASK_NS (20 * NSEC_PER_MSEC) /* between two requests for one */
#define LOOK_NS (10 * NSEC_PER_MSEC) /* between two checks that the server lives */
#define TELL 3 /* slow paths of a wait until the server is told: about 1 us */

static_assert(SHMIPC_IDLE_POLLS == IDLE_POLLS, "the public header includes nothing of base");

struct client {
	struct shmipc_client hot;
	struct shm_region region;
	struct wakefd wake;
	struct shmipc_layout layout;
	struct shmipc_header *header;
	struct shmipc_place *place;
	uint32_t index;
	uint32_t given_up; /* calls of shmipc_client_call_wait() whose response will be dropped */
	int err; /* why the connection is over, or 0 */
	int wake_err; /* why the sleeping server could not be woken the last time, or 0 */
	uint64_t looked; /* time of the last check that the server lives */
	uint64_t tried; /* time when a waiting client last tried again to wake the server */
	uint64_t idle_ns; /* time of the last look at the clock between empty polls */
	struct shmipc_client_stats stats;
};

static struct client *client_of(struct shmipc_client *hot)
{
	return container_of(hot, struct client, hot);
}

/* ---- connect ---- */

/* Reads the header once, checks it against the caller's sizes and the file's. */
static int header_check(const struct shm_region *region, const struct shmipc_attr *want,
	struct shmipc_layout *l_p)
{
	const struct shmipc_header *h = region->addr;
	/* Acquire: pairs with the release in server_publish(). */
	uint64_t magic = __atomic_load_n(&h->magic, __ATOMIC_ACQUIRE);
	struct shmipc_attr a;

	if (!magic)
		return -EAGAIN;
	if (magic != SHMIPC_MAGIC || h->version != SHMIPC_VERSION)
		return -EPROTO;
	a = (struct shmipc_attr){
		.max_clients = __atomic_load_n(&h->max_clients, __ATOMIC_RELAXED),
		.depth = __atomic_load_n(&h->depth, __ATOMIC_RELAXED),
		.req_size = __atomic_load_n(&h->req_size, __ATOMIC_RELAXED),
		.resp_size = __atomic_load_n(&h->resp_size, __ATOMIC_RELAXED),
		.extra_size = __atomic_load_n(&h->extra_size, __ATOMIC_RELAXED),
	};
	if (!a.max_clients || !a.depth || !a.req_size || !a.resp_size ||
		shmipc_layout_plan(&a, l_p) || l_p->size != region->size)
		return -EPROTO;
	if (want && ((want->max_clients && want->max_clients != a.max_clients) ||
			    (want->depth && want->depth != a.depth) ||
			    (want->req_size && want->req_size != a.req_size) ||
			    (want->resp_size && want->resp_size != a.resp_size) ||
			    (want->extra_size && want->extra_size != a.extra_size)))
		return -EPROTO;
	return 0;
}

/* Acquire: pairs with the release in shmipc_server_destroy(); its last replies are visible. */
static bool server_has_closed(const struct client *c)
{
	return __atomic_load_n(&c->header->closed, __ATOMIC_ACQUIRE);
}

/* Makes a system call. */
static bool server_is_dead(const struct client *c)
{
	return shm_locked(&c->region, SHM_SERVER) == 0;
}

static bool place_is_clean(const struct client *c, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&c->layout, c->header, index);
	/* Acquire: pairs with the release in place_clean(); the bit and the rings are zero. */
	uint64_t epoch = __atomic_load_n(&place->server_epoch, __ATOMIC_ACQUIRE);

	/* Both relaxed: they are read again once the lock is held, when only we may write. */
	return !(__atomic_load_n(&c->header->active[index / 64], __ATOMIC_RELAXED) >> index % 64 &
		       1) &&
	       __atomic_load_n(&place->client_epoch, __ATOMIC_RELAXED) != epoch;
}

COLD static int wake_sleeping(struct client *c)
{
	struct shmipc_header *h = c->header;
	int woken = wakefd_wake_cold(&c->wake, &h->server_state, &h->server_addr);

	if (woken > 0)
		PROBE(shmipc, client_wake, &c->hot);
	return woken;
}

/* As wakefd_wake(), with the fence that it requires. */
static int server_wake(struct client *c)
{
	sleep_fence(); /* pairs with the one in sleep_prepare_as() */
	return sleep_is_asleep(&c->header->server_state) ? wake_sleeping(c) : 0;
}

/* As server_wake(). */
static int server_notify(struct client *c)
{
	/* Release: pairs with the acquire in shmipc_priv_server_rescan(). */
	__atomic_fetch_add(&c->header->changes, 1, __ATOMIC_RELEASE);
	return server_wake(c);
}

/* Takes a place that is clean and whose lock is held. */
static void place_take(struct client *c, uint32_t index)
{
	struct shmipc_place *place = shmipc_place(&c->layout, c->header, index);
	uint64_t epoch = __atomic_load_n(&place->server_epoch, __ATOMIC_RELAXED);

	c->index = index;
	c->place = place;
	shmipc_state_set(&place->client_state, SLEEP_RUNNING);
	/* Relaxed: published by the bit; pairs with the load in all_reach(). */
	__atomic_store_n(&place->client_addr.netns, wakefd_netns(), __ATOMIC_RELAXED);
	/* Relaxed: published by the bit; pairs with the load in peer_admit(). */
	__atomic_store_n(&place->client_epoch, epoch, __ATOMIC_RELAXED);
	/* Release: pairs with the acquire in place_has_bit(). */
	__atomic_fetch_or(&c->header->active[index / 64], 1ull << index % 64, __ATOMIC_RELEASE);
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
 * Called after server_notify(), whose fence pairs with the one in shmipc_server_fd(). -errno if the
 * server sleeps on a descriptor that cannot be reached from here.
 */
static int check_wakeup(struct client *c)
{
	const struct shmipc_header *h = c->header;
	int woken;

	if (!__atomic_load_n(&h->server_addr.name, __ATOMIC_RELAXED))
		return 0;
	if (!wakefd_reaches(__atomic_load_n(&c->place->client_addr.netns, __ATOMIC_RELAXED),
		    __atomic_load_n(&h->server_addr.netns, __ATOMIC_RELAXED)))
		return -ENETUNREACH;
	woken = wakefd_try(&c->wake, &h->server_addr);
	return woken < 0 ? woken : 0;
}

/*
 * Whether there is a place that no client holds, which the server may clean. The search begins
 * with the place that was found last, because each test of a lock is a system call.
 */
static bool place_is_abandoned(struct client *c, uint32_t *at)
{
	uint32_t n = c->layout.attr.max_clients;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t index = (*at + i) % n;

		if (shm_locked(&c->region, SHMIPC_CLIENT_LOCK(index)) == 0) {
			*at = index;
			return true;
		}
	}
	return false;
}

/* 0, or -EAGAIN, and then whether another client was just taking a clean place. */
static int place_find(struct client *c, bool *raced_p)
{
	*raced_p = false;
	for (uint32_t i = 0; i < c->layout.attr.max_clients; i++) {
		if (!place_is_clean(c, i))
			continue;
		*raced_p = true;
		if (shm_lock(&c->region, SHMIPC_CLIENT_LOCK(i)) != 0)
			continue;
		if (place_is_clean(c, i)) {
			place_take(c, i);
			return 0;
		}
		shm_unlock(&c->region, SHMIPC_CLIENT_LOCK(i));
	}
	return -EAGAIN;
}

/* Takes a place. If none is clean, asks the server to clean those of dead clients, and waits for that. */
static int place_wait(struct client *c)
{
	struct shmipc_deadline all = shmipc_deadline(CONNECT_NS), ask = shmipc_deadline(0);
	const struct timespec nap = {.tv_nsec = (long)NSEC_PER_MSEC};
	struct wait w = WAIT_INIT;
	uint32_t at = 0;
	bool raced;
	int woken;

	while (place_find(c, &raced) != 0) {
		if (!raced && !place_is_abandoned(c, &at))
			return -EUSERS;
		if (!shmipc_deadline_left(&all))
			return -EAGAIN;
		if (server_has_closed(c) || server_is_dead(c))
			return -ECONNREFUSED;
		if (!shmipc_deadline_left(&ask)) {
			/* Relaxed: published by the add in server_notify(). */
			__atomic_store_n(&c->header->reclaim, 1, __ATOMIC_RELAXED);
			woken = server_notify(c);
			if (woken < 0)
				return woken;
			ask = shmipc_deadline(ASK_NS);
		}
		if (wait_step(&w))
			nanosleep(&nap, NULL);
	}
	return 0;
}

static int calls_init(struct shmipc_client *hot)
{
	uint32_t n = (uint32_t)pow2_ceil(hot->depth);

	hot->calls = shmipc_alloc(n, sizeof(*hot->calls));
	if (!hot->calls)
		return -ENOMEM;
	for (uint32_t i = 0; i < hot->depth; i++)
		hot->calls[i].free = i;
	hot->calls_mask = n - 1;
	hot->open_max = hot->depth;
	return 0;
}

/* The part of connect after the region is mapped. */
static int client_init(struct client *c, const struct shmipc_attr *attr)
{
	struct shmipc_client *hot = &c->hot;
	int err;

	c->header = c->region.addr;
	err = header_check(&c->region, attr, &c->layout);
	if (err)
		return err;
	if (server_has_closed(c))
		return -ECONNREFUSED;
	hot->depth = c->layout.attr.depth;
	hot->req_size = c->layout.attr.req_size;
	hot->alone = CELLRING_FEW - 1;
	hot->resp_size = c->layout.attr.resp_size;
	hot->idle_left = SHMIPC_IDLE_POLLS;
	hot->server_state = &c->header->server_state;
	err = calls_init(hot);
	if (err)
		return err;
	err = place_wait(c);
	if (err)
		return err;
	err = check_wakeup(c);
	if (err) {
		place_leave(c);
		return err;
	}
	hot->req = shmipc_req_start(&c->layout, c->place);
	hot->resp = shmipc_resp_start(&c->layout, c->place);
	cellring_burst_close(&hot->burst);
	return 0;
}

int shmipc_client_connect(const char *name, const struct shmipc_attr *attr,
	struct shmipc_client **client_p)
{
	static const struct shmipc_attr any;
	struct client *c = shmipc_alloc(1, sizeof(*c));
	struct shm_access access;
	int err;

	if (!c)
		return -ENOMEM;
	c->wake = WAKEFD_NONE;
	err = shmipc_access(attr ? attr : &any, &access);
	if (!err)
		err = shm_attach_for(SHMIPC_PREFIX, name, sizeof(struct shmipc_header), &access,
			&c->region);
	if (err)
		goto free_client;
	err = client_init(c, attr);
	if (err)
		goto close_region;
	*client_p = &c->hot;
	return 0;

close_region:
	wakefd_close(&c->wake);
	shm_close(&c->region);
free_client:
	free(c->hot.calls);
	free(c);
	return err;
}

void shmipc_client_disconnect(struct shmipc_client *hot)
{
	struct client *c;

	if (!hot)
		return;
	c = client_of(hot);
	if (c->region.fd >= 0) /* a forked child leaves the place to the parent */
		place_leave(c);
	wakefd_close(&c->wake);
	shm_close(&c->region);
	free(hot->calls);
	free(c);
}

/* ---- slow paths of call, poll and flush ---- */

/* Called if depth calls are in flight, or the connection is over. */
COLD int shmipc_priv_client_refused(struct shmipc_client *hot)
{
	int err = client_of(hot)->err;

	if (err)
		return err;
	shmipc_priv_client_publish(hot); /* the caller waits for answers before it can call again */
	return -EAGAIN;
}

/*
 * Ends the connection. No call may be open from now on, so that shmipc_client_call() fails without
 * a test of its own, and every empty poll takes the slow path.
 */
static int client_end(struct client *c, int err)
{
	c->err = err;
	c->hot.open_max = 0;
	c->hot.idle_left = 0;
	return err;
}

COLD int shmipc_priv_client_spoilt(struct shmipc_client *hot)
{
	return client_end(client_of(hot), -EPROTO);
}

/* Consumes a response to an abandoned call and returns 0. -EPROTO: it answers no call. */
COLD int shmipc_priv_client_stray(struct shmipc_client *hot)
{
	uint32_t id = CELLRING_ID(cellring_head(hot->resp.slot));
	struct client *c = client_of(hot);

	/* Poll read an id of no open call. If it is one now, the server has changed it. */
	if (id >= hot->depth || hot->calls[id].state != SHMIPC_CALL_GIVEN_UP)
		return client_end(c, -EPROTO);
	hot->calls[id].state = SHMIPC_CALL_FREE;
	hot->calls[(hot->depth + hot->answered++) & hot->calls_mask].free = id;
	c->given_up--;
	cellring_next(&hot->resp);
	return 0;
}

/* ---- bursts ---- */

/* How many calls a burst should have when this many are in flight. */
static uint32_t burst_wish(const struct shmipc_client *hot, uint32_t open)
{
	uint32_t limit =
		cellring_call_limit(open > hot->window ? open : hot->window, hot->in_a_row);

	return limit < hot->req.most ? limit : hot->req.most;
}

int shmipc_priv_client_begin(struct shmipc_client *hot)
{
	return cellring_burst_open(&hot->burst, &hot->req,
		burst_wish(hot, shmipc_client_pending(hot)));
}

void shmipc_priv_client_full(struct shmipc_client *hot)
{
	struct cellring_burst *b = &hot->burst;
	uint32_t limit = burst_wish(hot, shmipc_client_pending(hot) + 1);

	cellring_burst_write_full(b);
	PROBE(shmipc, client_publish, hot, b->limit);
	shmipc_priv_client_published(hot);
	if (unlikely(limit != b->limit || cellring_burst_stale(b)))
		cellring_burst_open(b, b->to, limit);
}

void shmipc_priv_client_part(struct shmipc_client *hot)
{
	struct cellring_burst *b = &hot->burst;
	uint32_t limit = burst_wish(hot, shmipc_client_pending(hot));

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

/*
 * Another client may have taken the word of a server that sleeps on its descriptor, and then failed to
 * wake it, or died. So a client that waits tries again, every 100 ms.
 */
static void look_again(struct client *c, uint64_t now)
{
	/* Relaxed: pairs with the store in sleep_prepare_as(); the wake test fences. */
	if (now - c->tried < SHMIPC_SLEEP_NS || !shmipc_client_pending(&c->hot) ||
		__atomic_load_n(&c->header->server_state, __ATOMIC_RELAXED) != SLEEP_ON_FD)
		return;
	c->tried = now;
	if (!c->hot.unfenced)
		c->hot.unfenced = 1;
}

/*
 * Called after several empty polls. Tells the server that a client waits, and checks that the
 * server lives. Once its lock is seen to be free, everything that it published is visible. So the
 * ring is read after the check, and an error is returned only when the ring is empty.
 */
COLD int shmipc_priv_client_idle(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);
	uint64_t now;
	bool gone;

	if (c->err)
		return client_end(c, c->err);
	now = clock_ns();
	hot->idle_left = idle_polls(&c->idle_ns, now);
	if (shmipc_client_pending(hot) && hot->idle < TELL && ++hot->idle == TELL)
		shmipc_state_set(&c->place->client_state, SLEEP_WAITING);
	gone = server_has_closed(c);
	if (!gone && now - c->looked >= LOOK_NS) {
		c->looked = now;
		gone = server_is_dead(c);
	}
	look_again(c, now);
	if (cellring_ready(&hot->resp))
		return 0;
	return gone ? client_end(c, -EPIPE) : c->wake_err;
}

/* A response has arrived: ends the wait. */
COLD void shmipc_priv_client_resume(struct shmipc_client *hot)
{
	if (hot->idle == TELL)
		shmipc_state_set(&client_of(hot)->place->client_state, SLEEP_RUNNING);
	hot->idle = 0;
}

void shmipc_priv_client_wake_test(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);
	int woken;

	hot->unfenced = 0;
	c->wake_err = 0;
	woken = server_wake(c);
	if (likely(!woken))
		return;
	c->stats.wakes += woken > 0;
	if (woken < 0) {
		c->wake_err = woken;
		hot->unfenced = 1; /* try again next time */
		hot->idle_left = 1; /* an empty poll reports it */
	}
}

/* ---- wait ---- */

/* 1: a response has arrived; 0: not yet; -errno: none will. */
static int client_look(struct client *c, bool slept)
{
	struct shmipc_client *hot = &c->hot;

	if (cellring_ready(&hot->resp))
		return 1;
	if (slept)
		hot->idle_left = 1;
	if (--hot->idle_left > 0)
		return 0;
	return shmipc_priv_client_idle(hot);
}

static int client_sleep(struct client *c, uint64_t left_ns)
{
	uint32_t *state = &c->place->client_state;
	int r;

	c->hot.idle = TELL;
	sleep_prepare(state);
	r = client_look(c, true);
	if (!r) {
		c->stats.sleeps++;
		PROBE(shmipc, client_sleep, &c->hot, left_ns);
		r = shmipc_sleep(state, left_ns);
		PROBE(shmipc, client_awake, &c->hot, r);
	}
	shmipc_state_set(state, SLEEP_WAITING); /* until poll takes the response */
	return r;
}

/* Waits by yielding the core, then sleeping. Reads the clock once per turn. */
static int client_wait_long(struct client *c, struct wait *w, uint64_t timeout_ns)
{
	struct shmipc_deadline d = shmipc_deadline(timeout_ns);
	uint64_t left = timeout_ns;
	int r;

	do {
		r = wait_step(w) ? client_sleep(c, left) : 0;
		if (r == -EINTR) /* return to the caller, who handles the signal */
			return client_look(c, false);
		if (!r && unlikely(c->hot.unfenced))
			shmipc_priv_client_wake_test(&c->hot);
		if (!r)
			r = client_look(c, false);
		left = shmipc_deadline_left(&d);
	} while (!r && left);
	return r;
}

int shmipc_client_wait(struct shmipc_client *hot, uint64_t timeout_ns)
{
	struct client *c = client_of(hot);
	struct wait w = WAIT_INIT;
	int r = 0;

	shmipc_priv_client_publish(hot);
	while (w.empty < WAIT_SPINS) {
		r = client_look(c, false);
		if (r || !timeout_ns || !shmipc_client_pending(hot))
			break;
		shmipc_priv_client_polled(hot, 0);
		wait_step(&w);
	}
	if (r) {
		shmipc_priv_client_polled(hot, 1);
		return r;
	}
	shmipc_client_flush(hot);
	if (!timeout_ns || !shmipc_client_pending(hot))
		return 0;
	return client_wait_long(c, &w, timeout_ns);
}

/* ---- wait on a descriptor ---- */

int shmipc_client_fd(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);
	int err;

	if (c->wake.fd >= 0)
		return c->wake.fd;
	if (c->region.fd < 0) /* a forked child */
		return -EBADF;
	if (!wakefd_reaches(wakefd_netns(),
		    __atomic_load_n(&c->header->server_addr.netns, __ATOMIC_RELAXED)))
		return -ENETUNREACH;
	err = wakefd_open(&c->wake, &c->place->client_addr);
	return err ? err : c->wake.fd;
}

int shmipc_client_arm(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);

	if (c->wake.fd < 0)
		return -EBADF;
	shmipc_client_flush(hot);
	if (c->wake_err) /* otherwise the server would sleep as long as we do */
		return c->wake_err;
	hot->idle = TELL; /* so that shmipc_priv_client_idle() does not write the state */
	wakefd_prepare(&c->wake, &c->place->client_state);
	if (client_look(c, true)) {
		shmipc_state_set(&c->place->client_state, SLEEP_WAITING);
		return 1;
	}
	hot->idle_left = 1; /* the next empty poll checks that the server lives */
	wakefd_timer(&c->wake, shmipc_client_pending(hot) ? SHMIPC_SLEEP_NS : 0);
	c->stats.sleeps++;
	PROBE(shmipc, client_arm, hot);
	return 0;
}

/* ---- the blocking call ---- */

struct answer {
	void *resp;
	uint32_t capacity, len;
	bool done;
};

static void answer_take(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct answer *a = arg;

	cellring_copy(a->resp, resp, len < a->capacity ? len : a->capacity);
	a->len = len;
	a->done = true;
}

static int answer_wait(struct shmipc_client *hot, struct answer *a, uint64_t timeout_ns)
{
	struct shmipc_deadline d = shmipc_deadline(timeout_ns);
	int r;

	for (;;) {
		r = shmipc_client_poll(hot, answer_take, a);
		if (a->done)
			return 0;
		if (r < 0)
			return r;
		r = shmipc_client_wait(hot, shmipc_deadline_left(&d));
		if (r < 0)
			return r;
		if (r != 1 && !shmipc_deadline_left(&d))
			return -ETIMEDOUT;
	}
}

int shmipc_client_call_wait(struct shmipc_client *hot, const void *req, uint32_t len, void *resp,
	uint32_t capacity, uint64_t timeout_ns, uint32_t *len_p)
{
	struct client *c = client_of(hot);
	struct answer a = {.resp = resp, .capacity = capacity};
	uint32_t id;
	int err;

	if (shmipc_client_pending(hot) != c->given_up)
		return -EBUSY;
	if (c->given_up) { /* frees the ids of late responses */
		err = shmipc_client_poll(hot, answer_take, &a);
		if (err < 0)
			return err;
	}
	err = shmipc_client_call(hot, req, len, 0);
	if (err)
		return err;
	id = hot->calls[(hot->called - 1) & hot->calls_mask].free;
	err = answer_wait(hot, &a, timeout_ns);
	if (err) {
		hot->calls[id].state = SHMIPC_CALL_GIVEN_UP;
		c->given_up++;
	} else if (len_p) {
		*len_p = a.len;
	}
	return err;
}

int shmipc_client_abort(struct shmipc_client *hot, shmipc_response_fn *fn, void *arg)
{
	struct client *c = client_of(hot);
	int n = 0;

	if (!c->err)
		return -EBUSY;
	for (uint32_t id = 0; id < hot->depth; id++) {
		struct shmipc_call *call = &hot->calls[id];
		bool wanted = call->state == SHMIPC_CALL_BUSY;

		if (call->state == SHMIPC_CALL_FREE)
			continue;
		call->state = SHMIPC_CALL_FREE; /* its id stays out of the queue: no more calls */
		hot->answered++;
		if (wanted) {
			n++;
			fn(arg, call->token, NULL, 0);
		}
	}
	c->given_up = 0;
	return n;
}

/* ---- attributes and statistics ---- */

void *shmipc_client_extra(struct shmipc_client *hot)
{
	struct client *c = client_of(hot);

	return shmipc_place_extra(&c->layout, c->place);
}

uint32_t shmipc_client_index(const struct shmipc_client *hot)
{
	return container_of(hot, const struct client, hot)->index;
}

void shmipc_client_get_attr(const struct shmipc_client *hot, struct shmipc_attr *attr_p)
{
	const struct client *c = container_of(hot, const struct client, hot);

	*attr_p = shmipc_attr_of(&c->layout, &c->region);
}

void shmipc_client_get_stats(const struct shmipc_client *hot, struct shmipc_client_stats *stats_p)
{
	struct shmipc_client_stats stats = container_of(hot, const struct client, hot)->stats;

	stats.calls = hot->called;
	stats.responses = hot->answered;
	*stats_p = stats;
}
