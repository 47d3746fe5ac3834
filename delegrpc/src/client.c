/* SPDX-License-Identifier: MIT */
/* The client's side of delegrpc, but for the hot path. */
#include <stdlib.h>

#include "internal.h"

#define ALIVE_POLLS 256 /* idle polls between two looks at the clock */
#define ALIVE_NS (250 * NSEC_PER_MSEC) /* between two looks at the server's lock */
#define ROOM_SLICE_NS NSEC_PER_MSEC /* nobody wakes who waits for room in the ring */

struct client {
	struct delegrpc_client hot; /* first */
	struct shm_region region;
	struct delegrpc_attr attr;
	struct delegrpc_control *control;
	unsigned char *requests;
	uint32_t ring_shift;
	uint32_t id;
	bool watch; /* the ring can be full, or our predecessor's requests are in it */
	bool admitted; /* our predecessor's requests are not any more */
	uint64_t start; /* head when we came */
	uint64_t limit; /* positions in use up to which a batch may be reserved */
	uint64_t tail; /* as last seen */
	uint64_t last; /* behind our last reservation */
	uint64_t looked_ns; /* at the server's lock */
	uint64_t late, bad, flushes, full, sleeps, wakes;
};

static struct client *full(struct delegrpc_client *client)
{
	return container_of(client, struct client, hot);
}

/* ---- life ---- */

static bool differs(uint32_t want, uint32_t have)
{
	return want && want != have;
}

/*
 * Reads the header once, checks it, and leaves a copy in c->attr. Nothing of it is read
 * again but server_alive and server_state.
 */
static int check_header(struct client *c, const struct delegrpc_attr *want)
{
	const struct delegrpc_header *h = c->region.addr;
	struct delegrpc_attr wanted = { 0 }, have;
	struct layout l;
	/* Pairs with the release store in server_create(). */
	uint64_t magic = __atomic_load_n(&h->magic, __ATOMIC_ACQUIRE);

	if (!magic)
		return -EAGAIN;
	if (magic != DELEGRPC_MAGIC || h->version != DELEGRPC_VERSION)
		return -EPROTO;
	have = (struct delegrpc_attr){ h->max_clients, h->ring_depth, h->resp_depth, h->req_size,
		h->resp_size };
	c->attr = have;
	if (!have.max_clients || attr_complete(&c->attr) ||
		memcmp(&c->attr, &have, sizeof(have)) != 0)
		return -EPROTO;
	layout_of(&have, &l);
	if (l.size != c->region.size)
		return -EPROTO;
	if (want)
		wanted = *want;
	if (wanted.resp_depth)
		wanted.resp_depth = (uint32_t)pow2_ceil(wanted.resp_depth);
	if (wanted.ring_depth)
		wanted.ring_depth = (uint32_t)pow2_ceil(wanted.ring_depth);
	if (differs(wanted.max_clients, have.max_clients) ||
		differs(wanted.ring_depth, have.ring_depth) ||
		differs(wanted.resp_depth, have.resp_depth) ||
		differs(wanted.req_size, have.req_size) ||
		differs(wanted.resp_size, have.resp_size))
		return -EPROTO;
	return delegrpc_priv_alive(h) ? 0 : -ECONNREFUSED;
}

/* An id is its lock byte: a dead client's is free at once, whatever it was doing. */
static int take_id(struct client *c)
{
	for (uint32_t i = 0; i < c->attr.max_clients; i++) {
		int err = shm_lock(&c->region, CLIENT_BYTE(i));

		if (!err) {
			c->id = i;
			return 0;
		}
		if (err != -EAGAIN)
			return err;
	}
	return -EUSERS;
}

static int alloc_tables(struct client *c, const struct layout *l)
{
	struct delegrpc_client *hot = &c->hot;
	size_t stage = DELEGRPC_BATCH * (size_t)l->req_stride;

	hot->stage = aligned_alloc(CACHE_LINE, stage);
	hot->calls = calloc(c->attr.resp_depth, sizeof(*hot->calls));
	if (!hot->stage || !hot->calls)
		return -ENOMEM;
	memset(hot->stage, 0, stage);
	for (uint32_t i = 0; i < c->attr.resp_depth; i++)
		hot->calls[i].next = i + 1 < c->attr.resp_depth ? i + 1 : DELEGRPC_ID_NONE;
	return 0;
}

/*
 * The place of a predecessor who may have died anywhere. Its claim is void with it. Its
 * stamps must not be taken for ours when generations come round again; what the server
 * still writes for it carries its generation, not ours.
 */
static void take_over(struct client *c)
{
	struct delegrpc_client *hot = &c->hot;
	struct delegrpc_line *line = hot->line;
	uint32_t generation = __atomic_load_n(&line->generation, __ATOMIC_RELAXED);

	generation = (generation + 1) & 0xffff;
	hot->generation = generation ? generation : 1;
	for (uint32_t i = 0; i < c->attr.resp_depth; i++) {
		void *slot = hot->responses + i * (size_t)hot->resp_stride;

		/* Relaxed: the server has nothing for us before it gets a request. */
		__atomic_store_n((uint64_t *)slot, 0, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&line->generation, hot->generation, __ATOMIC_RELAXED);
	__atomic_store_n(&line->state, DELEGRPC_RUNNING, __ATOMIC_RELAXED);
	/* Release: pairs with may_fill(), as in delegrpc_priv_publish(). */
	__atomic_store_n(&line->claim, DELEGRPC_CLAIM_NONE, __ATOMIC_RELEASE);
	/* Whatever the predecessor reserved, it reserved before the kernel freed its byte. */
	c->start = __atomic_load_n(&c->control->head, __ATOMIC_ACQUIRE);
	c->last = c->start;
	__atomic_fetch_add(&hot->header->connects, 1, __ATOMIC_RELAXED);
}

static void init_client(struct client *c, const struct layout *l)
{
	struct delegrpc_client *hot = &c->hot;
	unsigned char *base = c->region.addr;

	hot->header = c->region.addr;
	hot->line = (struct delegrpc_line *)(void *)(base + l->lines) + c->id;
	hot->responses = base + l->responses +
			 c->id * (size_t)c->attr.resp_depth * l->resp_stride;
	hot->req_size = c->attr.req_size;
	hot->req_stride = l->req_stride;
	hot->resp_depth = c->attr.resp_depth;
	hot->resp_shift = (uint32_t)__builtin_ctz(c->attr.resp_depth);
	hot->resp_stride = l->resp_stride;
	c->control = (void *)(base + l->control);
	c->requests = base + l->requests;
	c->ring_shift = (uint32_t)__builtin_ctz(c->attr.ring_depth);
	c->watch = true;
	c->limit = c->attr.ring_depth - (uint64_t)c->attr.max_clients * DELEGRPC_BATCH;
	c->looked_ns = clock_ns();
}

static void free_client(struct client *c)
{
	free(c->hot.stage);
	free(c->hot.calls);
	free(c);
}

int delegrpc_client_connect(const char *name, const struct delegrpc_attr *attr,
	struct delegrpc_client **client_p)
{
	struct layout l;
	struct client *c = aligned_alloc(CACHE_LINE, align_up(sizeof(*c), CACHE_LINE));
	int err;

	if (!c)
		return -ENOMEM;
	memset(c, 0, sizeof(*c));
	err = shm_attach(PREFIX, name, sizeof(struct delegrpc_header), &c->region);
	if (err)
		goto fail;
	err = check_header(c, attr);
	if (err)
		goto fail_close;
	layout_of(&c->attr, &l);
	err = alloc_tables(c, &l);
	if (!err)
		err = take_id(c);
	if (err)
		goto fail_close;
	init_client(c, &l);
	take_over(c);
	*client_p = &c->hot;
	return 0;
fail_close:
	shm_close(&c->region);
fail:
	free_client(c);
	return err;
}

void delegrpc_client_disconnect(struct delegrpc_client *client)
{
	if (!client)
		return;
	shm_close(&full(client)->region);
	free_client(full(client));
}

void delegrpc_client_attr(const struct delegrpc_client *client, struct delegrpc_attr *attr_p)
{
	*attr_p = container_of(client, struct client, hot)->attr;
}

uint32_t delegrpc_client_id(const struct delegrpc_client *client)
{
	return container_of(client, struct client, hot)->id;
}

void delegrpc_client_stats(const struct delegrpc_client *client,
	struct delegrpc_client_stats *stats_p)
{
	const struct client *c = container_of(client, struct client, hot);

	*stats_p = (struct delegrpc_client_stats){
		.calls = client->sent + client->staged,
		.responses = client->done - c->late - c->bad,
		.late_responses = c->late,
		.bad_responses = c->bad,
		.flushes = c->flushes,
		.full = c->full,
		.sleeps = c->sleeps,
		.wakes = c->wakes,
	};
}

/* ---- publication ---- */

/*
 * May a batch be reserved? Never more than ring_depth positions are in use.
 *
 * While a predecessor's requests may be in the ring: no. Then, if all calls in flight
 * fit into the ring: always. Otherwise the margin counts: after the last moment at which
 * `limit` or fewer were in use, each client can reserve one batch that it had looked
 * for before that moment, and none that it looked for after.
 */
static bool has_room(struct client *c)
{
	uint64_t head;

	if (!c->admitted) {
		/* Acquire: pairs with advance_tail(); those places have been read. */
		c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
		if ((int64_t)(c->tail - c->start) < 0)
			return false;
		c->admitted = true;
		c->watch = !ring_holds_all(&c->attr);
		if (!c->watch)
			return true;
	}
	/* Relaxed, but after tail: our own last reservation is in it, by coherence. */
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	if (head - c->tail <= c->limit)
		return true;
	c->tail = __atomic_load_n(&c->control->tail, __ATOMIC_ACQUIRE);
	head = __atomic_load_n(&c->control->head, __ATOMIC_RELAXED);
	return head - c->tail <= c->limit;
}

static unsigned char *request_slot(const struct client *c, uint64_t pos)
{
	return c->requests + (pos & (c->attr.ring_depth - 1)) * (size_t)c->hot.req_stride;
}

/* Fetches a line to write to. On x86-64 not what __builtin_prefetch() emits by default. */
static inline void prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" ::"m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* Header but for the first word, and payload, 16 B at a time; whole records are ours. */
static inline void fill_slot(unsigned char *slot, const unsigned char *rec)
{
	uint32_t len;

	memcpy(&len, rec + 12, sizeof(len));
	memcpy(slot + 8, rec + 8, 8);
	for (uint32_t at = DELEGRPC_REQ_HEADER; at < DELEGRPC_REQ_HEADER + len; at += 16)
		memcpy(slot + at, rec + at, 16);
}

static void fill_batch(struct client *c, uint64_t pos, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, pos++) {
		unsigned char *slot = request_slot(c, pos);
		uint32_t lap = (uint32_t)(pos >> c->ring_shift) + 1;

		fill_slot(slot, c->hot.stage + i * (size_t)c->hot.req_stride);
		/* The rest is there: pairs with the acquire load in delegrpc_priv_filled(). */
		__atomic_store_n((uint64_t *)(void *)slot, (uint64_t)c->id << 32 | lap,
			__ATOMIC_RELEASE);
	}
}

/*
 * Publishes all that is staged. 0, -EAGAIN or -EPIPE.
 *
 * The claim tells the server, should we die here, what to wait for no longer. Its stores
 * are releases: whoever sees the claim move on sees all that was filled under it.
 */
int delegrpc_priv_publish(struct delegrpc_client *client)
{
	struct client *c = full(client);
	uint32_t n = client->staged;
	uint64_t pos;

	if (unlikely(!delegrpc_priv_alive(client->header)))
		return -EPIPE;
	/* From within a response function, whose slot must not be written again yet. */
	if (unlikely(client->sent + n - client->done > client->resp_depth))
		return -EAGAIN;
	if (unlikely(c->watch) && !has_room(c)) {
		c->full++;
		return -EAGAIN;
	}
	/* Alone in the ring we get the positions behind our last ones. */
	for (uint32_t i = 0; i < n; i++)
		prefetch_write(request_slot(c, c->last + i));
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_INTENT, __ATOMIC_RELEASE);
	/*
	 * Release: the intent is visible to whoever sees the reservation (unstick()).
	 * Acquire: what the slots held has been read by the server, as those know whose
	 * reservations come before this one; they heard it in responses (client_poll())
	 * or from tail.
	 */
	pos = __atomic_fetch_add(&c->control->head, n, __ATOMIC_ACQ_REL);
	__atomic_store_n(&client->line->claim, DELEGRPC_CLAIM_AT(pos, n), __ATOMIC_RELEASE);
	fill_batch(c, pos, n);
	c->last = pos + n;
	client->sent += n;
	client->staged = 0;
	c->flushes++;
	sleep_fence();
	c->wakes += sleep_wake(&client->header->server_state);
	return 0;
}

/* ---- cold ends of the hot path ---- */

/* A response that nobody waits for. */
void delegrpc_priv_client_odd(struct delegrpc_client *client, uint32_t id)
{
	struct client *c = full(client);

	if (id >= client->resp_depth || client->calls[id].next != DELEGRPC_ID_LATE) {
		c->bad++;
		return;
	}
	client->calls[id].next = client->free_id;
	client->free_id = id;
	c->late++;
}

static bool response_ready(const struct delegrpc_client *client)
{
	return (uint32_t)delegrpc_priv_response_word(delegrpc_priv_response(client)) ==
	       delegrpc_priv_stamp(client->done, client->resp_shift, client->generation);
}

/*
 * Does the server live? A killed one cannot say so, but the kernel has dropped its lock;
 * who finds that out tells the others.
 */
static bool server_lives(struct client *c, uint64_t now)
{
	struct delegrpc_header *h = c->hot.header;

	if (!delegrpc_priv_alive(h))
		return false;
	if (now - c->looked_ns < ALIVE_NS)
		return true;
	c->looked_ns = now;
	if (shm_locked(&c->region, SHM_SERVER) != 0)
		return true;
	/* Release, as in announce_end(); nobody but the dead server wrote responses. */
	__atomic_store_n(&h->server_alive, 0, __ATOMIC_RELEASE);
	return false;
}

/* What it had written before it went is to be read first. */
static int end_of_server(const struct delegrpc_client *client)
{
	return response_ready(client) ? 0 : -EPIPE;
}

/* At each empty poll of a client that has been waiting for a while. */
int delegrpc_priv_client_idle(struct delegrpc_client *client)
{
	struct client *c = full(client);

	if (client->empty == DELEGRPC_SPINS)
		/* Relaxed: a hint for the server's yields. */
		__atomic_store_n(&client->line->state, DELEGRPC_WAITING, __ATOMIC_RELAXED);
	if (client->empty == UINT32_MAX)
		client->empty = DELEGRPC_SPINS;
	if (client->empty % ALIVE_POLLS ? delegrpc_priv_alive(client->header) :
					  server_lives(c, clock_ns()))
		return 0;
	return end_of_server(client);
}

void delegrpc_priv_client_busy(struct delegrpc_client *client)
{
	__atomic_store_n(&client->line->state, DELEGRPC_RUNNING, __ATOMIC_RELAXED);
}

/* ---- waiting ---- */

/* Sleeps until a response comes, at most ns. 0 or -errno of futex_wait(). */
static int sleep_for_response(struct client *c, uint64_t ns)
{
	struct delegrpc_client *client = &c->hot;
	int err;

	sleep_prepare(&client->line->state);
	if (response_ready(client) || !delegrpc_priv_alive(client->header)) {
		sleep_cancel(&client->line->state);
		return 0;
	}
	c->sleeps++;
	err = sleep_enter(&client->line->state, ns);
	return err == -EAGAIN ? 0 : err;
}

int delegrpc_client_wait(struct delegrpc_client *client, uint64_t timeout_ns)
{
	struct client *c = full(client);
	uint64_t deadline = deadline_after(timeout_ns), now, slice;
	struct wait w = WAIT_INIT;

	while (client->pending) {
		bool asleep = wait_step(&w);

		delegrpc_client_flush(client);
		if (response_ready(client))
			break;
		if (w.empty < WAIT_SPINS)
			continue;
		if (w.empty == WAIT_SPINS)
			__atomic_store_n(&client->line->state, DELEGRPC_WAITING, __ATOMIC_RELAXED);
		now = clock_ns();
		if (!server_lives(c, now) && end_of_server(client))
			return -EPIPE;
		if (now >= deadline)
			break;
		slice = client->staged ? ROOM_SLICE_NS : SLEEP_SLICE_NS;
		if (deadline - now < slice)
			slice = deadline - now;
		if (asleep && sleep_for_response(c, slice) == -EINTR)
			break;
	}
	if (w.empty >= WAIT_SPINS) /* not every time: the server reads that line */
		delegrpc_priv_client_busy(client);
	return client->pending && response_ready(client);
}

struct answer {
	void *resp;
	size_t size;
	bool there;
};

static void take_answer(void *arg, uint64_t token, const void *resp)
{
	struct answer *a = arg;

	memcpy(a->resp, resp, a->size);
	a->there = true;
}

int delegrpc_client_call_wait(struct delegrpc_client *client, const void *req, uint32_t len,
	void *resp, uint64_t timeout_ns)
{
	struct answer a = { resp, full(client)->attr.resp_size, false };
	uint64_t deadline = deadline_after(timeout_ns), now;
	uint32_t id;
	int err;

	if (client->pending)
		return -EBUSY;
	delegrpc_client_poll(client, take_answer, &a); /* late ones give their ids back */
	id = client->free_id;
	err = delegrpc_client_call(client, req, len, 0);
	if (err)
		return err;
	for (;;) {
		err = delegrpc_client_poll(client, take_answer, &a);
		if (a.there)
			return 0;
		if (err < 0)
			return err;
		now = clock_ns();
		if (now >= deadline)
			break;
		delegrpc_client_wait(client, deadline - now);
	}
	client->calls[id].next = DELEGRPC_ID_LATE;
	client->pending--;
	return -ETIMEDOUT;
}
