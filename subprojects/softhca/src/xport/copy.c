/* SPDX-License-Identifier: MIT */
#include "xport/copy.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#include "hca/objects.h"
#include "sys/sys.h"
#include "xport/qp.h"

#define PAUSE_YIELDS 20
#define PAUSE_NS 50000
#define PAUSES_PER_REAP 32

static void set_copying(const struct qp *qp, bool on)
{
	uint32_t i = qp_index(qp);
	uint64_t bit = 1ull << (i % 64);

	if (on)
		arena()->copying[i / 64] |= bit;
	else
		arena()->copying[i / 64] &= ~bit;
}

/*
 * `copy_to` is set first and cleared last: if this process is killed, copy_abandon() finds the
 * other side's `copy_from` through it.
 */
static uint64_t begin(const struct copy *c)
{
	struct qp *qp = c->qp;
	uint32_t self = 1 + qp_index(qp);

	assert(fabric_whole());
	qp->copy_ticket = arena()->next_copy++;
	qp->copy.word = claim_word((uint32_t)qp->copy_ticket);
	qp->copy_peer = c->dest->obj.owner;
	qp->copy_srq = c->srq ? 1 + (uint32_t)(c->srq - arena()->srqs) : 0;
	qp->copy_to = 1 + qp_index(c->dest);
	atomic_signal_fence(memory_order_seq_cst);
	set_copying(qp, true);
	c->dest->copy_from = self;
	if (c->srq)
		c->srq->copy_from = self;
	return qp->copy_ticket;
}

/* Clears `copy_from` on the other side only if it still belongs to this copy. */
static void end(struct qp *qp)
{
	uint32_t self = 1 + qp_index(qp);
	struct qp *dest = &arena()->qps[qp->copy_to - 1];
	struct srq *srq = qp->copy_srq ? &arena()->srqs[qp->copy_srq - 1] : NULL;
	bool flush = dest->copy_from == self && dest->obj.used && dest->flushing;

	if (srq && srq->copy_from == self)
		srq->copy_from = 0;
	if (dest->copy_from == self)
		dest->copy_from = 0;
	set_copying(qp, false);
	atomic_signal_fence(memory_order_seq_cst);
	qp->copy_to = 0;
	qp->copy.word &= ~CLAIM_OWNER_MASK;
	if (flush)
		qp_to_error(dest);
}

static bool still_there(const struct qp *qp, uint32_t qpn)
{
	return qp->obj.used && qp->qpn == qpn;
}

/* Both QPs may have changed while the mutex was released, so they are checked again. */
int copy_released(const struct copy *c, bool *fault_to)
{
	struct fabric_peer peer = fabric_peer(c->dest->obj.owner);
	uint32_t qpn = c->dest->qpn;
	uint64_t ticket;
	int r;

	if (!fabric_whole())
		return -EBUSY;
	ticket = begin(c);
	fabric_unlock();
	claim_enter(&c->qp->copy, claim_word((uint32_t)ticket));
	r = dma_copy(&peer, c->to, c->nto, c->from, c->nfrom, fault_to);
	claim_leave();
	fabric_take();
	if (!c->qp->obj.used || c->qp->copy_ticket != ticket || !c->qp->copy_to)
		return -ECANCELED; /* another thread has ended this copy, see copy_take_over() */
	end(c->qp);
	if (c->qp->flushing)
		qp_to_error(c->qp);
	if (c->qp->state != QPS_RTS && c->qp->state != QPS_SQD)
		return -ECANCELED;
	if (!still_there(c->dest, qpn) || !qp_receives(c->dest))
		return r == -ESRCH ? r : -EAGAIN;
	return r;
}

/* A copy whose claim has no owner was left by a process that died while it took the copy over. */
void copy_take_over(void)
{
	for (uint32_t w = 0; w < MAX_QPS / 64; w++) {
		for (uint64_t bits = arena()->copying[w]; bits; bits &= bits - 1) {
			struct qp *qp = &arena()->qps[w * 64 + (uint32_t)__builtin_ctzll(bits)];
			uint64_t word = qp->copy.word;

			if (word & CLAIM_OWNER_MASK)
				word = claim_take_over(&qp->copy, &qp->copy_watch,
					CLAIM_FOR_NOBODY);
			if (!word)
				continue;
			arena()->recoveries++;
			arena()->takeovers++;
			copy_abandon(qp);
			fabric_hooks.fail(qp->obj.owner, word);
		}
	}
}

void copy_pause(uint32_t n)
{
	static const struct timespec nap = {.tv_nsec = PAUSE_NS};

	fabric_unlock();
	/* Not libc's functions, because they are cancellation points. */
	if (n < PAUSE_YIELDS)
		SYS(SYS_sched_yield);
	else
		SYS(SYS_nanosleep, &nap, NULL);
	fabric_take();
	if (n % PAUSES_PER_REAP == PAUSES_PER_REAP - 1) {
		fabric_reap();
		copy_take_over();
	}
}

bool copy_wait(struct qp *qp, bool sending_only)
{
	uint32_t qpn = qp->qpn;

	for (uint32_t n = 0; still_there(qp, qpn); n++) {
		if (!qp->copy_to && (sending_only || !qp->copy_from))
			return true;
		copy_pause(n);
	}
	return false;
}

/*
 * Returns true if this process takes part in a copy that began before @until. With @executing, only
 * copies that this process executes count.
 */
static bool any_before(uint64_t until, bool executing)
{
	for (uint32_t w = 0; w < MAX_QPS / 64; w++) {
		for (uint64_t bits = arena()->copying[w]; bits; bits &= bits - 1) {
			struct qp *qp = &arena()->qps[w * 64 + (uint32_t)__builtin_ctzll(bits)];

			if (qp->copy_ticket >= until)
				continue;
			if (qp->obj.owner == fabric_self.slot ||
				(!executing && qp->copy_peer == fabric_self.slot))
				return true;
		}
	}
	return false;
}

void copy_drain(void)
{
	uint64_t until = arena()->next_copy;

	for (uint32_t n = 0; any_before(until, false); n++)
		copy_pause(n);
}

void copy_stop(uint32_t ctx)
{
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++) {
		struct qp *qp = &arena()->qps[i];

		if (qp->obj.used && qp->obj.ctx == ctx)
			qp_stop(qp);
	}
	copy_drain();
}

bool copy_executing(void)
{
	return any_before(UINT64_MAX, true);
}

void copy_abandon(struct qp *qp)
{
	if (qp->copy_to)
		end(qp);
}
