/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <errno.h>
#include <stdlib.h>

#include "base/compiler.h"

#define STORE_MIN 64

static uint64_t entries_for(uint64_t keys)
{
	uint64_t want = pow2_ceil(keys + keys / 2 + 1);

	return want < STORE_MIN ? STORE_MIN : want;
}

uint64_t store_bytes(uint64_t expect)
{
	return entries_for(expect) * sizeof(struct store_entry);
}

int store_init(struct store *s, const struct placement *place, uint32_t rank, uint32_t shard,
	uint64_t expect)
{
	uint64_t entries = entries_for(expect);

	*s = (struct store){.place = *place, .rank = rank, .shard = shard, .mask = entries - 1};
	s->table = calloc(entries, sizeof(*s->table));
	return s->table ? 0 : -ENOMEM;
}

void store_fini(struct store *s)
{
	free(s->table);
}

/* Returns the entry of the key, or the empty entry where the key would be stored. */
static struct store_entry *store_find(const struct store *s, uint64_t key)
{
	/* Not the hash of place_shard(): the keys of a shard have bits of that hash in common. */
	uint64_t at = mix64(key ^ 0x5851f42d4c957f2dull) & s->mask;

	while (s->table[at].key && s->table[at].key != key + 1)
		at = (at + 1) & s->mask;
	return &s->table[at];
}

static COLD int store_grow(struct store *s)
{
	struct store bigger = *s;

	bigger.mask = 2 * s->mask + 1;
	bigger.table = calloc(bigger.mask + 1, sizeof(*bigger.table));
	if (!bigger.table)
		return -ENOMEM;
	for (uint64_t i = 0; i <= s->mask; i++) {
		if (s->table[i].key)
			*store_find(&bigger, s->table[i].key - 1) = s->table[i];
	}
	free(s->table);
	*s = bigger;
	return 0;
}

int store_put(struct store *s, uint64_t key, uint64_t value)
{
	struct store_entry *e;

	if (unlikely(key == UINT64_MAX))
		return -EINVAL;
	e = store_find(s, key);
	if (!e->key) {
		if (unlikely((s->used + 1) * 4 > (s->mask + 1) * 3)) {
			int err = store_grow(s);

			if (err)
				return err;
			e = store_find(s, key);
		}
		e->key = key + 1;
		s->used++;
	}
	e->value = value;
	return 0;
}

int store_get(const struct store *s, uint64_t key, uint64_t *value_p)
{
	const struct store_entry *e = store_find(s, key);

	if (!e->key || key == UINT64_MAX)
		return -ENOENT;
	*value_p = e->value;
	return 0;
}

static uint64_t version_of(uint64_t key, uint64_t value)
{
	return kv_name_version(kv_value_name(key, value));
}

int store_swap(struct store *s, uint64_t key, uint64_t value, uint64_t *stored_p)
{
	uint64_t stored = kv_value(key, KV_PRELOADED);
	int err = store_get(s, key, &stored);

	if (version_of(key, value) != version_of(key, stored) + 1) {
		*stored_p = stored;
		return err ? err : -ESTALE;
	}
	return store_put(s, key, value);
}

int store_preload(struct store *s, uint64_t key_range)
{
	for (uint64_t key = 0; key < key_range; key++) {
		int err;

		if (place_rank(&s->place, key) != s->rank ||
			place_shard(&s->place, key) != s->shard)
			continue;
		err = store_put(s, key, kv_value(key, KV_PRELOADED));
		if (err)
			return err;
	}
	return 0;
}

/* Serves other requests. It is separate, so that a get or put is not compared with KV_SWAP. */
static NOINLINE struct kv_resp serve_other(struct store *s, const struct kv_req *req)
{
	uint64_t stored;
	int err = req->type == KV_SWAP ? store_swap(s, req->key, req->value, &stored) : -EBADMSG;

	switch (err) {
	case 0:
		return kv_reply(req, KV_SWAP_OK, req->value);
	case -ESTALE:
		return kv_reply(req, KV_SWAP_NO, stored);
	case -ENOENT:
		return kv_reply(req, KV_NOT_FOUND, req->key);
	default:
		return kv_reply(req, KV_ERROR, (uint64_t)-err);
	}
}

struct kv_resp store_serve(struct store *s, const struct kv_req *req)
{
	uint64_t value;
	int err;

	if (unlikely(req->rank != s->rank || place_rank(&s->place, req->key) != s->rank ||
		     place_shard(&s->place, req->key) != s->shard))
		return kv_reply(req, KV_ERROR, EXDEV);
	switch (req->type) {
	case KV_GET:
		err = store_get(s, req->key, &value);
		return err ? kv_reply(req, KV_NOT_FOUND, req->key) :
			     kv_reply(req, KV_GET_OK, value);
	case KV_PUT:
		err = store_put(s, req->key, req->value);
		return err ? kv_reply(req, KV_ERROR, (uint64_t)-err) :
			     kv_reply(req, KV_PUT_OK, req->value);
	default:
		return serve_other(s, req);
	}
}
