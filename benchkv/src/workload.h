/* SPDX-License-Identifier: MIT */
/*
 * The work of a client: an endless stream of operations, which is the same for the same seed,
 * client and parameters on any machine. Operation i is computed from the 64 bits of i, so the
 * stream does not repeat, and each client can compute any single operation of any other client, to
 * check the values that the other client wrote.
 *
 * Each key has a number, 0 to n - 1. An operation draws a number:
 *
 *	uniform		each number with the same probability
 *	zipf		the k-th number with a probability proportional to k^-theta
 *	hotspot		a number of the hot set, which are the first numbers, with the given
 *			probability, otherwise one of the others
 *	latest		the k-th put of each client has number k, and a get has the number of the
 *			client's z-th last put, where z has a zipf distribution. The puts are at
 *			even distances in the stream, according to their share
 *	sequential	one number after the other; each client begins at a random number
 *
 * With latest and sequential, number 0 follows number n - 1. The keys of consecutive numbers are
 * scattered over the key range (and by the placement over ranks and shards), except with uniform
 * and sequential, where the key is the number.
 */
#ifndef BENCHKV_WORKLOAD_H
#define BENCHKV_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "place.h"

#define STREAM_BLOCK 64u /* operations that are computed together */
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
	double zipf_theta; /* for KEYS_LATEST, and for KEYS_DRAWN, where 0 is uniform */
	double hot_keys, hot_ops; /* for KEYS_HOTSPOT: the shares of the hot set, 0 .. 1 */
	bool rmw; /* a put is a read-modify-write, see rmw.h */
	uint64_t seed;
};

/* The number of hot keys, at least 1. */
uint64_t workload_hot(const struct workload *w);

#define WORKLOAD_NAME_MAX 64

/* Writes the name of the distribution, as --distribution accepts it. */
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
	uint64_t seed; /* common to all clients, hashed */
	uint64_t gets; /* number of gets in 2^63 operations */
	uint64_t factor; /* scatters popularity over the key range */
	uint64_t hot, hot_ops; /* number of hot keys; how many of 2^63 operations are for them */
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

/* A get of the key with this number, which is below the key range. Does not set rank and shard. */
struct op source_get(const struct source *src, uint64_t number);

/* The client's i-th operation. Does not set rank and shard of the key. */
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
	uint64_t first; /* index of the first operation of the block */
	struct op block[STREAM_BLOCK];
};

/* Initializes a stream. The caller owns the source, which must outlive the stream. */
void stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client);

/* Computes the block that contains operation @i. */
void stream_make(struct stream *s, uint64_t i);

/* Operation number @i. The pointer is valid until a call for an operation of another block. */
static inline const struct op *stream_at(struct stream *s, uint64_t i)
{
	if (unlikely(i - s->first >= STREAM_BLOCK))
		stream_make(s, i);
	return &s->block[i % STREAM_BLOCK];
}

/* The i-th operation if it is in the block, otherwise NULL. */
static inline const struct op *stream_peek(const struct stream *s, uint64_t i)
{
	return i - s->first < STREAM_BLOCK ? &s->block[i % STREAM_BLOCK] : NULL;
}

/*
 * The term of an operation. The digest of a set of operations is the sum of their terms modulo
 * 2^64. It does not depend on the order in which the operations end, and changes if an operation is
 * missing or counted twice.
 */
static inline uint64_t op_term(uint32_t client, uint64_t i, uint32_t key, bool put)
{
	return mix64(mix64((uint64_t)client << 48 ^ i) ^ ((uint64_t)key << 1 | put));
}

/* The digest of a client's first n operations. */
uint64_t source_digest(const struct source *src, uint32_t client, uint64_t n);

/*
 * The number of operations of one of @n clients. All shares are equal, except that the first
 * clients get one more if there is a remainder.
 */
static inline uint64_t workload_share(uint64_t total, uint32_t client, uint32_t n)
{
	return total / n + (client < total % n);
}

#endif
