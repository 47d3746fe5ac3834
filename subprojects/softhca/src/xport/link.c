/* SPDX-License-Identifier: MIT */
#include "xport/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/objects.h"
#include "hca/timer.h"
#include "hca/wqe.h"
#include "xport/pause.h"

enum direction { OUTBOUND, INBOUND };

int link_mode_from_env(void)
{
	static const char *const names[] = {"off", "real", "virtual"};
	const char *s = getenv("SOFTHCA_LINK");

	if (!s || !*s)
		return LINK_OFF;
	for (int i = 0; i < 3; i++)
		if (!strcmp(s, names[i]))
			return i;
	return -EINVAL;
}

uint64_t link_clock(void)
{
	return arena()->link_mode == LINK_VIRTUAL ? arena()->virtual_ns : timer_now();
}

/*
 * A context serves one message after the other. Makes it serve a message for @ns, from @at on, or
 * from the end of the earlier messages on if that is later. Returns the time at which it ends.
 */
static uint64_t serve(uint64_t *until, uint64_t at, uint32_t ns)
{
	*until = (*until > at ? *until : at) + ns;
	return *until;
}

/* Returns the time at which the receiver has served a message that arrives at @at. */
static uint64_t receive(const struct qp *qp, uint64_t at)
{
	const struct qp *peer = qp->type == QPT_UD ? NULL : qp_by_number(qp->attr.dest_qpn);
	uint32_t ns = peer ? arena()->topo.rails[qp_rail(peer)].service_ns : 0;

	return ns ? serve(&arena()->ctxs[peer->obj.ctx].receives_until, at, ns) : at;
}

/*
 * Occupies the sender's context and the link for @w. Returns the time at which the message has
 * arrived, without the time that the receiver needs for it.
 */
static uint64_t transmit(const struct qp *qp, const struct wqe *w)
{
	uint32_t rail = qp_rail(qp);
	const struct softhca_rail *r = &arena()->topo.rails[rail];
	bool read = w->opcode >= OP_READ;
	uint64_t *idle = &arena()->rails[rail].link_free[read ? INBOUND : OUTBOUND];
	uint64_t now = link_clock(), busy = w->length * 8000 / r->rate_mbps, gap;

	if (r->service_ns)
		now = serve(&arena()->ctxs[qp->obj.ctx].sends_until, now, r->service_ns);
	gap = *idle < now ? now - *idle : 0;
	*idle += gap;
	*idle += busy + pause_for(qp, w, busy, gap);
	return *idle + (read ? 2ull : 1ull) * r->latency_ns;
}

void link_schedule(struct qp *qp, uint32_t pi)
{
	struct wqe w;

	pause_announced(qp, pi);
	while ((uint16_t)pi != (uint16_t)qp->link_next &&
		qp->link_last - qp->link_first < LINK_AHEAD) {
		/* Errors are ignored here; they are reported when the WQE is executed. */
		if (wqe_fetch(qp, qp->link_next, &w))
			w = (struct wqe){.units = 1};
		else
			wqe_decode(qp, &w);
		qp->link_due[qp->link_last++ % LINK_AHEAD] = transmit(qp, &w);
		wqe_cut(&w, (uint16_t)(pi - qp->link_next));
		qp->link_next += wqe_blocks(&w);
	}
}

bool link_awaits(const struct qp *qp, uint32_t pi)
{
	uint32_t next = __atomic_load_n(&qp->link_next, __ATOMIC_RELAXED);
	uint32_t ahead = __atomic_load_n(&qp->link_last, __ATOMIC_RELAXED) -
			 __atomic_load_n(&qp->link_first, __ATOMIC_RELAXED);

	return arena()->link_mode && (uint16_t)pi != (uint16_t)next && ahead < LINK_AHEAD;
}

uint64_t link_due(struct qp *qp)
{
	uint64_t *due = &qp->link_due[qp->link_first % LINK_AHEAD];
	uint64_t now = arena()->link_mode == LINK_REAL ? timer_now() : UINT64_MAX;

	if (qp->link_first == qp->link_last)
		return 0;
	if (*due > now)
		return *due;
	if (!qp->link_taken) {
		*due = receive(qp, *due);
		qp->link_taken = 1;
	}
	return *due > now ? *due : 0;
}

/* In virtual time: advances the clock to the completion time of the first message. */
static void reach(const struct qp *qp)
{
	uint64_t due = qp->link_due[qp->link_first % LINK_AHEAD];

	if (qp->link_first != qp->link_last && arena()->virtual_ns < due)
		arena()->virtual_ns = due;
}

bool link_delay(const struct qp *qp, uint64_t ns)
{
	if (arena()->link_mode != LINK_VIRTUAL)
		return false;
	reach(qp);
	arena()->virtual_ns += ns;
	return true;
}

void link_done(struct qp *qp)
{
	if (qp->link_first == qp->link_last)
		return;
	if (arena()->link_mode == LINK_VIRTUAL)
		reach(qp);
	qp->link_first++;
	qp->link_taken = 0;
}

void link_clear(struct qp *qp)
{
	qp->link_first = qp->link_last;
	qp->link_taken = 0;
	qp->link_next = qp->link_announced = qp->sq_done;
}
