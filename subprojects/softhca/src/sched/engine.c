/* SPDX-License-Identifier: MIT */
#include "sched/engine.h"

#include <stdbool.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "fabric/fabric.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "xport/chaos.h"
#include "xport/link.h"
#include "xport/wired.h"
#include "xport/xport.h"

static bool is_mine(const struct obj *o)
{
	return __atomic_load_n(&o->used, __ATOMIC_RELAXED) && o->owner == fabric_self.slot;
}

/* A hint, without the mutex; serve_qp() checks again. */
static bool has_posted(const struct qp *qp)
{
	uint32_t pi;

	if (!is_mine(&qp->obj) || !qp->sq_count ||
		dma_read_be32(fabric_self.slot, qp->dbrec + DBREC_SEND, &pi))
		return false;
	if ((uint16_t)pi == (uint16_t)__atomic_load_n(&qp->sq_done, __ATOMIC_RELAXED) ||
		chaos_announced(qp))
		return false;
	if (__atomic_load_n(&qp->wired, __ATOMIC_RELAXED) &&
		__atomic_load_n(&qp->state, __ATOMIC_RELAXED) == QPS_RTS)
		return wired_behind(qp, pi);
	return !__atomic_load_n(&qp->wait_until, __ATOMIC_RELAXED) || link_awaits(qp, pi);
}

static bool has_armed(const struct cq *cq, uint32_t *word)
{
	if (!is_mine(&cq->obj) || !cq->fifo)
		return false;
	return !dma_read_be32(fabric_self.slot, cq->dbrec + CQ_DBREC_ARM, word) &&
	       *word != __atomic_load_n(&cq->arm_word, __ATOMIC_RELAXED);
}

static uint32_t serve_qp(struct qp *qp)
{
	uint32_t before;

	if (fabric_lock())
		return 1;
	before = qp->sq_done;
	if (has_posted(qp)) {
		counters_of(fabric_self.slot)->doorbells++;
		xport_send(qp);
	}
	before = qp->sq_done - before;
	fabric_unlock();
	return before != 0;
}

static uint32_t serve_cq(struct cq *cq)
{
	uint32_t word;

	if (fabric_lock())
		return 1;
	if (has_armed(cq, &word)) {
		counters_of(fabric_self.slot)->arms++;
		__atomic_store_n(&cq->arm_word, word, __ATOMIC_RELAXED);
		cq_arm(cq, word);
	}
	fabric_unlock();
	return 1;
}

uint32_t engine_pass(void)
{
	struct arena *a = arena();
	uint32_t n = 0, word;

	for (uint32_t i = FIRST_QP_INDEX; i < a->high[OBJ_QP]; i++)
		if (has_posted(&a->qps[i]))
			n += serve_qp(&a->qps[i]);
	for (uint32_t i = 1; i < a->high[OBJ_CQ]; i++)
		if (has_armed(&a->cqs[i], &word))
			n += serve_cq(&a->cqs[i]);
	return n;
}
