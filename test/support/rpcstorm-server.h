/* SPDX-License-Identifier: MIT */
/* The server of a storm (rpcstorm.h). */
#ifndef SUPPORT_RPCSTORM_SERVER_H
#define SUPPORT_RPCSTORM_SERVER_H

#include <stdatomic.h>

#include "support/rpcstorm-draw.h"

struct rpcstorm_held {
	uint64_t client, id, number;
};

struct rpcstorm_server {
	struct rpc_server *s;
	uint64_t rng;
	uint32_t hold, n_held, idle;
	struct rpcstorm_held held[RPCSTORM_HELD];
	bool here[RPCSTORM_SKIP_WORDS * 64]; /* by index: a client came, and has not left or died */
	/* By index: 1 + the number of the connection that gets pushes, and its number of pushes. */
	uint32_t life[RPCSTORM_SKIP_WORDS * 64], pushed[RPCSTORM_SKIP_WORDS * 64];
	unsigned char *buf;
};

static inline bool rpcstorm_has_gone(uint64_t number)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint32_t life = (uint32_t)(number >> 32);

	/* Acquire: pairs with the stores before a disconnect and before a kill. */
	return __atomic_load_n(&sh->gone[life], __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&sh->dying[sh->start_of[life]], __ATOMIC_ACQUIRE);
}

static inline void rpcstorm_answer(struct rpcstorm_server *v, uint32_t i)
{
	struct rpcstorm_held h = v->held[i];
	uint32_t most = rpcstorm_draw.shape.resp, len = storm_length(h.number, 1, 0, most);
	atomic_uchar *extra = rpcstorm_server_extra(v->s, h.client);
	int err;

	v->held[i] = v->held[--v->n_held];
	storm_fill(v->buf, len, h.number, 1);
	if (storm_one_in(&v->rng, 64)) {
		err = RPC(server_reply)(v->s, h.client, h.id, v->buf, most + 1);
		CHECK(err == -EMSGSIZE || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	}
	if (extra) /* must be readable: the client wrote to it before its first call */
		atomic_load_explicit(extra, memory_order_relaxed);
	err = RPC(server_reply)(v->s, h.client, h.id, v->buf, len);
	CHECK(err == 0 || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	if (storm_one_in(&v->rng, 16)) {
		err = RPC(server_reply)(v->s, h.client, h.id, v->buf, len);
		CHECK(err == -EINVAL || (err == -EPIPE && rpcstorm_has_gone(h.number)));
	}
}

/* Replies to a request that was not received, or that has been answered. */
static inline void rpcstorm_answer_nothing(struct rpcstorm_server *v)
{
	uint64_t client = v->n_held ? v->held[0].client : test_rand(&v->rng) & 0xffff;
	uint64_t id = v->n_held ? v->held[0].id : test_rand(&v->rng);
	int err;

	if (storm_one_in(&v->rng, 2))
		id ^= 1ull << storm_draw(&v->rng, 0, 31);
	else
		client ^= 1ull << storm_draw(&v->rng, 0, 31);
	for (uint32_t i = 0; i < v->n_held; i++)
		if (v->held[i].client == client && v->held[i].id == id)
			return;
	err = RPC(server_reply)(v->s, client, id, v->buf, 0);
	CHECK(err == -EINVAL || err == -EPIPE);
}

static inline void rpcstorm_answer_all(struct rpcstorm_server *v)
{
	while (v->n_held)
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
}

#ifdef RPC_PUSHES
/* Sometimes pushes to the client whose request has just been received. */
static inline void rpcstorm_push(struct rpcstorm_server *v, uint32_t index, uint32_t life)
{
	int err = 0;

	if (v->life[index] != life + 1) {
		v->life[index] = life + 1;
		v->pushed[index] = 0;
	}
	while (!err && storm_one_in(&v->rng, 3)) {
		uint64_t number = rpcstorm_number(life, v->pushed[index]);
		uint32_t len = storm_length(number, 2, 0, rpcstorm_draw.shape.resp);

		storm_fill(v->buf, len, number, 2);
		err = RPC(server_push)(v->s, index, v->buf, len);
		CHECK_EQ(err, !rpcstorm_draw.given.pushes ? -EINVAL : err ? -EAGAIN : 0);
		v->pushed[index] += !err;
	}
}
#else
static inline void rpcstorm_push(struct rpcstorm_server *v, uint32_t index, uint32_t life)
{
}
#endif

static inline void rpcstorm_got(struct rpcstorm_server *v, uint64_t client, uint64_t id,
	uint32_t len, const void *payload)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint32_t life, call;
	uint64_t number;

	if (rpcstorm_draw.given.events) /* the low bits of @client are the client's index */
		CHECK(v->here[client & 0xfff]);
	CHECK(len >= RPCSTORM_LEAST);
	memcpy(&number, payload, sizeof(number));
	life = (uint32_t)(number >> 32);
	call = (uint32_t)number;
	CHECK(life < __atomic_load_n(&sh->lives, __ATOMIC_ACQUIRE));
	CHECK(call < RPCSTORM_CALLS);
	CHECK_EQ(len, storm_length(number, 0, RPCSTORM_LEAST, rpcstorm_draw.shape.req));
	storm_check((const unsigned char *)payload + 8, len - 8, number, 0);
	CHECK(call >= sh->next[life]); /* once, and in order */
	sh->next[life] = (uint16_t)(call + 1);
	rpcstorm_push(v, (uint32_t)client & 0xfff, life);
	if (id == RPC_CONSTANT(POST)) {
		CHECK(RPC(server_reply)(v->s, client, id, payload, 0) == -EINVAL);
		return;
	}
	if (v->n_held == RPCSTORM_HELD)
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
	v->held[v->n_held++] = (struct rpcstorm_held){client, id, number};
	while (v->n_held > v->hold)
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
}

static inline void rpcstorm_served(void *arg, const struct RPC(req) * req, const void *payload)
{
	rpcstorm_got((struct rpcstorm_server *)arg, req->client, req->id, req->len, payload);
}

/* Receives waiting requests. Returns how many. */
static inline uint32_t rpcstorm_take(struct rpcstorm_server *v)
{
	uint32_t n = 0, most = storm_draw(&v->rng, 1, 64);
	struct rpc_req r;

	for (; n < most && rpc_recv(v->s, &r); n++)
		rpcstorm_got(v, r.client, r.id, r.len, r.payload);
	if (!storm_one_in(&v->rng, 4))
		rpc_taken(v->s);
	return n;
}

/* Sleeps, on a futex or a descriptor, until a request comes, or for a limited time. */
static inline void rpcstorm_server_nap(struct rpcstorm_server *v)
{
	/*
	 * A client may be killed before it wakes the server. Then only another client or the time
	 * limit ends the sleep, so there is a limit if clients are killed.
	 */
	bool timeless = !rpcstorm_draw.kills_clients && storm_one_in(&v->rng, 2);
	uint64_t ns = storm_size(&v->rng, 4 << 20);
	struct pollfd p = {.events = POLLIN};
	int r;

	rpcstorm_answer_all(v);
	rpc_taken(v->s);
	if (storm_one_in(&v->rng, 2)) {
		r = RPC(server_wait)(v->s, ns);
		CHECK(r == 0 || r == 1);
		return;
	}
	p.fd = RPC(server_fd)(v->s);
	CHECK(p.fd >= 0);
	r = RPC(server_arm)(v->s);
	CHECK(r == 0 || r == 1);
	CHECK(poll(&p, 1, r ? 0 : timeless ? -1 : (int)(ns >> 20)) >= 0);
}

/* Receives the server's events. Each client comes once, then leaves or dies once. */
static inline void rpcstorm_events(struct rpcstorm_server *v)
{
	struct RPC(event) e;

	while (RPC(server_event)(v->s, &e, sizeof(e)) > 0) {
		CHECK(e.index < rpcstorm_draw.shape.clients);
		CHECK_EQ(v->here[e.index], e.kind != RPC_EVENT(CAME));
		CHECK(e.kind != RPC_EVENT(DIED) || rpcstorm_draw.kills_clients);
		CHECK(e.pid ? e.uid == getuid() && e.gid == getgid() : e.uid == UINT32_MAX);
		if (rpcstorm_draw.one_process)
			CHECK_EQ(e.pid, getpid());
		v->here[e.index] = e.kind == RPC_EVENT(CAME);
	}
}

static inline void rpcstorm_server_turn(struct rpcstorm_server *v)
{
	uint64_t skip[RPCSTORM_SKIP_WORDS];
	int n;

	if (storm_one_in(&v->rng, 4)) {
		if (rpcstorm_draw.given.events)
			rpcstorm_events(v);
		CHECK(RPC(server_serve)(v->s, rpcstorm_served, v, storm_draw(&v->rng, 1, 64)) >= 0);
		return;
	}
	for (uint32_t i = 0; i < RPCSTORM_SKIP_WORDS; i++)
		skip[i] = test_rand(&v->rng);
	n = rpcstorm_server_poll(v->s, storm_one_in(&v->rng, 4) ? skip : NULL);
	CHECK(n >= 0);
	if (rpcstorm_draw.given.events)
		rpcstorm_events(v);
	if (rpcstorm_take(v)) {
		v->idle = 0;
		if (storm_one_in(&v->rng, 8))
			RPC(server_flush)(v->s);
		return;
	}
	rpc_taken(v->s);
	v->idle++;
	if (storm_one_in(&v->rng, 16))
		rpcstorm_answer_nothing(v);
	if (v->n_held && storm_one_in(&v->rng, 4))
		rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
	if (v->idle % 8 == 0)
		rpcstorm_server_nap(v);
	else if (storm_one_in(&v->rng, 4))
		sched_yield();
}

static inline void rpcstorm_serve(uint64_t seed)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	struct rpcstorm_server v = {.rng = seed};
	int before = fdtest_open();

	v.hold = storm_one_in(&v.rng, 3) ? 0 : storm_size(&v.rng, RPCSTORM_HELD - 1);
	v.buf = (unsigned char *)malloc(rpcstorm_draw.shape.resp + 8);
	CHECK(v.buf);
	CHECK_EQ(rpcstorm_create(&rpcstorm_draw.given, &v.s), 0);
	__atomic_fetch_add(&sh->up, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&sh->stop, __ATOMIC_ACQUIRE))
		rpcstorm_server_turn(&v);
	if (storm_one_in(&v.rng, 2))
		rpcstorm_answer_all(&v);
	CHECK_EQ(server_stats_of(v.s).bad_requests, 0);
	if (storm_one_in(&v.rng, 4))
		CHECK_EQ(RPC(server_unlink)(v.s), 0);
	RPC(server_destroy)(v.s);
	free(v.buf);
	CHECK(access(test_file(RPC_PREFIX), F_OK) != 0);
	if (rpcstorm_draw.one_process)
		return;
	CHECK_EQ(fdtest_open(), before);
	CHECK_EQ(fdtest_mappings(test_file(RPC_PREFIX)), 0);
}

#endif
