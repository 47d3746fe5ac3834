/* SPDX-License-Identifier: MIT */
#include "history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"

#define AHEAD 8 /* operations: about what a cache miss takes */

static_assert(STREAM_PERIOD == 1u << 16, "keys and operations of a stream have 16-bit names");

/* Open addressing over twice as many places as there can be keys; 0 is empty, else 1 + id. */
static void number_keys(struct history *h, uint32_t *table)
{
	const uint32_t mask = 2 * STREAM_PERIOD - 1;

	for (uint32_t i = 0; i < STREAM_PERIOD; i++) {
		uint32_t key = stream_at(h->stream, i)->key;
		uint32_t at = (uint32_t)mix64(key) & mask;

		while (table[at] && stream_at(h->stream, h->first[table[at] - 1])->key != key)
			at = (at + 1) & mask;
		if (!table[at]) {
			h->first[h->n_keys] = (uint16_t)i;
			table[at] = ++h->n_keys;
		}
		h->id[i] = (uint16_t)(table[at] - 1);
	}
}

uint64_t history_bytes(uint32_t writers)
{
	const struct history *h = NULL;

	return STREAM_PERIOD * (sizeof(*h->keys) + sizeof(*h->id) + sizeof(*h->first)) +
	       HISTORY_PAIRS * sizeof(*h->pairs) + writers * sizeof(*h->highest);
}

int history_init(struct history *h, const struct history_attr *attr)
{
	uint32_t *table = calloc((size_t)2 * STREAM_PERIOD, sizeof(*table));

	*h = (struct history){
		.source = attr->source,
		.stream = attr->stream,
		.keys = calloc(STREAM_PERIOD, sizeof(*h->keys)),
		.pairs = calloc(HISTORY_PAIRS, sizeof(*h->pairs)),
		.id = calloc(STREAM_PERIOD, sizeof(*h->id)),
		.first = calloc(STREAM_PERIOD, sizeof(*h->first)),
		.highest = calloc(attr->writers, sizeof(*h->highest)),
		.ops = attr->ops,
		.writers = attr->writers,
		.preloaded = attr->preloaded,
	};
	if (!table || !h->keys || !h->pairs || !h->id || !h->first || !h->highest) {
		free(table);
		history_fini(h);
		return -ENOMEM;
	}
	number_keys(h, table);
	free(table);
	return 0;
}

void history_fini(struct history *h)
{
	free(h->keys);
	free(h->pairs);
	free(h->id);
	free(h->first);
	free(h->highest);
	*h = (struct history){.n_keys = 0};
}

/* Operation i is made now: loads what is needed soon after it, which lies anywhere. */
static void prefetch(const struct history *h, uint64_t i)
{
	__builtin_prefetch(&h->keys[h->id[(i + AHEAD) & (STREAM_PERIOD - 1)]], 1);
}

void history_put(struct history *h, uint64_t i)
{
	struct history_key *k = &h->keys[h->id[i & (STREAM_PERIOD - 1)]];
	uint64_t stamp = kv_stamp(h->run, i);

	prefetch(h, i);
	k->last = kv_name(h->stream->client, stamp);
	k->last_at = k->changed_at = k->put_at = stamp + 1;
}

void history_get(const struct history *h, uint64_t i, uint64_t stamp, struct history_get *get_p)
{
	uint16_t id = h->id[i & (STREAM_PERIOD - 1)];
	const struct history_key *k = &h->keys[id];

	prefetch(h, i);
	*get_p = (struct history_get){
		.at = stamp + 1,
		.changed_at = k->changed_at,
		.put_at = k->put_at,
		.key = stream_at(h->stream, i)->key,
		.id = id,
	};
}

/* How many operations the client makes in a run, as far as that is known. */
static uint64_t ops_of(const struct history *h, uint32_t client)
{
	if (h->made)
		return h->made[client];
	return h->ops ? workload_share(h->ops, client, h->writers) : KV_MAX_OPS;
}

/* Can this client have made this put? It is looked up in its regenerated stream. */
static bool can_be(const struct history *h, uint32_t writer, uint64_t stamp, uint32_t key)
{
	uint64_t op = kv_stamp_op(stamp);
	bool put;

	return writer < h->writers && kv_stamp_run(stamp) <= h->run && op < ops_of(h, writer) &&
	       source_op(h->source, writer, op, &put) == key && put;
}

static enum verdict own_value(const struct history *h, const struct history_get *get,
	uint64_t stamp)
{
	if (stamp + 1 == get->put_at) /* the right one, unless another one was seen after it */
		return get->changed_at > get->put_at ? READ_STALE : READ_RIGHT;
	if (stamp + 1 > get->put_at || !can_be(h, h->stream->client, stamp, get->key))
		return READ_INVENTED;
	return READ_STALE;
}

static struct history_pair *pair_of(const struct history *h, uint32_t who)
{
	return &h->pairs[who * 0x9e3779b1u >> 17];
}

static_assert(HISTORY_PAIRS == 1u << (32 - 17), "the hash of a pair has 15 bits");

static void see_pair(struct history *h, struct history_pair *p, uint32_t who, uint64_t stamp,
	uint64_t at)
{
	uint32_t writer = who & 0xffff;

	if (p->who == who && p->at >= at) /* a later get was answered first */
		return;
	*p = (struct history_pair){.who = who, .stamp = stamp, .at = at};
	if (h->highest[writer] <= kv_stamp_op(stamp))
		h->highest[writer] = kv_stamp_op(stamp) + 1;
}

static enum verdict foreign_value(struct history *h, const struct history_get *get, uint32_t writer,
	uint64_t stamp)
{
	uint32_t who = (uint32_t)get->id << 16 | writer;
	struct history_pair *p = pair_of(h, who);
	bool known = p->at && p->who == who;

	if (!(known && p->stamp == stamp) && !can_be(h, writer, stamp, get->key))
		return READ_INVENTED;
	if (get->put_at && kv_stamp_run(stamp) < kv_stamp_run(get->put_at - 1))
		return READ_STALE;
	if (known && p->at < get->at &&
		(stamp < p->stamp || (stamp == p->stamp && p->at < get->changed_at)))
		return READ_STALE;
	see_pair(h, p, who, stamp, get->at);
	return READ_RIGHT;
}

/* The newest put that is known of the key is this one, unless a later get was answered first. */
static void learn(struct history *h, const struct history_get *get, uint64_t name)
{
	struct history_key *k = &h->keys[get->id];

	if (k->last_at >= get->at)
		return;
	if (!k->last_at || k->last != name)
		k->changed_at = get->at;
	k->last = name;
	k->last_at = get->at;
}

enum verdict history_found(struct history *h, const struct history_get *get, uint64_t value)
{
	uint64_t name = kv_value_name(get->key, value);
	uint64_t stamp = kv_name_stamp(name);
	uint32_t writer = kv_name_writer(name);
	enum verdict v;

	if (name == KV_PRELOADED && h->preloaded)
		return get->changed_at ? READ_FORGOTTEN : READ_RIGHT;
	if (writer == h->stream->client)
		v = own_value(h, get, stamp);
	else
		v = foreign_value(h, get, writer, stamp);
	if (v == READ_RIGHT)
		learn(h, get, name);
	return v;
}

enum verdict history_absent(const struct history *h, const struct history_get *get)
{
	return h->preloaded || get->changed_at ? READ_FORGOTTEN : READ_RIGHT;
}

uint32_t history_end(struct history *h, const uint64_t *made)
{
	uint32_t n = 0;

	h->made = made;
	for (uint32_t i = 0; i < h->writers; i++)
		n += h->highest[i] > made[i];
	return n;
}

uint32_t history_written(const struct history *h, uint16_t *to)
{
	uint32_t n = 0;

	for (uint32_t id = 0; id < h->n_keys; id++) {
		if (h->keys[id].put_at)
			to[n++] = h->first[id];
	}
	return n;
}
