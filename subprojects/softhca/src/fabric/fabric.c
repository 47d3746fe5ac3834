/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "sys/sys.h"

#define LOCK_SPINS 50
#define LOCK_YIELDS 500
#define LOCK_NAP_NS 50000
#define LANE_WAITS (LOCK_YIELDS + 100)
#define LANE_IDLE 64 /* a lane that was not taken while the mutex was taken so often is shut */
#define LOOKS 8 /* number of times that a waiter checks the holder in patience_ns */

static_assert(!offsetof(struct lane, claim), "fabric_lane() finds the lane by its claim");

/*
 * Clears the pids of dead processes. The kernel may give such a pid to a new process, whose memory
 * must not be accessed.
 */
static void bury_dead(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (p->used && p->pid && !fabric_alive(slot))
			p->pid = 0;
	}
}

/* Fails the QPs of the process that has lost a claim with the word @former, if it lives. */
static void fail_former(uint64_t former)
{
	if (claim_slot(former) == NO_SLOT || !fabric_alive(claim_slot(former)))
		return;
	arena()->takeovers++;
	fabric_hooks.fail(claim_slot(former), former);
}

/*
 * Repairs the arena after holders of the mutex or of lanes have died or lost them. The words of
 * their claims at that time are @former, of the mutex, or 0, and `lost` of the lanes.
 */
__attribute__((cold)) static void recover(uint64_t former)
{
	arena()->recoveries++;
	bury_dead();
	fabric_hooks.replay();
	fabric_hooks.recover();
	if (former)
		fail_former(former);
	for (uint32_t i = 0; i < arena()->high[OBJ_CTX]; i++) {
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

/* Takes the claim from a holder that has died or is stopped. Returns the word before, or 0. */
static uint64_t take_over(struct claim *c, struct waiter *w, enum claim_heir heir)
{
	uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED), now;
	uint32_t slot = claim_slot(word);
	struct timespec ts;

	if (!(word & CLAIM_OWNER_MASK))
		return 0;
	if (slot != NO_SLOT && !fabric_alive(slot))
		return claim_pass(c, word, heir) ? word : 0;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (now - w->looked < fabric_self.patience_ns / LOOKS)
		return 0;
	w->looked = now;
	return claim_take_over(c, &w->watch, heir);
}

/*
 * A claim is held for microseconds, unless its holder is stopped. A waiter sleeps for short times
 * instead of waiting for a wake-up: a wake-up could be lost when the holder is killed, and would
 * never come from a holder that is stopped. @n: number of earlier calls in the same wait. Returns
 * true after a sleep.
 */
static inline bool rest(uint32_t n, uint32_t yields)
{
	static const struct timespec nap = {.tv_nsec = LOCK_NAP_NS};

	if (n < LOCK_SPINS) {
		__builtin_ia32_pause();
		return false;
	}
	if (n < yields) {
		SYS(SYS_sched_yield); /* libc's may be replaced by shim/ */
		return false;
	}
	nanosleep(&nap, NULL);
	return true;
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

/* The map has the lane before the lane is open, and until it is shut. */
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
	/* Relaxed: whoever takes the lane later finds the mutex taken, or sees this with it. */
	__atomic_store_n(&arena()->lanes[i].open, 0, __ATOMIC_RELAXED);
	atomic_signal_fence(memory_order_seq_cst);
	arena()->open_lanes[i / 64] &= ~(1ull << (i % 64));
}

/* Pairs with the release in open_lane(). */
static inline bool is_open(const struct lane *l)
{
	return __atomic_load_n(&l->open, __ATOMIC_ACQUIRE);
}

/* Waits until lane @i has no owner. Shuts it if it is not in use. */
static inline bool close_lane(uint32_t i, uint32_t yields)
{
	struct lane *l = &arena()->lanes[i];
	bool broken = is_owned(&l->claim) && wait_for_lane(l, yields);
	/* Relaxed: a thread that finds the mutex taken may change it. */
	uint64_t word = __atomic_load_n(&l->claim.word, __ATOMIC_RELAXED);
	uint32_t epoch = (uint32_t)(word >> CLAIM_OWNER_BITS);

	claim_acquired(&l->claim);
	if (l->epoch != epoch) {
		l->epoch = epoch;
		l->idle = 0;
	} else if (++l->idle >= LANE_IDLE) {
		shut_lane(i);
	}
	return broken;
}

/*
 * Waits until no open lane has an owner. No lane gets one that executes messages while this thread
 * holds the mutex. Returns true if an owner has left work to repair. If this thread does not repair
 * it, because it is killed or stopped, the next one does: it takes the mutex from a dead or stopped
 * holder.
 */
static inline bool close_lanes(uint32_t yields)
{
	struct arena *a = arena();
	bool broken = false;

	for (uint64_t words = a->open_words; words; words &= words - 1) {
		uint32_t w = (uint32_t)__builtin_ctzll(words);

		for (uint64_t bits = a->open_lanes[w]; bits; bits &= bits - 1)
			broken |= close_lane(w * 64 + (uint32_t)__builtin_ctzll(bits), yields);
		if (!a->open_lanes[w])
			a->open_words &= ~(1ull << w);
	}
	return broken;
}

/* Takes the mutex, and opens the lane whose index is at @lane, if any. */
static inline int take(uint32_t yields, const uint32_t *lane)
{
	struct waiter w = {0};
	uint64_t former = 0;

	assert(!claim_held.claim);
	for (uint32_t n = 0; !former && !claim_try(&arena()->whole.claim); n++)
		if (rest(n, yields))
			former = take_over(&arena()->whole.claim, &w, CLAIM_FOR_ME);
	/* Before the lanes are closed: a thread may have taken this one, and looked at the mutex. */
	if (lane)
		open_lane(*lane);
	if (close_lanes(yields) || former)
		recover(former);
	return 0;
}

int fabric_take(void)
{
	return take(LOCK_YIELDS, NULL);
}

int fabric_take_by_naps(void)
{
	return take(LOCK_SPINS + 1, NULL);
}

static inline void drop(struct claim *c)
{
	if (!claim_drop(c))
		claim_lost();
}

/*
 * Takes the lane whose index is at @lane. Returns false if another thread has it, if it is shut, or
 * if this thread must take the mutex.
 */
__attribute__((always_inline)) static inline bool try_lane(const uint32_t *lane)
{
	const struct claim *whole = &arena()->whole.claim;
	/* Relaxed: it is read again with the lane. */
	uint32_t i = __atomic_load_n(lane, __ATOMIC_RELAXED);
	struct claim *c = &arena()->lanes[i].claim;

	if (!claim_try(c))
		return false;
	/*
	 * A thread that takes the mutex after it was free here, and opens the lane or finds it open,
	 * waits for this thread. So nobody changes the last two until the lane is released, but only
	 * if they are read after the other two.
	 */
	if (!is_owned(whole) && is_open(&arena()->lanes[i]) && *lane == i && !arena()->attention) {
		claim_acquired(whole);
		return true;
	}
	drop(c);
	return false;
}

static inline bool may_take_lane(const uint32_t *lane)
{
	/* Relaxed: try_lane() reads it again. */
	uint32_t i = __atomic_load_n(lane, __ATOMIC_RELAXED);

	return is_open(&arena()->lanes[i]) && !arena()->attention;
}

/*
 * Takes the mutex, and opens the lane, if it is shut. If the lane is not free for long, its holder
 * may be dead or stopped: this thread takes the mutex, and finds out.
 */
__attribute__((cold, noinline)) static int wait_for_turn(const uint32_t *lane)
{
	uint32_t n = 0;

	while (n < LANE_WAITS && may_take_lane(lane)) {
		do
			rest(n++, LOCK_YIELDS);
		while (n < LANE_WAITS && is_owned(&arena()->whole.claim));
		if (try_lane(lane))
			return 0;
	}
	return take(LOCK_YIELDS, arena()->attention ? NULL : lane);
}

int fabric_take_lane(uint32_t ctx)
{
	const uint32_t *lane;

	assert(!claim_held.claim);
	if (!fabric_self.lanes || ctx >= arena()->high[OBJ_CTX])
		return fabric_take();
	lane = &arena()->ctxs[ctx].lane;
	return try_lane(lane) ? 0 : wait_for_turn(lane);
}

void fabric_unlock(void)
{
	if (fabric_lane()->comp_queues[0])
		fabric_hooks.flush(fabric_lane()->comp_queues);
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
	fabric_take();
	if (fabric_self.slot != NO_SLOT)
		fabric_hooks.fail(fabric_self.slot, claim_word(0));
	fabric_unlock();
	return -EIO;
}

void fabric_block(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	/*
	 * The kernel ends a thread's process if the thread raises one of these signals while it is
	 * blocked. Accesses to bad user addresses raise SIGSEGV and SIGBUS; breakpoints and single
	 * steps raise SIGTRAP.
	 */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &all, saved);
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
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		if (!a->procs[slot].used || a->procs[slot].pid)
			continue;
		fabric_hooks.reap(slot);
		a->procs[slot].used = 0;
	}
}
