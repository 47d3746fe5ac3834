/* SPDX-License-Identifier: MIT */
/* What all daemons do, and the loop of those that have no NIC. */
#include <time.h>

#include "base/clock.h"
#include "base/wait.h"
#include "daemon.h"

#define SLEEP_NS (10 * NSEC_PER_MSEC) /* until the next look at the stop flag */

uint32_t daemon_serve_local(struct daemon *d)
{
	struct shmipc_req from;
	struct kv_req req;
	uint32_t n = 0;

	shmipc_server_poll(d->ipc);
	while (shmipc_server_recv(d->ipc, &from, &req, sizeof(req)) > 0) {
		struct kv_resp resp;

		if (from.len != sizeof(req))
			req = (struct kv_req){.type = 0}; /* which is refused */
		resp = store_serve(d->store, &req);
		answer_local(d, from.client, from.id, &resp);
		n++;
	}
	d->stats.local += n;
	return n;
}

static uint32_t serve_forwarded(struct daemon *d)
{
	struct kv_req req;
	uint64_t call;
	uint32_t from, n = 0;

	while (flux_try_recv_raw(d->flux, &from, &call, &req, sizeof(req), NULL) > 0) {
		struct kv_resp resp = store_serve(d->store, &req);

		if (flux_reply(d->flux, call, &resp, sizeof(resp)))
			d->stats.bad_replies++;
		n++;
	}
	d->stats.remote += n;
	return n;
}

void daemon_rest(struct daemon *d, uint32_t n, struct wait *w)
{
	struct timespec nap = {.tv_nsec = (long)d->node->nap_ns};

	d->stats.loops++;
	if (n) {
		wait_reset(w);
		return;
	}
	d->stats.idle_loops++;
	if (!wait_step(w))
		return;
	d->stats.sleeps++;
	if (!d->flux && !d->ctx)
		shmipc_server_wait(d->ipc, SLEEP_NS); /* is woken by a request */
	else
		nanosleep(&nap, NULL); /* nothing wakes for all of them */
}

void *worker_main(void *arg)
{
	struct daemon *d = arg;
	struct wait w = WAIT_INIT;

	topo_pin_self(d->node->topo, d->index);
	/* Relaxed, as daemon 0's. */
	while (!atomic_load_explicit(&d->node->stop_daemons, memory_order_relaxed)) {
		uint32_t n = daemon_serve_local(d);

		if (d->flux)
			n += serve_forwarded(d);
		daemon_rest(d, n, &w);
	}
	return NULL;
}
