/* SPDX-License-Identifier: MIT */
#include "hca/journal.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "abi/wire.h"
#include "fabric/fabric.h"
#include "fabric/latch.h"
#include "hca/cq.h"

void journal_begin(void)
{
	struct journal *j = &fabric_lane()->journal;

	j->nstores = 0;
	j->ncqes = 0;
}

void journal_store(uint32_t *field, uint32_t value)
{
	struct journal *j = &fabric_lane()->journal;

	j->stores[j->nstores].offset = (uint32_t)((char *)field - (char *)arena());
	j->stores[j->nstores].value = value;
	j->nstores++;
}

void journal_store64(uint64_t *field, uint64_t value)
{
	uint32_t halves[2];

	memcpy(halves, &value, sizeof(halves));
	journal_store((uint32_t *)field, halves[0]);
	journal_store((uint32_t *)field + 1, halves[1]);
}

void journal_cqe(uint32_t cq, const void *bytes)
{
	struct journal *j = &fabric_lane()->journal;
	struct journal_cqe *e = &j->cqes[j->ncqes];

	assert(latch_held(&arena()->cqs[cq].latch));
	e->cq = cq;
	e->index = arena()->cqs[cq].producer;
	/* Two completions of one step may go to the same queue. */
	for (uint32_t i = 0; i < j->ncqes; i++)
		e->index += j->cqes[i].cq == cq;
	memcpy(e->bytes, bytes, sizeof(e->bytes));
	j->ncqes++;
}

_Static_assert(_Alignof(struct journal_cqe) >= _Alignof(struct cqe64), "cq_notify() reads `bytes`");

/* If the process dies in the last loop, an event may be sent twice, but none is lost. */
static void apply(const struct journal *j)
{
	for (uint32_t i = 0; i < j->ncqes; i++)
		cq_write(&arena()->cqs[j->cqes[i].cq], j->cqes[i].index, j->cqes[i].bytes);
	for (uint32_t i = 0; i < j->nstores; i++)
		*(uint32_t *)((char *)arena() + j->stores[i].offset) = j->stores[i].value;
	for (uint32_t i = 0; i < j->ncqes; i++)
		cq_notify(&arena()->cqs[j->cqes[i].cq], j->cqes[i].bytes);
}

/*
 * Compiler fences are enough: all stores that a killed holder executed are visible, in
 * program order, when the next holder gets the mutex or the lane.
 */
void journal_commit(void)
{
	struct journal *j = &fabric_lane()->journal;

	atomic_signal_fence(memory_order_seq_cst);
	j->active = 1;
	atomic_signal_fence(memory_order_seq_cst);
	apply(j);
	atomic_signal_fence(memory_order_seq_cst);
	j->active = 0;
}

void journal_replay(struct journal *j)
{
	if (!j->active)
		return;
	arena()->replays++;
	apply(j);
	j->active = 0;
}
