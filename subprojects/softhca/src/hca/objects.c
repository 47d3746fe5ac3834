/* SPDX-License-Identifier: MIT */
#include "hca/objects.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "fabric/reserve.h"

const struct obj_table obj_tables[OBJ_KINDS] = {
	[OBJ_CTX] = {offsetof(struct arena, ctxs), sizeof(struct ctx), 0, MAX_CTXS},
	[OBJ_PD] = {offsetof(struct arena, pds), sizeof(struct pd), 1, MAX_PDS},
	[OBJ_AH] = {offsetof(struct arena, ahs), sizeof(struct ah), 1, MAX_AHS},
	[OBJ_MR] = {offsetof(struct arena, mrs), sizeof(struct mr), FIRST_MR_INDEX, MAX_MRS},
	[OBJ_CQ] = {offsetof(struct arena, cqs), sizeof(struct cq), 1, MAX_CQS},
	[OBJ_SRQ] = {offsetof(struct arena, srqs), sizeof(struct srq), 1, MAX_SRQS},
	[OBJ_QP] = {offsetof(struct arena, qps), sizeof(struct qp), FIRST_QP_INDEX, MAX_QPS},
};

/* Allocates memory for a new entry of its table, and for its entries in tables beside it. */
static int reserve_entry(enum obj_kind kind, uint32_t i)
{
	struct arena *a = arena();
	int r = reserve(obj_at(kind, i), obj_tables[kind].stride);

	if (!r && kind == OBJ_QP)
		r = reserve(&a->qp_gen[i], sizeof(a->qp_gen[i]));
	if (!r && kind == OBJ_QP && a->chaos)
		r = reserve(&a->owed[i], sizeof(a->owed[i]));
	if (!r && kind == OBJ_MR)
		r = reserve(&a->mr_gen[i], sizeof(a->mr_gen[i]));
	if (!r && kind == OBJ_CQ)
		r = reserve(&a->comp_runs[i], sizeof(a->comp_runs[i]));
	return r;
}

uint32_t obj_alloc(enum obj_kind kind, uint32_t ctx)
{
	const struct obj_table *t = &obj_tables[kind];
	uint32_t *high = &arena()->high[kind];

	for (uint32_t i = t->first; i < t->max; i++) {
		struct obj *o = obj_at(kind, i);

		if (i < *high && o->used)
			continue;
		if (i >= *high && reserve_entry(kind, i))
			return NO_INDEX;
		memset(o, 0, t->stride);
		o->owner = fabric_self.slot;
		o->ctx = ctx;
		if (i >= *high)
			*high = i + 1;
		return i;
	}
	return NO_INDEX;
}

void obj_publish(enum obj_kind kind, uint32_t index)
{
	obj_at(kind, index)->used = 1;
}

void *obj_of_ctx(enum obj_kind kind, uint32_t index, uint32_t ctx)
{
	struct obj *o;

	if (index < obj_tables[kind].first || index >= arena()->high[kind])
		return NULL;
	o = obj_at(kind, index);
	return o->used && o->owner == fabric_self.slot && o->ctx == ctx ? o : NULL;
}

static void clear_refs(uint32_t slot)
{
	for (int kind = 0; kind < OBJ_KINDS; kind++) {
		for (uint32_t i = obj_tables[kind].first; i < arena()->high[kind]; i++) {
			struct obj *o = obj_at(kind, i);

			if (o->owner == slot)
				o->refs = 0;
		}
	}
}

static void count_refs(const struct obj *o, enum obj_kind kind)
{
	struct arena *a = arena();
	const struct qp *qp = (const struct qp *)o;

	switch (kind) {
	case OBJ_AH:
		a->pds[((const struct ah *)o)->pd].obj.refs++;
		break;
	case OBJ_MR:
		a->pds[((const struct mr *)o)->pd].obj.refs++;
		break;
	case OBJ_SRQ:
		a->pds[((const struct srq *)o)->pd].obj.refs++;
		break;
	case OBJ_QP:
		a->pds[qp->pd].obj.refs++;
		a->cqs[qp->send_cq].obj.refs++;
		a->cqs[qp->recv_cq].obj.refs++;
		if (qp->srq != NO_INDEX)
			a->srqs[qp->srq].obj.refs++;
		break;
	default:
		break;
	}
}

void objects_recount(uint32_t slot)
{
	clear_refs(slot);
	for (int kind = 0; kind < OBJ_KINDS; kind++) {
		for (uint32_t i = obj_tables[kind].first; i < arena()->high[kind]; i++) {
			const struct obj *o = obj_at(kind, i);

			if (o->used && o->owner == slot)
				count_refs(o, kind);
		}
	}
}

struct qp *qp_by_number(uint32_t qpn)
{
	uint32_t i = qpn & (MAX_QPS - 1);
	struct qp *qp;

	if (i < FIRST_QP_INDEX || i >= arena()->high[OBJ_QP])
		return NULL;
	qp = &arena()->qps[i];
	return qp->obj.used && qp->qpn == qpn ? qp : NULL;
}

struct mr *mr_by_key(uint32_t key)
{
	uint32_t i = key >> 8;
	struct mr *mr;

	if (i < FIRST_MR_INDEX || i >= arena()->high[OBJ_MR])
		return NULL;
	mr = &arena()->mrs[i];
	return mr->obj.used && mr->key == key ? mr : NULL;
}
