/* SPDX-License-Identifier: MIT */
#include "xport/free.h"

#include <assert.h>
#include <stddef.h>

#include "hca/event.h"
#include "hca/journal.h"
#include "hca/trace.h"
#include "xport/copy.h"
#include "xport/wired.h"

/* Moves counts in steps of the journal, so that each stays as it is if this process is killed. */
static void move(void *to, void *from, size_t bytes)
{
	uint64_t *sum = (uint64_t *)to, *part = (uint64_t *)from;

	for (size_t i = 0; i < bytes / sizeof(*part); i++) {
		if (!part[i])
			continue;
		journal_begin();
		journal_store64(&sum[i], sum[i] + part[i]);
		journal_store64(&part[i], 0);
		journal_commit();
	}
}

static void free_ctx(uint32_t index)
{
	struct arena *a = arena();
	struct ctx *c = &a->ctxs[index];
	struct tally *t = &a->tallies[index];

	move(&a->procs[c->obj.owner].counters, &t->process, sizeof(t->process));
	move(&a->rails[c->rail].counts, &t->port, sizeof(t->port));
	fifo_remove(c->fifo);
	lanes_part(index);
}

void obj_free(enum obj_kind kind, uint32_t index)
{
	struct arena *a = arena();

	assert(fabric_whole());
	if (kind == OBJ_QP) {
		copy_abandon(&a->qps[index]);
		wired_stop(&a->qps[index]);
		a->qp_gen[index]++;
		trace_free(a->qps[index].trace);
	}
	if (kind == OBJ_CQ)
		trace_free(a->cqs[index].trace);
	if (kind == OBJ_MR) {
		const struct mr *mr = &a->mrs[index];

		a->mr_gen[index]++;
		a->procs[mr->obj.owner].locked -= mr_locked(mr);
	}
	if (kind == OBJ_CTX)
		free_ctx(index);
	obj_retract(kind, index);
}

/* @field: offset of the member of struct obj to compare. QPs first, because they use the others. */
static void free_where(size_t field, uint32_t value)
{
	for (int kind = OBJ_KINDS - 1; kind >= 0; kind--) {
		for (uint32_t i = obj_tables[kind].first; i < arena()->high[kind]; i++) {
			struct obj *o = obj_at(kind, i);

			if (o->used && *(uint32_t *)((char *)o + field) == value)
				obj_free(kind, i);
		}
	}
}

void objects_free_ctx(uint32_t ctx)
{
	free_where(offsetof(struct obj, ctx), ctx);
}

void objects_reap(uint32_t slot)
{
	free_where(offsetof(struct obj, owner), slot);
}
