/* SPDX-License-Identifier: MIT */
/* The parts of a storm (test-storm.c): the memory that its processes share, the state of a node,
 * the messages, and the check for leaks. */
#ifndef COPYRPC_TEST_STORM_H
#define COPYRPC_TEST_STORM_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "mlx5dvl.h"
#include "pair.h"
#include "support/fdtest.h"

enum {
	NODES = 4,
	LINKS = 2,
	CALLS = 1 << 14, /* of a node */
	RAWS = 1 << 12,
	CONNS = 1 << 10,
	HELD = 16,
	MEMORY = 4096, /* of each node, for raw operations: one half for READ, one for WRITE */
	GUARD_MS = 8000, /* longest sleep */
	HANG_S = 800, /* longest time for a schedule, which usually takes about a second */
};

enum phase { RUN, FATAL, END };

/* A node's message to a peer about one end of a connection. */
struct card {
	uint32_t round; /* counts the connections of this pair and link from 1; 0: none yet */
	uint8_t blob[COPYRPC_INFO_SIZE];
	uint64_t raddr;
	uint32_t rkey;
};

/* Shared by the processes of a schedule. */
struct storm {
	pthread_mutex_t lock; /* protects the cards */
	struct card card[NODES][NODES][LINKS]; /* [node][peer][link] */
	atomic_uint phase; /* enum phase; is set before the eventfds are signaled */
	atomic_uint dead; /* bit mask of the nodes whose process was killed */
	atomic_uint done; /* bit mask of the nodes that have finished */
	atomic_uint opened; /* number of nodes that have opened the device */
	int bell[NODES + 1]; /* eventfds that wake the nodes; the last one wakes direct() */
	uint64_t seed;
	uint32_t nodes, links, steps;
	bool victim, fatal; /* the last node is a process that is killed; the device fails */
	struct copyrpc_ctx_attr attr;
	struct copyrpc_path path;
};

/* True if all requests of the queue pair were announced, and the oldest is not completed. */
bool is_held(const struct copyrpc_ep *ep);

/* A connection of a node, which begins with the creation of the endpoint. It is never freed, so
 * that the test detects events that come too late. */
struct conn {
	struct copyrpc_ep *ep; /* NULL: destroyed */
	uint64_t id; /* the same at both ends */
	bool lower; /* this end belongs to the node with the lower number */
	bool connected;
	uint32_t asked, taken; /* calls made, requests received */
	uint64_t raddr; /* address of the peer's memory */
	uint32_t rkey;
};

struct call {
	struct conn *conn;
	uint32_t seq;
	bool timed, ended;
	uint8_t parent; /* index of the held request that waits for this call, or HELD */
};

struct held {
	struct copyrpc_req *req; /* NULL: free */
	struct conn *conn;
	uint32_t seq;
	bool waits; /* it waits for a nested call */
};

struct raw {
	struct conn *conn;
	uint32_t at, len; /* position and length */
	bool is_read, ended;
};

struct slot {
	struct conn *conn; /* NULL: none */
	uint32_t round;
};

struct node {
	uint32_t id, steps, sleepy; /* steps: turns left in which the node still makes calls;
				       sleepy: it sleeps in this many of 16 turns */
	uint64_t seed;
	struct copyrpc_ctx *ctx;
	struct copyrpc_mr mr, local_mr;
	struct slot slot[NODES][LINKS];
	struct conn conn[CONNS];
	struct call call[CALLS];
	struct raw raw[RAWS];
	struct held held[HELD];
	uint32_t nconns, ncalls, nraws, pending, raws, nheld;
	int depth; /* number of nested callbacks */
	uint8_t memory[MEMORY], local[MEMORY];
	pthread_t thread;
};

static struct storm *storm;

static uint32_t draw(struct node *n, uint32_t below)
{
	return (uint32_t)(test_rand(&n->seed) % below);
}

/* ---- leak check ------------------------------------------------------ */

static atomic_long mapped, regions;

void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);
int __real_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);
int __wrap_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p);
void __real_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);
void __wrap_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr);

void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	void *p = __real_mmap64(at, len, prot, flags, fd, off);

	if (p != MAP_FAILED)
		atomic_fetch_add(&mapped, (long)len);
	return p;
}

int __wrap_munmap(void *at, size_t len)
{
	atomic_fetch_sub(&mapped, (long)len);
	return __real_munmap(at, len);
}

int __wrap_mlx5dvl_mr_reg(struct mlx5dvl_ctx *ctx, void *addr, size_t len, unsigned access,
	struct mlx5dvl_mr *mr_p)
{
	int rc = __real_mlx5dvl_mr_reg(ctx, addr, len, access, mr_p);

	atomic_fetch_add(&regions, !rc);
	return rc;
}

void __wrap_mlx5dvl_mr_dereg(struct mlx5dvl_mr *mr)
{
	atomic_fetch_sub(&regions, !!mr->priv);
	__real_mlx5dvl_mr_dereg(mr);
}

/* ---- messages: the connection and the number determine all of a message ------------- */

struct msg {
	uint64_t key;
	uint32_t len, resp_max, resp_len;
};

static uint64_t mix(uint64_t a, uint64_t b)
{
	uint64_t state = a * 0x9e3779b97f4a7c15 ^ b;

	test_rand(&state);
	return test_rand(&state);
}

static uint32_t max_len(void)
{
	uint32_t ring = storm->attr.ring_size;

	return storm->attr.nested ? COPYRPC_NESTED_PAYLOAD_MAX(ring) : COPYRPC_PAYLOAD_MAX(ring);
}

static uint32_t length(uint64_t random, uint32_t max)
{
	uint32_t len = (uint32_t)(random >> 8);

	switch (random % 8) {
	case 0:
		return max;
	case 1:
	case 2:
		return len % (max + 1);
	default:
		len %= 48;
		return len < max ? len : max;
	}
}

/* In a storm with nested calls the first byte of a request states whether it is nested. */
static struct msg message(const struct conn *c, bool mine, uint32_t seq)
{
	struct msg m = {.key = mix(c->id + (mine == c->lower), seq)};

	m.len = length(mix(m.key, 1), max_len());
	if (storm->attr.nested && !m.len)
		m.len = 1;
	m.resp_max = length(mix(m.key, 2), max_len());
	m.resp_len = (uint32_t)(mix(m.key, 3) % (m.resp_max + 1));
	return m;
}

static void fill(uint8_t *to, uint32_t len, uint64_t key)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = (uint8_t)(key >> i % 8 * 8) + (uint8_t)(i / 8);
}

static void check_bytes(const uint8_t *bytes, uint32_t from, uint32_t len, uint64_t key)
{
	for (uint32_t i = from; i < len; i++)
		CHECK_EQ(bytes[i], (uint8_t)((uint8_t)(key >> i % 8 * 8) + (uint8_t)(i / 8)));
}

#endif
