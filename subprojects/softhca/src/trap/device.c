/* SPDX-License-Identifier: MIT */
#include "trap/device.h"

#include "dma/dma.h"
#include "fabric/latch.h"
#include "fabric/tally.h"
#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "trap/strict_store.h"
#include "xport/qp.h"
#include "xport/xport.h"

/*
 * Returns true if strict mode checks the stores. It can do so only if each store to a doorbell
 * traps.
 */
static bool checks_stores(void)
{
	return config_get()->strict && config_get()->mode == ENGINE_TRAP;
}

static void store_cq(const struct device_store *st)
{
	uint32_t cqn = be32_at(st->bytes + 4) & 0xffffff;
	struct cq *cq;

	/* Looked up again after fabric_widen(): other threads may have changed any object. */
	while ((cq = obj_of_ctx(OBJ_CQ, cqn, st->u->ctx)) && !latch_take(&cq->latch))
		fabric_widen();
	tally()->process.arms++;
	if (!cq || (checks_stores() && !strict_arm_page(cq, st)))
		return;
	/* The polling thread must not handle this word again. */
	__atomic_store_n(&cq->arm_word, be32_at(st->bytes), __ATOMIC_RELAXED);
	cq_arm(cq, be32_at(st->bytes));
}

static bool rung_right(struct qp *qp, const struct device_store *st)
{
	uint32_t pi;

	if (!strict_register(qp, st))
		return false;
	if (qp->state != QPS_RTS)
		return true;
	return !dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &pi) &&
	       strict_doorbell(qp, pi, st->bytes);
}

/* The store begins with the first half of a control segment. Only its QP number is used. */
static void store_sq(const struct device_store *st)
{
	const uint8_t *bytes = st->bytes;
	struct qp *qp;
	bool right;

	while ((qp = qp_by_number(be32_at(bytes + 4) >> 8)) && !latch_take(&qp->latch))
		fabric_widen();
	tally()->process.doorbells++;
	if (st->size > 8)
		tally()->process.bf_copies++;
	if (!qp || qp->obj.owner != fabric_self.slot || qp->obj.ctx != st->u->ctx) {
		if (checks_stores())
			strict_violation("doorbell of QP 0x%06x, which this context does not have",
				be32_at(bytes + 4) >> 8);
		return;
	}
	right = !checks_stores() || rung_right(qp, st);
	dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &qp->rung);
	if (right)
		xport_send(qp);
	else
		qp_to_error(qp);
}

void device_store(const struct device_store *st)
{
	const uint32_t at = st->offset % UAR_BF_BUFFER;

	/*
	 * If this thread loses the lane below, fabric_lock_lane() returns again, with an error, and
	 * the loop takes the lane again. The QPs have failed then, and the requests of this
	 * doorbell are flushed.
	 */
	while (fabric_lock_lane())
		;
	tally()->process.traps++;
	/* Checked before the execution, which may change the program's memory. */
	if (checks_stores() && st->offset >= UAR_BF_FIRST && at % 8 == 0)
		strict_blueflame(st);
	if (st->offset >= UAR_BF_FIRST && at == 0 && st->size >= 8)
		store_sq(st);
	else if (st->offset >= UAR_BF_FIRST && at == 8)
		tally()->process.bf_copies++;
	else if (st->offset == UAR_CQ_DOORBELL && st->size >= 8)
		store_cq(st);
	fabric_unlock();
}
