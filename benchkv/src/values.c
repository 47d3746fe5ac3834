/* SPDX-License-Identifier: MIT */
#include "values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "copyrpc_bulk.h"
#include "node.h"

#define SERVED_AT_A_TIME 64 /* number of peers' large requests for which a context has memory */

/* ---- shelves ---- */

/* The further bytes of a stored value. The shelf of a shard is a store of pointers to them. */
struct kept {
	uint32_t len;
	uint8_t bytes[];
};

static struct kept *find(const struct store *f, uint64_t key)
{
	uint64_t at = 0;

	return store_get(f, key, &at) ? NULL : (struct kept *)(uintptr_t)at;
}

static struct kept *make_room(struct store *f, uint64_t key, uint32_t len)
{
	struct kept *k = find(f, key);

	if (k && k->len == len)
		return k;
	k = realloc(k, sizeof(*k) + len);
	if (!k)
		return NULL;
	k->len = len;
	if (!store_put(f, key, (uintptr_t)k))
		return k;
	free(k);
	return NULL;
}

static void shelf_fini(struct store *f)
{
	for (uint64_t i = 0; f->table && i <= f->mask; i++)
		if (f->table[i].key)
			free((void *)(uintptr_t)f->table[i].value);
	store_fini(f);
}

/* Fills a shelf with the further bytes of the values that the preload has stored. */
static int shelf_fill(struct store *f, const struct store *s, const struct sizes *sizes)
{
	for (uint64_t i = 0; i <= s->mask; i++) {
		const struct store_entry *e = &s->table[i];
		uint32_t rest = sizes_rest(sizes, e->value);
		struct kept *k;

		if (!e->key)
			continue;
		k = make_room(f, e->key - 1, rest);
		if (!k)
			return -ENOMEM;
		sizes_fill(e->value, k->bytes, rest);
	}
	return 0;
}

uint64_t values_shelf_bytes(const struct sizes *s, uint64_t keys)
{
	return s->parts ? store_bytes(keys) + (uint64_t)((double)keys * sizes_mean(s)) : 0;
}

/* ---- slots ---- */

static size_t slot_size(const struct sizes *s)
{
	return align_up(sizeof(struct value_slot) + sizeof(struct kv_req) + sizeof(struct kv_resp) +
				2 * (size_t)(sizes_most(s) - SIZES_LEAST),
		CACHE_LINE);
}

uint64_t values_slots_bytes(const struct sizes *s, uint32_t clients, uint32_t depth)
{
	return s->parts ? clients * pow2_ceil(depth) * slot_size(s) : 0;
}

static int create_shelves(const struct node *n, struct values *v, uint64_t expect)
{
	int err = 0;

	v->shelves = calloc(n->o->daemons, sizeof(*v->shelves));
	if (!v->shelves)
		return -ENOMEM;
	for (uint32_t i = 0; !err && i < n->o->daemons; i++) {
		err = store_init(&v->shelves[i], &n->place, n->rank, i, expect);
		if (!err)
			err = shelf_fill(&v->shelves[i], &n->stores[i], v->sizes);
	}
	return err;
}

int values_create(const struct node *n, uint64_t expect, struct values **values_p)
{
	const struct options *o = n->o;
	struct values *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	*v = (struct values){.sizes = &o->sizes,
		.rest = sizes_most(&o->sizes) - SIZES_LEAST,
		.first = n->rank * o->clients,
		.clients = o->clients,
		.slot_mask = (uint32_t)pow2_ceil(o->queue_depth) - 1,
		.slot_size = slot_size(&o->sizes),
		.len = values_slots_bytes(&o->sizes, o->clients, o->queue_depth)};
	v->slots = aligned_alloc(CACHE_LINE, v->len);
	err = v->slots ? create_shelves(n, v, expect) : -ENOMEM;
	if (err) {
		values_destroy(v, o->daemons);
		return err;
	}
	memset(v->slots, 0, v->len);
	*values_p = v;
	return 0;
}

void values_destroy(struct values *v, uint32_t shards)
{
	if (!v)
		return;
	for (uint32_t i = 0; v->shelves && i < shards; i++)
		shelf_fini(&v->shelves[i]);
	free(v->shelves);
	free(v->slots);
	free(v);
}

/* The slot of a client's request; NULL: this rank has no such client. */
static struct value_slot *slot_of(const struct values *v, uint32_t origin, uint32_t seq)
{
	uint32_t client = origin - v->first;

	if (client >= v->clients)
		return NULL;
	return (struct value_slot *)(v->slots +
				     ((size_t)client * (v->slot_mask + 1) + (seq & v->slot_mask)) *
					     v->slot_size);
}

static uint8_t *put_bytes(struct value_slot *slot)
{
	return slot->bytes + sizeof(struct kv_req);
}

static uint8_t *reply_of(const struct values *v, struct value_slot *slot)
{
	return put_bytes(slot) + v->rest;
}

static uint8_t *got_bytes(const struct values *v, struct value_slot *slot)
{
	return reply_of(v, slot) + sizeof(struct kv_resp);
}

static bool stores(const struct kv_req *req)
{
	return req->type == KV_PUT || req->type == KV_SWAP;
}

/* ---- a client ---- */

void values_write(const struct values *v, const struct kv_req *req)
{
	struct value_slot *slot = slot_of(v, req->origin, req->seq);

	slot->got = 0;
	if (stores(req))
		sizes_fill(req->value, put_bytes(slot), sizes_rest(v->sizes, req->value));
}

void values_check(const struct values *v, struct kv_resp *resp)
{
	struct value_slot *slot = slot_of(v, resp->origin, resp->seq);
	uint32_t want = resp->type == KV_GET_OK ? sizes_rest(v->sizes, resp->value) : 0;

	if (!slot || resp->type == KV_ERROR) /* check.h detects these errors */
		return;
	if (slot->got != want || !sizes_right(resp->value, got_bytes(v, slot), want))
		resp->type = 0;
}

/* ---- a server ---- */

static int keep(struct store *f, const struct kv_req *req, const struct value_io *io)
{
	struct kept *k = make_room(f, req->key, io->put_len);

	if (!k)
		return -ENOMEM;
	memcpy(k->bytes, io->put, io->put_len);
	return 0;
}

static int give(const struct store *f, const struct kv_req *req, struct value_io *io)
{
	const struct kept *k = find(f, req->key);

	if (!k)
		return 0;
	if (k->len > io->got_most)
		return -EMSGSIZE;
	memcpy(io->got, k->bytes, k->len);
	io->got_len = k->len;
	return 0;
}

struct kv_resp values_serve(const struct values *v, struct store *s, const struct kv_req *req,
	struct value_io *io)
{
	struct store *f;
	struct kv_resp resp;
	int err = 0;

	io->got_len = 0;
	if (!v)
		return store_serve(s, req);
	f = &v->shelves[s->shard];
	if (io->put_len > v->rest)
		return kv_reply(req, KV_ERROR, EMSGSIZE);
	resp = store_serve(s, req);
	if (resp.type == KV_PUT_OK || resp.type == KV_SWAP_OK)
		err = keep(f, req, io);
	else if (resp.type == KV_GET_OK)
		err = give(f, req, io);
	return err ? kv_reply(req, KV_ERROR, (uint64_t)-err) : resp;
}

struct kv_resp values_serve_local(const struct values *v, struct store *s, const struct kv_req *req)
{
	struct value_slot *slot;
	struct value_io io;
	struct kv_resp resp;

	if (!v)
		return store_serve(s, req);
	slot = slot_of(v, req->origin, req->seq);
	if (!slot)
		return kv_reply(req, KV_ERROR, EBADMSG);
	io.put = put_bytes(slot);
	io.put_len = stores(req) ? sizes_rest(v->sizes, req->value) : 0;
	io.got = got_bytes(v, slot);
	io.got_most = v->rest;
	resp = values_serve(v, s, req, &io);
	slot->got = io.got_len;
	return resp;
}

/* ---- the network ---- */

int values_register(const struct values *v, struct copyrpc_ctx *ctx)
{
	const struct copyrpc_large_attr attr = {.message_max =
							(uint32_t)sizeof(struct kv_req) + v->rest,
		.memory_max = SERVED_AT_A_TIME * (SIZES_MOST + (64 << 10))};
	struct copyrpc_bulk *bulk; /* copyrpc_ctx_destroy() frees it */
	int err = copyrpc_large_accept(ctx, &attr);

	if (err)
		return err;
	return copyrpc_bulk_create(ctx, v->slots, v->len,
		COPYRPC_REMOTE_READ | COPYRPC_REMOTE_WRITE, &bulk);
}

int values_call(const struct values *v, struct copyrpc_ep *ep, const struct kv_req *req,
	uint32_t word, uint64_t token)
{
	uint32_t len = sizeof(*req), most = sizeof(struct kv_resp);
	struct kv_req sent = *req;
	struct value_slot *slot;

	sent.word = word;
	if (!v)
		return copyrpc_call(ep, &sent, len, most, token);
	slot = slot_of(v, req->origin, req->seq);
	if (!slot)
		return -EBADMSG;
	memcpy(slot->bytes, &sent, sizeof(sent));
	len += stores(req) ? sizes_rest(v->sizes, req->value) : 0;
	most += stores(req) ? 0 : v->rest;
	return copyrpc_call_large(ep, slot->bytes, len, reply_of(v, slot), most, token);
}

bool values_take(const struct values *v, uint32_t origin, uint32_t seq, const void *data,
	uint32_t len, struct kv_resp *resp_p)
{
	struct value_slot *slot = v ? slot_of(v, origin, seq) : NULL;

	if (len < sizeof(*resp_p) || (v ? !slot : len > sizeof(*resp_p)))
		return false;
	memcpy(resp_p, data, sizeof(*resp_p)); /* the peer may still write there */
	if (slot)
		slot->got = len - (uint32_t)sizeof(*resp_p);
	return true;
}

struct kv_req values_request(const struct values *v, const struct copyrpc_req *from,
	struct value_io *io_p)
{
	uint32_t len = copyrpc_req_len(from), most = copyrpc_req_allowance(from);
	uint8_t *memory = copyrpc_req_memory(from);
	struct kv_req req = {.type = 0};

	*io_p = (struct value_io){.put = NULL};
	if (!v && len == sizeof(req)) /* copies it, because the peer may still change it */
		memcpy(&req, copyrpc_req_data(from), sizeof(req));
	if (!memory || len < sizeof(req) || most < sizeof(struct kv_resp))
		return req;
	memcpy(&req, memory, sizeof(req));
	io_p->put = memory + sizeof(req);
	io_p->put_len = len - (uint32_t)sizeof(req);
	io_p->got = memory + sizeof(struct kv_resp); /* may overlap `put`: a put gets no bytes */
	io_p->got_most = most - (uint32_t)sizeof(struct kv_resp);
	return req;
}

int values_reply(struct copyrpc_req *from, const struct kv_resp *resp, uint32_t got_len)
{
	uint8_t *memory = copyrpc_req_memory(from);

	if (!memory)
		return copyrpc_reply(from, resp, sizeof(*resp));
	memcpy(memory, resp, sizeof(*resp));
	return copyrpc_reply(from, memory, (uint32_t)sizeof(*resp) + got_len);
}
