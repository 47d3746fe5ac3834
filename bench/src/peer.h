/* SPDX-License-Identifier: MIT */
/*
 * The peers of the shared-memory benches: rings that one can install.
 *
 *	ck          ck_ring, one entry at a time
 *	dpdk        rte_ring, single enqueue, burst dequeue
 *	dpdk-burst  rte_ring, bursts on both sides, at most 16 responses per poll
 *
 * Messages are copied into the rings with their token, 48 bytes for a request and 32 for
 * a response, so a peer also moves whole messages and the server never reads a client's
 * memory. With one ring per client they are single-producer rings; with a shared request
 * ring that is a multi-producer one. An empty poll is one pause, as in our own spinning.
 */
#ifndef PEER_H
#define PEER_H

#include "rpcbench.h"

#define RPCBENCH_PEER_TIMES 4u /* slots for each call in flight, as our rings have them ... */
#define RPCBENCH_PEER_SLOTS 64u /* ... and at least so many: what rte_ring is fastest with */
#define RPCBENCH_PEER_BATCH 16u
#define RPCBENCH_PEER_DRAIN 32u
#define RPCBENCH_CLIENT_BITS 6 /* RPCBENCH_CLIENTS */

/* What travels: the token with the client's index in its low bits, and the payload. */
struct rpcbench_peer_req {
	uint64_t tag;
	uint64_t word[5];
};

struct rpcbench_peer_resp {
	uint64_t tag;
	uint64_t word[3];
};

static inline uint64_t rpcbench_tag(uint64_t token, uint32_t client)
{
	return token << RPCBENCH_CLIENT_BITS | client;
}

/* One pause per empty poll, and no end to it. */
static inline bool rpcbench_peer_idle(struct rpcbench_client *c, uint64_t ns)
{
	cpu_relax();
	return true;
}

static inline bool rpcbench_peer_server_idle(struct rpcbench_server *s, uint64_t ns)
{
	cpu_relax();
	return true;
}

/* Rings and their users' handles, for either library. */
struct rpcbench_peer_link {
	CACHE_ALIGNED void *req; /* the client's request ring */
	void *resp;
	bool shared;
	uint32_t staged;
	struct rpcbench_peer_req stage[RPCBENCH_PEER_DRAIN];
};

struct rpcbench_peer {
	struct rpcbench_peer_link link[RPCBENCH_CLIENTS];
	uint32_t clients;
	uint32_t req_rings; /* one, or one per client */
};

extern const struct rpcbench_impl rpcbench_ck, rpcbench_dpdk, rpcbench_dpdk_burst;

/* What setup() and teardown() of a peer do, but for the rings themselves. */
int rpcbench_peer_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p,
	void *(*ring_new)(uint32_t slots, size_t elem, bool mp));
void rpcbench_peer_teardown(void *state);

ALWAYS_INLINE void rpcbench_peer_fill(struct rpcbench_client *c, struct rpcbench_peer_req *m,
	uint64_t token, const void *req, uint32_t len)
{
	m->tag = rpcbench_tag(token, c->index);
	memcpy(m->word, req, len);
}

ALWAYS_INLINE void rpcbench_peer_answer(const struct rpcbench_peer_req *q,
	struct rpcbench_peer_resp *a, uint32_t req_size, uint32_t resp_size)
{
	a->tag = q->tag;
	rpcbench_answer(q->word, req_size, a->word, resp_size);
}

ALWAYS_INLINE void rpcbench_peer_take(struct rpcbench_client *c, const struct rpcbench_peer_resp *a)
{
	rpcbench_response(c, a->tag >> RPCBENCH_CLIENT_BITS, a->word);
}

static inline void rpcbench_peer_no_flush(struct rpcbench_client *c)
{
}

#endif
