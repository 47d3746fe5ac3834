/* SPDX-License-Identifier: MIT */
/*
 * A rank: D daemon threads that own the keys, C client threads that put and get them, and
 * the paths between them. For a key of this rank, shard d:
 *
 *	client -> shmipc -> daemon d
 *
 * for a key of rank r, whose endpoint daemon e = r mod --net-daemons owns:
 *
 *	delegation	client -> delegrpc -> daemon e -> copyrpc
 *	meta		client -> shmipc -> daemon d [-> flux -> daemon e] -> copyrpc
 *	direct		client -> copyrpc
 *	ucx		client -> UCX
 *
 * and for requests of other ranks, which with direct and ucx arrive directly at daemon d:
 *
 *	copyrpc -> daemon e [-> flux -> daemon d]
 *
 * The main thread makes all objects before it starts the threads that use them. Apart from the
 * messages, the threads communicate only through `values`, `board`, `known`, `made`, the gate and
 * flags.
 */
#ifndef BENCHKV_NODE_H
#define BENCHKV_NODE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "delegrpc.h"
#include "flux.h"
#include "shmipc.h"

#include "board.h"
#include "gate.h"
#include "launch.h"
#include "options.h"
#include "place.h"
#include "rmw.h"
#include "store.h"
#include "topo.h"

#define NODE_NAME_MAX 180

struct client;
struct daemon;
struct history_made;
struct values;

struct node {
	const struct options *o;
	struct launch *launch;
	struct topo *topo;
	struct control_spec control; /* the control of the options, with K and B of this machine */
	struct control_origin origin; /* the source of K and B */
	struct placement place;
	struct source source; /* of the clients' operations */
	uint32_t rank, ranks;
	uint32_t ring_size; /* of the endpoints; 0: there are no endpoints */
	const char *device; /* NULL: no device is needed */
	uint64_t nap_ns; /* sleep of an idle thread that no single event can wake */
	struct store *stores; /* by shard */
	struct values *values; /* NULL: values have 8 bytes */
	struct flux *flux; /* passes on requests of other ranks; NULL: not needed */
	struct flux *relay; /* carries requests to other ranks in meta, see backend/meta.c */
	void *net; /* the backend's part of this rank */
	struct daemon *daemons;
	struct client *clients;
	struct board board; /* of its clients, if there are several */
	struct rmw_known
		known; /* of its clients, with read-modify-writes; then there is no board */
	struct history_made *made; /* by client of the job; for the audit */
	uint32_t daemons_started, clients_started;
	struct gate gate;
	atomic_bool stop_daemons;
};

/* The daemon that has the endpoint for a rank, in delegation and meta. */
static inline uint32_t node_owner(const struct node *n, uint32_t rank)
{
	return rank % n->o->net_daemons;
}

/* The number of endpoints that this daemon has. */
uint32_t node_endpoints(const struct node *n, uint32_t daemon);

/*
 * The size in bytes of an endpoint's rings: --ring-size, or a size with room for the calls that can
 * be in flight. node_explain_ring() writes the reason for the size.
 */
uint32_t node_ring_size(const struct options *o);
void node_explain_ring(const struct options *o, char *text, size_t size);

/* The number of keys for which a shard has room at the start. */
uint64_t node_expected_keys(const struct node *n);

/*
 * The time that a thread sleeps between two polls if no event wakes it, when @threads threads share
 * @units processing units.
 */
uint64_t node_nap_ns(uint32_t threads, uint32_t units);

/* The name of a daemon's shared-memory regions; each layer adds its own prefix. */
void node_region_name(const struct node *n, uint32_t daemon, char name[NODE_NAME_MAX]);

/*
 * Makes the stores and the endpoints, connects the endpoints to those of the other ranks, makes the
 * servers, connects the clients, and starts the threads. No region has a name when this returns, or
 * while this rank waits for another rank. The caller must have set the first four fields of *n,
 * rank, ranks, ring_size, device and nap_ns. 0, or -errno with a message in @why. In both cases the
 * caller must call node_stop() and node_free().
 */
int node_start(struct node *n, char *why, int size);

/*
 * Runs the clients once, or after the last run makes the audit. 0: all clients have finished;
 * -EINTR: the program must stop (see stop.h); otherwise the -errno of a client that has failed.
 */
int node_run(struct node *n, gate_tick_fn *tick, void *arg);

/* The number of operations verified in this run so far. Any thread may call it at any time. */
uint64_t node_done(const struct node *n);

/* Ends the threads. After that the caller may read their counters. */
void node_stop(struct node *n);

/* Frees everything. Must follow node_stop(). @in_order: all runs and the audit have ended. */
void node_free(struct node *n, bool in_order);

#endif
