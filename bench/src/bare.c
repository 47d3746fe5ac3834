/* SPDX-License-Identifier: MIT */
/*
 * The minimum for the layers above cellring: the same rings and bursts, and nothing else. There are
 * no ids, because answers come in order; no tokens, no checks, no places, no wake-ups.
 */
#include <cellring.h>

#include "peer.h"

#define RPCBENCH_BARE_PAGE 4096u

struct rpcbench_bare_end {
	struct cellring_cursor in, out;
	struct cellring_burst burst; /* messages for out */
	uint32_t limit; /* messages in a burst */
};

/* One client's rings, and the private state of the client and of the server. */
struct rpcbench_bare_link {
	CACHE_ALIGNED struct rpcbench_bare_end client;
	CACHE_ALIGNED struct rpcbench_bare_end server;
	CACHE_ALIGNED unsigned char *req, *resp;
};

struct rpcbench_bare_state {
	struct rpcbench_bare_link link[RPCBENCH_CLIENTS];
	uint32_t clients;
	uint32_t turn; /* index of the client whose ring is read next */
};

static unsigned char *rpcbench_bare_ring_new(const struct cellring_plan *plan)
{
	size_t bytes = align_up(cellring_bytes(plan), RPCBENCH_BARE_PAGE);
	unsigned char *ring = (unsigned char *)aligned_alloc(RPCBENCH_BARE_PAGE, bytes);

	return ring ? (unsigned char *)memset(ring, 0, bytes) : NULL;
}

static void rpcbench_bare_teardown(void *state)
{
	struct rpcbench_bare_state *b = (struct rpcbench_bare_state *)state;

	for (uint32_t i = 0; i < b->clients; i++) {
		free(b->link[i].req);
		free(b->link[i].resp);
	}
	free(b);
}

static int rpcbench_bare_link_init(struct rpcbench_bare_link *l, const struct rpcbench_config *cfg)
{
	uint32_t room = RPCBENCH_PEER_TIMES * cfg->queue_depth;
	struct cellring_plan req, resp;

	room = room > RPCBENCH_PEER_SLOTS ? room : RPCBENCH_PEER_SLOTS;
	req = cellring_plan_for(cfg->req_size, cfg->queue_depth, room);
	resp = cellring_plan_for(cfg->resp_size, cfg->queue_depth, room);
	l->req = rpcbench_bare_ring_new(&req);
	l->resp = rpcbench_bare_ring_new(&resp);
	if (!l->req || !l->resp)
		return -ENOMEM;
	cellring_cursor_init(&l->client.out, l->req, &req);
	cellring_cursor_init(&l->client.in, l->resp, &resp);
	cellring_cursor_init(&l->server.in, l->req, &req);
	cellring_cursor_init(&l->server.out, l->resp, &resp);
	cellring_burst_close(&l->client.burst);
	cellring_burst_close(&l->server.burst);
	return 0;
}

static int rpcbench_bare_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct rpcbench_bare_state *b = (struct rpcbench_bare_state *)aligned_alloc(CACHE_LINE,
		align_up(sizeof(*b), CACHE_LINE));

	if (!b)
		return -ENOMEM;
	memset(b, 0, sizeof(*b));
	b->clients = cfg->clients;
	for (uint32_t i = 0; i < cfg->clients; i++) {
		if (rpcbench_bare_link_init(&b->link[i], cfg)) {
			rpcbench_bare_teardown(b);
			return -ENOMEM;
		}
		clients[i].handle = &b->link[i];
	}
	server->handle = b;
	*state_p = b;
	return 0;
}

/* Publishes a message alone, or collects it. */
ALWAYS_INLINE void rpcbench_bare_put(struct rpcbench_bare_end *e, const void *data, uint32_t len)
{
	if (!e->burst.to && !cellring_burst_open(&e->burst, &e->out, e->limit)) {
		cellring_put(&e->out, 0, data, len);
	} else if (cellring_burst_add(&e->burst, 0, data, len)) {
		cellring_burst_write_full(&e->burst);
		if (cellring_burst_stale(&e->burst))
			cellring_burst_close(&e->burst);
	}
}

ALWAYS_INLINE void rpcbench_bare_publish(struct rpcbench_bare_end *e)
{
	if (!cellring_burst_held(&e->burst))
		return;
	cellring_burst_write_part(&e->burst);
	if (cellring_burst_stale(&e->burst))
		cellring_burst_close(&e->burst);
}

/* Returns true if there is a message. If it begins a burst, sets *head_p to the burst's head. */
ALWAYS_INLINE bool rpcbench_bare_look(struct rpcbench_bare_end *e, uint64_t *head_p)
{
	uint64_t head;

	if (e->in.slot != e->in.ready)
		return true;
	head = cellring_look(&e->in);
	if (!head || !cellring_arrive(&e->in, head))
		return false;
	*head_p = head;
	return true;
}

/* ---- a client ---- */

ALWAYS_INLINE int rpcbench_bare_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct rpcbench_bare_link *l = (struct rpcbench_bare_link *)c->handle;

	rpcbench_bare_put(&l->client, req, len);
	return 0;
}

ALWAYS_INLINE int rpcbench_bare_poll(struct rpcbench_client *c)
{
	struct rpcbench_bare_end *e = &((struct rpcbench_bare_link *)c->handle)->client;
	uint64_t head;
	int n = 0;

	rpcbench_bare_publish(e);
	while (n < (int)CELLRING_BURST && rpcbench_bare_look(e, &head)) {
		/* Answers come in the order of the calls. */
		rpcbench_response(c, c->done, cellring_payload(e->in.slot), RPCBENCH_RESP);
		cellring_next(&e->in);
		rpcbench_again(c, rpcbench_bare_call);
		n++;
	}
	if (!n)
		cellring_await(&e->in);
	rpcbench_bare_publish(e);
	return n;
}

static void rpcbench_bare_client(struct rpcbench_client *c)
{
	static const struct rpcbench_client_ops ops = {rpcbench_bare_call, rpcbench_bare_poll, NULL,
		NULL};
	struct rpcbench_bare_end *e = &((struct rpcbench_bare_link *)c->handle)->client;
	uint32_t depth = c->cfg->queue_depth;

	e->limit = cellring_call_limit(depth, c->run->loop == RPCBENCH_LOOP_REFILL ? depth : 0);
	cellring_burst_close(&e->burst);
	rpcbench_client_run(c, &ops);
}

/* ---- the server ---- */

/* Makes bursts of answers to this client as long as the client requests. */
static void rpcbench_bare_together(struct rpcbench_bare_end *e, uint32_t together)
{
	if (e->limit == together)
		return;
	rpcbench_bare_publish(e);
	cellring_burst_close(&e->burst);
	e->limit = together;
}

ALWAYS_INLINE int rpcbench_bare_recv(struct rpcbench_server *s, struct rpcbench_req *r,
	uint64_t *req, uint32_t len)
{
	struct rpcbench_bare_state *b = (struct rpcbench_bare_state *)s->handle;

	for (uint32_t i = 0; i < b->clients; i++) {
		struct rpcbench_bare_end *e = &b->link[b->turn].server;
		uint64_t head = 0;

		if (rpcbench_bare_look(e, &head)) {
			if (head)
				rpcbench_bare_together(e, CELLRING_TOGETHER(head));
			memcpy(req, cellring_payload(e->in.slot), len);
			cellring_next(&e->in);
			r->client = b->turn;
			return 1;
		}
		rpcbench_bare_publish(e);
		if (b->clients == 1)
			cellring_await(&e->in);
		b->turn = b->turn + 1 < b->clients ? b->turn + 1 : 0;
	}
	return 0;
}

ALWAYS_INLINE void rpcbench_bare_reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	struct rpcbench_bare_state *b = (struct rpcbench_bare_state *)s->handle;

	rpcbench_bare_put(&b->link[r->client].server, resp, len);
}

RPCBENCH_SERVER(rpcbench_bare_server, NULL, rpcbench_bare_recv, rpcbench_bare_reply, NULL, NULL,
	NULL)

const struct rpcbench_impl rpcbench_bare = {"bare", rpcbench_bare_setup, rpcbench_bare_teardown,
	rpcbench_bare_client, rpcbench_bare_server, false};
