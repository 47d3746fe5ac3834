/* SPDX-License-Identifier: MIT */
/* Concurrency Kit's ring as a peer. */
#include "peer.h"

#include <ck_ring.h>

CK_RING_PROTOTYPE(rpcbench_req, rpcbench_peer_req)
CK_RING_PROTOTYPE(rpcbench_resp, rpcbench_peer_resp)

struct rpcbench_ck_ring {
	CACHE_ALIGNED struct ck_ring ring;
	CACHE_ALIGNED unsigned char slots[];
};

static void *rpcbench_ck_ring_new(uint32_t slots, size_t elem, bool mp)
{
	struct rpcbench_ck_ring *r = (struct rpcbench_ck_ring *)aligned_alloc(CACHE_LINE,
		align_up(sizeof(*r) + slots * elem, CACHE_LINE));

	if (r)
		ck_ring_init(&r->ring, slots);
	return r;
}

static int rpcbench_ck_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
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

static void rpcbench_ck_client(struct rpcbench_client *c)
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

static void rpcbench_ck_server(struct rpcbench_server *s)
{
	rpcbench_server_run(s, rpcbench_ck_serve, rpcbench_peer_server_idle);
}

const struct rpcbench_impl rpcbench_ck = {"ck", rpcbench_ck_setup, rpcbench_peer_teardown,
	rpcbench_ck_client, rpcbench_ck_server, false};
