/* SPDX-License-Identifier: MIT */
/*
 * The messages of benchkv. They have the same bytes on every path: shared-memory
 * ring, flux channel, RDMA. Only for little-endian hosts, like the libraries that benchkv uses.
 *
 *	request		key, value		reply		value
 *	KV_GET		key, 0			KV_GET_OK	the stored value
 *						KV_NOT_FOUND	the key
 *	KV_PUT		key, new value		KV_PUT_OK	the new value
 *	KV_SWAP		key, new value		KV_SWAP_OK	the new value
 *						KV_SWAP_NO	the stored value (other version)
 *						KV_NOT_FOUND	the key
 *	any					KV_ERROR	errno
 *
 * A reply carries origin (the client among all clients of the job) and seq (the client's
 * name for the request) of the request that it answers.
 *
 * A stored value contains the name of the put that stored it:
 *
 *	63      48 47  38 37                0
 *	writer    | run  | operation of the writer in this run
 *
 * For each key, kv_value() maps the names one to one to the stored values. So a value of another
 * key, or one with a bit changed, almost always decodes to a name that no put has.
 *
 * In a job of read-modify-writes the low 48 bits of a name are the version of the key. The
 * preloaded value has version 0, and each change adds 1. KV_SWAP is the compare-and-swap of the
 * store: it stores a value of version v if the key has version v - 1, or if v is 1 and nothing is
 * stored.
 */
#ifndef BENCHKV_MSG_H
#define BENCHKV_MSG_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rand.h"

enum kv_type {
	KV_GET = 1,
	KV_PUT,
	KV_GET_OK,
	KV_PUT_OK,
	KV_NOT_FOUND,
	KV_ERROR,
	KV_SWAP,
	KV_SWAP_OK,
	KV_SWAP_NO,
};

struct kv_req {
	uint16_t type;
	uint16_t origin;
	uint32_t seq;
	uint32_t rank; /* the rank that owns the key; its server checks this */
	uint32_t word; /* with the control `little`: a counter of the sender's daemon (little.h),
			  or 0; with other controls 0 */
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
static_assert(offsetof(struct kv_req, word) == 12, "layout");
static_assert(offsetof(struct kv_req, key) == 16, "layout");
static_assert(offsetof(struct kv_req, value) == 24, "layout");
static_assert(sizeof(struct kv_resp) == 16, "a reply is 16 bytes");
static_assert(offsetof(struct kv_resp, seq) == 4, "layout");
static_assert(offsetof(struct kv_resp, value) == 8, "layout");

#define KV_MAX_WRITERS 0xffffu /* clients of a job: 0 .. KV_MAX_WRITERS - 1 */
#define KV_PRELOADER 0xffffu /* the writer of the values that exist before the first operation */
#define KV_OP_BITS 38
#define KV_MAX_OPS (1ull << KV_OP_BITS) /* of a client in a run */
#define KV_MAX_RUNS (1u << 10)

/* Adds a number to a hash of several numbers. */
static inline uint64_t mix64_add(uint64_t sum, uint64_t x)
{
	return mix64(sum ^ x) + 0x9e3779b97f4a7c15ull;
}

/* The inverse of mix64(): the multipliers are the inverses modulo 2^64. */
static inline uint64_t unmix64(uint64_t z)
{
	z = (z ^ (z >> 31) ^ (z >> 62)) * 0x319642b2d24d8ec3ull;
	z = (z ^ (z >> 27) ^ (z >> 54)) * 0x96de1b173f119089ull;
	return z ^ (z >> 30) ^ (z >> 60);
}

/* The stamp of an operation: run and index. A client's later operations have higher stamps. */
static inline uint64_t kv_stamp(uint32_t run, uint64_t op)
{
	return (uint64_t)run << KV_OP_BITS | (op & (KV_MAX_OPS - 1));
}

static inline uint32_t kv_stamp_run(uint64_t stamp)
{
	return (uint32_t)(stamp >> KV_OP_BITS);
}

static inline uint64_t kv_stamp_op(uint64_t stamp)
{
	return stamp & (KV_MAX_OPS - 1);
}

/* The name of a put, the parts of a name, and the value that encodes a name under a key. */
static inline uint64_t kv_name(uint32_t writer, uint64_t stamp)
{
	return (uint64_t)writer << 48 | stamp;
}

static inline uint32_t kv_name_writer(uint64_t name)
{
	return (uint32_t)(name >> 48);
}

static inline uint64_t kv_name_stamp(uint64_t name)
{
	return name & ((1ull << 48) - 1);
}

static inline uint64_t kv_value(uint64_t key, uint64_t name)
{
	return mix64(name ^ mix64(key + 0x9e3779b97f4a7c15ull));
}

static inline uint64_t kv_value_name(uint64_t key, uint64_t value)
{
	return unmix64(value) ^ mix64(key + 0x9e3779b97f4a7c15ull);
}

/* In a job of read-modify-writes: the version of the key in the name of its value. */
static inline uint64_t kv_name_version(uint64_t name)
{
	return kv_name_stamp(name);
}

/* The name in the value that the preload stores under every key. */
#define KV_PRELOADED ((uint64_t)KV_PRELOADER << 48)

static_assert(KV_OP_BITS + 10 == 48, "writer, run and operation fill 64 bits");

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
