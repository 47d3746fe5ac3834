/* SPDX-License-Identifier: MIT */
#include "hca/cq.h"

#include <stdatomic.h>
#include <string.h>

#include "abi/wire.h"
#include "hca/comp.h"
#include "hca/config.h"
#include "hca/cqe.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "hca/trace.h"

#define ARM_SOLICITED (1u << 24)

bool cq_room(struct cq *cq, uint32_t n)
{
	uint32_t size = 1u << cq->log_size;

	if (cq->overrun)
		return false;
	if (cq->ignore_overrun || cq->producer - cq->consumer + n <= size)
		return true;
	cq_read_consumer(cq);
	if (cq->producer - cq->consumer + n <= size)
		return true;
	if (config_get()->strict)
		strict_violation("CQ %u is overrun: all %u places are in use", cq_index(cq), size);
	cq->overrun = 1;
	async_cq(cq, EV_CQ_ERR);
	return false;
}

void cq_write(struct cq *cq, uint32_t index, const void *bytes)
{
	struct cqe64 cqe;

	memcpy(&cqe, bytes, sizeof(cqe));
	if (cq->comp_en)
		comp_add(cq, index, &cqe);
	else
		cq_store(cq, index, cqe);
	cq->producer = index + 1;
	trace_cqe(cq, index, &cqe);
	counters_of(cq->obj.owner)->cqes++;
}

/*
 * Begins at the end of the list, so that the list has no gap if this process is killed meanwhile.
 */
void cq_flush_runs(void)
{
	uint32_t *list = arena()->comp_queues, n = 0;

	while (n < COMP_QUEUES && list[n])
		n++;
	while (n--) {
		comp_flush(cq_at(list[n]));
		list[n] = 0;
	}
}

static void fire(struct cq *cq)
{
	if (cq->fifo) {
		cq->comp_events++;
		fifo_post(cq->fifo, &cq->user_handle, sizeof(cq->user_handle));
	}
	/*
	 * The last step: if this process dies before it, the journal is replayed and sends the
	 * event.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	cq->fired = 1 + cq->arm_sn;
	cq->armed = CQ_UNARMED;
}

static bool is_solicited(const struct cqe64 *cqe)
{
	uint8_t op = cqe->op_own >> 4;

	return (cqe->op_own & CQE_SOLICITED) || op == CQE_REQ_ERR || op == CQE_RESP_ERR;
}

void cq_notify(struct cq *cq, const void *bytes)
{
	bool solicited = is_solicited(bytes);

	if (solicited)
		cq->solicited = cq->producer;
	if (cq->armed == CQ_ARMED_NEXT || (cq->armed == CQ_ARMED_SOLICITED && solicited))
		fire(cq);
}

/*
 * If there are completions between the consumer index in the arm word and the producer, they were
 * written before the program armed the queue. The event is then sent immediately, so that none is
 * missed.
 */
void cq_arm(struct cq *cq, uint32_t word)
{
	uint32_t behind = (cq->producer - (word & CQ_CI_MASK)) & CQ_CI_MASK;
	uint32_t since_solicited = cq->producer - cq->solicited;

	if (config_get()->strict && config_get()->mode == ENGINE_TRAP)
		strict_arm(cq, word);
	cq->arm_sn = CQ_ARM_SN(word);
	cq->armed = word & ARM_SOLICITED ? CQ_ARMED_SOLICITED : CQ_ARMED_NEXT;
	if (!behind)
		return;
	if (cq->armed == CQ_ARMED_NEXT || since_solicited < behind)
		fire(cq);
}
