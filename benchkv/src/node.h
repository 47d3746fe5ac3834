/* SPDX-License-Identifier: MIT */
/*
 * A rank: D daemon threads that own the keys, C client threads that ask for them, and
 * what lies between. For a key of this rank, shard d:
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
 * and what other ranks ask for, which with direct and ucx comes to daemon d at once:
 *
 *	copyrpc -> daemon e [-> flux -> daemon d]
 *
 * Everything is made by the main thread, then handed to the threads that use it; flags
 * and the gate below are all that passes between them besides the messages.
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
#include "store.h"
#include "topo.h"

#define NODE_NAME_MAX 180

struct client;
struct daemon;
struct history_made;

struct node {
	const struct options *o;
	struct launch *launch;
	struct topo *topo;
	struct control_spec control; /* that of the options, with K and B of this machine */
	struct control_origin origin; /* of K and B */
	struct placement place;
	struct source source; /* of the clients' operations */
	uint32_t rank, ranks;
	uint32_t ring_size; /* of the endpoints; 0: there are none */
	const char *device; /* NULL: no device is needed */
	uint64_t nap_ns; /* of a thread with several things to wait for, and nothing to do */
	struct store *stores; /* by shard */
	struct flux *flux; /* for requests of other ranks; NULL: none have to be passed on */
	/*
	 * Carries requests to other ranks in meta. It is a network of its own, because these
	 * requests wait for other ranks, which may wait for requests in flux.
	 */
	struct flux *relay;
	void *net; /* the backend's part of this rank */
	struct daemon *daemons;
	struct client *clients;
	struct board board; /* of its clients, if there are several */
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

/* Does that daemon have any? */
bool node_owns_endpoints(const struct node *n, uint32_t daemon);

/*
 * The size of a ring in bytes that holds what can be in flight on an endpoint, and the reason for
 * it.
 */
uint32_t node_ring_size(const struct options *o);
void node_explain_ring(const struct options *o, char *text, size_t size);

/* The keys for which a shard has room at the start. */
uint64_t node_expected_keys(const struct node *n);

/*
 * The time that a thread which nothing wakes sleeps between two looks, when `threads` threads have
 * `units` processing units.
 */
uint64_t node_nap_ns(uint32_t threads, uint32_t units);

/* The name of a daemon's shared-memory regions; the layers put their own before it. */
void node_region_name(const struct node *n, uint32_t daemon, char name[NODE_NAME_MAX]);

/*
 * Makes the stores and the endpoints, connects them to those of the other ranks, makes the servers,
 * connects the clients, and starts the threads. When it returns no region has a name any more, and
 * none had one while this rank waited for another one. n has its first four fields, rank, ranks,
 * device and nap_ns set. 0, or -errno, and why[] says what failed; node_stop() and node_free() in
 * any case.
 */
int node_start(struct node *n, char *why, int size);

/*
 * Runs the clients once, or makes the audit after the last run. 0 when all clients are through;
 * -EINTR when the program was told to stop; otherwise the -errno of a client that could not go on.
 */
int node_run(struct node *n, gate_tick_fn *tick, void *arg);

/* Operations that the clients have verified in this run so far. Any time, from any thread. */
uint64_t node_done(const struct node *n);

/* Ends the threads; their counters can be read then. */
void node_stop(struct node *n);

/* Frees everything; after node_stop(). in_order: the runs and the audit are through. */
void node_free(struct node *n, bool in_order);

#endif
