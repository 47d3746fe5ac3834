/* SPDX-License-Identifier: MIT */
#include "crowd.h"

#include <string.h>

#include "support/test.h"

static const struct placement place = {.ranks = 1, .shards = 1};

static bool remembers(const struct crowd *c)
{
	return c->fault == CROWD_REPLAY || c->fault == CROWD_AGE;
}

static void init_stores(struct crowd *c)
{
	uint64_t keys = c->shape->load.key_range;

	CHECK_EQ(store_init(&c->store, &place, 0, 0, keys), 0);
	CHECK_EQ(store_preload(&c->store, keys), 0);
	if (remembers(c))
		CHECK_EQ(store_init(&c->older, &place, 0, 0, keys), 0);
}

static void init(struct crowd *c)
{
	const struct crowd_shape *s = c->shape;

	source_init(&c->source, &s->load);
	init_stores(c);
	c->n = s->ranks * s->clients;
	for (uint32_t i = 0; i < s->ranks; i++)
		CHECK_EQ(board_init(&c->boards[i], history_keys(s->load.key_range)), 0);
	for (uint32_t i = 0; i < c->n; i++) {
		const struct history attr = {.source = &c->source,
			.board = s->clients > 1 ? &c->boards[i / s->clients] : NULL,
			.client = i,
			.writers = c->n,
			.ops = s->ops * c->n,
			.preloaded = true};
		struct crowd_client *side = &c->client[i];

		stream_init(&side->stream, &c->source, &place, i);
		CHECK_EQ(check_init(&side->check, &attr, &side->stream, 0, s->depth), 0);
		if (s->keys)
			side->check.history.n_keys = s->keys;
	}
}

static void fini(struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++)
		check_fini(&c->client[i].check);
	for (uint32_t i = 0; i < c->shape->ranks; i++)
		board_fini(&c->boards[i]);
	if (remembers(c))
		store_fini(&c->older);
	store_fini(&c->store);
}

static void serve(struct crowd *c, struct crowd_request *r)
{
	const struct kv_req *req = &r->req;
	bool put = req->type == KV_PUT, due = c->due(c, put);
	uint64_t old = 0, older = 0;

	c->requests++;
	c->puts += put;
	store_get(&c->store, req->key, &old);
	if (remembers(c) && store_get(&c->older, req->key, &older))
		older = old;
	if (due && put && c->fault == CROWD_LOSE)
		r->resp = kv_reply(req, KV_PUT_OK, req->value);
	else
		r->resp = store_serve(&c->store, req);
	if (remembers(c) && put)
		store_put(&c->older, req->key, old);
	if (due && put && c->fault == CROWD_REPLAY)
		store_put(&c->store, req->key, older);
	if (due && !put && c->fault == CROWD_AGE)
		r->resp.value = older;
}

static void open_next(struct crowd_client *side)
{
	struct crowd_request *r = &side->request[side->open++];

	check_open(&side->check, side->next++, 0, &r->req);
	check_sent(&side->check, &r->req);
}

/*
 * Serves the client's oldest request that is not served yet; with CROWD_REORDER sometimes the next
 * one instead, which then overtakes it.
 */
static void serve_next(struct crowd *c, struct crowd_client *side)
{
	struct crowd_request *r = &side->request[side->served];

	if (c->fault == CROWD_REORDER && side->served + 1 < side->open &&
		test_rand(&c->rng) % 4 == 0) {
		struct crowd_request first = r[0];

		r[0] = r[1];
		r[1] = first;
	}
	serve(c, r);
	side->served++;
}

static void answer(struct crowd_client *side, uint32_t i)
{
	uint64_t start;

	check_reply(&side->check, side->request[i].req.seq, &side->request[i].resp, &start);
	side->served--;
	side->open--;
	memmove(&side->request[i], &side->request[i + 1],
		(side->open - i) * sizeof(side->request[0]));
}

/* A random step: the client makes a request, or the store serves one, or a reply arrives. */
static void step(struct crowd *c, struct crowd_client *side)
{
	switch (test_rand(&c->rng) % 3) {
	case 0:
		if (side->open < c->shape->depth && side->next < c->shape->ops)
			open_next(side);
		break;
	case 1:
		if (side->served < side->open)
			serve_next(c, side);
		break;
	default:
		if (side->served)
			answer(side, (uint32_t)(test_rand(&c->rng) % side->served));
	}
}

static bool busy(const struct crowd *c)
{
	for (uint32_t i = 0; i < c->n; i++) {
		if (c->client[i].open || c->client[i].next < c->shape->ops)
			return true;
	}
	return false;
}

static uint64_t errors(const struct crowd *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->n; i++) {
		CHECK(c->client[i].check.n.verified);
		n += check_errors(&c->client[i].check.n);
	}
	return n;
}

/* Runs all clients once, in random order. Returns the number of errors. */
static uint64_t run(struct crowd *c, uint32_t run)
{
	for (uint32_t i = 0; i < c->n; i++) {
		c->client[i].next = 0;
		check_restart(&c->client[i].check, run);
	}
	while (busy(c))
		step(c, &c->client[test_rand(&c->rng) % c->n]);
	return errors(c);
}

static uint64_t audit(struct crowd *c)
{
	struct history_made made[CROWD_CLIENTS];
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->n; i++)
		made[i] = (struct history_made){c->shape->ops, c->shape->ops, 0};
	for (uint32_t i = 0; i < c->n; i++)
		CHECK_EQ(check_audit(&c->client[i].check, c->shape->runs, made), 0);
	for (uint32_t i = 0; i < c->n; i++) {
		struct crowd_client *side = &c->client[i];

		for (side->next = 0; side->next < side->check.n_due;) {
			open_next(side);
			serve(c, &side->request[side->served++]);
			answer(side, 0);
		}
		n += check_errors(&side->check.n);
	}
	return n;
}

uint64_t crowd_find(struct crowd *c)
{
	uint64_t found = 0;

	init(c);
	for (uint32_t i = 0; i < c->shape->runs; i++)
		found += run(c, i);
	found += audit(c);
	fini(c);
	return found;
}
