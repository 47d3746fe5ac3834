/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "sys/sys.h"

#define LOCK_SPINS 50
#define LOCK_YIELDS 500
#define LOCK_NAP_NS 50000
#define LOOKS 8 /* number of times that a waiter checks the holder in patience_ns */

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

/*
 * Repairs the arena after the former holder of the mutex has died or lost the mutex. @former: the
 * value of the claim's word at that time.
 */
__attribute__((cold)) static void recover(uint64_t former)
{
	arena()->recoveries++;
	bury_dead();
	fabric_hooks.replay();
	fabric_hooks.recover();
	if (claim_slot(former) != NO_SLOT && fabric_alive(claim_slot(former))) {
		arena()->takeovers++;
		fabric_hooks.fail(claim_slot(former), former);
	}
	fabric_reap();
}

/* A thread that waits for the mutex. */
struct waiter {
	struct claim_watch watch;
	uint64_t looked; /* when the holder was last checked */
};

/* Takes the mutex from a holder that has died or is stopped. Returns true if it did. */
static bool take_over(struct waiter *w)
{
	struct claim *c = &arena()->lock;
	uint64_t word = __atomic_load_n(&c->word, __ATOMIC_RELAXED), now;
	uint32_t slot = claim_slot(word);
	struct timespec ts;

	if (!(word & CLAIM_OWNER_MASK))
		return false;
	if (slot != NO_SLOT && !fabric_alive(slot)) {
		if (!claim_replace(c, word))
			return false;
	} else {
		clock_gettime(CLOCK_MONOTONIC, &ts);
		now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
		if (now - w->looked < fabric_self.patience_ns / LOOKS)
			return false;
		w->looked = now;
		word = claim_take_over(c, &w->watch, CLAIM_FOR_ME);
		if (!word)
			return false;
	}
	recover(word);
	return true;
}

/*
 * The mutex is held for microseconds, unless its holder is stopped. A waiter sleeps for short times
 * instead of waiting for a wake-up: a wake-up could be lost when the holder is killed, and would
 * never come from a holder that is stopped.
 */
static inline int take(uint32_t yields)
{
	static const struct timespec nap = {.tv_nsec = LOCK_NAP_NS};
	struct waiter w = {0};

	for (uint32_t n = 0; !claim_try(&arena()->lock); n++) {
		if (n < LOCK_SPINS) {
			__builtin_ia32_pause();
		} else if (n < yields) {
			SYS(SYS_sched_yield); /* libc's may be replaced by shim/ */
		} else {
			nanosleep(&nap, NULL);
			if (take_over(&w))
				break;
		}
	}
	return 0;
}

int fabric_take(void)
{
	return take(LOCK_YIELDS);
}

int fabric_take_by_naps(void)
{
	return take(LOCK_SPINS + 1);
}

void fabric_unlock(void)
{
	fabric_hooks.release();
	if (!claim_drop(&arena()->lock))
		claim_lost();
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

	bury_dead();
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		if (!a->procs[slot].used || a->procs[slot].pid)
			continue;
		fabric_hooks.reap(slot);
		a->procs[slot].used = 0;
	}
}
