/* SPDX-License-Identifier: MIT */
/*
 * The slice planner cuts a request into slices. It computes lengths and offsets, and does not
 * depend on rails or memory.
 *
 * A slice is never empty and never crosses a cut, which is an offset at which the local or the
 * remote memory registration changes. A tail of less than PLAN_TAIL bytes is added to the slice
 * before it.
 */
#ifndef TENT_PLAN_H
#define TENT_PLAN_H

#include <stdint.h>

#define PLAN_GRANULE (64u << 10) /* block sizes are multiples of it */
#define PLAN_TAIL (PLAN_GRANULE / 4)
#define PLAN_BLOCK_MAX (1u << 30) /* an RDMA message has at most 2^31 bytes */
/* Maximum numbers of slices of a read and of a write, in modes smart and baseline. */
#define PLAN_READ_SLICES 64
#define PLAN_WRITE_SLICES 32
#define PLAN_LENGTH_MAX (1ull << 50)

struct plan {
	uint64_t at, length;
	const uint64_t *cuts; /* ascending, between 0 and length; owned by the caller */
	uint32_t n_cuts, cut; /* cut: the index of the first cut after @at */
};

/* 0, or -EINVAL: the length is 0 or above PLAN_LENGTH_MAX, or the cuts do not ascend within it. */
int plan_init(struct plan *p, uint64_t length, const uint64_t *cuts, uint32_t n_cuts);

/* Bytes that are not cut yet. */
static inline uint64_t plan_left(const struct plan *p)
{
	return p->length - p->at;
}

/* Returns the length that plan_next() would return; 0 when nothing is left. */
uint64_t plan_peek(const struct plan *p, uint64_t block);

/* Cuts the next slice, of about @block bytes. Returns its length; 0 when nothing is left. */
uint64_t plan_next(struct plan *p, uint64_t block, uint64_t *offset_p);

/* The number of slices of about @block bytes that are left. */
uint64_t plan_count(const struct plan *p, uint64_t block);

/*
 * The block size of modes smart and baseline: at most @max_slices slices of whole granules
 * (more only if cuts or PLAN_BLOCK_MAX require it).
 */
uint64_t plan_block(uint64_t length, uint32_t max_slices);

/*
 * The block size of mode pull, from one granule to 256 KiB. With about four slices per rail, the
 * scheduler can give fast rails more slices than slow ones, and all rails finish at about the same
 * time. At 200 Gb/s a slice of more than 256 KiB would only delay the requests after it.
 */
uint64_t plan_pull_block(uint64_t length, uint32_t rails);

#endif
