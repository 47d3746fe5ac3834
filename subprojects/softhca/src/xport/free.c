/* SPDX-License-Identifier: MIT */
#include "xport/free.h"

#include <stddef.h>

#include "hca/event.h"
#include "hca/trace.h"
#include "xport/copy.h"
#include "xport/wired.h"

void obj_free(enum obj_kind kind, uint32_t index)
{
	struct arena *a = arena();

	if (kind == OBJ_QP) {
		copy_abandon(&a->qps[index]);
		wired_stop(&a->qps[index]);
		a->qp_gen[index]++;
		trace_free(a->qps[index].trace);
	}
	if (kind == OBJ_CQ)
		trace_free(a->cqs[index].trace);
	if (kind == OBJ_MR)
		a->mr_gen[index]++;
	if (kind == OBJ_CTX)
		fifo_remove(a->ctxs[index].fifo);
	obj_at(kind, index)->used = 0;
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
