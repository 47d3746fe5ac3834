/* SPDX-License-Identifier: MIT */
/*
 * The parts of a storm (rpcstorm.h) that its servers and clients share: the random choices, and the
 * declarations of functions that the layer's test defines (hooks).
 */
#ifndef SUPPORT_RPCSTORM_DRAW_H
#define SUPPORT_RPCSTORM_DRAW_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "support/nosend.h"
#include "support/rpclayer.h"
#include "support/storm.h"

#define RPCSTORM_GROUPS 4 /* maximum number of processes of clients at a time */
#define RPCSTORM_THREADS 3 /* maximum number of clients in a process */
#define RPCSTORM_STARTS 48 /* maximum number of processes of clients in the run of a seed */
#define RPCSTORM_LIVES 16384 /* maximum number of connections in the run of a seed */
#define RPCSTORM_CALLS 512 /* maximum number of calls of a connection */
#define RPCSTORM_HELD 128 /* maximum number of requests that the server keeps unanswered */
#define RPCSTORM_POLL_MAX 8 /* maximum number of responses that one poll handles, in both layers */
#define RPCSTORM_LEAST 8 /* least bytes of a request: its number */
#define RPCSTORM_SKIP_WORDS 64

/* The sizes of a region, from which rpcstorm_attr() makes attributes; 0: the default. */
struct rpcstorm_shape {
	uint32_t clients, depth, ring, req, resp, extra;
	uint32_t events; /* the server receives events about its clients */
	uint32_t pushes; /* maximum number of pushes per client that are not consumed */
};

/* Shared by all processes of a seed. */
struct rpcstorm_shared {
	uint64_t ended; /* calls that have ended in any way */
	uint32_t lives; /* connections begun */
	uint32_t stop; /* set to make the server end */
	uint32_t up; /* number of servers that have started */
	uint32_t dying[RPCSTORM_STARTS]; /* set before a process is killed */
	uint16_t start_of[RPCSTORM_LIVES]; /* by connection: its process, an index of dying */
	uint8_t gone[RPCSTORM_LIVES]; /* by connection: set before it ends */
	uint16_t next[RPCSTORM_LIVES]; /* by connection: the lowest number of its next call */
};

/* The random choices made from the seed. */
static struct {
	struct rpcstorm_shared *sh;
	struct rpcstorm_shape shape;
	uint64_t quota; /* calls of a thread */
	struct rpcstorm_shape given; /* attributes passed to create; 0: the default */
	bool one_process, kills_clients, kills_servers, stops_servers;
	bool refuses; /* at times, sendto() fails in clients */
	bool gives_shape; /* to connect, clients pass the sizes that they expect */
} rpcstorm_draw;

static inline uint64_t rpcstorm_number(uint32_t life, uint32_t call)
{
	return (uint64_t)life << 32 | call;
}

/* The hooks, which the layer's test defines. */
static const struct rpcstorm_shape rpcstorm_defaults; /* the documented default sizes */
static const struct rpcstorm_shape rpcstorm_beyond; /* each size exceeds its maximum by one */
static struct rpc_attr rpcstorm_attr(const struct rpcstorm_shape *shape);
/* Checks the fields that only this layer's struct look_region has. Returns the depth. */
static uint32_t rpcstorm_looked(const struct RPC(look_region) * look);
/* @skip: a bit for each client; if it is set, the layer may leave out the client's requests. */
static int rpcstorm_server_poll(struct rpc_server *s, const uint64_t *skip);
static void *rpcstorm_server_extra(struct rpc_server *s, uint64_t client);
static void *rpcstorm_client_extra(struct rpc_client *c);
static uint64_t rpcstorm_client_bad(struct rpc_client *c);
static inline void rpcstorm_seen(void *arg, const struct rpc_look_client *client)
{
	++*(uint32_t *)arg;
}

static inline int rpcstorm_create(const struct rpcstorm_shape *shape, struct rpc_server **s_p)
{
	struct rpc_attr attr = rpcstorm_attr(shape);

	return RPC(server_create)(test_name, &attr, s_p);
}

static inline int rpcstorm_connect(const struct rpcstorm_shape *shape, struct rpc_client **c_p)
{
	struct rpc_attr attr = rpcstorm_attr(shape);

	return RPC(client_connect)(test_name, &attr, c_p);
}

#endif
