/* SPDX-License-Identifier: MIT */
#include "errand.h"

#include <errno.h>
#include <stdlib.h>

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

void errand_end(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	const struct errand *e = &d->errands.all[index];

	daemon_answer(d, &e->who, resp);
	slab_put(&d->errands.free, index);
}

void errand_reply(struct daemon *d, uint32_t index, const struct kv_resp *resp)
{
	struct errands *e = &d->errands;

	if (!control_holds(&d->net.control)) {
		errand_end(d, index, resp);
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

	errand_end(d, index, &resp);
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
		errand_end(d, e->kept[i].errand, &e->kept[i].resp);
	e->n_kept = 0;
}
