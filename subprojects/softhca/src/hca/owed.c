/* SPDX-License-Identifier: MIT */
#include "hca/owed.h"

#include <string.h>

#include "hca/config.h"
#include "hca/cq.h"
#include "hca/journal.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "hca/timer.h"

static struct owed_ring *ring_of(const struct qp *qp, enum owed_side side)
{
	return &arena()->owed[qp_index(qp)][side];
}

/* Adds the completion to the step in the journal, if the CQ has room. */
static void put(struct qp *qp, enum owed_side side, const struct cqe64 *cqe, uint32_t end)
{
	uint32_t cq = side == OWED_SEND ? qp->send_cq : qp->recv_cq;

	if (!cq_room(cq_at(cq), 1))
		return;
	if (config_get()->strict && cqe->op_own >> 4 == CQE_REQ)
		strict_completed(qp, cq_at(cq)->producer, end);
	journal_cqe(cq, cqe);
}

void owed_init(struct qp *qp)
{
	if (!arena()->chaos)
		return;
	for (int side = 0; side < OWED_SIDES; side++)
		ring_of(qp, side)->first = ring_of(qp, side)->last = 0;
}

bool owed_any(const struct qp *qp, enum owed_side side)
{
	return ring_of(qp, side)->first != ring_of(qp, side)->last;
}

void owed_room(struct qp *qp, enum owed_side side)
{
	if (!arena()->chaos)
		return;
	if (ring_of(qp, side)->last - ring_of(qp, side)->first == OWED)
		owed_release(qp, side);
}

/*
 * In chaos mode, wakes the QP's owner before the step is applied: if this process dies after the
 * wake-up and another one replays the step, the owner is awake and finds the completion.
 */
void owed_add(struct qp *qp, enum owed_side side, const struct cqe64 *cqe, uint32_t end)
{
	uint32_t i = qp_index(qp);
	struct owed_ring *r;

	if (!arena()->chaos) {
		put(qp, side, cqe, end);
		return;
	}
	r = ring_of(qp, side);
	memcpy(r->cqes[r->last % OWED], cqe, sizeof(*cqe));
	r->end[r->last % OWED] = end;
	arena()->owed_qps[i / 64] |= 1ull << (i % 64);
	timer_pump(qp->obj.owner);
	journal_store(&r->last, r->last + 1);
}

void owed_release(struct qp *qp, enum owed_side side)
{
	struct owed_ring *r = ring_of(qp, side);
	struct cqe64 cqe;

	memcpy(&cqe, r->cqes[r->first % OWED], sizeof(cqe));
	journal_begin();
	put(qp, side, &cqe, r->end[r->first % OWED]);
	journal_store(&r->first, r->first + 1);
	journal_commit();
}

void owed_release_all(struct qp *qp)
{
	if (!arena()->chaos)
		return;
	for (int side = 0; side < OWED_SIDES; side++)
		while (owed_any(qp, side))
			owed_release(qp, side);
}
