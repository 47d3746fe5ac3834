/* SPDX-License-Identifier: MIT */
/* DPDK's ring as two peers. */
#include "base/lines.h"
#include "peer.h"

#include <rte_ring.h>

/* Creates an rte_ring in our own memory, so that no environment abstraction layer is needed. */
static void *dpdk_ring_new(uint32_t slots, size_t elem, bool mp)
{
	ssize_t bytes = rte_ring_get_memsize_elem((unsigned int)elem, slots);
	struct rte_ring *r = bytes < 0 ? NULL : (struct rte_ring *)calloc_lines(1, (size_t)bytes);

	if (r && rte_ring_init(r, "rpcbench", slots,
			 mp ? RING_F_SC_DEQ : RING_F_SP_ENQ | RING_F_SC_DEQ)) {
		free(r);
		return NULL;
	}
	return r;
}

static int dpdk_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	return peer_setup(cfg, server, clients, state_p, dpdk_ring_new);
}

ALWAYS_INLINE uint32_t dpdk_enqueue(const struct peer_link *l, const struct peer_req *m, uint32_t n)
{
	struct rte_ring *r = l->req;

	if (l->shared)
		return rte_ring_mp_enqueue_burst_elem(r, m, sizeof(*m), n, NULL);
	return rte_ring_sp_enqueue_burst_elem(r, m, sizeof(*m), n, NULL);
}

ALWAYS_INLINE int dpdk_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct peer_link *l = c->handle;
	struct peer_req m;

	peer_fill(c, &m, token, req, len);
	return dpdk_enqueue(l, &m, 1) ? 0 : -EAGAIN;
}

static void dpdk_burst_flush(struct rpcbench_client *c)
{
	struct peer_link *l = c->handle;
	uint32_t n = 0;

	while (n < l->staged)
		n += dpdk_enqueue(l, l->stage + n, l->staged - n);
	l->staged = 0;
}

ALWAYS_INLINE int dpdk_burst_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct peer_link *l = c->handle;

	peer_fill(c, &l->stage[l->staged++], token, req, len);
	if (l->staged == RPCBENCH_PEER_DRAIN)
		dpdk_burst_flush(c);
	return 0;
}

ALWAYS_INLINE int dpdk_drain(struct rpcbench_client *c, uint32_t max,
	int (*call)(struct rpcbench_client *, uint64_t, const void *, uint32_t))
{
	struct rte_ring *r = (struct rte_ring *)((struct peer_link *)c->handle)->resp;
	struct peer_resp m[RPCBENCH_PEER_DRAIN];
	uint32_t n = rte_ring_sc_dequeue_burst_elem(r, m, sizeof(m[0]), max, NULL);

	for (uint32_t i = 0; i < n; i++)
		peer_take(c, &m[i], call);
	return (int)n;
}

ALWAYS_INLINE int dpdk_poll(struct rpcbench_client *c)
{
	return dpdk_drain(c, RPCBENCH_PEER_DRAIN, dpdk_call);
}

ALWAYS_INLINE int dpdk_burst_poll(struct rpcbench_client *c)
{
	int n = dpdk_drain(c, RPCBENCH_PEER_BATCH, dpdk_burst_call);

	dpdk_burst_flush(c); /* publishes the calls made by the response function */
	return n;
}

/* Enqueues answers. Up to @most successive answers to the same client are enqueued together. */
ALWAYS_INLINE void dpdk_reply(struct rpcbench_peer *p, const struct peer_resp *a, uint32_t n,
	uint32_t most)
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

ALWAYS_INLINE int dpdk_answer_all(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size,
	uint32_t most)
{
	struct rpcbench_peer *p = s->handle;
	struct peer_req q[RPCBENCH_PEER_DRAIN];
	struct peer_resp a[RPCBENCH_PEER_DRAIN];
	uint32_t sum = 0;

	for (uint32_t i = 0; i < p->req_rings; i++) {
		uint32_t n = rte_ring_sc_dequeue_burst_elem((struct rte_ring *)p->link[i].req, q,
			sizeof(q[0]), RPCBENCH_PEER_DRAIN, NULL);

		for (uint32_t k = 0; k < n; k++)
			peer_answer(&q[k], &a[k], req_size, resp_size);
		dpdk_reply(p, a, n, most);
		sum += n;
	}
	return (int)sum;
}

ALWAYS_INLINE int dpdk_serve(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size)
{
	return dpdk_answer_all(s, req_size, resp_size, 1);
}

ALWAYS_INLINE int dpdk_burst_serve(struct rpcbench_server *s, uint32_t req_size, uint32_t resp_size)
{
	return dpdk_answer_all(s, req_size, resp_size, RPCBENCH_PEER_DRAIN);
}

static int dpdk_dequeue(void *ring, struct peer_req *q)
{
	return !rte_ring_sc_dequeue_elem((struct rte_ring *)ring, q, sizeof(*q));
}

static bool dpdk_enqueue_answer(void *ring, struct peer_resp *a)
{
	return !rte_ring_sp_enqueue_elem((struct rte_ring *)ring, a, sizeof(*a));
}

ALWAYS_INLINE int dpdk_recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	return peer_recv(s, r, req, len, dpdk_dequeue);
}

ALWAYS_INLINE void dpdk_reply_one(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	peer_reply(s, r, resp, len, dpdk_enqueue_answer);
}

RPCBENCH_CLIENT(dpdk_client, dpdk_call, dpdk_poll, NULL, NULL)

/* dpdk_serve() already does what the loop `many` does: it receives a burst, then answers it. */
RPCBENCH_SERVER(dpdk_server, NULL, dpdk_recv, dpdk_reply_one, NULL, NULL, dpdk_serve)

RPCBENCH_CLIENT(dpdk_burst_client, dpdk_burst_call, dpdk_burst_poll, dpdk_burst_flush, NULL)

RPCBENCH_SERVER(dpdk_burst_server, NULL, dpdk_recv, dpdk_reply_one, NULL, NULL, dpdk_burst_serve)

/* ---- a mesh: two rings for each ordered pair of nodes ---- */

struct dpdk_mesh {
	struct rte_ring *req[RPCBENCH_CLIENTS][RPCBENCH_CLIENTS]; /* [caller][callee] */
	struct rte_ring *resp[RPCBENCH_CLIENTS][RPCBENCH_CLIENTS];
};

static void dpdk_mesh_teardown(void *state)
{
	struct dpdk_mesh *m = state;

	for (uint32_t i = 0; i < RPCBENCH_CLIENTS; i++)
		for (uint32_t k = 0; k < RPCBENCH_CLIENTS; k++) {
			free(m->req[i][k]);
			free(m->resp[i][k]);
		}
	free(m);
}

static int dpdk_mesh_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	uint32_t n = cfg->clients, slots = peer_slots(cfg, 1);
	struct dpdk_mesh *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	for (uint32_t i = 0; i < n * n; i++) {
		struct rte_ring **req = &m->req[i / n][i % n], **resp = &m->resp[i / n][i % n];

		*req = (struct rte_ring *)dpdk_ring_new(slots, sizeof(struct peer_req), false);
		*resp = (struct rte_ring *)dpdk_ring_new(slots, sizeof(struct peer_resp), false);
		if (!*req || !*resp) {
			dpdk_mesh_teardown(m);
			return -ENOMEM;
		}
		clients[i % n].handle = m;
	}
	*state_p = m;
	return 0;
}

ALWAYS_INLINE int dpdk_mesh_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct dpdk_mesh *m = c->handle;
	struct peer_req q;

	peer_fill(c, &q, token, req, len);
	return rte_ring_sp_enqueue_elem(m->req[c->index][c->to], &q, sizeof(q));
}

ALWAYS_INLINE uint32_t dpdk_mesh_serve_one(struct rpcbench_client *c, uint32_t from)
{
	struct dpdk_mesh *m = c->handle;
	struct peer_req q[RPCBENCH_PEER_DRAIN];
	struct peer_resp a;
	uint32_t n = rte_ring_sc_dequeue_burst_elem(m->req[from][c->index], q, sizeof(q[0]),
		RPCBENCH_PEER_DRAIN, NULL);

	for (uint32_t i = 0; i < n; i++) {
		peer_answer(&q[i], &a, RPCBENCH_REQ, RPCBENCH_RESP);
		while (rte_ring_sp_enqueue_elem(m->resp[from][c->index], &a, sizeof(a)))
			cpu_relax();
	}
	return n;
}

ALWAYS_INLINE int dpdk_mesh_serve(struct rpcbench_client *c, uint32_t most)
{
	uint32_t sum = 0;

	for (uint32_t from = 0; from < c->run->active && sum < most; from++)
		if (from != c->index)
			sum += dpdk_mesh_serve_one(c, from);
	return (int)sum;
}

ALWAYS_INLINE int dpdk_mesh_poll(struct rpcbench_client *c)
{
	struct dpdk_mesh *m = c->handle;
	struct peer_resp a[RPCBENCH_PEER_DRAIN];
	uint32_t sum = 0, n;

	for (uint32_t to = 0; to < c->run->active; to++) {
		if (to == c->index)
			continue;
		n = rte_ring_sc_dequeue_burst_elem(m->resp[c->index][to], a, sizeof(a[0]),
			RPCBENCH_PEER_DRAIN, NULL);
		for (uint32_t i = 0; i < n; i++)
			rpcbench_response(c, a[i].tag >> RPCBENCH_CLIENT_BITS, a[i].word,
				RPCBENCH_RESP);
		sum += n;
	}
	return (int)sum;
}

RPCBENCH_MESH(dpdk_mesh_turn, dpdk_mesh_call, dpdk_mesh_serve, dpdk_mesh_poll)

static const struct rpcbench_impl rpcbench_dpdk_mesh = {"dpdk", dpdk_mesh_setup, dpdk_mesh_teardown,
	.turn = dpdk_mesh_turn};

const struct rpcbench_impl rpcbench_dpdk = {"dpdk", dpdk_setup, peer_teardown, dpdk_client,
	dpdk_server, .mesh = &rpcbench_dpdk_mesh};

const struct rpcbench_impl rpcbench_dpdk_burst = {"dpdk-burst", dpdk_setup, peer_teardown,
	dpdk_burst_client, dpdk_burst_server, .shared_ring = false};
