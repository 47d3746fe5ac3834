/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "backend.h"
#include "client.h"
#include "daemon.h"
#include "remains.h"
#include "values.h"
#include "why.h"

#define RING_MIN 4096u
#define RING_MAX (1u << 30)
#define CALL_BYTES 64 /* a request in the ring, with its header and alignment */
#define LARGE_BYTES 128 /* the same for a large call, without the bytes of its value */
#define VALUE_BYTES 960 /* longest value in the ring; copyrpc transfers longer ones outside of it */
/*
 * Half of a ring is reserved for replies to calls that the peer may make, and the end of the ring
 * is unused if a batch does not fit there. With a ring of eight times the bytes of the calls in
 * flight few calls must wait.
 */
#define SLACK 8
/*
 * A sleep and a poll need about 4 us of CPU time. With sleeps of NAP_LOOK_NS times the number of
 * threads per unit, idle threads use at most half of the CPU time. For sleeps below NAP_MIN_NS the
 * kernel's timers are too coarse.
 */
#define NAP_LOOK_NS (8 * NSEC_PER_USEC)
#define NAP_MIN_NS (50 * NSEC_PER_USEC)
#define NAP_MAX_NS (5 * NSEC_PER_MSEC) /* the stop flags must be read often enough */
#define STORE_START 65536 /* keys that a store has room for before it must grow */

/* ---- names and sizes ---- */

/* The number of clients whose requests share an endpoint. */
static uint32_t clients_of_ring(const struct options *o)
{
	return o->backend->owned ? o->clients : 1;
}

static uint32_t call_bytes(const struct options *o)
{
	uint32_t most = sizes_most(&o->sizes);

	if (!o->sizes.parts)
		return CALL_BYTES;
	return LARGE_BYTES + (most < VALUE_BYTES ? most : VALUE_BYTES);
}

uint32_t node_ring_size(const struct options *o)
{
	uint64_t want =
		pow2_ceil((uint64_t)SLACK * clients_of_ring(o) * o->queue_depth * call_bytes(o));

	if (o->ring_size)
		return o->ring_size;
	return want < RING_MIN ? RING_MIN : want > RING_MAX ? RING_MAX : (uint32_t)want;
}

void node_explain_ring(const struct options *o, char *text, size_t size)
{
	if (o->ring_size)
		snprintf(text, size, "as given");
	else
		snprintf(text, size,
			"%u x %u clients x %u requests x %u bytes, up to a power of two from %u to %u",
			SLACK, clients_of_ring(o), o->queue_depth, call_bytes(o), RING_MIN,
			RING_MAX);
}

uint64_t node_expected_keys(const struct node *n)
{
	uint64_t keys = n->o->load.key_range / ((uint64_t)n->ranks * n->o->daemons) + 1;

	return !n->o->preload && keys > STORE_START ? STORE_START : keys;
}

uint64_t node_nap_ns(uint32_t threads, uint32_t units)
{
	uint64_t ns = NAP_LOOK_NS * threads / (units ? units : 1);

	return ns < NAP_MIN_NS ? NAP_MIN_NS : ns > NAP_MAX_NS ? NAP_MAX_NS : ns;
}

void node_region_name(const struct node *n, uint32_t daemon, char name[NODE_NAME_MAX])
{
	snprintf(name, NODE_NAME_MAX, "benchkv.%s.%u.%u", n->launch->job, n->rank, daemon);
}

uint32_t node_endpoints(const struct node *n, uint32_t daemon)
{
	uint32_t own = 0;

	for (uint32_t r = 0; r < n->ranks; r++)
		own += r != n->rank && node_owner(n, r) == daemon;
	return own;
}

/* ---- making ---- */

static int make_stores(struct node *n, char *why, int size)
{
	uint64_t expect = node_expected_keys(n);

	n->stores = calloc(n->o->daemons, sizeof(*n->stores));
	if (!n->stores)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		int err = store_init(&n->stores[i], &n->place, n->rank, i, expect);

		if (!err && n->o->preload)
			err = store_preload(&n->stores[i], n->o->load.key_range);
		if (err)
			return why_failed(why, size, err,
				"no room for the keys: give a smaller --key-range, or more ranks");
	}
	if (n->o->sizes.parts && values_create(n, expect, &n->values))
		return why_failed(why, size, -ENOMEM,
			"no room for the values: give a smaller --key-range or --value-size");
	return 0;
}

static int make_daemon(struct node *n, struct daemon *d, uint32_t index)
{
	*d = (struct daemon){
		.node = n,
		.index = index,
		.store = &n->stores[index],
		.flux = n->flux ? flux_get_node(n->flux, index) : NULL,
		.relay = n->relay ? flux_get_node(n->relay, index) : NULL,
	};
	return n->ranks > 1 ? n->o->backend->make_daemon(d) : 0;
}

static int make_client(struct node *n, struct client *c, uint32_t index)
{
	int err = client_init(c, n, index);

	return !err && c->remote && c->remote->make_client ? c->remote->make_client(c) : err;
}

static int make_threads_state(struct node *n)
{
	int err = 0;

	n->daemons = calloc(n->o->daemons, sizeof(*n->daemons));
	n->clients = calloc(n->o->clients, sizeof(*n->clients));
	n->made = calloc((size_t)n->ranks * n->o->clients, sizeof(*n->made));
	if (!n->daemons || !n->clients || !n->made)
		return -ENOMEM;
	if (n->o->load.rmw)
		err = rmw_known_init(&n->known, n->o->load.key_range);
	else if (n->o->clients > 1)
		err = board_init(&n->board, history_keys(n->o->load.key_range));
	for (uint32_t i = 0; !err && i < n->o->daemons; i++)
		err = make_daemon(n, &n->daemons[i], i);
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = make_client(n, &n->clients[i], i);
	return err;
}

/* ---- regions ---- */

static int open_ipc(struct node *n, struct daemon *d, char *why, int size)
{
	const struct shmipc_attr attr = {.max_clients = n->o->clients,
		.depth = n->o->queue_depth,
		.req_size = sizeof(struct kv_req),
		.resp_size = sizeof(struct kv_resp)};
	char name[NODE_NAME_MAX];
	int err;

	node_region_name(n, d->index, name);
	err = shmipc_server_create(name, &attr, &d->ipc);
	if (err)
		return why_no_region(why, size, err, name);
	for (uint32_t i = 0; !err && i < n->o->clients; i++)
		err = shmipc_client_connect(name, &attr, &n->clients[i].ipc[d->index]);
	shmipc_server_unlink(d->ipc);
	return err ? why_no_daemon(why, size, err) : 0;
}

/*
 * If a process is killed, the names of its regions remain. So a rank does not wait while a region
 * has a name: the other ranks are connected before the first region is created, and the name of
 * each region is removed before the next region is created. Regions that killed jobs of this user
 * have left are removed first.
 */
static int open_regions(struct node *n, char *why, int size)
{
	const struct backend *b = n->o->backend;
	int err = 0;

	remains_remove();
	for (uint32_t i = 0; !err && i < n->o->daemons; i++)
		err = open_ipc(n, &n->daemons[i], why, size);
	for (uint32_t i = 0; !err && i < n->o->daemons; i++) {
		if (b->open_daemon && n->daemons[i].sees_ranks)
			err = b->open_daemon(&n->daemons[i], why, size);
	}
	return err;
}

/* ---- threads ---- */

/*
 * Starts a thread, and sets the name that top(1) shows. During a run the name of a client also
 * contains the run, see show_run().
 */
static int start_thread(pthread_t *thread_p, void *(*body)(void *), void *arg, const char *what,
	uint32_t index)
{
	char name[20]; /* the kernel keeps 15 characters */
	int err = pthread_create(thread_p, NULL, body, arg);

	if (err)
		return -err;
	snprintf(name, sizeof(name), "%s%u", what, index);
	pthread_setname_np(*thread_p, name);
	return 0;
}

static int start_threads(struct node *n)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < n->o->daemons; i++, n->daemons_started += !err)
		err = start_thread(&n->daemons[i].thread, daemon_main, &n->daemons[i], "daemon", i);
	for (uint32_t i = 0; !err && i < n->o->clients; i++, n->clients_started += !err)
		err = start_thread(&n->clients[i].thread, client_main, &n->clients[i], "client", i);
	return err;
}

int node_start(struct node *n, char *why, int size)
{
	const struct backend *b = n->o->backend;
	int err;

	gate_init(&n->gate);
	n->place = (struct placement){.ranks = n->ranks, .shards = n->o->daemons};
	source_init(&n->source, &n->o->load);
	err = make_stores(n, why, size);
	if (!err && n->ranks > 1 && b->make)
		err = b->make(n, why, size);
	if (!err)
		err = make_threads_state(n);
	if (!err && n->ranks > 1)
		err = b->connect(n, why, size);
	if (!err)
		err = open_regions(n, why, size);
	if (err)
		return why[0] ? err : why_failed(why, size, err, "the rank cannot start");
	for (uint32_t i = 0; n->o->wait_event && !err && i < n->o->daemons; i++)
		err = sleeper_init(&n->daemons[i].sleeper, &n->daemons[i]);
	if (err)
		return why_failed(why, size, err, "no descriptor to sleep on");
	err = start_threads(n);
	if (err)
		return why_failed(why, size, err, "a thread cannot start");
	err = gate_wait(&n->gate, n->clients_started, NULL, NULL);
	return err ? why_failed(why, size, err, "a client cannot start") : 0;
}

int node_run(struct node *n, gate_tick_fn *tick, void *arg)
{
	gate_open(&n->gate, false);
	return gate_wait(&n->gate, n->clients_started, tick, arg);
}

uint64_t node_done(const struct node *n)
{
	uint64_t done = 0;

	/* Relaxed: pairs with the store in turns(); no other data depends on the numbers. */
	for (uint32_t i = 0; i < n->clients_started; i++)
		done += atomic_load_explicit(&n->clients[i].done, memory_order_relaxed);
	return done;
}

/* ---- the end ---- */

void node_stop(struct node *n)
{
	gate_open(&n->gate, true);
	for (uint32_t i = 0; i < n->clients_started; i++)
		pthread_join(n->clients[i].thread, NULL);
	/* Relaxed: pairs with daemon_main(); pthread_join() orders all other accesses. */
	atomic_store_explicit(&n->stop_daemons, true, memory_order_relaxed);
	for (uint32_t i = 0; i < n->daemons_started; i++)
		pthread_join(n->daemons[i].thread, NULL);
}

static void free_daemon(struct daemon *d)
{
	trace_fini(&d->trace);
	decisions_fini(&d->decisions);
	errands_fini(&d->errands);
	network_fini(&d->net);
	delegrpc_server_destroy(d->ring);
	shmipc_server_destroy(d->ipc);
}

void node_free(struct node *n, bool in_order)
{
	for (uint32_t i = 0; n->clients && i < n->o->clients; i++)
		client_fini(&n->clients[i]);
	for (uint32_t i = 0; n->daemons && i < n->o->daemons; i++)
		free_daemon(&n->daemons[i]);
	if (n->o->backend->free)
		n->o->backend->free(n, in_order);
	flux_destroy(n->relay);
	flux_destroy(n->flux);
	for (uint32_t i = 0; n->stores && i < n->o->daemons; i++)
		store_fini(&n->stores[i]);
	free(n->stores);
	values_destroy(n->values, n->o->daemons);
	free(n->clients);
	free(n->made);
	board_fini(&n->board);
	rmw_known_fini(&n->known);
	free(n->daemons);
	gate_fini(&n->gate);
}
