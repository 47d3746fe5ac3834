/* SPDX-License-Identifier: MIT */
/* Memory of the peers ck and dpdk. */
#include "base/lines.h"
#include "peer.h"

void peer_teardown(void *state)
{
	struct rpcbench_peer *p = state;

	for (uint32_t i = 0; i < p->clients; i++) {
		free(p->link[i].resp);
		if (i < p->req_rings)
			free(p->link[i].req);
	}
	free(p);
}

uint32_t peer_slots(const struct rpcbench_config *cfg, uint32_t clients)
{
	/* There is room for all calls, so an enqueue never fails for long. */
	uint32_t calls = clients * cfg->queue_depth;
	uint32_t least = cfg->peer_slots ? calls + 1 : RPCBENCH_PEER_TIMES * calls;
	uint32_t want = cfg->peer_slots ? cfg->peer_slots : RPCBENCH_PEER_SLOTS;

	return (uint32_t)pow2_ceil(least > want ? least : want);
}

int peer_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p,
	void *(*ring_new)(uint32_t slots, size_t elem, bool mp))
{
	uint32_t slots = peer_slots(cfg, cfg->clients);
	struct rpcbench_peer *p = calloc_lines(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->clients = cfg->clients;
	p->req_rings = cfg->shared_ring ? 1 : cfg->clients;
	for (uint32_t i = 0; i < cfg->clients; i++) {
		struct peer_link *l = &p->link[i];

		l->shared = cfg->shared_ring;
		l->req = i < p->req_rings ? ring_new(slots, sizeof(struct peer_req), l->shared) :
					    p->link[0].req;
		l->resp = ring_new(slots, sizeof(struct peer_resp), false);
		if (!l->req || !l->resp) {
			peer_teardown(p);
			return -ENOMEM;
		}
		clients[i].handle = l;
	}
	server->handle = p;
	*state_p = p;
	return 0;
}
