/* SPDX-License-Identifier: MIT */
/*
 * Compressed completions. A run is a sequence of completions that differ only in byte count, time
 * stamp and WQE counter. If they are of requests, their WQE counters may have any values, and the
 * opcodes of the WQEs may differ, too. If they are of receives, the WQE counter increases by one.
 *
 * A run occupies one entry of the queue for each completion. A run of one completion is written
 * unchanged. For a longer one, only the following is written: the first completion (the title),
 * with both format bits set and the number of completions in byte_cnt, and arrays of eight 8-byte
 * mini-CQEs. Array 0 is in the entry after the title, array k in the entry of completion 8 k.
 */
#ifndef SOFTHCA_HCA_COMP_H
#define SOFTHCA_HCA_COMP_H

#include "abi/wire.h"
#include "fabric/arena.h"

/*
 * Adds the completion to the CQ's run. If it does not fit into the run, the run is written out
 * first.
 */
void comp_add(struct cq *cq, uint32_t index, const struct cqe64 *cqe);

/* Writes the run out. */
void comp_flush(struct cq *cq);

#endif
