/* SPDX-License-Identifier: MIT */
#include "hca/timer.h"

#include <assert.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "hca/objects.h"
#include "sys/sys.h"

/* A heap of QP indexes with the smallest key on top. The mutex protects it. */
struct heap {
	uint32_t n;
	uint16_t qps[MAX_QPS];
	uint64_t key[MAX_QPS]; /* by index of the QP */
	uint16_t place[MAX_QPS]; /* by index of the QP: 1 + its position in qps; 0: not in heap */
};

static struct heap set; /* key: the time at which the timer expires */
static struct heap run_out; /* expired; key: `turn` of the QP; the smallest has waited longest */
static bool changing; /* a thread is changing the heaps, or was when it lost the mutex */

static void put(struct heap *h, uint32_t place, uint32_t i)
{
	h->qps[place] = (uint16_t)i;
	h->place[i] = (uint16_t)(place + 1);
}

static bool before(const struct heap *h, uint32_t a, uint32_t b)
{
	return h->key[h->qps[a]] < h->key[h->qps[b]];
}

static void exchange(struct heap *h, uint32_t a, uint32_t b)
{
	uint32_t i = h->qps[a];

	put(h, a, h->qps[b]);
	put(h, b, i);
}

/* Moves the QP at position @at of the heap to the position that fits its key. */
static void sift(struct heap *h, uint32_t at)
{
	uint32_t child;

	for (; at && before(h, at, (at - 1) / 2); at = (at - 1) / 2)
		exchange(h, at, (at - 1) / 2);
	for (; (child = 2 * at + 1) < h->n; at = child) {
		child += child + 1 < h->n && before(h, child + 1, child);
		if (!before(h, child, at))
			return;
		exchange(h, at, child);
	}
}

/* Adds QP @i, or changes its key. */
static void heap_set(struct heap *h, uint32_t i, uint64_t key)
{
	if (!h->place[i])
		put(h, h->n++, i);
	h->key[i] = key;
	sift(h, h->place[i] - 1u);
}

static void heap_remove(struct heap *h, uint32_t i)
{
	uint32_t at = h->place[i] - 1u;

	if (!h->place[i])
		return;
	h->place[i] = 0;
	if (at == --h->n)
		return;
	put(h, at, h->qps[h->n]);
	sift(h, at);
}

uint64_t timer_now(void)
{
	return sys_clock_ns(CLOCK_MONOTONIC);
}

/*
 * Returns true if the QP still waits: it may have been destroyed or reset since its timer was
 * set.
 */
static bool waits(const struct qp *qp)
{
	return qp->obj.used && qp->obj.owner == fabric_self.slot && qp->wait_until;
}

static void clear(void)
{
	memset(&set, 0, sizeof(set));
	memset(&run_out, 0, sizeof(run_out));
}

/*
 * Builds the heaps anew, because a thread has lost the mutex in the middle of a change (claim.h),
 * and never ends this change.
 */
__attribute__((cold)) static void rebuild(void)
{
	clear();
	for (uint32_t i = FIRST_QP_INDEX; i < arena()->high[OBJ_QP]; i++)
		if (waits(&arena()->qps[i]))
			heap_set(&set, i, arena()->qps[i].wait_until);
}

/* This function and the next one enclose each change of the heaps. */
static void change_begins(void)
{
	if (changing)
		rebuild();
	changing = true;
	atomic_signal_fence(memory_order_seq_cst);
}

static void change_ends(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	changing = false;
}

/*
 * Stores the next number as the `turn` of the message at sq_done. The message keeps it until it
 * ends, however often it waits.
 */
static void take_turn(struct qp *qp)
{
	static uint64_t turns;

	if (qp->turn_of == qp_message(qp))
		return;
	qp->turn_of = qp_message(qp);
	qp->turn = turns++;
}

void timer_wait(struct qp *qp, uint64_t when)
{
	uint32_t i = qp_index(qp);

	assert(fabric_whole());
	take_turn(qp);
	change_begins();
	qp->wait_until = when;
	heap_remove(&run_out, i);
	heap_set(&set, i, when);
	change_ends();
	timer_ring(fabric_self.slot);
}

static struct qp *take(uint64_t now)
{
	struct qp *qp;

	while (set.n && set.key[set.qps[0]] <= now) {
		uint32_t i = set.qps[0];

		heap_remove(&set, i);
		heap_set(&run_out, i, arena()->qps[i].turn);
	}
	while (run_out.n) {
		qp = &arena()->qps[run_out.qps[0]];
		heap_remove(&run_out, run_out.qps[0]);
		if (!waits(qp))
			continue;
		qp->wait_until = 0;
		return qp;
	}
	return NULL;
}

struct qp *timer_take(uint64_t now)
{
	struct qp *qp;

	change_begins();
	qp = take(now);
	change_ends();
	return qp;
}

uint64_t timer_next(void)
{
	return set.n ? set.key[set.qps[0]] : 0;
}

void timer_ring(uint32_t slot)
{
	/*
	 * Pairs with the acquire in bell_count(). The mutex protects everything else that the
	 * thread reads.
	 */
	__atomic_fetch_add(timer_bell(slot), 1, __ATOMIC_RELEASE);
	SYS(SYS_futex, timer_bell(slot), FUTEX_WAKE, 1, NULL, NULL, 0);
}

void timer_pump(uint32_t slot)
{
	struct proc *p = &arena()->procs[slot];

	if (p->pumping)
		return;
	p->pumping = 1;
	timer_ring(slot);
}

void timer_forget(void)
{
	if (set.n || run_out.n || changing)
		clear();
	changing = false;
}
