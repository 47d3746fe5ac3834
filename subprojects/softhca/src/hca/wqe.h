/* SPDX-License-Identifier: MIT */
/* A send queue entry, copied from the queue once and decoded. */
#ifndef SOFTHCA_HCA_WQE_H
#define SOFTHCA_HCA_WQE_H

#include <stdbool.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "fabric/arena.h"

struct wqe {
	uint8_t opcode;
	bool signaled;
	bool solicited;
	uint8_t units; /* length in units of 16 bytes */
	uint8_t flags; /* fm_ce_se, unchanged */
	uint16_t index; /* as the program wrote it */
	uint32_t qpn; /* as the program wrote it */
	uint32_t imm; /* in network order */
	uint32_t rkey;
	uint64_t raddr;
	uint64_t swap_add, compare;
	const struct wqe_av *av; /* datagrams: points into raw */
	uint64_t length; /* of the payload */
	uint32_t inline_len; /* part of length that is inline */
	uint32_t nsegs;
	struct dma_seg segs[WQE_MAX_UNITS]; /* the payload in order, in this process */
	uint8_t raw[WQE_MAX_UNITS * WQE_UNIT] __attribute__((aligned(16)));
};

/*
 * Copies the entry at block @index from the queue of @qp (of any process) and decodes its
 * control segment. Returns 0, or a syndrome if it cannot be read; then it counts as one block.
 */
enum syndrome wqe_fetch(const struct qp *qp, uint32_t index, struct wqe *w);

/*
 * Decodes the other segments and checks the local ones as the adapter does: key, PD, bounds,
 * permission. The QP must belong to this process.
 */
enum syndrome wqe_decode(const struct qp *qp, struct wqe *w);

/* Returns the number of blocks that an entry occupies. */
static inline uint32_t wqe_blocks(const struct wqe *w)
{
	uint32_t n = (w->units + 3u) / 4u;

	return n ? n : 1;
}

/* Returns true if the entry has a length, and no more than the @posted blocks. */
static inline bool wqe_fits(const struct wqe *w, uint32_t posted)
{
	return w->units - 1u < posted * (WQE_BLOCK / WQE_UNIT);
}

/*
 * If the entry is longer than the @posted blocks, shortens it to them (to one block if @posted is
 * 0).
 */
static inline void wqe_cut(struct wqe *w, uint32_t posted)
{
	if (wqe_blocks(w) > posted)
		w->units = (uint8_t)(posted * (WQE_BLOCK / WQE_UNIT));
}

/*
 * Translates @addr of the region with @key into @seg. Returns false if the region does not
 * belong to @pd, does not permit all of @access, or does not contain the @len bytes.
 */
bool mr_translate(uint32_t key, uint32_t pd, uint32_t access, uint64_t addr, uint64_t len,
	struct dma_seg *seg);

#endif
