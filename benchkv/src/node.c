/* SPDX-License-Identifier: MIT */
#include "node.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "client.h"
#include "daemon.h"
#include "endpoints.h"
#include "stop.h"

#define RING_MIN 4096u
#define RING_MAX (1u << 30)
#define CALL_BYTES 64 /* of a request in the ring: header and alignment included */
/*
 * Of a ring, half stands for the replies that the peer may send, and what is left of a
 * lap before its end is lost: with eight times the calls in flight few have to wait.
 */
#define SLACK 8
/*
 * A look after a nap takes a thread about 4 us: with NAP_LOOK_NS for each thread per unit
 * idle threads take half of the time at most, however many there are. Below NAP_MIN_NS
 * the kernel's timers are too coarse.
 */
#define NAP_LOOK_NS (8 * NSEC_PER_USEC)
#define NAP_MIN_NS (50 * NSEC_PER_USEC)
#define NAP_MAX_NS (5 * NSEC_PER_MSEC) /* to look at the stop flags */
#define LOOK_NS (20 * NSEC_PER_MSEC) /* between looks at the stop flag */
#define STORE_START 65536 /* keys that a store has room for before it must grow */

/* ---- names and sizes ---- */

uint32_t node_ring_size(const struct options *o)
{
	uint64_t want = pow2_ceil((uint64_t)SLACK * o->clients * o->queue_depth * CALL_BYTES);

	if (o->ring_size)
		return o->ring_size;
	return want < RING_MIN ? RING_MIN : want > RING_MAX ? RING_MAX : (uint32_t)want;
}

uint64_t node_nap_ns(uint32_t threads, uint32_t units)
{
	uint64_t ns = NAP_LOOK_NS * threads / (units ? units : 1);

	return ns < NAP_MIN_NS ? NAP_MIN_NS : ns > NAP_MAX_NS ? NAP_MAX_NS : ns;
}

void node_ipc_name(const struct node *n, uint32_t daemon, char name[NODE_NAME_MAX])
{
	snprintf(name, NODE_NAME_MAX, "benchkv.%s.%u.%u", launch_job(n->launch), n->rank, daemon);
}

void node_ring_name(const struct node *n, char name[NODE_NAME_MAX])
{
	snprintf(name, NODE_NAME_MAX, "benchkv.%s.%u", launch_job(n->launch), n->rank);
}

/* ---- the gate ---- */

static void gate_init(struct gate *g)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&g->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&g->changed, &attr);
	pthread_condattr_destroy(&attr);
}

static void gate_fini(struct gate *g)
{
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->lock);
}

bool gate_pass(struct gate *g, uint32_t run, int error)
{
	bool go;

	pthread_mutex_lock(&g->lock);
	if (error && !g->error)
		g->error = error;
	g->arrived++;
	pthread_cond_broadcast(&g->changed);
	while (g->run <= run && !g->leave)
		pthread_cond_wait(&g->changed, &g->lock);
	go = !g->leave && !error;
	pthread_mutex_unlock(&g->lock);
	return go;
}

/* Until all clients have arrived: 0, the error of one of them, or -EINTR. */
static int gate_wait(struct gate *g, uint32_t clients)
{
	int err = 0;

	pthread_mutex_lock(&g->lock);
	while (g->arrived < clients && !err) {
		uint64_t at = clock_ns() + LOOK_NS;
		struct timespec look = {.tv_sec = (time_t)(at / NSEC_PER_SEC),
			.tv_nsec = (long)(at % NSEC_PER_SEC)};

		pthread_cond_timedwait(&g->changed, &g->lock, &look);
		err = stop_requested() ? -EINTR : 0;
	}
	if (g->error)
		err = g->error;
	pthread_mutex_unlock(&g->lock);
	return err;
}

static void gate_open(struct gate *g, bool leave)
{
	pthread_mutex_lock(&g->lock);
	g->arrived = 0;
	g->run++;
	g->leave = leave;
	pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->lock);
}

/* ---- making ---- */

static int fail(char *why, int size, int err, const char *fmt, ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(why, (size_t)size, fmt, args);
	va_end(args);
	if (n > 0 && n < size)
		snprintf(why + n, (size_t)(size - n), ": %s", strerror(-err));
	return err;
}

static int make_stores(struct node *n, char *why, int size)
{
	uint64_t shards = (uint64_t)n->ranks * n->o->daemons;
	uint64_t expect = n->o->load.key_range / shards + 1;

	n->stores = calloc(n->o->daemons, sizeof(*n->stores));
	if (!n->stores)
		return -ENOMEM;
	if (!n->o->preload && expect > STORE_START)
		expect = STORE_START;
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		int err = store_init(&n->stores[i], &n->place, n->rank, i, expect);

		if (!err && n->o->preload)
			err = store_preload(&n->stores[i], n->o->load.key_range);
		if (err)
			return fail(why, size, err,
				"no room for the keys: give a smaller --key-range, or more ranks");
	}
	return 0;
}

static int make_ipc(struct node *n, char *why, int size)
{
	const struct shmipc_attr attr = {.max_clients = n->o->clients,
		.depth = n->o->queue_depth,
		.req_size = sizeof(struct kv_req),
		.resp_size = sizeof(struct kv_resp)};
	char name[NODE_NAME_MAX];

	n->ipc = calloc(n->o->daemons, sizeof(struct shmipc_server *));
	if (!n->ipc)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		int err;

		node_ipc_name(n, i, name);
		err = shmipc_server_create(name, &attr, &n->ipc[i]);
		if (err)
			return fail(why, size, err, "shared memory '%s' cannot be made", name);
	}
	return 0;
}

/* What is there for the sake of other ranks. */
static int make_remote(struct node *n, char *why, int size)
{
	const struct delegrpc_attr ring = {.max_clients = n->o->clients,
		.resp_depth = n->o->queue_depth,
		.req_size = sizeof(struct kv_req),
		.resp_size = sizeof(struct kv_resp)};
	const struct flux_attr flux = {.nodes = n->o->daemons,
		.payload_size = sizeof(struct kv_req)};
	char name[NODE_NAME_MAX];
	int err;

	if (n->ranks == 1)
		return 0;
	node_ring_name(n, name);
	err = delegrpc_server_create(name, &ring, &n->ring);
	if (err)
		return fail(why, size, err, "shared memory '%s' cannot be made", name);
	if (n->o->daemons > 1)
		err = flux_create(&flux, &n->flux);
	if (err)
		return fail(why, size, err, "the channels between the daemons");
	return 0;
}

static int make_threads_state(struct node *n)
{
	n->daemons = calloc(n->o->daemons, sizeof(*n->daemons));
	n->clients = calloc(n->o->clients, sizeof(*n->clients));
	if (!n->daemons || !n->clients)
		return -ENOMEM;
	for (uint32_t i = 0; i < n->o->daemons; i++) {
		n->daemons[i] = (struct daemon){
			.node = n,
			.index = i,
			.store = &n->stores[i],
			.ipc = n->ipc[i],
			.flux = n->flux ? flux_node(n->flux, i) : NULL,
		};
	}
	for (uint32_t i = 0; i < n->o->clients; i++) {
		int err = client_init(&n->clients[i], n, i);

		if (err)
			return err;
	}
	return n->ranks > 1 ? network_init(&n->daemons[0].net, n) : 0;
}

static int start_threads(struct node *n)
{
	while (n->daemons_started < n->o->daemons) {
		struct daemon *d = &n->daemons[n->daemons_started];
		int err =
			pthread_create(&d->thread, NULL, d->index ? worker_main : daemon0_main, d);

		if (err)
			return -err;
		n->daemons_started++;
	}
	while (n->clients_started < n->o->clients) {
		struct client *c = &n->clients[n->clients_started];
		int err = pthread_create(&c->thread, NULL, client_main, c);

		if (err)
			return -err;
		n->clients_started++;
	}
	return 0;
}

/* Everybody is attached: from here on a crash leaves nothing behind. */
static void remove_names(struct node *n)
{
	for (uint32_t i = 0; i < n->o->daemons; i++)
		shmipc_server_unlink(n->ipc[i]);
	if (n->ring)
		delegrpc_server_unlink(n->ring);
}

int node_start(struct node *n, char *why, int size)
{
	int err;

	gate_init(&n->gate);
	n->place = (struct placement){.ranks = n->ranks, .shards = n->o->daemons};
	source_init(&n->source, &n->o->load);
	err = make_stores(n, why, size);
	if (!err)
		err = make_ipc(n, why, size);
	if (!err)
		err = make_remote(n, why, size);
	if (!err)
		err = make_threads_state(n);
	if (!err && n->ranks > 1)
		err = endpoints_connect(n, why, size);
	if (err)
		return why[0] ? err : fail(why, size, err, "the rank cannot start");
	err = start_threads(n);
	if (err)
		return fail(why, size, err, "a thread cannot start");
	err = gate_wait(&n->gate, n->clients_started);
	remove_names(n);
	return err ? fail(why, size, err, "a client cannot connect to its daemons") : 0;
}

int node_run(struct node *n)
{
	gate_open(&n->gate, false);
	return gate_wait(&n->gate, n->clients_started);
}

/* ---- the end ---- */

void node_stop(struct node *n)
{
	gate_open(&n->gate, true);
	for (uint32_t i = 0; i < n->clients_started; i++)
		pthread_join(n->clients[i].thread, NULL);
	/* Relaxed: pairs with the daemons' loops; the join orders the rest. */
	atomic_store_explicit(&n->stop_daemons, true, memory_order_relaxed);
	for (uint32_t i = 0; i < n->daemons_started; i++)
		pthread_join(n->daemons[i].thread, NULL);
}

static void free_servers(struct node *n)
{
	copyrpc_ctx_destroy(n->ctx);
	flux_destroy(n->flux);
	delegrpc_server_destroy(n->ring);
	for (uint32_t i = 0; n->ipc && i < n->o->daemons; i++)
		shmipc_server_destroy(n->ipc[i]);
	free((void *)n->ipc);
	for (uint32_t i = 0; n->stores && i < n->o->daemons; i++)
		store_fini(&n->stores[i]);
	free(n->stores);
}

void node_free(struct node *n)
{
	if (n->daemons)
		network_fini(&n->daemons[0].net);
	for (uint32_t i = 0; n->clients && i < n->o->clients; i++)
		client_fini(&n->clients[i]);
	free_servers(n);
	free(n->clients);
	free(n->made);
	free(n->daemons);
	gate_fini(&n->gate);
}
