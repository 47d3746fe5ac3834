/* SPDX-License-Identifier: MIT */
/*
 * The messages of benchkv, the same bytes on every way that they take: shared-memory
 * ring, flux channel, RDMA. Little endian hosts only, as everything below is.
 *
 *	request		key, value		reply		value
 *	KV_GET		key, 0			KV_GET_OK	what is stored
 *						KV_NOT_FOUND	the key
 *	KV_PUT		key, what to store	KV_PUT_OK	what was stored
 *	any					KV_ERROR	errno
 *
 * A reply carries origin (the client among all clients of the job) and seq (the client's
 * name for the request) of the request that it answers. A stored value says which key it
 * belongs to, who wrote it and which operation of the writer it was:
 *
 *	63      40 39      24 23       0
 *	hash of key | writer | operation
 */
#ifndef BENCHKV_MSG_H
#define BENCHKV_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kv_type {
	KV_GET = 1,
	KV_PUT,
	KV_GET_OK,
	KV_PUT_OK,
	KV_NOT_FOUND,
	KV_ERROR,
};

struct kv_req {
	uint16_t type;
	uint16_t origin;
	uint32_t seq;
	uint32_t rank; /* where the key lives; the server there checks it */
	uint32_t zero;
	uint64_t key;
	uint64_t value;
};

struct kv_resp {
	uint16_t type;
	uint16_t origin;
	uint32_t seq;
	uint64_t value;
};

static_assert(sizeof(struct kv_req) == 32, "a request is 32 bytes");
static_assert(offsetof(struct kv_req, seq) == 4, "layout");
static_assert(offsetof(struct kv_req, rank) == 8, "layout");
static_assert(offsetof(struct kv_req, key) == 16, "layout");
static_assert(offsetof(struct kv_req, value) == 24, "layout");
static_assert(sizeof(struct kv_resp) == 16, "a reply is 16 bytes");
static_assert(offsetof(struct kv_resp, seq) == 4, "layout");
static_assert(offsetof(struct kv_resp, value) == 8, "layout");

#define KV_MAX_WRITERS 0xffffu /* clients of a job: 0 .. KV_MAX_WRITERS - 1 */
#define KV_PRELOADER 0xffffu /* wrote what was there before the first operation */
#define KV_OP_MASK 0xffffffu /* operations are counted modulo 2^24 */

/* A bijection of 64 bits that spreads neighbours (finaliser of splitmix64, S. Vigna). */
static inline uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t kv_value(uint64_t key, uint32_t writer, uint64_t op)
{
	uint64_t tag = mix64(key + 0x9e3779b97f4a7c15ull) >> 40;

	return tag << 40 | (uint64_t)(writer & 0xffff) << 24 | (op & KV_OP_MASK);
}

static inline bool kv_value_is_of(uint64_t value, uint64_t key)
{
	return (value ^ kv_value(key, 0, 0)) >> 40 == 0;
}

static inline uint32_t kv_value_writer(uint64_t value)
{
	return (uint32_t)(value >> 24) & 0xffff;
}

static inline uint32_t kv_value_op(uint64_t value)
{
	return (uint32_t)value & KV_OP_MASK;
}

static inline struct kv_resp kv_reply(const struct kv_req *req, enum kv_type type, uint64_t value)
{
	return (struct kv_resp){
		.type = (uint16_t)type,
		.origin = req->origin,
		.seq = req->seq,
		.value = value,
	};
}

#endif
