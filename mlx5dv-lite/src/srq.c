/* SPDX-License-Identifier: MIT */
/* The shared receive queue: a linked list that the device follows and software extends. */
#include <endian.h>

#include "base/compiler.h"
#include "internal.h"

#define INVALID_LKEY 0x100 /* key of the segment that ends a receive's list of data segments */

static void write_receive(struct mlx5dvl_srq *srq, uint32_t i, const struct mlx5dvl_srq_attr *attr)
{
	mlx5dvl_word_ *wqe = (mlx5dvl_word_ *)(void *)(srq->wqes + ((size_t)i << srq->shift));
	mlx5dvl_word_ *seg = wqe + 2;

	/* Bytes 2 and 3: the index of the next receive. */
	wqe[0] = htobe64((uint64_t)(uint16_t)(i + 1) << 32);
	wqe[1] = 0;
	if (srq->buf) {
		seg[0] = htobe64((uint64_t)attr->buf_size << 32 | attr->lkey);
		seg[1] = htobe64((uintptr_t)srq->buf + (uint64_t)i * srq->buf_size);
	} else {
		seg[0] = htobe64(INVALID_LKEY);
		seg[1] = 0;
	}
}

void srq_init(struct mlx5dvl_srq *srq, void *wqes, uint32_t shift, uint32_t depth, uint32_t *record,
	const struct mlx5dvl_srq_attr *attr)
{
	srq->wqes = wqes;
	srq->record = record;
	srq->shift = shift;
	srq->depth = depth;
	srq->posted = 0;
	srq->enough = (depth * 2 + 2) / 3;
	srq->count = 0;
	srq->tail = (uint16_t)depth;
	srq->buf = attr->buf_size ? attr->buf : NULL;
	/* With depth 1, only one of the two entries is posted at a time. They share a buffer, which
	 * then stays in the cache. */
	srq->buf_size = depth > 1 ? attr->buf_size : 0;
	for (uint32_t i = 0; i <= depth; i++)
		write_receive(srq, i, attr);
}

/* The list is linked and the receives never change, so posting only updates the counter. */
NOINLINE uint32_t mlx5dvl_srq_post_(struct mlx5dvl_srq *srq)
{
	uint32_t n = srq->depth - srq->posted;

	srq->posted = srq->depth;
	srq->count += (uint16_t)n;
	/* Also orders this record after the CQ's consumer record, which must be stored first. */
	mlx5dvl_entries_before_record_();
	__atomic_store_n(srq->record, htobe32(srq->count), __ATOMIC_RELAXED);
	return n;
}

size_t mlx5dvl_srq_buf_len(uint32_t depth, uint32_t buf_size)
{
	return ((size_t)(depth ? depth : SRQ_DEFAULT_DEPTH) + (depth != 1)) * buf_size;
}
