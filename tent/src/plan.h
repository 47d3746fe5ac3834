/* SPDX-License-Identifier: MIT */
/*
 * The slice planner cuts a request into slices. It is arithmetic over lengths and offsets, and
 * knows no rails and no memory.
 *
 * A slice is never empty and never crosses a cut, an offset at which the local or the
 * remote memory registration changes. A tail of less than PLAN_TAIL bytes is not a slice
 * of its own but lengthens the slice before it.
 */
#ifndef TENT_PLAN_H
#define TENT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_GRANULE (64u << 10)
#define PLAN_TAIL (PLAN_GRANULE / 4)
#define PLAN_BLOCK_MAX (1u << 30) /* an RDMA message has at most 2^31 bytes */
#define PLAN_READ_SLICES 64 /* most slices of a request, modes smart and baseline */
#define PLAN_WRITE_SLICES 32
#define PLAN_LENGTH_MAX (1ull << 50)

struct plan {
	uint64_t at, length;
	const uint64_t *cuts; /* ascending, between 0 and length; the caller's */
	uint32_t n_cuts, cut; /* cut: the first one beyond at */
};

/* 0, or -EINVAL: a length of 0 or over PLAN_LENGTH_MAX, cuts that do not ascend within it. */
int plan_init(struct plan *p, uint64_t length, const uint64_t *cuts, uint32_t n_cuts);

/* Bytes that are not cut yet. */
static inline uint64_t plan_left(const struct plan *p)
{
	return p->length - p->at;
}

/* The length that plan_next() would give; 0 when nothing is left. */
uint64_t plan_peek(const struct plan *p, uint64_t block);

/* The next slice, of about block bytes; its length, 0 when nothing is left. */
uint64_t plan_next(struct plan *p, uint64_t block, uint64_t *offset_p);

/* The number of slices of about block bytes that are left. */
uint64_t plan_count(const struct plan *p, uint64_t block);

/*
 * The block of modes smart and baseline: at most max_slices slices of whole granules
 * (more only where cuts or PLAN_BLOCK_MAX require it).
 */
uint64_t plan_block(uint64_t length, uint32_t max_slices);

/*
 * The block of mode pull: about four slices per rail, so that the slices of the fast
 * rails and the last ones can be placed well, from one granule to 256 KiB: on 200 Gb/s a
 * longer slice would hold up the requests behind it and gain nothing.
 */
uint64_t plan_pull_block(uint64_t length, uint32_t rails);

#endif
