/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "fabric/latch.h"
#include "fabric/reserve.h"
#include "fabric/rest.h"
#include "sys/sys.h"
#include "sys/thread.h"

#define LANE_IDLE 64 /* a lane is shut if it was not taken while the mutex was taken this often */
#define LOOKS 8 /* number of times that a waiter checks the holder in patience_ns */

static_assert(!offsetof(struct lane, claim), "fabric_lane() finds the lane by its claim");
static_assert(MAX_LANES <= 1 << LANE_BITS, "LANE_BITS");

__thread struct fabric_thread fabric_thread __attribute__((tls_model("initial-exec")));

/* Threads beyond PROC_LANES share lanes. Relaxed: any distribution will do. */
__attribute__((cold, noinline)) static void number_thread(void)
{
	static uint32_t threads;

	fabric_thread.number = 1 + __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % PROC_LANES;
}

/* Returns the lane of this thread. */
static inline struct lane *own_lane(void)
{
	uint32_t i;

	if (!fabric_thread.number)
		number_thread();
	i = fabric_self.slot * PROC_LANES + fabric_thread.number - 1;
	fabric_thread.tally = &arena()->tallies[i];
	return &arena()->lanes[i];
}

/*
 * Includes the lanes of slots that a new process has skipped, because the lanes below lanes_high
 * are accessed whether their slot has an owner or not.
 */
int fabric_give_lanes(uint32_t slot)
{
	struct arena *a = arena();
	uint32_t own = slot * PROC_LANES, end = own + PROC_LANES;
	uint32_t first = own < a->lanes_high ? own : a->lanes_high;
	int r = reserve(&a->lanes[first], (end - first) * sizeof(a->lanes[0]));

	if (!r)
		r = reserve(&a->tallies[first], (end - first) * sizeof(a->tallies[0]));
	if (r)
		return r;
	for (uint32_t i = first; i < end; i++) {
		if (!a->lanes[i].use)
			a->lanes[i].use = LATCH_USE | i;
		a->tallies[i].process = (struct softhca_counters){0};
	}
	if (a->lanes_high < end)
		a->lanes_high = end;
	return 0;
}

/*
 * Clears the pids of dead processes. The kernel may give such a pid to a new process, whose memory
 * must not be accessed.
 */
static void bury_dead(void)
{
	for (uint32_t slot = 0; slot < arena()->procs_high; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (p->used && p->pid && !fabric_alive(slot))
			p->pid = 0;
	}
}

/*
 * Fails the QPs of the process that has lost a claim with the word @former, if it lives. The slot
 * may belong to another process by now, because a killed process may leave its word in a shut lane,
 * and shut lanes are not checked.
 */
static void fail_former(uint64_t former)
{
	if (claim_slot(former) == NO_SLOT || !fabric_alive(claim_slot(former)) ||
		claim_is_over(former))
		return;
	arena()->takeovers++;
	fabric_hooks.fail(claim_slot(former), former);
}

/*
 * Repairs the arena after holders of the mutex or of lanes have died or lost them. @former: the
 * word of the mutex under such a holder, or 0. The words of such holders of lanes are in `lost`.
 */
__attribute__((cold)) static void recover(uint64_t former)
{
	arena()->recoveries++;
	bury_dead();
	fabric_hooks.replay();
	fabric_hooks.recover();
	if (former)
		fail_former(former);
	latches_renew();
	for (uint32_t i = 0; i < arena()->lanes_high; i++) {
		struct lane *l = &arena()->lanes[i];

		if (l->lost)
			fail_former(l->lost);
		l->lost = 0;
	}
	fabric_reap();
}

/* A thread that waits for the mutex or a lane. */
struct waiter {
	struct claim_watch watch;
	uint64_t looked; /* when the holder was last checked */
};

/*
 * Takes the claim from a holder that has died or is stopped. Returns the claim's former word, or
 * 0.
 */
static uint64_t take_over(struct claim *c, struct waiter *w, enum claim_heir heir)
{
	uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED), now;
	uint32_t slot = claim_slot(word);

	if (!(word & CLAIM_OWNER_MASK))
		return 0;
	if (slot != NO_SLOT && !fabric_alive(slot))
		return claim_pass(c, word, heir) ? word : 0;
	now = sys_clock_ns(CLOCK_MONOTONIC);
	if (now - w->looked < fabric_self.patience_ns / LOOKS)
		return 0;
	w->looked = now;
	return claim_take_over(c, &w->watch, heir);
}

/* Returns true if the claim has an owner. Pairs with the swap in claim_replace(). */
static inline bool is_owned(const struct claim *c)
{
	return __atomic_load_n(&c->word, __ATOMIC_SEQ_CST) & CLAIM_OWNER_MASK;
}

/* Waits until the lane has no owner. Returns true if an owner has left work to repair. */
__attribute__((cold, noinline)) static bool wait_for_lane(struct lane *l, uint32_t yields)
{
	struct waiter w = {0};
	uint64_t word;

	for (uint32_t n = 0; is_owned(&l->claim); n++) {
		word = rest(n, yields) ? take_over(&l->claim, &w, CLAIM_FOR_NOBODY) : 0;
		if (word) {
			l->lost = word;
			return true;
		}
	}
	return false;
}

/* The bit in open_lanes is set before the lane is open, and cleared after it is shut. */
static void open_lane(uint32_t i)
{
	struct lane *l = &arena()->lanes[i];

	arena()->open_words |= 1ull << (i / 64);
	atomic_signal_fence(memory_order_seq_cst);
	arena()->open_lanes[i / 64] |= 1ull << (i % 64);
	l->idle = 0;
	/* Release: pairs with the acquire in is_open(). */
	__atomic_store_n(&l->open, 1, __ATOMIC_RELEASE);
}

static void shut_lane(uint32_t i)
{
	/*
	 * Relaxed: a thread that takes the lane later finds the mutex taken, or sees this store
	 * because it sees that the mutex was released.
	 */
	__atomic_store_n(&arena()->lanes[i].open, 0, __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
	arena()->open_lanes[i / 64] &= ~(1ull << (i % 64));
}

/* Pairs with the release in open_lane(). */
static inline bool is_open(const struct lane *l)
{
	return __atomic_load_n(&l->open, __ATOMIC_ACQUIRE);
}

/* The former owners of lanes have left this to the holder of the mutex. */
enum left {
	LEFT_WORK = 1, /* a step to repair */
	LEFT_RUNS = 2, /* runs of completions; see flush() */
};

/* Waits until lane @i has no owner. Shuts it if it is not in use. Returns bits of enum left. */
static inline uint32_t close_lane(uint32_t i, uint32_t yields)
{
	struct lane *l = &arena()->lanes[i];
	uint32_t left = is_owned(&l->claim) && wait_for_lane(l, yields) ? LEFT_WORK : 0;
	/*
	 * Relaxed: a thread may take the lane at any time, but releases it because the mutex is
	 * taken.
	 */
	uint64_t word = __atomic_load_n(&l->claim.word, __ATOMIC_RELAXED);
	uint32_t epoch = (uint32_t)(word >> CLAIM_OWNER_BITS);

	claim_acquired(&l->claim);
	if (l->epoch != epoch) {
		l->epoch = epoch;
		l->idle = 0;
		if (__builtin_expect(l->comp_queues[0], 0))
			left |= LEFT_RUNS;
	} else if (++l->idle >= LANE_IDLE) {
		shut_lane(i);
	}
	return left;
}

/*
 * Waits until no open lane has an owner. After that no owner of a lane executes messages while this
 * thread holds the mutex. Returns bits of enum left. If this thread is killed or stopped before it
 * has finished that work, the next holder of the mutex finishes it, because it takes the mutex from
 * a dead or stopped holder.
 */
static inline uint32_t close_lanes(uint32_t yields)
{
	struct arena *a = arena();
	uint32_t left = 0;

	for (uint64_t words = a->open_words; words; words &= words - 1) {
		uint32_t w = (uint32_t)__builtin_ctzll(words);

		for (uint64_t bits = a->open_lanes[w]; bits; bits &= bits - 1)
			left |= close_lane(w * 64 + (uint32_t)__builtin_ctzll(bits), yields);
		if (!a->open_lanes[w])
			a->open_words &= ~(1ull << w);
	}
	return left;
}

/* Does what others have left. @former: see recover(). No lane has an owner. */
__attribute__((cold, noinline)) static void finish(uint32_t left, uint64_t former)
{
	if (former || left & LEFT_WORK) {
		recover(former);
		return;
	}
	for (uint32_t i = 0; i < arena()->lanes_high; i++)
		if (arena()->lanes[i].comp_queues[0])
			fabric_hooks.flush(arena()->lanes[i].comp_queues);
}

/* Takes the mutex, and opens lane @lane (NO_INDEX: none). */
static inline int take(uint32_t yields, uint32_t lane)
{
	struct waiter w = {0};
	uint64_t former = 0;
	uint32_t left;

	assert(!claim_held.claim);
	latches.use = 0;
	own_lane();
	for (uint32_t n = 0; !former && !claim_try(&arena()->whole.claim); n++)
		if (rest(n, yields))
			former = take_over(&arena()->whole.claim, &w, CLAIM_FOR_ME);
	/*
	 * open_lane() comes before close_lanes(), which then waits for another thread of this
	 * process that may have taken the lane and read the mutex already. If the mutex was taken
	 * from a dead or stopped holder, the lane stays shut: the other thread may have read the
	 * mutex before that holder began a step, and must not find the lane open.
	 */
	if (lane != NO_INDEX && !former)
		open_lane(lane);
	left = close_lanes(yields);
	if (left || former)
		finish(left, former);
	return 0;
}

int fabric_take(void)
{
	return take(REST_YIELDS, NO_INDEX);
}

int fabric_take_by_naps(void)
{
	return take(REST_SPINS + 1, NO_INDEX);
}

static inline void drop(struct claim *c)
{
	if (!claim_drop(c))
		claim_lost();
}

/*
 * Takes the lane. Returns false if another thread has it, if it is shut, or if this thread must
 * take the mutex.
 */
__attribute__((always_inline)) static inline bool try_lane(struct lane *l)
{
	struct claim *whole = &arena()->whole.claim;

	if (!claim_try(&l->claim))
		return false;
	/*
	 * The mutex must be read first. A thread that takes the mutex after this read, and opens
	 * the lane or finds it open, waits for this thread. So `open` and `attention`, which are
	 * read afterwards, do not change until the lane is released.
	 */
	if (!is_owned(whole) && is_open(l) && !arena()->attention) {
		claim_acquired(whole);
		latches.use = l->use;
		return true;
	}
	drop(&l->claim);
	return false;
}

/*
 * Waits for the lane. If the lane is shut, takes the mutex instead and opens the lane. If the lane
 * stays busy for long, takes the mutex too, and finds out whether the lane's holder is dead or
 * stopped.
 */
__attribute__((cold, noinline)) static int wait_for_turn(struct lane *l)
{
	uint32_t n = 0;

	while (n < REST_ENOUGH && is_open(l) && !arena()->attention) {
		do
			rest(n++, REST_YIELDS);
		while (n < REST_ENOUGH && is_owned(&arena()->whole.claim));
		if (try_lane(l))
			return 0;
	}
	return take(REST_YIELDS, arena()->attention ? NO_INDEX : (uint32_t)(l - arena()->lanes));
}

int fabric_take_lane(void)
{
	struct lane *l;

	assert(!claim_held.claim);
	if (!fabric_self.lanes)
		return fabric_take();
	l = own_lane();
	return try_lane(l) ? 0 : wait_for_turn(l);
}

/*
 * Writes out the collected completions (struct comp_run) of the CQs in @runs. If some are left
 * because another thread held the latch of a CQ for too long, writes these under the mutex.
 * If this thread is killed between lane and mutex, the next fabric_take() writes the rest of the
 * lane's list. A recovery in fabric_take() may leave completions in the mutex's list, so that list
 * is written here.
 */
__attribute__((noinline)) static void flush(uint32_t *runs)
{
	fabric_hooks.flush(runs);
	if (!runs[0])
		return;
	drop(claim_held.claim);
	fabric_take();
	fabric_hooks.flush(fabric_lane()->comp_queues);
}

void fabric_unlock(void)
{
	uint32_t *runs = fabric_lane()->comp_queues;

	latches_free(0);
	if (runs[0])
		flush(runs);
	drop(claim_held.claim);
}

void fabric_widen(void)
{
	fabric_unlock();
	fabric_take();
}

/*
 * Called after this thread was stopped and another thread has taken over its claim. Fails the QPs
 * of this process here, too: the process that took the claim over may have died before it did that.
 */
__attribute__((cold)) int fabric_lost(void)
{
	char line[160];
	int n = snprintf(line, sizeof(line),
		"softhca: process %d was stopped (SIGSTOP, debugger) while others waited for it: "
		"its QPs have failed\n",
		fabric_self.pid);

	sys_write(2, line, (size_t)n);
	latches.n = 0; /* they are free, or have other owners */
	fabric_take();
	if (fabric_self.slot != NO_SLOT)
		fabric_hooks.fail(fabric_self.slot, claim_word(0));
	fabric_unlock();
	return -EIO;
}

void fabric_block(sigset_t *saved)
{
	thread_block_signals(saved);
}

int fabric_lost_within(const sigset_t *saved)
{
	int r = fabric_lost();

	pthread_sigmask(SIG_SETMASK, saved, NULL);
	return r;
}

void fabric_leave(const sigset_t *saved)
{
	fabric_unlock();
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

void fabric_reap(void)
{
	struct arena *a = arena();

	assert(fabric_whole());
	bury_dead();
	for (uint32_t slot = 0; slot < a->procs_high; slot++) {
		if (!a->procs[slot].used || a->procs[slot].pid)
			continue;
		fabric_hooks.reap(slot);
		a->procs[slot].used = 0;
	}
}
