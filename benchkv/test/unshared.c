/* SPDX-License-Identifier: MIT */
/*
 * The faults of benchkv-faulty (fault.c) with which clients share no store, or the audit reads too
 * little. These functions replace those of ways.h, and puts_last(), by ld --wrap.
 *
 *	client-private	a client answers all its requests itself, and sends none
 *	client-remote	the same, but only for requests for other ranks
 *	client-cache	a client keeps the values of its puts, and answers its gets of them itself
 *	client-run	the same, but not in the audit
 *	skip-half	the audit leaves out half of the keys
 *	skip-one	the audit leaves out one key
 *	skip-all	the audit reads no key
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "puts.h"
#include "ways.h"

#define KEYS 65536 /* initial room of a client's own store, in keys; it grows */
#define CLIENTS 1024 /* maximum number of clients of a rank */
#define QUEUE_DEPTH 4096

__typeof__(ways_send) __real_ways_send, __wrap_ways_send;
__typeof__(ways_take) __real_ways_take, __wrap_ways_take;
__typeof__(puts_last) __real_puts_last, __wrap_puts_last;

static bool faulty(const char *kind)
{
	const char *fault = getenv("BENCHKV_FAULT");

	return fault && !strcmp(fault, kind);
}

/* ---- clients ---- */

/* A client's own store, and its own replies that it has not taken yet. */
struct own {
	struct store store;
	struct kv_resp answers[QUEUE_DEPTH];
	uint32_t n;
};

/* The own store of a client, which exists until the program ends. */
static struct own *own_of(const struct client *c)
{
	static struct own *all[CLIENTS];
	struct own **own = &all[c->index];

	if (*own)
		return *own;
	*own = calloc(1, sizeof(**own));
	if (!*own || store_init(&(*own)->store, &c->node->place, 0, 0, KEYS))
		abort();
	return *own;
}

static void answer(struct own *own, const struct kv_req *req, enum kv_type type, uint64_t value)
{
	own->answers[own->n++] = kv_reply(req, type, value);
}

/* Answers every request from the client's own store. */
static bool answer_alone(struct own *own, const struct kv_req *req)
{
	uint64_t value;

	if (req->type == KV_PUT)
		answer(own, req, KV_PUT_OK, req->value);
	else if (!store_get(&own->store, req->key, &value))
		answer(own, req, KV_GET_OK, value);
	else
		answer(own, req, KV_GET_OK, kv_value(req->key, KV_PRELOADED));
	return true;
}

static bool answer_cached(struct own *own, const struct kv_req *req)
{
	uint64_t value;

	if (req->type == KV_PUT || store_get(&own->store, req->key, &value))
		return false;
	answer(own, req, KV_GET_OK, value);
	return true;
}

static const struct {
	const char *fault;
	bool (*answer)(struct own *own, const struct kv_req *req);
	bool local, audit; /* includes requests for the own rank; includes the audit */
} client_faults[] = {
	{"client-private", answer_alone, true, true},
	{"client-remote", answer_alone, false, true},
	{"client-cache", answer_cached, true, true},
	{"client-run", answer_cached, true, false},
};

int __wrap_ways_send(struct client *c, const struct op *op, const struct kv_req *req)
{
	struct own *own = own_of(c);

	if (req->type == KV_PUT && store_put(&own->store, req->key, req->value))
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(client_faults); i++) {
		if (!faulty(client_faults[i].fault) ||
			(op->rank == c->node->rank && !client_faults[i].local) ||
			(c->check.auditing && !client_faults[i].audit))
			continue;
		if (client_faults[i].answer(own, req))
			return 0;
	}
	return __real_ways_send(c, op, req);
}

int __wrap_ways_take(struct client *c)
{
	struct own *own = own_of(c);
	uint32_t n = own->n;
	int got = __real_ways_take(c);

	own->n = 0;
	for (uint32_t i = 0; i < n; i++)
		c->take(c, own->answers[i].seq, &own->answers[i]);
	return got < 0 ? got : got + (int)n;
}

/* ---- the audit ---- */

int __wrap_puts_last(const struct source *src, uint32_t client, uint64_t first, uint64_t end,
	uint64_t **ops_p, uint32_t *n_p)
{
	int err = __real_puts_last(src, client, first, end, ops_p, n_p);

	if (err)
		return err;
	if (faulty("skip-half"))
		*n_p /= 2;
	if (faulty("skip-one"))
		*n_p -= *n_p > 0;
	if (faulty("skip-all"))
		*n_p = 0;
	return 0;
}
