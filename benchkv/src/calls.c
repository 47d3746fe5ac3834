/* SPDX-License-Identifier: MIT */
#include "calls.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "daemon.h"

/* ---- phase D: calls ---- */

/*
 * Sends an errand (a client's request for another rank): calls that rank over the network, or
 * relays the errand to the daemon that can. -EAGAIN: not now (no room, no credit, or too early by
 * --stagger); 0: the errand is under way, or has failed.
 */
static int try_errand(struct daemon *d, uint32_t index)
{
	const struct kv_req *req = &d->errands.all[index].req;
	uint32_t owner = node_owner(d->node, req->rank);
	int err = owner == d->index ? network_call(d, req, index) :
				      flux_call(d->relay, owner, req, sizeof(*req), index);

	if (err == -EAGAIN)
		return err;
	d->stats.relayed += owner != d->index && !err;
	if (unlikely(d->errands.all[index].taken_ns))
		d->errands.all[index].called_ns = clock_ns();
	if (err)
		errand_fail(d, index, -err);
	return 0;
}

static void queue_errand(struct errands *e, uint32_t index)
{
	uint32_t rank = e->all[index].req.rank;
	struct errand_queue *q = &e->queues[rank];

	e->n_waiting++;
	e->all[index].next = QUEUE_NONE;
	if (q->first == QUEUE_NONE) {
		q->first = index;
		e->stalled[e->n_stalled++] = rank;
	} else {
		e->all[q->last].next = index;
	}
	q->last = index;
}

/* True: this daemon, or another one of its rank, can call the other rank. */
static bool has_way(const struct daemon *d, uint32_t rank)
{
	return rank < d->node->ranks && rank != d->node->rank &&
	       (d->relay || d->net.remotes[rank].ep);
}

void errand_take(struct daemon *d, const struct asker *who, const struct kv_req *req)
{
	struct errands *all = &d->errands;
	uint32_t index = slab_get(&all->free);
	struct errand *e = &all->all[index];

	e->start_ns = d->net.loop_ns;
	e->taken_ns = all->taken++ % STAGE_SAMPLE ? 0 : clock_ns();
	e->who = *who;
	e->req = *req;
	if (!has_way(d, req->rank)) {
		errand_fail(d, index, EHOSTUNREACH);
		return;
	}
	/* The errand must not overtake those that wait for the same rank. */
	if (all->queues[req->rank].first != QUEUE_NONE || try_errand(d, index)) {
		d->stats.stalled++;
		queue_errand(all, index);
	}
}

/* Accepts the requests that the last poll of the ring has found. Returns their number. */
static uint32_t take_found(struct daemon *d)
{
	struct delegrpc_req from;
	uint32_t n = 0;

	/*
	 * d->errands has room for as many errands as the clients may have requests in flight. Any
	 * further request stays in the ring.
	 */
	while (!slab_is_full(&d->errands.free) && delegrpc_server_recv(d->ring, &from)) {
		const struct asker who = {.way = BY_RING, .client = from.client, .id = from.id};
		struct kv_req req = {.type = 0};

		if (from.len == sizeof(req))
			memcpy(&req, from.payload, sizeof(req));
		errand_take(d, &who, &req);
		n++;
	}
	delegrpc_server_advance_tail(d->ring);
	return n;
}

/*
 * Takes what the poll of phase B has found. If that is DELEGRPC_SERVER_POLL_MAX requests, the most
 * that a poll finds, polls again, and so on. If the other requests waited for the next loop, the
 * maximum would also limit the number of messages per WRITE.
 */
uint32_t errands_take(struct daemon *d)
{
	uint32_t n = 0, found;

	if (!d->ring)
		return 0;
	do {
		found = take_found(d);
		n += found;
	} while (found == DELEGRPC_SERVER_POLL_MAX && delegrpc_server_poll(d->ring) > 0);
	return n;
}

static void on_relayed(void *arg, uint64_t token, const void *payload, uint32_t len)
{
	struct daemon *d = arg;

	if (payload)
		errand_end(d, (uint32_t)token, payload);
	else
		errand_fail(d, (uint32_t)token, EPIPE);
}

uint32_t errands_exchange(struct daemon *d)
{
	uint32_t n = (uint32_t)flux_poll(d->relay, on_relayed, d), from;
	struct asker who = {.way = BY_RELAY};
	struct kv_req req;

	while (!slab_is_full(&d->errands.free) &&
		flux_try_recv_raw(d->relay, &from, &who.call, &req, sizeof(req), NULL) > 0) {
		errand_take(d, &who, &req);
		n++;
	}
	return n;
}

/* ---- phase E: retry ---- */

/* Sends the waiting errands for a rank until try_errand() cannot. True: no errand waits any more. */
static bool drain_queue(struct daemon *d, struct errand_queue *q)
{
	struct errands *e = &d->errands;

	while (q->first != QUEUE_NONE) {
		uint32_t next = e->all[q->first].next;

		if (try_errand(d, q->first))
			return false;
		q->first = next;
		e->n_waiting--;
	}
	return true;
}

void errands_retry(struct daemon *d)
{
	struct errands *e = &d->errands;

	for (uint32_t i = 0; i < e->n_stalled;) {
		if (drain_queue(d, &e->queues[e->stalled[i]]))
			e->stalled[i] = e->stalled[--e->n_stalled];
		else
			i++;
	}
}
