/* SPDX-License-Identifier: MIT */
/*
 * The work of a client: an endless stream of operations, the same for the same seed, client and
 * parameters on any machine. Operation i is computed from the 64 bits of i, so the stream does not
 * repeat, and each client can compute any single operation of any other client. With that a client
 * checks the values that another client wrote.
 *
 * Each key has a number, 0 to n - 1. An operation draws a number:
 *
 *	uniform		each with the same probability
 *	zipf		the k-th with a probability proportional to k^-theta
 *	hotspot		the first ones, the hot set, together with the given probability
 *	latest		the k-th put of each client takes number k, and a get takes the number that was
 *			put z puts before, z being zipf. Puts are as far apart as their share says
 *	sequential	one after the other, from a start of the client's own
 *
 * With latest and sequential the first number follows the last one. Numbers are scattered over the key range (and
 * by the placement over ranks and shards), except for uniform and sequential, where key and number
 * are the same.
 */
#ifndef BENCHKV_WORKLOAD_H
#define BENCHKV_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "place.h"

#define STREAM_BLOCK 64u /* operations that are made together */
#define WORKLOAD_MAX_KEYS (1ull << 32)

enum keys {
	KEYS_DRAWN, /* uniform or zipf */
	KEYS_HOTSPOT,
	KEYS_LATEST,
	KEYS_SEQUENTIAL,
};

struct workload {
	uint64_t key_range; /* 1 .. WORKLOAD_MAX_KEYS */
	double read_ratio; /* 0 .. 1 */
	enum keys keys;
	double zipf_theta; /* of KEYS_DRAWN, 0: uniform; of KEYS_LATEST */
	double hot_keys, hot_ops; /* of KEYS_HOTSPOT: the shares of the hot set, 0 .. 1 */
	bool rmw; /* a put is a read-modify-write, see rmw.h */
	uint64_t seed;
};

/* The number of hot keys, at least 1. */
uint64_t workload_hot(const struct workload *w);

#define WORKLOAD_NAME_MAX 64

/* The name of the distribution, as --distribution has it. */
void workload_name(const struct workload *w, char name[WORKLOAD_NAME_MAX]);

/* Zipf over 1 .. n by rejection-inversion; constant time for every n and theta > 0. */
struct zipf {
	double n, theta;
	double low, high; /* range of the integral that is inverted */
	double accept; /* distance below which a sample needs no test */
};

void zipf_init(struct zipf *z, uint64_t n, double theta);
uint64_t zipf_next(const struct zipf *z, uint64_t *rng);

/* The source of the operations of every client. */
struct source {
	struct workload load;
	uint64_t seed; /* of all clients, mixed */
	uint64_t gets; /* number of gets in 2^63 operations */
	uint64_t factor; /* scatters popularity over the key range */
	uint64_t hot, hot_ops; /* number of hot keys; of their operations in 2^63 */
	struct zipf zipf;
};

struct op {
	uint32_t key;
	uint32_t number; /* of the key */
	uint16_t rank; /* the owner of the key, see op_place() */
	uint8_t shard;
	bool put;
};

void source_init(struct source *src, const struct workload *w);

/* A get of the key with this number, below the key range, without its place. */
struct op source_get(const struct source *src, uint64_t number);

/* The client's i-th operation without the place of its key. */
struct op source_op(const struct source *src, uint32_t client, uint64_t i);

static inline void op_place(struct op *op, const struct placement *p)
{
	op->rank = (uint16_t)place_rank(p, op->key);
	op->shard = (uint8_t)place_shard(p, op->key);
}

/* The operations of one client, with the block that was used last. */
struct stream {
	const struct source *source;
	struct placement place;
	uint32_t client; /* among all clients of the job */
	uint64_t first; /* of the block */
	struct op block[STREAM_BLOCK];
};

/* The caller owns the source, which must outlive the stream. */
void stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client);

/* Makes the block that contains operation @i. */
void stream_make(struct stream *s, uint64_t i);

/* Operation number @i. The pointer is valid until a call for an operation of another block. */
static inline const struct op *stream_at(struct stream *s, uint64_t i)
{
	if (unlikely(i - s->first >= STREAM_BLOCK))
		stream_make(s, i);
	return &s->block[i % STREAM_BLOCK];
}

/* The i-th operation if it has been made already, else NULL. */
static inline const struct op *stream_peek(const struct stream *s, uint64_t i)
{
	return i - s->first < STREAM_BLOCK ? &s->block[i % STREAM_BLOCK] : NULL;
}

/*
 * The digest of a set of operations is the sum of their terms modulo 2^64: the order in
 * which they end does not matter, and one that is missing or counted twice changes it.
 */
static inline uint64_t op_term(uint32_t client, uint64_t i, uint32_t key, bool put)
{
	return mix64(mix64((uint64_t)client << 48 ^ i) ^ ((uint64_t)key << 1 | put));
}

/* The digest of a client's first n operations. */
uint64_t source_digest(const struct source *src, uint32_t client, uint64_t n);

/*
 * The number of operations of one of @n clients: all shares are equal, except that the first
 * clients get one more of the remainder.
 */
static inline uint64_t workload_share(uint64_t total, uint32_t client, uint32_t n)
{
	return total / n + (client < total % n);
}

#endif
