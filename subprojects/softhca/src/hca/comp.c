/* SPDX-License-Identifier: MIT */
#include "hca/comp.h"

#include <endian.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "hca/cqe.h"
#include "hca/objects.h"

#define FORMAT_COMPRESSED 0x0c
#define MINIS 8u /* mini-CQEs per array */

struct mini {
	uint16_t wqe_counter; /* requester only */
	uint8_t wqe_opcode; /* requester only */
	uint8_t reserved;
	uint32_t byte_cnt;
};

_Static_assert(offsetof(struct comp_run, title) % _Alignof(struct cqe64) == 0,
	"fits() reads `title`");

static struct comp_run *run_of(const struct cq *cq)
{
	return &arena()->comp_runs[cq_index(cq)];
}

static bool is_request(const struct cqe64 *cqe)
{
	return cqe->op_own >> 4 == CQE_REQ;
}

static uint64_t make_mini(const struct cqe64 *cqe)
{
	struct mini m = {.byte_cnt = cqe->byte_cnt};
	uint64_t v;

	if (is_request(cqe)) {
		m.wqe_counter = cqe->wqe_counter;
		m.wqe_opcode = (uint8_t)(be32toh(cqe->sop_drop_qpn) >> 24);
	}
	memcpy(&v, &m, sizeof(v));
	return v;
}

/* Returns true if completion number @n of a run can be expressed by the title and a mini-CQE. */
static bool fits(const struct cqe64 *title, uint32_t n, const struct cqe64 *cqe)
{
	struct cqe64 t = *title;

	if (cqe->op_own >> 4 >= CQE_REQ_ERR)
		return false;
	t.byte_cnt = cqe->byte_cnt;
	t.timestamp = cqe->timestamp; /* every completion of a run gets the title's timestamp */
	if (is_request(cqe)) {
		t.wqe_counter = cqe->wqe_counter;
		t.sop_drop_qpn &= htobe32(0xffffff);
		t.sop_drop_qpn |= cqe->sop_drop_qpn & htobe32(0xff000000);
	} else {
		t.wqe_counter = htobe16((uint16_t)(be16toh(t.wqe_counter) + n));
	}
	return !memcmp(&t, cqe, sizeof(t));
}

/* Adds the queue to the lane's list of runs. If the list is full, writes the CQ's run out. */
static void enlist(struct cq *cq)
{
	uint32_t *list = fabric_lane()->comp_queues;

	for (uint32_t i = 0; i < COMP_QUEUES; i++) {
		if (list[i] == cq_index(cq))
			return;
		if (!list[i]) {
			list[i] = cq_index(cq);
			return;
		}
	}
	comp_flush(cq);
}

void comp_add(struct cq *cq, uint32_t index, const struct cqe64 *cqe)
{
	struct comp_run *run = run_of(cq);

	if (run->n && index - run->index < run->n) {
		enlist(cq); /* the step is replayed: the list may lack the CQ of this run */
		return;
	}
	if (run->n && (run->n == COMP_MAX || !fits((struct cqe64 *)run->title, run->n, cqe)))
		comp_flush(cq);
	if (!run->n) {
		run->index = index;
		memcpy(run->title, cqe, sizeof(*cqe));
	}
	run->mini[run->n] = make_mini(cqe);
	atomic_signal_fence(memory_order_seq_cst); /* an entry is complete before `n` counts it */
	run->n++;
	atomic_signal_fence(memory_order_seq_cst);
	enlist(cq);
}

/* The title is written last, because the reader reads the mini-CQEs after the title. */
void comp_flush(struct cq *cq)
{
	struct comp_run *run = run_of(cq);
	struct cqe64 title;

	if (!run->n)
		return;
	memcpy(&title, run->title, sizeof(title));
	if (run->n > 1) {
		memset(run->mini + run->n, 0, (COMP_MAX - run->n) * sizeof(run->mini[0]));
		for (uint32_t i = 0; i < run->n; i += MINIS)
			cq_store_raw(cq, run->index + (i ? i : 1), run->mini + i);
		title.op_own |= FORMAT_COMPRESSED;
		title.byte_cnt = htobe32(run->n);
	}
	cq_store(cq, run->index, title);
	run->n = 0;
}
