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

/* Receives waiting requests. Returns how many. */
static inline uint32_t rpcstorm_take(struct rpcstorm_server *v)
{
	struct rpcstorm_shared *sh = rpcstorm_draw.sh;
	uint32_t n = 0, most = storm_draw(&v->rng, 1, 64);
	struct rpc_req r;

	for (; n < most && rpc_recv(v->s, &r); n++) {
		uint32_t life, call;
		uint64_t number;

		CHECK(r.len >= RPCSTORM_LEAST);
		memcpy(&number, r.payload, sizeof(number));
		life = (uint32_t)(number >> 32);
		call = (uint32_t)number;
		CHECK(life < __atomic_load_n(&sh->lives, __ATOMIC_ACQUIRE));
		CHECK(call < RPCSTORM_CALLS);
		CHECK_EQ(r.len, storm_length(number, 0, RPCSTORM_LEAST, rpcstorm_draw.shape.req));
		storm_check((const unsigned char *)r.payload + 8, r.len - 8, number, 0);
		CHECK_EQ(sh->received[life][call]++, 0);
		if (v->n_held == RPCSTORM_HELD)
			rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
		v->held[v->n_held++] = (struct rpcstorm_held){r.client, r.id, number};
		while (v->n_held > v->hold)
			rpcstorm_answer(v, storm_draw(&v->rng, 0, v->n_held - 1));
	}
	if (!storm_one_in(&v->rng, 4))
		rpc_taken(v->s);
	return n;
}

/* Sleeps, on a futex or a descriptor, until a request comes, or for a limited time. */
static inline void rpcstorm_server_nap(struct rpcstorm_server *v)
{
	/*
	 * If a client is killed before it wakes the server, the server sleeps until another wakes
	 * it.
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

static inline void rpcstorm_server_turn(struct rpcstorm_server *v)
{
	uint64_t skip[RPCSTORM_SKIP_WORDS];
	int n;

	for (uint32_t i = 0; i < RPCSTORM_SKIP_WORDS; i++)
		skip[i] = test_rand(&v->rng);
	n = rpcstorm_server_poll(v->s, storm_one_in(&v->rng, 4) ? skip : NULL);
	CHECK(n >= 0);
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
	struct rpc_server_stats stats;
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
	RPC(server_get_stats)(v.s, &stats, sizeof(stats));
	CHECK_EQ(stats.bad_requests, 0);
	if (storm_one_in(&v.rng, 4))
		CHECK_EQ(RPC(server_unlink)(v.s), 0);
	RPC(server_destroy)(v.s);
	free(v.buf);
	CHECK(access(rpcstorm_draw.file, F_OK) != 0);
	if (rpcstorm_draw.one_process)
		return;
	CHECK_EQ(fdtest_open(), before);
	CHECK_EQ(storm_mappings(rpcstorm_draw.file), 0);
}

#endif
