/* SPDX-License-Identifier: MIT */
/*
 * What a client does: an endless stream of operations, made before the run and the same
 * for the same seed, client and parameters, whatever the machine is and does. Each operation
 * can also be made by itself, by anybody: that is how a client checks what another one wrote.
 *
 * The stream repeats after STREAM_PERIOD operations. Keys are uniform, or Zipf: the k-th
 * most popular of n keys is asked for with probability proportional to k^-theta, and
 * popularity is scattered over the key range (and by the placement over ranks and shards).
 */
#ifndef BENCHKV_WORKLOAD_H
#define BENCHKV_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "place.h"

#define STREAM_PERIOD (1u << 16)
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

/* What makes the operations of every client. */
struct source {
	struct workload load;
	uint64_t factor; /* scatters popularity over the key range */
	struct zipf zipf;
};

void source_init(struct source *src, const struct workload *w);

/* The key of the client's i-th operation, and whether it is a put. */
uint64_t source_op(const struct source *src, uint32_t client, uint64_t i, bool *put_p);

struct op {
	uint32_t key;
	uint16_t rank;
	uint8_t shard;
	uint8_t put;
};

struct stream {
	struct op *ops;
	uint32_t client; /* among all clients of the job */
};

/* A period of the client's operations, made at once: 0 or -ENOMEM. */
int stream_init(struct stream *s, const struct source *src, const struct placement *p,
	uint32_t client);
void stream_fini(struct stream *s);

/* The i-th operation, for any i. */
static inline const struct op *stream_at(const struct stream *s, uint64_t i)
{
	return &s->ops[i & (STREAM_PERIOD - 1)];
}

/*
 * The digest of a set of operations is the sum of their terms modulo 2^64: the order in
 * which they end does not matter, and one that is missing or counted twice changes it.
 */
static inline uint64_t stream_term(const struct stream *s, uint64_t i)
{
	const struct op *op = stream_at(s, i);

	return mix64(mix64((uint64_t)s->client << 48 ^ i) ^ ((uint64_t)op->key << 1 | op->put));
}

/* The digest of the first n operations. */
uint64_t stream_digest(const struct stream *s, uint64_t n);

/* How many of total operations fall to one of n clients: all equal, the first get the rest. */
static inline uint64_t workload_share(uint64_t total, uint32_t client, uint32_t n)
{
	return total / n + (client < total % n);
}

#endif
