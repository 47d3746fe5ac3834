/* SPDX-License-Identifier: MIT */
#include "trap/device.h"

#include "abi/wire.h"
#include "dma/dma.h"
#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "trap/strict_store.h"
#include "xport/qp.h"
#include "xport/xport.h"

static void store_cq(const struct uctx *u, const uint8_t *bytes)
{
	struct cq *cq = obj_of_ctx(OBJ_CQ, be32_at(bytes + 4) & 0xffffff, u->ctx);

	counters_of(fabric_self.slot)->arms++;
	if (cq)
		cq_arm(cq, be32_at(bytes));
}

static bool rung_right(struct qp *qp, const uint8_t *bytes)
{
	uint32_t pi;

	if (qp->state != QPS_RTS || qp->wait_until)
		return true; /* the record is checked when the QP executes again */
	return !dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &pi) &&
	       strict_doorbell(qp, pi, bytes);
}

/* @bytes: the first half of a control segment. Only the QP that it names is executed. */
static void store_sq(const struct uctx *u, const uint8_t *bytes, uint32_t size)
{
	struct qp *qp = qp_by_number(be32_at(bytes + 4) >> 8);

	counters_of(fabric_self.slot)->doorbells++;
	if (size > 8)
		counters_of(fabric_self.slot)->bf_copies++;
	if (!qp || qp->obj.owner != fabric_self.slot || qp->obj.ctx != u->ctx) {
		if (config_get()->strict)
			strict_violation("doorbell of QP 0x%06x, which this context does not have",
				be32_at(bytes + 4) >> 8);
		return;
	}
	if (config_get()->strict && !rung_right(qp, bytes)) {
		qp_to_error(qp);
		return;
	}
	if (arena()->chaos)
		dma_read_be32(qp->obj.owner, qp->dbrec + DBREC_SEND, &qp->rung);
	xport_send(qp);
}

void device_store(const struct uctx *u, uint32_t offset, const uint8_t *bytes, uint32_t size)
{
	uint32_t at = offset % UAR_BF_BUFFER;

	fabric_lock();
	counters_of(fabric_self.slot)->traps++;
	/* Before the execution, which may change the program's memory. */
	if (config_get()->strict && offset >= UAR_BF_FIRST && at % 8 == 0)
		strict_blueflame(u, offset, bytes, size & ~7u);
	if (offset >= UAR_BF_FIRST && at == 0 && size >= 8)
		store_sq(u, bytes, size);
	else if (offset >= UAR_BF_FIRST && at == 8)
		counters_of(fabric_self.slot)->bf_copies++;
	else if (offset == UAR_CQ_DOORBELL && size >= 8)
		store_cq(u, bytes);
	fabric_unlock();
}
