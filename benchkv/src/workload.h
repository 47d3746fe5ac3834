/* SPDX-License-Identifier: MIT */
/*
 * The work of a client: an endless stream of operations, the same for the same seed, client and
 * parameters on any machine. Operation i follows from the 64 bits of i, so the stream does not
 * repeat, and anybody can make any operation of any client by itself: that is how a client checks
 * what another one wrote.
 *
 * Keys are uniform, or Zipf: the k-th most popular of n keys is asked for with probability
 * proportional to k^-theta, and popularity is scattered over the key range (and by the placement
 * over ranks and shards). Each key has a number, 0 to n - 1: the most popular one has 0; uniform
 * keys are their own numbers.
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

struct workload {
	uint64_t key_range; /* 1 .. WORKLOAD_MAX_KEYS */
	double read_ratio; /* 0 .. 1 */
	double zipf_theta; /* 0: uniform */
	uint64_t seed;
};

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
	uint64_t gets; /* of 2^63 operations */
	uint64_t factor; /* scatters popularity over the key range */
	struct zipf zipf;
};

struct op {
	uint32_t key;
	uint32_t number; /* of the key */
	uint16_t rank; /* where the key lives, see op_place() */
	uint8_t shard;
	bool put;
};

void source_init(struct source *src, const struct workload *w);

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

/* The source is the caller's, and outlives the stream. */
void stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client);

/* Makes the block that has operation i. */
void stream_make(struct stream *s, uint64_t i);

/* The i-th operation, for any i. It is valid until an operation of another block is asked for. */
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
 * The share of `total` operations of one of n clients: all are equal, and the first ones get the
 * rest.
 */
static inline uint64_t workload_share(uint64_t total, uint32_t client, uint32_t n)
{
	return total / n + (client < total % n);
}

#endif
