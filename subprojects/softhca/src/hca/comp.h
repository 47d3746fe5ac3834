/* SPDX-License-Identifier: MIT */
/*
 * Compressed completions. A run of completions that differ only in their byte count
 * (and, on the requester's side, in index and opcode) takes as many places as it has
 * completions, but only the first is written, with both format bits set and the number
 * in byte_cnt, and arrays of eight 8-byte minis: the first in the place behind the
 * title, array k in the place of completion 8 k.
 */
#ifndef SOFTHCA_HCA_COMP_H
#define SOFTHCA_HCA_COMP_H

#include "abi/wire.h"
#include "fabric/arena.h"

/* Adds the completion to the CQ's run; one that does not fit ends the run before it. */
void comp_add(struct cq *cq, uint32_t index, const struct cqe64 *cqe);

/* Writes the run out. */
void comp_flush(struct cq *cq);

/* The two ways into the queue's memory (cq.c): a completion, and plain bytes. */
void cq_store(const struct cq *cq, uint32_t index, struct cqe64 cqe);
void cq_store_raw(const struct cq *cq, uint32_t index, const void *bytes);

#endif
