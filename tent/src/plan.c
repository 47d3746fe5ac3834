/* SPDX-License-Identifier: MIT */
#include "plan.h"

#include <errno.h>

#include "base/compiler.h"

#define PULL_SLICES_PER_RAIL 4
#define PULL_BLOCK_MAX (256u << 10)

int plan_init(struct plan *p, uint64_t length, const uint64_t *cuts, uint32_t n_cuts)
{
	uint64_t last = 0;

	if (!length || length > PLAN_LENGTH_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < n_cuts; i++) {
		if (cuts[i] <= last || cuts[i] >= length)
			return -EINVAL;
		last = cuts[i];
	}
	*p = (struct plan){.length = length, .cuts = cuts, .n_cuts = n_cuts};
	return 0;
}

uint64_t plan_peek(const struct plan *p, uint64_t block)
{
	uint64_t end = p->cut < p->n_cuts ? p->cuts[p->cut] : p->length;
	uint64_t left = end - p->at;

	return left < block + PLAN_TAIL ? left : block;
}

uint64_t plan_next(struct plan *p, uint64_t block, uint64_t *offset_p)
{
	uint64_t len = plan_peek(p, block);

	if (!len)
		return 0;
	*offset_p = p->at;
	p->at += len;
	if (p->cut < p->n_cuts && p->at == p->cuts[p->cut])
		p->cut++;
	return len;
}

uint64_t plan_count(const struct plan *p, uint64_t block)
{
	struct plan copy = *p;
	uint64_t offset, n = 0;

	while (plan_next(&copy, block, &offset))
		n++;
	return n;
}

uint64_t plan_block(uint64_t length, uint32_t max_slices)
{
	uint64_t n = (length + PLAN_GRANULE - 1) / PLAN_GRANULE;
	uint64_t tail = length % PLAN_GRANULE, block;

	if (n > 1 && tail && tail < PLAN_TAIL)
		n--;
	if (n > max_slices)
		n = max_slices;
	block = align_up((length + n - 1) / n, PLAN_GRANULE);
	return block < PLAN_BLOCK_MAX ? block : PLAN_BLOCK_MAX;
}

uint64_t plan_pull_block(uint64_t length, uint32_t rails)
{
	uint64_t block = length / PULL_SLICES_PER_RAIL / rails / PLAN_GRANULE * PLAN_GRANULE;

	if (block < PLAN_GRANULE)
		return PLAN_GRANULE;
	return block < PULL_BLOCK_MAX ? block : PULL_BLOCK_MAX;
}
