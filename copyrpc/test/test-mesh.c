/* SPDX-License-Identifier: MIT */
/*
 * test-copyrpc-mesh: processes with one thread each dial each other at the same time, while
 * strangers (connections that send nothing) stay connected. Each process makes a call to each other
 * process. Prints how long the mesh took. scripts/hw-check sets MESH_DEVICE, and MESH_NODES to the
 * number of processes.
 */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "support/stranger.h"
#include "copyrpc_tcp.h"
#include "process.h"

#ifndef NODES
#define NODES 64 /* at most */
#endif
#define SILENT 100
#define HOUR_MS 3600000
#define LISTENER_TOKEN NODES

static uint32_t nodes = NODES;

static struct shared {
	uint16_t port[NODES];
	atomic_uint up, done;
	_Atomic uint64_t last_up_ns;
} * shared;

struct node {
	struct copyrpc_ctx *ctx;
	uint32_t rank, dials, peers, answers;
	bool served[NODES];
	struct copyrpc_ep *ep[NODES]; /* indexed by the token of the node's dial */
};

struct hello {
	uint32_t from, to;
};

static void on_answer(void *arg, struct copyrpc_ep *ep, uint64_t token, int status,
	const void *data, uint32_t len)
{
	const struct hello *h = data;
	struct node *n = arg;

	CHECK_EQ(status, 0);
	CHECK_EQ(len, sizeof(*h));
	CHECK_EQ(h->from, token);
	CHECK_EQ(h->to, n->rank);
	n->answers++;
}

/* Answers each peer's only request. */
static void serve(struct node *n)
{
	struct copyrpc_req *req;

	while (copyrpc_recv(n->ctx, &req)) {
		const struct hello *h = copyrpc_req_data(req);
		struct hello back = {n->rank, h->from};

		CHECK_EQ(copyrpc_req_len(req), sizeof(*h));
		CHECK(h->from < nodes && h->to == n->rank && !n->served[h->from]);
		n->served[h->from] = true;
		CHECK_EQ(copyrpc_reply(req, &back, sizeof(back)), 0);
	}
}

/* Handles the event UP of a dial or of the listener. The endpoint of a dial's event may be the one
 * that the peer's dial has connected. */
static void handle(struct node *n, const struct copyrpc_event *e)
{
	struct hello h = {n->rank, (uint32_t)e->token};

	CHECK_EQ(e->kind, COPYRPC_UP);
	n->peers += !e->status;
	if (e->token == LISTENER_TOKEN)
		return;
	CHECK(!n->ep[e->token]);
	n->ep[e->token] = e->ep;
	n->dials++;
	CHECK_EQ(copyrpc_call(e->ep, &h, sizeof(h), sizeof(h), e->token), 0);
	if (n->dials < nodes - 1)
		return;
	/* Relaxed: full_mesh() loads both after the processes have ended. */
	atomic_store_explicit(&shared->last_up_ns, clock_ns(), memory_order_relaxed);
	atomic_fetch_add_explicit(&shared->up, 1, memory_order_relaxed);
}

static void turn(struct node *n)
{
	struct copyrpc_event e;

	copyrpc_poll(n->ctx, on_answer, n);
	while (copyrpc_event_recv(n->ctx, &e, sizeof(e)))
		handle(n, &e);
	serve(n);
	if (!copyrpc_ctx_arm(n->ctx)) {
		struct pollfd p = {.fd = copyrpc_ctx_fd(n->ctx), .events = POLLIN};
		int ms = copyrpc_ctx_timeout(n->ctx);

		poll(&p, 1, ms >= 0 && ms < 50 ? ms : 50); /* the end of another process is no event
							      here */
	}
}

static void run_node(uint32_t rank, int listener)
{
	const struct copyrpc_ctx_attr attr = {.device = getenv("MESH_DEVICE"),
		.max_endpoints = 4 * nodes,
		.ring_size = 4096,
		.sq_depth = 16,
		.srq_depth = 1024};
	const struct copyrpc_listen_attr la = {.max_guests = 2 * nodes, .patience_ms = HOUR_MS};
	const struct copyrpc_dial_attr da = {.single = true};
	struct node n = {.rank = rank};
	bool done = false;

	CHECK_EQ(copyrpc_ctx_create(&attr, &n.ctx), 0);
	CHECK_EQ(copyrpc_listen(n.ctx, &la, listener, LISTENER_TOKEN), 0);
	for (uint32_t i = 1; i < nodes; i++) {
		uint32_t to = (rank + i) % nodes;

		CHECK_EQ(copyrpc_dial(n.ctx, &da, "127.0.0.1", shared->port[to], HOUR_MS, to), 0);
	}
	/* Pairs with the additions of the other processes below. */
	while (atomic_load_explicit(&shared->done, memory_order_acquire) < nodes) {
		turn(&n);
		if (!done && n.answers == nodes - 1) {
			done = true;
			/* Pairs with the load above. */
			atomic_fetch_add_explicit(&shared->done, 1, memory_order_release);
		}
	}
	CHECK_EQ(n.peers, nodes - 1);
	copyrpc_ctx_destroy(n.ctx);
}

TEST(full_mesh)
{
	int listener[NODES], fd[SILENT];
	uint64_t start;

	if (getenv("MESH_NODES"))
		nodes = (uint32_t)atoi(getenv("MESH_NODES"));
	CHECK(nodes > 1 && nodes <= NODES);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	CHECK(shared != MAP_FAILED);
	for (uint32_t i = 0; i < nodes; i++) {
		CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener[i]), 0);
		shared->port[i] = (uint16_t)copyrpc_tcp_port(listener[i]);
	}
	for (int i = 0; i < SILENT; i++)
		fd[i] = stranger_connect(shared->port[(uint32_t)i % nodes]);
	start = clock_ns();
	for (uint32_t i = 0; i < nodes; i++) {
		fflush(stdout);
		if (!test_fork()) {
			CHECK(nice(10) != -1); /* spares the tests that run beside this one */
			run_node(i, listener[i]);
			_exit(0);
		}
	}
	reap_processes(nodes);
	for (int i = 0; i < SILENT; i++)
		close(fd[i]);
	CHECK_EQ(shared->up, nodes);
	printf("  %u processes: all connected after %.2f s\n", nodes,
		(double)(shared->last_up_ns - start) / NSEC_PER_SEC);
}
