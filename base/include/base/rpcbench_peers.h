/* SPDX-License-Identifier: MIT */
/*
 * The peers of the shared-memory benches, for rpcbench.h: rings that one can install.
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
#ifndef BASE_RPCBENCH_PEERS_H
#define BASE_RPCBENCH_PEERS_H

#if defined(RPCBENCH_CK) || defined(RPCBENCH_DPDK)

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

static inline void rpcbench_peer_teardown(void *state)
{
	struct rpcbench_peer *p = (struct rpcbench_peer *)state;

	for (uint32_t i = 0; i < p->clients; i++) {
		free(p->link[i].resp);
		if (i < p->req_rings)
			free(p->link[i].req);
	}
	free(p);
}

static inline int rpcbench_peer_setup(const struct rpcbench_config *cfg,
	struct rpcbench_server *server, struct rpcbench_client *clients, void **state_p,
	void *(*ring_new)(uint32_t slots, size_t elem, bool mp))
{
	/* Room for all calls is certain, so no enqueue fails for long. */
	uint32_t calls = cfg->clients * cfg->queue_depth;
	uint32_t least = cfg->peer_slots ? calls + 1 : RPCBENCH_PEER_TIMES * calls;
	uint32_t want = cfg->peer_slots ? cfg->peer_slots : RPCBENCH_PEER_SLOTS;
	uint32_t slots = (uint32_t)pow2_ceil(least > want ? least : want);
	struct rpcbench_peer *p =
		(struct rpcbench_peer *)aligned_alloc(CACHE_LINE, align_up(sizeof(*p), CACHE_LINE));

	if (!p)
		return -ENOMEM;
	memset(p, 0, sizeof(*p));
	p->clients = cfg->clients;
	p->req_rings = cfg->shared_ring ? 1 : cfg->clients;
	for (uint32_t i = 0; i < cfg->clients; i++) {
		struct rpcbench_peer_link *l = &p->link[i];

		l->shared = cfg->shared_ring;
		l->req = i < p->req_rings ?
				 ring_new(slots, sizeof(struct rpcbench_peer_req), l->shared) :
				 p->link[0].req;
		l->resp = ring_new(slots, sizeof(struct rpcbench_peer_resp), false);
		if (!l->req || !l->resp) {
			rpcbench_peer_teardown(p);
			return -ENOMEM;
		}
		clients[i].handle = l;
	}
	server->handle = p;
	*state_p = p;
	return 0;
}

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
	rpcbench_response(c, a->tag >> RPCBENCH_CLIENT_BITS, a->word, RPCBENCH_RESP);
}

static inline void rpcbench_peer_no_flush(struct rpcbench_client *c)
{
}

#endif

#ifdef RPCBENCH_CK
#include <ck_ring.h>

CK_RING_PROTOTYPE(rpcbench_req, rpcbench_peer_req)
CK_RING_PROTOTYPE(rpcbench_resp, rpcbench_peer_resp)

struct rpcbench_ck_ring {
	CACHE_ALIGNED struct ck_ring ring;
	CACHE_ALIGNED unsigned char slots[];
};

static inline void *rpcbench_ck_ring_new(uint32_t slots, size_t elem, bool mp)
{
	struct rpcbench_ck_ring *r = (struct rpcbench_ck_ring *)aligned_alloc(CACHE_LINE,
		align_up(sizeof(*r) + slots * elem, CACHE_LINE));

	if (r)
		ck_ring_init(&r->ring, slots);
	return r;
}

static inline int rpcbench_ck_setup(const struct rpcbench_config *cfg,
	struct rpcbench_server *server, struct rpcbench_client *clients, void **state_p)
{
	return rpcbench_peer_setup(cfg, server, clients, state_p, rpcbench_ck_ring_new);
}

ALWAYS_INLINE int rpcbench_ck_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct rpcbench_peer_link *l = (struct rpcbench_peer_link *)c->handle;
	struct rpcbench_ck_ring *r = (struct rpcbench_ck_ring *)l->req;
	struct rpcbench_peer_req *slots = (struct rpcbench_peer_req *)r->slots, m;

	rpcbench_peer_fill(c, &m, token, req, len);
	if (l->shared)
		return ck_ring_enqueue_mpsc_rpcbench_req(&r->ring, slots, &m) ? 0 : -EAGAIN;
	return ck_ring_enqueue_spsc_rpcbench_req(&r->ring, slots, &m) ? 0 : -EAGAIN;
}

ALWAYS_INLINE int rpcbench_ck_poll(struct rpcbench_client *c)
{
	struct rpcbench_ck_ring *r =
		(struct rpcbench_ck_ring *)((struct rpcbench_peer_link *)c->handle)->resp;
	struct rpcbench_peer_resp *slots = (struct rpcbench_peer_resp *)r->slots, m;
	uint32_t n = 0;

	while (n < RPCBENCH_PEER_DRAIN && ck_ring_dequeue_spsc_rpcbench_resp(&r->ring, slots, &m)) {
		rpcbench_peer_take(c, &m);
		n++;
	}
	return (int)n;
}

static inline void rpcbench_ck_client(struct rpcbench_client *c)
{
	rpcbench_client_run(c, rpcbench_ck_call, rpcbench_ck_poll, rpcbench_peer_no_flush,
		rpcbench_peer_idle);
}

ALWAYS_INLINE int rpcbench_ck_serve(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size)
{
	struct rpcbench_peer *p = (struct rpcbench_peer *)s->handle;
	struct rpcbench_peer_req q;
	struct rpcbench_peer_resp a;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->req_rings; i++) {
		struct rpcbench_ck_ring *r = (struct rpcbench_ck_ring *)p->link[i].req, *to;

		for (uint32_t k = 0; k < RPCBENCH_PEER_DRAIN &&
				     ck_ring_dequeue_spsc_rpcbench_req(&r->ring,
					     (struct rpcbench_peer_req *)r->slots, &q);
			k++, n++) {
			rpcbench_peer_answer(&q, &a, req_size, resp_size);
			to = (struct rpcbench_ck_ring *)p->link[q.tag & (RPCBENCH_CLIENTS - 1)]
				     .resp;
			while (!ck_ring_enqueue_spsc_rpcbench_resp(&to->ring,
				(struct rpcbench_peer_resp *)to->slots, &a))
				cpu_relax();
		}
	}
	return (int)n;
}

static inline void rpcbench_ck_server(struct rpcbench_server *s)
{
	rpcbench_server_run(s, rpcbench_ck_serve, rpcbench_peer_server_idle);
}
#endif

#ifdef RPCBENCH_DPDK
#include <rte_ring.h>

/* rte_ring in memory of our own: the rings need no environment abstraction layer. */
static inline void *rpcbench_rte_ring_new(uint32_t slots, size_t elem, bool mp)
{
	ssize_t bytes = rte_ring_get_memsize_elem((unsigned int)elem, slots);
	struct rte_ring *r = bytes < 0 ? NULL :
					 (struct rte_ring *)aligned_alloc(CACHE_LINE,
						 align_up((uint64_t)bytes, CACHE_LINE));

	if (r && rte_ring_init(r, "rpcbench", slots,
			 mp ? RING_F_SC_DEQ : RING_F_SP_ENQ | RING_F_SC_DEQ)) {
		free(r);
		return NULL;
	}
	return r;
}

static inline int rpcbench_rte_setup(const struct rpcbench_config *cfg,
	struct rpcbench_server *server, struct rpcbench_client *clients, void **state_p)
{
	return rpcbench_peer_setup(cfg, server, clients, state_p, rpcbench_rte_ring_new);
}

ALWAYS_INLINE uint32_t rpcbench_rte_enqueue(const struct rpcbench_peer_link *l,
	const struct rpcbench_peer_req *m, uint32_t n)
{
	struct rte_ring *r = (struct rte_ring *)l->req;

	if (l->shared)
		return rte_ring_mp_enqueue_burst_elem(r, m, sizeof(*m), n, NULL);
	return rte_ring_sp_enqueue_burst_elem(r, m, sizeof(*m), n, NULL);
}

ALWAYS_INLINE int rpcbench_rte_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct rpcbench_peer_link *l = (struct rpcbench_peer_link *)c->handle;
	struct rpcbench_peer_req m;

	rpcbench_peer_fill(c, &m, token, req, len);
	return rpcbench_rte_enqueue(l, &m, 1) ? 0 : -EAGAIN;
}

static inline void rpcbench_rte_burst_flush(struct rpcbench_client *c)
{
	struct rpcbench_peer_link *l = (struct rpcbench_peer_link *)c->handle;
	uint32_t n = 0;

	while (n < l->staged)
		n += rpcbench_rte_enqueue(l, l->stage + n, l->staged - n);
	l->staged = 0;
}

ALWAYS_INLINE int rpcbench_rte_burst_call(struct rpcbench_client *c, uint64_t token,
	const void *req, uint32_t len)
{
	struct rpcbench_peer_link *l = (struct rpcbench_peer_link *)c->handle;

	rpcbench_peer_fill(c, &l->stage[l->staged++], token, req, len);
	if (l->staged == RPCBENCH_PEER_DRAIN)
		rpcbench_rte_burst_flush(c);
	return 0;
}

ALWAYS_INLINE int rpcbench_rte_drain(struct rpcbench_client *c, uint32_t max)
{
	struct rte_ring *r = (struct rte_ring *)((struct rpcbench_peer_link *)c->handle)->resp;
	struct rpcbench_peer_resp m[RPCBENCH_PEER_DRAIN];
	uint32_t n = rte_ring_sc_dequeue_burst_elem(r, m, sizeof(m[0]), max, NULL);

	for (uint32_t i = 0; i < n; i++)
		rpcbench_peer_take(c, &m[i]);
	return (int)n;
}

ALWAYS_INLINE int rpcbench_rte_poll(struct rpcbench_client *c)
{
	return rpcbench_rte_drain(c, RPCBENCH_PEER_DRAIN);
}

ALWAYS_INLINE int rpcbench_rte_burst_poll(struct rpcbench_client *c)
{
	return rpcbench_rte_drain(c, RPCBENCH_PEER_BATCH);
}

/* Answers go out one at a time, or as many as stand together for one client. */
ALWAYS_INLINE void rpcbench_rte_reply(struct rpcbench_peer *p, const struct rpcbench_peer_resp *a,
	uint32_t n, uint32_t most)
{
	for (uint32_t i = 0, k; i < n; i += k) {
		uint64_t to = a[i].tag & (RPCBENCH_CLIENTS - 1);

		for (k = 1; k < most && i + k < n && (a[i + k].tag & (RPCBENCH_CLIENTS - 1)) == to;
			k++)
			;
		while (!rte_ring_sp_enqueue_bulk_elem((struct rte_ring *)p->link[to].resp, a + i,
			sizeof(*a), k, NULL))
			cpu_relax();
	}
}

ALWAYS_INLINE int rpcbench_rte_answer_all(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size, uint32_t most)
{
	struct rpcbench_peer *p = (struct rpcbench_peer *)s->handle;
	struct rpcbench_peer_req q[RPCBENCH_PEER_DRAIN];
	struct rpcbench_peer_resp a[RPCBENCH_PEER_DRAIN];
	uint32_t sum = 0;

	for (uint32_t i = 0; i < p->req_rings; i++) {
		uint32_t n = rte_ring_sc_dequeue_burst_elem((struct rte_ring *)p->link[i].req, q,
			sizeof(q[0]), RPCBENCH_PEER_DRAIN, NULL);

		for (uint32_t k = 0; k < n; k++)
			rpcbench_peer_answer(&q[k], &a[k], req_size, resp_size);
		rpcbench_rte_reply(p, a, n, most);
		sum += n;
	}
	return (int)sum;
}

ALWAYS_INLINE int rpcbench_rte_serve(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size)
{
	return rpcbench_rte_answer_all(s, req_size, resp_size, 1);
}

ALWAYS_INLINE int rpcbench_rte_burst_serve(struct rpcbench_server *s, uint32_t req_size,
	uint32_t resp_size)
{
	return rpcbench_rte_answer_all(s, req_size, resp_size, RPCBENCH_PEER_DRAIN);
}

static inline void rpcbench_rte_client(struct rpcbench_client *c)
{
	rpcbench_client_run(c, rpcbench_rte_call, rpcbench_rte_poll, rpcbench_peer_no_flush,
		rpcbench_peer_idle);
}

static inline void rpcbench_rte_server(struct rpcbench_server *s)
{
	rpcbench_server_run(s, rpcbench_rte_serve, rpcbench_peer_server_idle);
}

static inline void rpcbench_rte_burst_client(struct rpcbench_client *c)
{
	rpcbench_client_run(c, rpcbench_rte_burst_call, rpcbench_rte_burst_poll,
		rpcbench_rte_burst_flush, rpcbench_peer_idle);
}

static inline void rpcbench_rte_burst_server(struct rpcbench_server *s)
{
	rpcbench_server_run(s, rpcbench_rte_burst_serve, rpcbench_peer_server_idle);
}
#endif

static const struct rpcbench_impl rpcbench_peers[] = {
#ifdef RPCBENCH_CK
	{"ck", rpcbench_ck_setup, rpcbench_peer_teardown, rpcbench_ck_client, rpcbench_ck_server,
		false},
#endif
#ifdef RPCBENCH_DPDK
	{"dpdk", rpcbench_rte_setup, rpcbench_peer_teardown, rpcbench_rte_client,
		rpcbench_rte_server, false},
	{"dpdk-burst", rpcbench_rte_setup, rpcbench_peer_teardown, rpcbench_rte_burst_client,
		rpcbench_rte_burst_server, false},
#endif
	{NULL, NULL, NULL, NULL, NULL, false},
};

#endif
