/* SPDX-License-Identifier: MIT */
#include "xport/free.h"

#include <assert.h>
#include <stddef.h>

#include "hca/event.h"
#include "hca/journal.h"
#include "hca/trace.h"
#include "xport/copy.h"
#include "xport/wired.h"

/*
 * Adds *part to *sum and clears *part, in one step of the journal: if this process is killed, both
 * are done or neither is.
 */
static void move(uint64_t *sum, uint64_t *part)
{
	journal_begin();
	journal_store64(sum, *sum + *part);
	journal_store64(part, 0);
	journal_commit();
}

void obj_free(enum obj_kind kind, uint32_t index)
{
	struct arena *a = arena();
	struct softhca_counters *counts = counters_of(obj_at(kind, index)->owner);

	assert(fabric_whole());
	if (kind == OBJ_QP) {
		move(&counts->recvs, &a->qps[index].recvs);
		copy_abandon(&a->qps[index]);
		wired_stop(&a->qps[index]);
		a->qp_gen[index]++;
		trace_free(a->qps[index].trace);
	}
	if (kind == OBJ_SRQ)
		move(&counts->recvs, &a->srqs[index].recvs);
	if (kind == OBJ_CQ) {
		move(&counts->cqes, &a->cqs[index].cqes);
		trace_free(a->cqs[index].trace);
	}
	if (kind == OBJ_MR) {
		const struct mr *mr = &a->mrs[index];

		a->mr_gen[index]++;
		a->procs[mr->obj.owner].locked -= mr_locked(mr);
	}
	if (kind == OBJ_CTX)
		fifo_remove(a->ctxs[index].fifo);
	obj_retract(kind, index);
}

/*
 * Frees the objects whose member at offset @field of struct obj is @value. QPs are freed first,
 * because they use objects of the other kinds.
 */
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

/*
 * Marks the QPs that are connected to QPs of a process that has ended, so that the next message of
 * a marked QP fails (verdict V_DEAD) even after its peer has been freed.
 */
static void tell_peers(uint32_t slot)
{
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		struct qp *qp = &arena()->qps[i];
		const struct qp *peer = qp_by_number(qp->attr.dest_qpn);

		if (qp->obj.used && qp->type == QPT_RC && !qp->wired && peer &&
			peer->obj.owner == slot && peer->attr.dest_qpn == qp->qpn)
			qp->peer_ended = 1;
	}
}

void objects_reap(uint32_t slot)
{
	tell_peers(slot);
	free_where(offsetof(struct obj, owner), slot);
}
