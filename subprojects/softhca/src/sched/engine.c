/* SPDX-License-Identifier: MIT */
#include "sched/engine.h"

#include <endian.h>
#include <stdbool.h>

#include "abi/wire.h"
#include "dma/dma.h"
#include "fabric/latch.h"
#include "fabric/tally.h"
#include "hca/config.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "sched/doors.h"
#include "xport/chaos.h"
#include "xport/link.h"
#include "xport/wired.h"
#include "xport/xport.h"

#define PAGES 1024u /* registers of so many pages are read, doorbell records of all queues */
#define SEND_REGISTERS 4u /* the two halves of the two usable registers of a page */

/*
 * The indexes of all QPs that this process has ever had, and MAX_QPS + the indexes of all its CQs.
 * Entries are never removed, because the next object often has the same index. The holder of the
 * mutex appends entries; reading them needs no mutex.
 */
static uint16_t queues[MAX_QPS + MAX_CQS];
static bool listed[MAX_QPS + MAX_CQS];
static uint32_t nqueues, queue_turn;

_Static_assert(MAX_QPS + MAX_CQS <= UINT16_MAX + 1, "16 bits are enough");

/* A doorbell page, and the values of its registers when they were read last. */
static struct page {
	const uint8_t *at;
	uint32_t door;
	uint64_t sends[SEND_REGISTERS];
	uint64_t arm;
} pages[PAGES];

static uint32_t npages, page_rung, page_turn;

static bool is_mine(const struct obj *o)
{
	return __atomic_load_n(&o->used, __ATOMIC_RELAXED) && o->owner == fabric_self.slot;
}

/*
 * Returns true if the QP seems to have new requests. Needs no mutex, because engine_serve_qp()
 * checks again with the latch.
 */
static bool has_posted(const struct qp *qp)
{
	uint32_t pi;

	if (!is_mine(&qp->obj) || !qp->sq_count ||
		dma_read_be32(fabric_self.slot, qp->dbrec + DBREC_SEND, &pi))
		return false;
	if ((uint16_t)pi == (uint16_t)__atomic_load_n(&qp->sq_done, __ATOMIC_RELAXED) ||
		chaos_announced(qp))
		return false;
	if (__atomic_load_n(&qp->wired, __ATOMIC_RELAXED) &&
		__atomic_load_n(&qp->state, __ATOMIC_RELAXED) == QPS_RTS)
		return wired_behind(qp, pi);
	return !__atomic_load_n(&qp->wait_until, __ATOMIC_RELAXED) || link_awaits(qp, pi);
}

static bool has_armed(const struct cq *cq, uint32_t *word)
{
	if (!is_mine(&cq->obj) || !cq->fifo)
		return false;
	return !dma_read_be32(fabric_self.slot, cq->dbrec + CQ_DBREC_ARM, word) &&
	       *word != __atomic_load_n(&cq->arm_word, __ATOMIC_RELAXED);
}

/* Not inlined, and with a name of its own, so that its instructions can be counted. */
__attribute__((noinline)) static uint32_t engine_serve_qp(struct qp *qp)
{
	uint32_t before;

	if (fabric_lock_lane())
		return 1;
	if (!latch_take(&qp->latch))
		fabric_widen();
	before = qp->sq_done;
	if (has_posted(qp)) {
		tally()->process.doorbells++;
		xport_send(qp);
	}
	before = qp->sq_done - before;
	fabric_unlock();
	return before != 0;
}

/* Not inlined, as engine_serve_qp(). */
__attribute__((noinline)) static uint32_t engine_serve_cq(struct cq *cq)
{
	uint32_t word;

	if (fabric_lock_lane())
		return 1;
	if (!latch_take(&cq->latch))
		fabric_widen();
	if (has_armed(cq, &word)) {
		tally()->process.arms++;
		__atomic_store_n(&cq->arm_word, word, __ATOMIC_RELAXED);
		cq_arm(cq, word);
	}
	fabric_unlock();
	return 1;
}

static uint32_t count(void)
{
	/* Pairs with the release in add(). */
	return __atomic_load_n(&nqueues, __ATOMIC_ACQUIRE);
}

static void add(uint32_t queue)
{
	if (listed[queue])
		return;
	listed[queue] = true;
	queues[nqueues] = (uint16_t)queue;
	/* Pairs with the acquire in count(): the entry is complete. */
	__atomic_store_n(&nqueues, nqueues + 1, __ATOMIC_RELEASE);
}

static void watch_page(const uint8_t *at, uint32_t door)
{
	for (uint32_t i = 0; i < npages; i++)
		if (pages[i].at == at)
			return;
	if (npages == PAGES)
		return;
	pages[npages].at = at;
	pages[npages].door = door;
	/* Pairs with the acquire in engine_pass(): the entry is complete. */
	__atomic_store_n(&npages, npages + 1, __ATOMIC_RELEASE);
}

void engine_watch(enum obj_kind kind, uint32_t index, const uint8_t *page, uint32_t door)
{
	if (config_get()->mode == ENGINE_TRAP)
		return;
	add(kind == OBJ_QP ? index : MAX_QPS + index);
	if (page)
		watch_page(page, door);
}

static uint32_t check_queue(uint32_t queue)
{
	uint32_t word;

	if (queue < MAX_QPS)
		return has_posted(&arena()->qps[queue]) ? engine_serve_qp(&arena()->qps[queue]) : 0;
	queue -= MAX_QPS;
	return has_armed(cq_at(queue), &word) ? engine_serve_cq(cq_at(queue)) : 0;
}

/* Reads a register. Returns true if it has changed, with the low half of the value in *word. */
static inline bool has_rung(const uint8_t *reg, uint64_t *last, uint32_t *word)
{
	/* Acquire: the doorbell record, which is read next, was stored before the register. */
	uint64_t v = __atomic_load_n((const uint64_t *)reg, __ATOMIC_ACQUIRE);

	if (v == *last)
		return false;
	*last = v;
	*word = (uint32_t)be64toh(v);
	return true;
}

/* Serves the queues that the page's registers name. Returns true if a register has changed. */
static inline bool check_page(struct page *p, uint32_t *n)
{
	bool rung = false;
	uint32_t word, arm;
	struct qp *qp;

	if (!doors_is_open(p->door))
		return false;
	for (uint32_t i = 0; i < SEND_REGISTERS; i++) {
		if (!has_rung(p->at + UAR_BF_FIRST + i * UAR_BF_BUFFER, &p->sends[i], &word))
			continue;
		rung = true;
		qp = qp_by_number(word >> 8);
		if (qp && has_posted(qp))
			*n += engine_serve_qp(qp);
	}
	if (has_rung(p->at + UAR_CQ_DOORBELL, &p->arm, &word)) {
		rung = true;
		if (word < arena()->high[OBJ_CQ] && has_armed(cq_at(word), &arm))
			*n += engine_serve_cq(cq_at(word));
	}
	return rung;
}

static uint32_t next(uint32_t *turn, uint32_t of)
{
	*turn = *turn + 1 < of ? *turn + 1 : 0;
	return *turn;
}

/* Not inlined, and with a name of its own, so that its instructions can be counted. */
__attribute__((noinline)) uint32_t engine_pass(void)
{
	/* Pairs with the release in watch_page(). */
	uint32_t n = 0, of = __atomic_load_n(&npages, __ATOMIC_ACQUIRE);

	if (of) {
		check_page(&pages[page_rung], &n);
		if (check_page(&pages[next(&page_turn, of)], &n))
			page_rung = page_turn;
	}
	of = count();
	return of ? n + check_queue(queues[next(&queue_turn, of)]) : n;
}

uint32_t engine_sweep(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count(); i++)
		n += check_queue(queues[i]);
	return n;
}

uint32_t engine_round(void)
{
	return count();
}

void engine_forget(void)
{
	while (nqueues)
		listed[queues[--nqueues]] = false;
	npages = page_rung = page_turn = 0;
}
