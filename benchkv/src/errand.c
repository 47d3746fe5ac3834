/* SPDX-License-Identifier: MIT */
#include "errand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "daemon.h"

int errands_init(struct errands *e, uint32_t inflight, uint32_t ranks)
{
	e->all = calloc(inflight, sizeof(*e->all));
	e->queues = calloc(ranks, sizeof(*e->queues));
	e->stalled = calloc(ranks, sizeof(*e->stalled));
	e->kept = calloc(inflight, sizeof(*e->kept));
	if (!e->all || !e->queues || !e->stalled || !e->kept || slab_init(&e->free, inflight))
		return -ENOMEM;
	for (uint32_t r = 0; r < ranks; r++)
		e->queues[r].first = e->queues[r].last = QUEUE_NONE;
	return 0;
}

void errands_fini(struct errands *e)
{
	slab_fini(&e->free);
	free(e->kept);
	free(e->stalled);
	free(e->queues);
	free(e->all);
}

/* ---- the end of an errand ---- */

static void end_errand(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	const struct errand *e = &d->errands.all[index];

	daemon_answer(d, &e->who, resp);
	slab_put(&d->errands.free, index);
}

void errand_reply(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	struct errands *e = &d->errands;

	if (!control_holds(&d->net.control)) {
		end_errand(d, index, resp);
		return;
	}
	if (!e->n_kept)
		e->kept_since_ns = clock_ns();
	e->kept[e->n_kept++] = (struct kept_reply){index, *resp};
}

void errand_fail(struct daemon *d, uint32_t index, int error)
{
	struct kv_resp resp =
		kv_reply(&d->errands.all[index].req, KV_ERROR, (uint64_t)(uint32_t)error);

	end_errand(d, index, &resp);
}

void errand_arrived(struct daemon *d, uint32_t index)
{
	const struct errand *e = &d->errands.all[index];

	if (likely(!e->taken_ns))
		return;
	d->stats.stage_calls++;
	d->stats.wait_ns += e->called_ns - e->taken_ns;
	d->stats.network_ns += clock_ns() - e->called_ns;
}

void errands_release(struct daemon *d, uint32_t responses)
{
	struct errands *e = &d->errands;
	struct hold *hold = &d->net.control.hold;
	uint32_t under_way = e->free.used - e->n_kept;
	uint64_t now = clock_ns();
	bool go;

	if (responses)
		hold_arrived(hold, responses, now);
	if (!e->n_kept)
		return;
	go = hold_release(hold, e->n_kept, e->kept_since_ns, now, under_way);
	if (unlikely(d->net.control.log))
		note_hold(&d->net.control, e->n_kept, now - e->kept_since_ns, under_way, go);
	if (!go)
		return;
	for (uint32_t i = 0; i < e->n_kept; i++)
		end_errand(d, e->kept[i].errand, &e->kept[i].resp);
	e->n_kept = 0;
}

/* ---- D: calls ---- */

/* Calls or relays. -EAGAIN: no room now; otherwise it is on its way, or has failed. */
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

/* Can anybody of this rank carry out what d was asked for? */
static bool has_way(const struct daemon *d, uint32_t rank)
{
	if (rank >= d->node->ranks || rank == d->node->rank)
		return false;
	return d->relay || network_reaches(d, rank);
}

bool errands_full(const struct errands *e)
{
	return slab_is_full(&e->free);
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
	/* Behind those that wait for the same rank, if there are any. */
	if (all->queues[req->rank].first != QUEUE_NONE || try_errand(d, index)) {
		d->stats.stalled++;
		queue_errand(all, index);
	}
}

/* Those that the last poll of the ring has found. Their number. */
static uint32_t take_found(struct daemon *d)
{
	struct delegrpc_req from;
	uint32_t n = 0;

	/* A client that had more in flight than agreed would only have to wait. */
	while (!errands_full(&d->errands) && delegrpc_server_recv(d->ring, &from)) {
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
 * A poll finds DELEGRPC_SERVER_POLL_MAX requests at most. If the rest waited for the next loop, a
 * WRITE would carry a share of that number, however many requests there are.
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
		end_errand(d, (uint32_t)token, payload);
	else
		errand_fail(d, (uint32_t)token, EPIPE);
}

uint32_t errands_exchange(struct daemon *d)
{
	uint32_t n = (uint32_t)flux_poll(d->relay, on_relayed, d), from;
	struct asker who = {.way = BY_RELAY};
	struct kv_req req;

	while (!errands_full(&d->errands) &&
		flux_try_recv_raw(d->relay, &from, &who.call, &req, sizeof(req), NULL) > 0) {
		errand_take(d, &who, &req);
		n++;
	}
	return n;
}

/* ---- E: retry ---- */

/* True: nobody waits there any more. */
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
