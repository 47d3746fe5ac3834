/* SPDX-License-Identifier: MIT */
/*
 * benchkv with faults. These functions replace, by ld --wrap, store_serve() and daemon_answer(),
 * and in a client the functions that receive a reply and send a request. BENCHKV_FAULT names the
 * faults, separated by commas. A fault of "this" put, get, swap or request, or of a reply, happens
 * at every PERIOD-th opportunity of a thread. The tests check that benchkv detects the fault.
 * Faults of the store:
 *
 *	lose-all	every put is acknowledged but not stored
 *	lose		this put is acknowledged but not stored
 *	replay		after this put an older put, which was replaced, is carried out again
 *	age		this get returns the value before the newest put
 *	invent		this get returns a value with a plausible name, of a put that was not made
 *	forget		after this put the key has its preloaded value again
 *	vanish		this get finds nothing
 *	wrong-key	this put is stored under the key of the previous put
 *	private		each client has a store of its own, so it never reads another client's put
 *	lag		gets of all clients except the last writer return the value that the last
 *			put has replaced
 *
 * Faults of the store with read-modify-writes:
 *
 *	swap-blind	every swap is carried out, whatever the version of the key is
 *	swap-lose	this swap is acknowledged but not carried out
 *	swap-twice	this swap is carried out, and then one to the next version
 *	swap-deny	this swap is carried out, but the reply is that of a failed swap
 *
 * Faults of replies: drop, swap (two replies), duplicate, spoil (one bit of the value is changed).
 * A fault of a client's own endpoints: misdirect (this request is sent to the wrong daemon). A
 * fault of the start: version (the rank has another version). Faults of clients and of the audit
 * are in unshared.c.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "client.h"
#include "daemon.h"
#include "hello.h"

#define PERIOD 200
#define MEMORY 65536 /* initial room of each store of a struct memory, in keys; it grows */

typedef void answer_fn(void *giver, const struct asker *who, const struct kv_resp *resp);

__typeof__(store_serve) __real_store_serve, __wrap_store_serve;
__typeof__(daemon_answer) __real_daemon_answer, __wrap_daemon_answer;
__typeof__(client_main) __real_client_main, __wrap_client_main;
__typeof__(hello_sign) __real_hello_sign, __wrap_hello_sign;

/* Returns true if BENCHKV_FAULT names this fault. */
static bool faulty(const char *kind)
{
	const char *all = getenv("BENCHKV_FAULT"), *found = all ? strstr(all, kind) : NULL;
	size_t len = strlen(kind);

	while (found && ((found != all && found[-1] != ',') || (found[len] && found[len] != ',')))
		found = strstr(found + 1, kind);
	return found;
}

/* Returns true if it is the turn of this fault of replies. Those in BENCHKV_FAULT take turns. */
static bool has_turn(const char *kind, uint32_t turn)
{
	static const char *const kinds[] = {"drop", "swap", "duplicate", "spoil"};
	const char *present[ARRAY_SIZE(kinds)];
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (faulty(kinds[i]))
			present[n++] = kinds[i];
	}
	return n && !strcmp(present[turn % n], kind);
}

/* ---- the start ---- */

void __wrap_hello_sign(struct hello *h, const char *host)
{
	__real_hello_sign(h, host);
	if (faulty("version"))
		strcpy(h->id.version, "99.1");
}

/* ---- the store ---- */

struct memory {
	struct store older; /* by key: the value that the newest put has replaced */
	struct store own; /* by client and key: the client's newest value */
	struct kv_req replaced; /* the last put that was replaced by another one */
	struct kv_req last;
	bool ready;
};

/* The memory of each daemon's store, kept until the program ends. */
static struct memory *memory_of(const struct store *s)
{
	static struct memory all[OPTIONS_MAX_DAEMONS];
	struct memory *m = &all[s->shard];

	if (!m->ready && (store_init(&m->older, &s->place, s->rank, s->shard, MEMORY) ||
				 store_init(&m->own, &s->place, s->rank, s->shard, MEMORY)))
		abort();
	m->ready = true;
	return m;
}

static bool is_due(void)
{
	static _Thread_local uint32_t count;

	return !(++count % PERIOD);
}

static struct kv_resp done(const struct kv_req *put)
{
	return kv_reply(put, KV_PUT_OK, put->value);
}

static struct kv_resp faulty_put(struct store *s, const struct kv_req *req, struct memory *m)
{
	struct kv_req other = m->last;
	struct kv_resp resp;

	if (faulty("lose-all") || (faulty("lose") && is_due()))
		return done(req);
	m->last = *req;
	if (faulty("wrong-key") && other.type && other.key != req->key && is_due()) {
		store_put(s, other.key, req->value);
		return done(req);
	}
	resp = __real_store_serve(s, req);
	if (faulty("forget") && is_due())
		store_put(s, req->key, kv_value(req->key, KV_PRELOADED));
	if (faulty("replay") && m->replaced.type && is_due())
		__real_store_serve(s, &m->replaced);
	return resp;
}

static void remember(const struct store *s, const struct kv_req *put, struct memory *m)
{
	uint64_t old;

	if (store_get(s, put->key, &old))
		return;
	store_put(&m->older, put->key, old);
	if (kv_value_name(put->key, old) != KV_PRELOADED) {
		m->replaced = *put;
		m->replaced.value = old;
	}
}

static struct kv_resp faulty_get(struct store *s, const struct kv_req *req, struct memory *m)
{
	struct kv_resp resp = __real_store_serve(s, req);
	uint64_t value;

	if (faulty("age") && !store_get(&m->older, req->key, &value) && is_due())
		resp.value = value;
	if (faulty("vanish") && is_due())
		return kv_reply(req, KV_NOT_FOUND, req->key);
	if (faulty("invent") && is_due())
		resp.value = kv_value(req->key, kv_name(req->origin ^ 1u, kv_stamp(0, req->seq)));
	return resp;
}

static struct kv_resp serve_private(struct store *s, const struct kv_req *req, struct memory *m)
{
	uint64_t key = req->key | ((uint64_t)req->origin + 1) << 40, value;

	if (req->type == KV_PUT && store_put(&m->own, key, req->value))
		abort();
	if (req->type == KV_PUT)
		return done(req);
	return store_get(&m->own, key, &value) ? __real_store_serve(s, req) :
						 kv_reply(req, KV_GET_OK, value);
}

/* With `lag`: writes the value before the newest put, unless the client itself made that put. */
static bool lags(const struct store *s, const struct kv_req *get, const struct memory *m,
	uint64_t *value_p)
{
	uint64_t newest;

	return faulty("lag") && !store_get(s, get->key, &newest) &&
	       kv_name_writer(kv_value_name(get->key, newest)) != get->origin &&
	       !store_get(&m->older, get->key, value_p);
}

static struct kv_resp faulty_swap(struct store *s, const struct kv_req *req)
{
	uint64_t before = kv_value(req->key, KV_PRELOADED);
	bool there = !store_get(s, req->key, &before);
	struct kv_resp resp = __real_store_serve(s, req);
	uint64_t next = kv_value(req->key, kv_value_name(req->key, req->value) + 1);

	if (resp.type == KV_SWAP_NO && faulty("swap-blind")) {
		store_put(s, req->key, req->value);
		return kv_reply(req, KV_SWAP_OK, req->value);
	}
	if (resp.type != KV_SWAP_OK || !is_due())
		return resp;
	if (faulty("swap-lose") && there)
		store_put(s, req->key, before);
	if (faulty("swap-twice"))
		store_put(s, req->key, next);
	if (faulty("swap-deny"))
		resp.type = KV_SWAP_NO;
	return resp;
}

struct kv_resp __wrap_store_serve(struct store *s, const struct kv_req *req)
{
	struct memory *m = memory_of(s);
	uint64_t value;

	if (faulty("private"))
		return serve_private(s, req, m);
	if (req->type == KV_GET && lags(s, req, m, &value))
		return kv_reply(req, KV_GET_OK, value);
	if (req->type == KV_SWAP)
		return faulty_swap(s, req);
	if (req->type != KV_PUT)
		return faulty_get(s, req, m);
	remember(s, req, m);
	return faulty_put(s, req, m);
}

/* ---- replies ---- */

struct held {
	struct asker who;
	struct kv_resp resp;
	bool full;
};

/* Sends the held reply to @who, and @resp to the client for which the held reply was. */
static void swap(answer_fn *answer, void *giver, const struct asker *who,
	const struct kv_resp *resp, struct held *held)
{
	held->full = false;
	answer(giver, &held->who, resp);
	answer(giver, who, &held->resp);
}

static void faulty_answer(answer_fn *answer, void *giver, const struct asker *who,
	const struct kv_resp *resp)
{
	static _Thread_local uint32_t count;
	static _Thread_local struct held held;
	struct kv_resp spoilt = *resp;
	uint32_t turn;

	if (held.full) {
		swap(answer, giver, who, resp, &held);
		return;
	}
	if (++count % PERIOD) {
		answer(giver, who, resp);
		return;
	}
	turn = count / PERIOD;
	spoilt.value ^= 1ull << 40;
	if (has_turn("drop", turn))
		return;
	if (has_turn("swap", turn))
		held = (struct held){*who, *resp, true};
	else
		answer(giver, who, has_turn("spoil", turn) ? &spoilt : resp);
	if (has_turn("duplicate", turn))
		answer(giver, who, resp);
}

static void by_daemon(void *d, const struct asker *who, const struct kv_resp *resp)
{
	__real_daemon_answer(d, who, resp);
}

void __wrap_daemon_answer(struct daemon *d, const struct asker *who, const struct kv_resp *resp)
{
	faulty_answer(by_daemon, d, who, resp);
}

static void (*real_take)(struct client *c, uint64_t token, const struct kv_resp *resp);

/* Calls the client's own function for a reply. Only the token in @who is set. */
static void by_network(void *c, const struct asker *who, const struct kv_resp *resp)
{
	real_take(c, who->call, resp);
}

static void faulty_take(struct client *c, uint64_t token, const struct kv_resp *resp)
{
	const struct asker who = {.call = token};

	faulty_answer(by_network, c, &who, resp);
}

/* ---- clients ---- */

static int misdirected(struct client *c, uint32_t shard, const struct kv_req *req)
{
	uint32_t daemons = c->node->o->daemons;

	if (is_due())
		shard = (shard + 1) % daemons;
	return c->node->o->backend->call(c, shard, req);
}

/* Replaces functions of a client before it starts. `take` is the same function in all clients. */
void *__wrap_client_main(void *arg)
{
	static struct backend faulty_backend;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct client *c = arg;

	pthread_mutex_lock(&lock);
	real_take = c->take;
	c->take = faulty_take;
	if (c->remote && faulty("misdirect")) {
		faulty_backend = *c->remote;
		faulty_backend.call = misdirected;
		c->remote = &faulty_backend;
	}
	pthread_mutex_unlock(&lock);
	return __real_client_main(c);
}
