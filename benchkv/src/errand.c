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

	daemon_answer_delegated(d, e->client, e->id, resp);
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

void errands_release(struct daemon *d, uint32_t responses)
{
	struct errands *e = &d->errands;
	struct hold *hold = &d->net.control.hold;
	uint64_t now = clock_ns();

	if (responses)
		hold_arrived(hold, responses, now);
	if (!e->n_kept ||
		!hold_release(hold, e->n_kept, e->kept_since_ns, now, e->free.used - e->n_kept))
		return;
	for (uint32_t i = 0; i < e->n_kept; i++)
		end_errand(d, e->kept[i].errand, &e->kept[i].resp);
	e->n_kept = 0;
}

/* ---- D: calls ---- */

/* Makes the call. -EAGAIN: no room now; otherwise it is on its way, or has failed. */
static int try_errand(struct daemon *d, uint32_t index)
{
	int err = network_call(d, &d->errands.all[index].req, index);

	if (err == -EAGAIN)
		return err;
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

static void take_errand(struct daemon *d, const struct delegrpc_req *from)
{
	struct errands *all = &d->errands;
	uint32_t index = slab_get(&all->free);
	struct errand *e = &all->all[index];

	e->start_ns = d->net.loop_ns;
	e->client = from->client;
	e->id = from->id;
	memset(&e->req, 0, sizeof(e->req));
	if (from->len == sizeof(e->req))
		memcpy(&e->req, from->payload, sizeof(e->req));
	if (!network_reaches(d, e->req.rank)) {
		errand_fail(d, index, EHOSTUNREACH);
		return;
	}
	/* Behind those that wait for the same rank, if there are any. */
	if (all->queues[e->req.rank].first != QUEUE_NONE || try_errand(d, index)) {
		d->stats.stalled++;
		queue_errand(all, index);
	}
}

uint32_t errands_take(struct daemon *d)
{
	struct delegrpc_req from;
	uint32_t n = 0;

	/* A client that had more in flight than agreed would only have to wait. */
	while (!slab_is_full(&d->errands.free) && delegrpc_server_recv(d->ring, &from)) {
		take_errand(d, &from);
		n++;
	}
	delegrpc_server_advance_tail(d->ring);
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
