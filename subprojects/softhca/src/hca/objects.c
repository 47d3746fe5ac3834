/* SPDX-License-Identifier: MIT */
#include "hca/objects.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "fabric/reserve.h"

/* Index of the first word of each kind in `taken`. */
enum {
	WORD_CTX = 0,
	WORD_PD = WORD_CTX + MAX_CTXS / 64,
	WORD_AH = WORD_PD + MAX_PDS / 64,
	WORD_MR = WORD_AH + MAX_AHS / 64,
	WORD_CQ = WORD_MR + MAX_MRS / 64,
	WORD_SRQ = WORD_CQ + MAX_CQS / 64,
	WORD_QP = WORD_SRQ + MAX_SRQS / 64,
};

#define TABLE(field, object, first, max, word)                                                     \
	{                                                                                          \
		offsetof(struct arena, field), sizeof(struct object), first, max, word             \
	}

const struct obj_table obj_tables[OBJ_KINDS] = {
	[OBJ_CTX] = TABLE(ctxs, ctx, 0, MAX_CTXS, WORD_CTX),
	[OBJ_PD] = TABLE(pds, pd, 1, MAX_PDS, WORD_PD),
	[OBJ_AH] = TABLE(ahs, ah, 1, MAX_AHS, WORD_AH),
	[OBJ_MR] = TABLE(mrs, mr, FIRST_MR_INDEX, MAX_MRS, WORD_MR),
	[OBJ_CQ] = TABLE(cqs, cq, 1, MAX_CQS, WORD_CQ),
	[OBJ_SRQ] = TABLE(srqs, srq, 1, MAX_SRQS, WORD_SRQ),
	[OBJ_QP] = TABLE(qps, qp, FIRST_QP_INDEX, MAX_QPS, WORD_QP),
};

/*
 * Allocates memory for entry @i of the kind's table, and for the entries with the same index in
 * other tables.
 */
static int reserve_entry(enum obj_kind kind, uint32_t i)
{
	struct arena *a = arena();
	int r = reserve_object(obj_at(kind, i), obj_tables[kind].stride);

	if (!r && kind == OBJ_QP)
		r = reserve_object(&a->qp_gen[i], sizeof(a->qp_gen[i]));
	if (!r && kind == OBJ_QP && a->chaos)
		r = reserve_object(&a->owed[i], sizeof(a->owed[i]));
	if (!r && kind == OBJ_MR)
		r = reserve_object(&a->mr_gen[i], sizeof(a->mr_gen[i]));
	if (!r && kind == OBJ_CQ)
		r = reserve_object(&a->comp_runs[i], sizeof(a->comp_runs[i]));
	return r;
}

static void set_bit(uint64_t *map, uint32_t i)
{
	map[i / 64] |= 1ull << (i % 64);
}

static void clear_bit(uint64_t *map, uint32_t i)
{
	map[i / 64] &= ~(1ull << (i % 64));
}

static void take(const struct obj_table *t, uint32_t index)
{
	uint32_t word = t->word + index / 64;

	set_bit(arena()->taken + t->word, index);
	if (!~arena()->taken[word])
		set_bit(arena()->taken_full, word);
}

/*
 * Returns the first word from @word on that is not full. Returns @end or more if no word before
 * @end has room.
 */
static uint32_t with_room(uint32_t word, uint32_t end)
{
	while (word < end) {
		uint64_t rest = ~arena()->taken_full[word / 64] >> (word % 64);

		if (rest)
			return word + (uint32_t)__builtin_ctzll(rest);
		word = (word / 64 + 1) * 64;
	}
	return end;
}

static uint32_t find_free(enum obj_kind kind)
{
	const struct obj_table *t = &obj_tables[kind];
	uint32_t end = t->word + t->max / 64;

	for (uint32_t w = t->word; (w = with_room(w, end)) < end; w++) {
		for (uint64_t bits = ~arena()->taken[w]; bits; bits &= bits - 1) {
			uint32_t i = (w - t->word) * 64 + (uint32_t)__builtin_ctzll(bits);

			if (i >= t->first && (i >= arena()->high[kind] || !obj_at(kind, i)->used))
				return i;
			take(t, i);
		}
	}
	return NO_INDEX;
}

int obj_alloc(enum obj_kind kind, uint32_t ctx)
{
	uint32_t i = find_free(kind);
	uint32_t *high = &arena()->high[kind];
	struct obj *o;
	int r = 0;

	if (i == NO_INDEX)
		return -ENOMEM;
	if (i >= *high)
		r = reserve_entry(kind, i);
	if (r)
		return r;
	o = obj_at(kind, i);
	memset(o, 0, obj_tables[kind].stride);
	o->owner = fabric_self.slot;
	o->ctx = ctx;
	if (i >= *high)
		*high = i + 1;
	return (int)i;
}

/* The bits are set last and cleared first, so every set bit belongs to a used entry. */
void obj_publish(enum obj_kind kind, uint32_t index)
{
	obj_at(kind, index)->used = 1;
	atomic_signal_fence(memory_order_seq_cst);
	take(&obj_tables[kind], index);
}

void obj_retract(enum obj_kind kind, uint32_t index)
{
	const struct obj_table *t = &obj_tables[kind];

	clear_bit(arena()->taken_full, t->word + index / 64);
	atomic_signal_fence(memory_order_seq_cst);
	clear_bit(arena()->taken + t->word, index);
	atomic_signal_fence(memory_order_seq_cst);
	obj_at(kind, index)->used = 0;
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
	arena()->procs[slot].locked = 0;
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
	const struct mr *mr = (const struct mr *)o;

	switch (kind) {
	case OBJ_AH:
		a->pds[((const struct ah *)o)->pd].obj.refs++;
		break;
	case OBJ_MR:
		a->pds[mr->pd].obj.refs++;
		a->procs[o->owner].locked += mr_locked(mr);
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
