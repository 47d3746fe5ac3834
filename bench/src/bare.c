/* SPDX-License-Identifier: MIT */
/*
 * The minimum that a layer above cellring must do. This peer uses the rings and bursts of cellring,
 * and nothing else: no ids (answers come in order), no checks, no clients that come and go, no
 * wake-ups.
 */
#include <cellring.h>

#include "base/lines.h"
#include "peer.h"

#define RPCBENCH_BARE_PAGE 4096u

struct bare_end {
	struct cellring_cursor in, out;
	struct cellring_burst burst; /* collected for `out`, not published yet */
	uint32_t limit; /* messages in a burst */
};

/* One client's rings, and the private state of the client and of the server. */
struct bare_link {
	CACHE_ALIGNED struct bare_end client;
	CACHE_ALIGNED struct bare_end server;
	CACHE_ALIGNED unsigned char *req, *resp;
};

struct bare_state {
	struct bare_link link[RPCBENCH_CLIENTS];
	uint32_t clients;
	uint32_t turn; /* index of the client whose ring is read next */
};

static unsigned char *bare_ring_new(const struct cellring_plan *plan)
{
	size_t bytes = align_up(cellring_bytes(plan), RPCBENCH_BARE_PAGE);
	unsigned char *ring = (unsigned char *)aligned_alloc(RPCBENCH_BARE_PAGE, bytes);

	return ring ? (unsigned char *)memset(ring, 0, bytes) : NULL;
}

static void bare_teardown(void *state)
{
	struct bare_state *b = state;

	for (uint32_t i = 0; i < b->clients; i++) {
		free(b->link[i].req);
		free(b->link[i].resp);
	}
	free(b);
}

static int bare_link_init(struct bare_link *l, const struct rpcbench_config *cfg)
{
	uint32_t room = RPCBENCH_PEER_TIMES * cfg->queue_depth;
	struct cellring_plan req, resp;

	room = room > RPCBENCH_PEER_SLOTS ? room : RPCBENCH_PEER_SLOTS;
	req = cellring_plan_for(cfg->req_size, cfg->queue_depth, room);
	resp = cellring_plan_for(cfg->resp_size, cfg->queue_depth, room);
	l->req = bare_ring_new(&req);
	l->resp = bare_ring_new(&resp);
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

static int bare_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	struct bare_state *b = calloc_lines(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->clients = cfg->clients;
	for (uint32_t i = 0; i < cfg->clients; i++) {
		if (bare_link_init(&b->link[i], cfg)) {
			bare_teardown(b);
			return -ENOMEM;
		}
		clients[i].handle = &b->link[i];
	}
	server->handle = b;
	*state_p = b;
	return 0;
}

/* Publishes a message alone, or adds it to a burst. Publishes the burst if it is full. */
ALWAYS_INLINE void bare_put(struct bare_end *e, const void *data, uint32_t len)
{
	if (!e->burst.to && !cellring_burst_open(&e->burst, &e->out, e->limit)) {
		cellring_put(&e->out, 0, data, len);
	} else if (cellring_burst_add(&e->burst, 0, data, len)) {
		cellring_burst_write_full(&e->burst);
		if (cellring_burst_stale(&e->burst))
			cellring_burst_close(&e->burst);
	}
}

ALWAYS_INLINE void bare_publish(struct bare_end *e)
{
	if (!cellring_burst_held(&e->burst))
		return;
	cellring_burst_write_part(&e->burst);
	if (cellring_burst_stale(&e->burst))
		cellring_burst_close(&e->burst);
}

/* Returns true if there is a message. If it begins a burst, sets *head_p to the burst's head. */
ALWAYS_INLINE bool bare_look(struct bare_end *e, uint64_t *head_p)
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

ALWAYS_INLINE int bare_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct bare_link *l = c->handle;

	bare_put(&l->client, req, len);
	return 0;
}

ALWAYS_INLINE int bare_poll(struct rpcbench_client *c)
{
	struct bare_end *e = &((struct bare_link *)c->handle)->client;
	uint64_t head;
	int n = 0;

	bare_publish(e);
	while (n < (int)CELLRING_BURST && bare_look(e, &head)) {
		/* Answers come in the order of the calls. */
		rpcbench_response(c, c->done, cellring_payload(e->in.slot), RPCBENCH_RESP);
		cellring_next(&e->in);
		rpcbench_again(c, bare_call);
		n++;
	}
	if (!n)
		cellring_await(&e->in);
	bare_publish(e);
	return n;
}

static void bare_client(struct rpcbench_client *c)
{
	static const struct rpcbench_client_ops ops = {bare_call, bare_poll, NULL, NULL};
	struct bare_end *e = &((struct bare_link *)c->handle)->client;
	uint32_t depth = c->cfg->queue_depth;

	e->limit = cellring_call_limit(depth, c->run->loop == RPCBENCH_LOOP_REFILL ? depth : 0);
	cellring_burst_close(&e->burst);
	rpcbench_client_run(c, &ops);
}

/* ---- the server ---- */

/* Sets the number of answers in a burst to that which the client requests. */
static void bare_together(struct bare_end *e, uint32_t together)
{
	if (e->limit == together)
		return;
	bare_publish(e);
	cellring_burst_close(&e->burst);
	e->limit = together;
}

ALWAYS_INLINE int bare_recv(struct rpcbench_server *s, struct rpcbench_req *r, uint64_t *req,
	uint32_t len)
{
	struct bare_state *b = s->handle;

	for (uint32_t i = 0; i < b->clients; i++) {
		struct bare_end *e = &b->link[b->turn].server;
		uint64_t head = 0;

		if (bare_look(e, &head)) {
			if (head)
				bare_together(e, CELLRING_TOGETHER(head));
			memcpy(req, cellring_payload(e->in.slot), len);
			cellring_next(&e->in);
			r->client = b->turn;
			return 1;
		}
		bare_publish(e);
		if (b->clients == 1)
			cellring_await(&e->in);
		b->turn = b->turn + 1 < b->clients ? b->turn + 1 : 0;
	}
	return 0;
}

ALWAYS_INLINE void bare_reply(struct rpcbench_server *s, const struct rpcbench_req *r,
	const uint64_t *resp, uint32_t len)
{
	struct bare_state *b = s->handle;

	bare_put(&b->link[r->client].server, resp, len);
}

/*
 * Publishes the answers to the client whose ring is being read, unless its next request has
 * arrived. A layer's poll does at least this. bare_recv() publishes the answers when it finds a
 * ring empty.
 */
ALWAYS_INLINE void bare_server_poll(struct rpcbench_server *s)
{
	struct bare_state *b = s->handle;
	struct bare_end *e = &b->link[b->turn].server;

	if (!cellring_ready(&e->in))
		bare_publish(e);
}

RPCBENCH_SERVER(bare_server, bare_server_poll, bare_recv, bare_reply, NULL, NULL, NULL)

/* ---- a mesh: a link for each ordered pair of nodes, and the tokens of its calls ---- */

struct bare_pair {
	struct bare_link link;
	uint64_t *tokens; /* queue of the calls in flight: [call % queue depth] */
	uint64_t called, answered;
};

struct bare_mesh {
	uint32_t nodes;
	struct bare_pair pair[]; /* [caller][callee] */
};

static void bare_mesh_teardown(void *state)
{
	struct bare_mesh *m = state;

	for (uint32_t i = 0; i < m->nodes * m->nodes; i++) {
		free(m->pair[i].link.req);
		free(m->pair[i].link.resp);
		free(m->pair[i].tokens);
	}
	free(m);
}

static int bare_mesh_setup(const struct rpcbench_config *cfg, struct rpcbench_server *server,
	struct rpcbench_client *clients, void **state_p)
{
	uint32_t n = cfg->clients;
	struct bare_mesh *m;

	m = calloc_lines(1, sizeof(*m) + n * n * sizeof(m->pair[0]));
	if (!m)
		return -ENOMEM;
	m->nodes = n;
	for (uint32_t i = 0; i < n * n; i++) {
		struct bare_pair *p = &m->pair[i];

		p->tokens = (uint64_t *)calloc(cfg->queue_depth, sizeof(*p->tokens));
		if (!p->tokens || bare_link_init(&p->link, cfg)) {
			bare_mesh_teardown(m);
			return -ENOMEM;
		}
		p->link.client.limit = p->link.server.limit = CELLRING_BURST;
		clients[i % n].handle = m;
	}
	*state_p = m;
	return 0;
}

ALWAYS_INLINE struct bare_pair *bare_pair_of(const struct rpcbench_client *c, uint32_t caller,
	uint32_t callee)
{
	struct bare_mesh *m = c->handle;

	return &m->pair[caller * m->nodes + callee];
}

ALWAYS_INLINE int bare_mesh_call(struct rpcbench_client *c, uint64_t token, const void *req,
	uint32_t len)
{
	struct bare_pair *p = bare_pair_of(c, c->index, c->to);

	p->tokens[p->called++ % c->cfg->queue_depth] = token;
	bare_put(&p->link.client, req, len);
	return 0;
}

/* Answers all requests of one caller that have arrived. Returns their number. */
ALWAYS_INLINE uint32_t bare_answer_one(struct bare_end *e)
{
	uint64_t req[RPCBENCH_WORDS], resp[RPCBENCH_WORDS], head;
	uint32_t n = 0;

	while (bare_look(e, &head)) {
		memcpy(req, cellring_payload(e->in.slot), RPCBENCH_REQ);
		cellring_next(&e->in);
		rpcbench_answer(req, RPCBENCH_REQ, resp, RPCBENCH_RESP);
		bare_put(e, resp, RPCBENCH_RESP);
		n++;
	}
	bare_publish(e);
	return n;
}

ALWAYS_INLINE int bare_mesh_serve(struct rpcbench_client *c, uint32_t most)
{
	uint32_t sum = 0;

	for (uint32_t from = 0; from < c->run->active && sum < most; from++)
		if (from != c->index)
			sum += bare_answer_one(&bare_pair_of(c, from, c->index)->link.server);
	return (int)sum;
}

ALWAYS_INLINE int bare_mesh_poll(struct rpcbench_client *c)
{
	uint32_t n = 0;

	for (uint32_t to = 0; to < c->run->active; to++) {
		struct bare_pair *p = bare_pair_of(c, c->index, to);
		struct bare_end *e = &p->link.client;
		uint64_t head;

		bare_publish(e);
		while (p->answered != p->called && bare_look(e, &head)) {
			uint64_t token = p->tokens[p->answered++ % c->cfg->queue_depth];

			rpcbench_response(c, token, cellring_payload(e->in.slot), RPCBENCH_RESP);
			cellring_next(&e->in);
			n++;
		}
	}
	return (int)n;
}

RPCBENCH_MESH(bare_mesh_turn, bare_mesh_call, bare_mesh_serve, bare_mesh_poll)

static const struct rpcbench_impl bare_mesh_impl = {"bare", bare_mesh_setup, bare_mesh_teardown,
	.turn = bare_mesh_turn};

const struct rpcbench_impl rpcbench_bare = {"bare", bare_setup, bare_teardown, bare_client,
	bare_server, .mesh = &bare_mesh_impl};
