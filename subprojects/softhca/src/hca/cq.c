/* SPDX-License-Identifier: MIT */
#include "hca/cq.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "abi/wire.h"
#include "fabric/latch.h"
#include "hca/comp.h"
#include "hca/config.h"
#include "hca/cqe.h"
#include "hca/event.h"
#include "hca/objects.h"
#include "hca/strict.h"
#include "hca/timer.h"
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
	cq->cqes++;
}

/*
 * Goes from the end of the list to its beginning, so that the list has no gap if this process is
 * killed in between.
 */
void cq_flush_runs(uint32_t *list)
{
	struct cq *cq;
	uint32_t n = 0;

	while (n < COMP_QUEUES && list[n])
		n++;
	while (n--) {
		cq = cq_at(list[n]);
		if (!latch_take(&cq->latch))
			return;
		comp_flush(cq);
		list[n] = 0;
		latches_free(0);
	}
}

/* Makes the owner's cq_serve() send the event at @due. */
static void set_due(struct cq *cq, uint64_t due)
{
	event_wait(cq->obj.owner, due);
	/* The last step: if this process dies before it, the journal is replayed. */
	atomic_signal_fence(memory_order_seq_cst);
	cq->event_due = due;
}

/* Writes and counts the event. Returns the result of fifo_post(). */
static int post(struct cq *cq)
{
	int r;

	cq->events_begun++;
	/* Compiler fences are enough: see journal_commit(). */
	atomic_signal_fence(memory_order_seq_cst);
	r = cq->fifo ? fifo_post(cq->fifo, &cq->user_handle, sizeof(cq->user_handle)) : -EPIPE;
	cq->comp_events += !r;
	atomic_signal_fence(memory_order_seq_cst);
	cq->events_ended++;
	return r;
}

static void fire(struct cq *cq)
{
	if (post(cq) == -EAGAIN) {
		set_due(cq, timer_now() + EVENT_RETRY_NS);
		return; /* stays armed */
	}
	/*
	 * The last step: if this process dies before it, the journal is replayed and sends the
	 * event.
	 */
	atomic_signal_fence(memory_order_seq_cst);
	cq->event_due = 0;
	cq->fired = 1 + cq->arm_sn;
	cq->armed = CQ_UNARMED;
}

/* Sends the event, or lets it wait for more completions. */
static void report(struct cq *cq)
{
	uint32_t n = (cq->producer - cq->arm_ci) & CQ_CI_MASK;

	if (!cq->event_period || n >= cq->event_count) {
		fire(cq);
		return;
	}
	if (cq->event_due)
		return;
	set_due(cq, timer_now() + cq->event_period * 1000ull);
}

uint64_t cq_serve(uint64_t now)
{
	uint64_t *first = &arena()->procs[fabric_self.slot].cq_due, next = 0;

	if (!*first || now < *first)
		return *first;
	for (uint32_t i = 1; i < arena()->high[OBJ_CQ]; i++) {
		struct cq *cq = cq_at(i);

		if (!cq->obj.used || cq->obj.owner != fabric_self.slot || !cq->event_due)
			continue;
		if (cq->event_due <= now)
			fire(cq);
		if (cq->event_due && (!next || cq->event_due < next))
			next = cq->event_due;
	}
	if (async_serve() && (!next || now + EVENT_RETRY_NS < next))
		next = now + EVENT_RETRY_NS;
	*first = next;
	return next;
}

int cq_withdraw(struct cq *cq, uint32_t read)
{
	int dropped = 0;

	if (cq->fifo && cq->events_begun)
		dropped = fifo_drop(cq->fifo, cq->user_handle, sizeof(cq->user_handle));
	if (dropped < 0)
		return dropped;
	cq->comp_events =
		cq->events_begun == cq->events_ended ? cq->comp_events - (uint32_t)dropped : read;
	return 0;
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
	if (cq->armed == CQ_ARMED_NEXT ||
		(cq->armed == CQ_ARMED_SOLICITED && (solicited || cq->event_due)))
		report(cq);
}

/*
 * If there are completions between the consumer index in the arm word and the producer, they were
 * written before the program armed the queue. They are treated as if they came now, so that no
 * event is missed. Each sequence number causes only one event: if the program arms again with the
 * same number, the earlier event is still unread and wakes the program.
 */
void cq_arm(struct cq *cq, uint32_t word)
{
	uint32_t behind = (cq->producer - (word & CQ_CI_MASK)) & CQ_CI_MASK;
	uint32_t since_solicited = cq->producer - cq->solicited;

	if (config_get()->strict && config_get()->mode == ENGINE_TRAP)
		strict_arm(cq, word);
	if (cq->fired == 1 + CQ_ARM_SN(word))
		return;
	cq->arm_sn = CQ_ARM_SN(word);
	cq->arm_ci = word & CQ_CI_MASK;
	cq->armed = word & ARM_SOLICITED ? CQ_ARMED_SOLICITED : CQ_ARMED_NEXT;
	if (!behind)
		cq->event_due = 0;
	else if (cq->armed == CQ_ARMED_NEXT || since_solicited < behind)
		report(cq);
}
