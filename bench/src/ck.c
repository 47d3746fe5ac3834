/* SPDX-License-Identifier: MIT */
/* Concurrency Kit's ring as a peer. */
#include "base/lines.h"
#include "peer.h"

#include <ck_ring.h>

CK_RING_PROTOTYPE(rpcbench_req, peer_req)
CK_RING_PROTOTYPE(rpcbench_resp, peer_resp)

struct rpcbench_ck_ring {
	CACHE_ALIGNED struct ck_ring ring;
	CACHE_ALIGNED unsigned char slots[];
};

static void *rpcbench_ck_ring_new(uint32_t slots, size_t elem, bool mp)
{
	struct rpcbench_ck_ring *r =
		(struct rpcbench_ck_ring *)calloc_lines(1, sizeof(*r) + slots * elem);

	if (r)
		ck_ring_init(&r->ring, slots);
	return r;
}

static int rpcbench_ck_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	return peer_setup(cfg, server, clients, state_p, rpcbench_ck_ring_new);
}

ALWAYS_INLINE int rpcbench_ck_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct peer_link *l = c->handle;
	struct rpcbench_ck_ring *r = l->req;
	struct peer_req *slots = (struct peer_req *)r->slots, m;

	peer_fill(c, &m, token, req, len);
	if (l->shared)
		return ck_ring_enqueue_mpsc_rpcbench_req(&r->ring, slots, &m) ? 0 : -EAGAIN;
	return ck_ring_enqueue_spsc_rpcbench_req(&r->ring, slots, &m) ? 0 : -EAGAIN;
}

ALWAYS_INLINE int rpcbench_ck_poll(struct rpcbench_client *c)
{
	struct rpcbench_ck_ring *r =
		(struct rpcbench_ck_ring *)((struct peer_link *)c->handle)->resp;
	struct peer_resp *slots = (struct peer_resp *)r->slots, m;
	uint32_t n = 0;

	while (n < RPCBENCH_PEER_DRAIN && ck_ring_dequeue_spsc_rpcbench_resp(&r->ring, slots, &m)) {
		peer_take(c, &m, rpcbench_ck_call);
		n++;
	}
	return (int)n;
}

static int rpcbench_ck_dequeue(void *ring, struct peer_req *q)
{
	struct rpcbench_ck_ring *r = ring;

	return ck_ring_dequeue_spsc_rpcbench_req(&r->ring, (struct peer_req *)r->slots, q);
}

static bool rpcbench_ck_enqueue(void *ring, struct peer_resp *a)
{
	struct rpcbench_ck_ring *r = ring;

	return ck_ring_enqueue_spsc_rpcbench_resp(&r->ring, (struct peer_resp *)r->slots, a);
}

ALWAYS_INLINE int rpcbench_ck_recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	return peer_recv(s, r, req, len, rpcbench_ck_dequeue);
}

ALWAYS_INLINE void rpcbench_ck_reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	peer_reply(s, r, resp, len, rpcbench_ck_enqueue);
}

RPCBENCH_CLIENT(rpcbench_ck_client, rpcbench_ck_call, rpcbench_ck_poll, NULL, NULL)

RPCBENCH_SERVER(rpcbench_ck_server, NULL, rpcbench_ck_recv, rpcbench_ck_reply, NULL, NULL, NULL)

const struct rpcbench_impl rpcbench_ck = {"ck", rpcbench_ck_setup, peer_teardown,
	rpcbench_ck_client, rpcbench_ck_server, .shared_ring = false};
