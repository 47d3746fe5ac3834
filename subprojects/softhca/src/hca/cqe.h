/* SPDX-License-Identifier: MIT */
/*
 * A completion queue's memory: its entries and its doorbell record. The caller must hold the
 * fabric's mutex, or a lane and the CQ's latch.
 */
#ifndef SOFTHCA_HCA_CQE_H
#define SOFTHCA_HCA_CQE_H

#include "abi/wire.h"
#include "fabric/arena.h"

/* Updates the consumer index from the queue's doorbell record. */
void cq_read_consumer(struct cq *cq);

/*
 * Write the entry of producer index @index. cq_store() sets the owner bit of the completion;
 * cq_store_raw() writes 64 bytes unchanged.
 */
void cq_store(const struct cq *cq, uint32_t index, struct cqe64 cqe);
void cq_store_raw(const struct cq *cq, uint32_t index, const void *bytes);

#endif
