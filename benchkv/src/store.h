/* SPDX-License-Identifier: MIT */
/*
 * A shard of the key-value store: one thread's hash table from 64-bit key to 64-bit
 * value, open addressing with linear probing, at most three quarters full.
 */
#ifndef BENCHKV_STORE_H
#define BENCHKV_STORE_H

#include <stdint.h>

#include "msg.h"
#include "place.h"

struct store_entry {
	uint64_t key; /* key + 1; 0: empty */
	uint64_t value;
};

struct store {
	struct store_entry *table;
	uint64_t mask; /* number of entries - 1 */
	uint64_t used;
	struct placement place;
	uint32_t rank, shard; /* the owner of the keys */
};

/*
 * Initializes a store with room for @expect keys. The store grows if there are more. 0 or -ENOMEM.
 */
int store_init(struct store *s, const struct placement *place, uint32_t rank, uint32_t shard,
	uint64_t expect);
void store_fini(struct store *s);

/* The bytes of a store with room for @expect keys. */
uint64_t store_bytes(uint64_t expect);

/* 0; -EINVAL for the one key that cannot be stored (UINT64_MAX); -ENOMEM. */
int store_put(struct store *s, uint64_t key, uint64_t value);
/*
 * Puts a value if its version is that of the stored value plus 1, see msg.h. 0; -ESTALE: it has
 * another version, and *stored_p is the stored value; -ENOENT: it has another version than 1, and
 * nothing is stored; an error of store_put().
 */
int store_swap(struct store *s, uint64_t key, uint64_t value, uint64_t *stored_p);
/* 0 or -ENOENT. */
int store_get(const struct store *s, uint64_t key, uint64_t *value_p);

/* Puts the preloaded value (msg.h) of every key of this shard below @key_range. 0 or -ENOMEM. */
int store_preload(struct store *s, uint64_t key_range);

/*
 * Carries out a request and returns the reply. The reply to an invalid request, or to one for
 * another shard, is KV_ERROR.
 */
struct kv_resp store_serve(struct store *s, const struct kv_req *req);

#endif
