/* SPDX-License-Identifier: MIT */
#include "hca/cqe.h"

#include "dma/dma.h"
#include "hca/config.h"
#include "hca/objects.h"
#include "hca/strict.h"

/*
 * Widens the 24-bit consumer index. An index that is not between the last one and the
 * producer is an error of the program and is ignored.
 */
void cq_read_consumer(struct cq *cq)
{
	uint32_t raw, delta;

	if (dma_get_be32(cq->obj.owner, cq->dbrec, cq->dbrec_shift, &raw))
		return;
	delta = (raw - cq->consumer) & CQ_CI_MASK;
	if (delta <= cq->producer - cq->consumer)
		cq->consumer += delta;
	else if (config_get()->strict)
		strict_violation("CQ %u: consumer index 0x%x is not between 0x%x and 0x%x",
			cq_index(cq), raw & CQ_CI_MASK, cq->consumer & CQ_CI_MASK,
			cq->producer & CQ_CI_MASK);
}

static uint64_t slot_addr(const struct cq *cq, uint32_t index)
{
	uint64_t slot = index & ((1u << cq->log_size) - 1);

	return cq->buf + slot * cq->cqe_size + (cq->cqe_size - sizeof(struct cqe64));
}

/*
 * A failed write is ignored, because it means that the queue's memory is unmapped or its owner has
 * ended.
 */
void cq_store(const struct cq *cq, uint32_t index, struct cqe64 cqe)
{
	cqe.op_own = (uint8_t)((cqe.op_own & ~1u) | ((index >> cq->log_size) & 1));
	dma_write_cqe(cq->obj.owner, slot_addr(cq, index), cq->buf_shift, &cqe);
}

void cq_store_raw(const struct cq *cq, uint32_t index, const void *bytes)
{
	dma_put(cq->obj.owner, slot_addr(cq, index), cq->buf_shift, bytes, sizeof(struct cqe64));
}
