/* SPDX-License-Identifier: MIT */
#include "hca/trace.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "fabric/reserve.h"
#include "hca/config.h"
#include "hca/objects.h"

#define API __attribute__((visibility("default")))

uint32_t trace_alloc(void)
{
	if (!config_flag("SOFTHCA_TRACE"))
		return 0;
	for (uint32_t i = 0; i < SOFTHCA_TRACE_RINGS; i++) {
		struct trace_ring *t = &arena()->traces[i];

		if (reserve(t, sizeof(*t)))
			return 0;
		if (t->used)
			continue;
		t->used = 1;
		t->next = 0;
		return i + 1;
	}
	return 0;
}

void trace_free(uint32_t ring)
{
	if (ring)
		arena()->traces[ring - 1].used = 0;
}

void trace_wqe(struct qp *qp, const struct wqe *w, enum syndrome s)
{
	struct trace_ring *t;

	if (!qp->trace)
		return;
	t = &arena()->traces[qp->trace - 1];
	t->wqes[t->next % SOFTHCA_TRACE_DEPTH] = (struct softhca_wqe_record){
		.seq = t->next,
		.raddr = w->raddr,
		.rkey = w->rkey,
		.imm = w->imm,
		.length = (uint32_t)w->length,
		.inline_len = w->inline_len,
		.index = (uint16_t)qp->sq_done,
		.wqe_index = w->index,
		.opcode = w->opcode,
		.units = w->units,
		.segments = (uint8_t)w->nsegs,
		.flags = w->flags,
		.syndrome = (uint8_t)s,
	};
	t->next++;
}

void trace_cqe(struct cq *cq, uint32_t index, const struct cqe64 *cqe)
{
	struct trace_ring *t;
	uint8_t op = cqe->op_own >> 4;
	bool error = op == CQE_REQ_ERR || op == CQE_RESP_ERR;
	uint32_t sop = be32toh(cqe->sop_drop_qpn);

	if (!cq->trace)
		return;
	t = &arena()->traces[cq->trace - 1];
	if (index != (uint32_t)t->next)
		return; /* the step is being replayed: the CQE is recorded already */
	t->cqes[t->next % SOFTHCA_TRACE_DEPTH] = (struct softhca_cqe_record){
		.seq = index,
		.qpn = sop & 0xffffff,
		.byte_cnt = error ? 0 : be32toh(cqe->byte_cnt),
		.imm = cqe->imm,
		.wqe_counter = be16toh(cqe->wqe_counter),
		.opcode = op,
		.wqe_opcode = (uint8_t)(sop >> 24),
		.syndrome = error ? ((const uint8_t *)cqe)[CQE_SYNDROME] : 0,
	};
	t->next++;
}

/*
 * Copies the records from @from on, at most @n, out of @records, the ring's records of @size bytes
 * each. Returns their number, or -ENODATA if record @from is overwritten.
 */
static int copy_records(const struct trace_ring *t, const void *records, size_t size, uint64_t from,
	void *out, unsigned n)
{
	uint64_t end = from + n < t->next ? from + n : t->next;

	if (from + SOFTHCA_TRACE_DEPTH < t->next)
		return -ENODATA;
	for (uint64_t i = from; i < end; i++)
		memcpy((char *)out + (i - from) * size,
			(const char *)records + i % SOFTHCA_TRACE_DEPTH * size, size);
	return from < end ? (int)(end - from) : 0;
}

API int softhca_trace_wqes(uint32_t qpn, uint64_t from, struct softhca_wqe_record *out, unsigned n)
{
	struct trace_ring *t;
	sigset_t saved;
	struct qp *qp;
	int r;

	if (!fabric_self.arena)
		return -ENODEV;
	if (fabric_enter(&saved))
		return -EIO;
	r = -ENOENT;
	qp = qp_by_number(qpn);
	if (qp && qp->obj.owner == fabric_self.slot && qp->trace) {
		t = &arena()->traces[qp->trace - 1];
		r = copy_records(t, t->wqes, sizeof(t->wqes[0]), from, out, n);
	}
	fabric_leave(&saved);
	return r;
}

API int softhca_trace_cqes(uint32_t cqn, uint64_t from, struct softhca_cqe_record *out, unsigned n)
{
	struct trace_ring *t;
	sigset_t saved;
	struct cq *cq;
	int r;

	if (!fabric_self.arena)
		return -ENODEV;
	if (fabric_enter(&saved))
		return -EIO;
	r = -ENOENT;
	cq = cqn < arena()->high[OBJ_CQ] ? cq_at(cqn) : NULL;
	if (cq && cq->obj.used && cq->obj.owner == fabric_self.slot && cq->trace) {
		t = &arena()->traces[cq->trace - 1];
		r = copy_records(t, t->cqes, sizeof(t->cqes[0]), from, out, n);
	}
	fabric_leave(&saved);
	return r;
}
