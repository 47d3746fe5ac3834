/* SPDX-License-Identifier: MIT */
/*
 * The peers with which the benchmarks compare the shared-memory layers: rings of other libraries,
 * and our own ring without the layer above it.
 *
 *	bare        cellring without ids, tokens and checks: its time is the lower bound for shmipc
 *	            and flux
 *	ck          ck_ring, one entry at a time
 *	dpdk        rte_ring, single enqueue, burst dequeue
 *	dpdk-burst  rte_ring, bursts on both sides, at most 16 responses per poll
 *
 * As in our layers, ck and dpdk copy whole messages with their token (48 bytes for a request, 32
 * for a response) into the rings, so the server never reads a client's memory. A ring that belongs
 * to one client is a single-producer ring. A request ring that clients share is a multi-producer
 * ring. An empty poll is followed by one pause instruction, as in our layers.
 */
#ifndef PEER_H
#define PEER_H

#include "rpcbench.h"

#define RPCBENCH_PEER_TIMES 4u /* slots for each call in flight, as in our own rings ... */
#define RPCBENCH_PEER_SLOTS 64u /* ... but at least this many, with which rte_ring is fastest */
#define RPCBENCH_PEER_BATCH 16u
#define RPCBENCH_PEER_DRAIN 32u
#define RPCBENCH_CLIENT_BITS 6 /* bits of a client's index: log2(RPCBENCH_CLIENTS) */

/* A message: the token with the client's index in its low bits, and the payload. */
struct peer_req {
	uint64_t tag;
	uint64_t word[5];
};

struct peer_resp {
	uint64_t tag;
	uint64_t word[3];
};

/* The rings of one client, whose handle points to this struct. For ck_ring and rte_ring. */
struct peer_link {
	CACHE_ALIGNED void *req; /* the client's request ring */
	void *resp;
	bool shared;
	uint32_t staged;
	struct peer_req stage[RPCBENCH_PEER_DRAIN];
};

struct rpcbench_peer {
	struct peer_link link[RPCBENCH_CLIENTS];
	uint32_t clients;
	uint32_t req_rings; /* one, or one per client */
	uint32_t turn; /* index of the request ring that is read next */
};

extern const struct rpcbench_impl rpcbench_bare, rpcbench_ck, rpcbench_dpdk, rpcbench_dpdk_burst;

/* Returns the number of slots of a ring for the calls of this many clients. */
uint32_t peer_slots(const struct rpcbench_config *cfg, uint32_t clients);

/* For setup() and teardown() of a peer. ring_new() creates a ring; peer_teardown() frees all. */
int peer_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p,
	void *(*ring_new)(uint32_t slots, size_t elem, bool mp));
void peer_teardown(void *state);

ALWAYS_INLINE void peer_fill(struct rpcbench_client *c, struct peer_req *m, uint64_t token,
	const void *req, uint32_t len)
{
	m->tag = token << RPCBENCH_CLIENT_BITS | c->index;
	memcpy(m->word, req, len);
}

ALWAYS_INLINE void peer_answer(const struct peer_req *q, struct peer_resp *a, uint32_t req_size,
	uint32_t resp_size)
{
	a->tag = q->tag;
	rpcbench_answer(q->word, req_size, a->word, resp_size);
}

/* Accepts a response, and makes the call that follows it. */
ALWAYS_INLINE void peer_take(struct rpcbench_client *c, const struct peer_resp *a,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t))
{
	rpcbench_response(c, a->tag >> RPCBENCH_CLIENT_BITS, a->word, RPCBENCH_RESP);
	rpcbench_again(c, call);
}

/* Receives one request. Successive calls read each ring until it is empty, then the next one. */
ALWAYS_INLINE int peer_recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len, int (*dequeue)(void *ring, struct peer_req *q))
{
	struct rpcbench_peer *p = s->handle;
	struct peer_req q;

	for (uint32_t i = 0; i < p->req_rings; i++) {
		if (dequeue(p->link[p->turn].req, &q)) {
			r->id = q.tag;
			r->client = (uint32_t)q.tag & (RPCBENCH_CLIENTS - 1);
			memcpy(req, q.word, len);
			return 1;
		}
		p->turn = p->turn + 1 < p->req_rings ? p->turn + 1 : 0;
	}
	return 0;
}

ALWAYS_INLINE void peer_reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len, bool (*enqueue)(void *ring, struct peer_resp *a))
{
	struct rpcbench_peer *p = s->handle;
	struct peer_resp a = {.tag = r->id};

	memcpy(a.word, resp, len);
	while (!enqueue(p->link[r->client].resp, &a))
		cpu_relax();
}

#endif
