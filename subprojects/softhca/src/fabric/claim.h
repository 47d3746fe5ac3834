/* SPDX-License-Identifier: MIT */
/*
 * Claims: locks in the arena that can be taken from an owner that is stopped.
 *
 * SIGSTOP and debuggers stop a thread between any two instructions, and a thread cannot delay the
 * stop. A thread that waits for the claim of such a thread takes the claim over after
 * fabric_self.patience_ns. The former owner may be continued at any moment after that, but must not
 * store into the arena or into the memory of other processes any more. Three questions follow.
 *
 * Is the owner stopped, or slow? The owner counts as stopped if /proc/TID/status says "stopped" or
 * "tracing stop" twice, at least patience_ns apart, with the same number of context switches. That
 * number rises when a thread runs and is stopped again. A waiter waits without a limit for an owner
 * that runs, sleeps or is not scheduled.
 *
 * How does the owner find out? A signal is pending for it before the claim is taken. The kernel
 * delivers a pending signal before a continued thread executes its next instruction. The order is:
 *	1. The waiter queues SIGSEGV, which this library handles and never blocks, for that thread.
 *	2. The waiter checks that the thread is still stopped, with the same number of context
 *	   switches, and that the signal is pending. So the thread has executed nothing since, and
 *	   will execute the handler first.
 *	3. The waiter replaces the claim's word (owner and epoch) by a compare and swap.
 * The handler, too, swaps the word: it keeps the owner and increments the epoch. One of the two
 * swaps fails. If the waiter's swap fails, the owner continues undisturbed. If the handler's swap
 * fails, the claim is lost: the handler does not return to the interrupted code, but to the point
 * at which the owner took the claim (claim_held.mark).
 *
 * What about system calls? A thread that is stopped by a signal is not in a system call. A debugger
 * can also stop a thread at the entry of a system call, which is then executed before the signal is
 * delivered. The kernel reads the list of the targets of process_vm_writev() only after that stop.
 * So the list is in the claim (`to`):
 *	4. The waiter empties the list.
 *	5. The waiter waits until the owner is stopped or has received the signal. If a continued
 *	   owner has begun a system call with the full list, the call is complete by then.
 * The waiter continues only after that: it repairs the arena as after a death, and may deregister a
 * region.
 *
 * Stores to mapped memory of another process (dma/view.h) are protected like stores to the arena:
 * the owner handles the signal before its next store.
 *
 * A debugger that drops the signal removes this protection. Then the owner finds out only before
 * its next write to another process, or when it releases the claim.
 *
 * A thread has one claim at a time.
 */
#ifndef SOFTHCA_FABRIC_CLAIM_H
#define SOFTHCA_FABRIC_CLAIM_H

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "fabric/arena.h"

/*
 * Bits of a claim's word: slot and thread of the owner (both 0: no owner), and the epoch, which
 * claim_replace() and claim_pass() increment.
 */
#define CLAIM_SLOT_BITS 10
#define CLAIM_OWNER_BITS 32
#define CLAIM_OWNER_MASK ((1ull << CLAIM_OWNER_BITS) - 1)
#define CLAIM_EPOCH (1ull << CLAIM_OWNER_BITS)

static inline uint32_t claim_slot(uint64_t word)
{
	return (uint32_t)word & ((1u << CLAIM_SLOT_BITS) - 1);
}

static inline uint32_t claim_tid(uint64_t word)
{
	return (uint32_t)word >> CLAIM_SLOT_BITS;
}

/*
 * The claim of this thread, and the point to which the thread returns when it has lost the claim.
 */
struct claim_held {
	struct claim *claim; /* NULL: none */
	uint64_t word; /* value to which this thread has set the claim's word */
	uint32_t changes; /* the claim's word is being set to `word` */
	uint32_t tid; /* 0: not known yet */
	jmp_buf mark;
};

extern __thread struct claim_held claim_held __attribute__((tls_model("initial-exec")));

/*
 * The library is built without the thread sanitizer, which intercepts its memcpy() nevertheless.
 * These calls describe the order of the copies to the sanitizer.
 */
#ifdef SOFTHCA_TSAN
void __tsan_acquire(void *) __attribute__((weak));
void __tsan_release(void *) __attribute__((weak));
#define claim_acquired(c) (__tsan_acquire ? __tsan_acquire(c) : (void)0)
#define claim_releases(c) (__tsan_release ? __tsan_release(c) : (void)0)
#else
#define claim_acquired(c) ((void)0)
#define claim_releases(c) ((void)0)
#endif

/* Returns the owner bits of a claim's word with this thread as the owner. */
uint32_t claim_self(void);

/* Returns a claim's word with this thread as the owner, and @epoch. */
static inline uint64_t claim_word(uint32_t epoch)
{
	return (uint64_t)epoch << CLAIM_OWNER_BITS | claim_self();
}

/* Jumps to claim_held.mark. This thread has no claim then. */
_Noreturn void claim_lost(void);

/*
 * Returns true unless this thread has lost its claim. The epoch is not compared, because the
 * handler of the signal may change it at any moment. The owner suffices: a lost claim has another
 * one.
 */
static inline bool claim_kept(void)
{
	const struct claim *c = claim_held.claim;

	/*
	 * Relaxed: the value may change right after any read; steps 1 to 5 protect against that.
	 */
	return !c || !((__atomic_load_n(&c->word, __ATOMIC_RELAXED) ^ claim_held.word) &
			     CLAIM_OWNER_MASK);
}

/*
 * Makes this thread the owner, with the next epoch, if the claim's word is @seen. Returns true if
 * the thread is the owner then. The thread sets claim_held before the word, so the handler of the
 * signal never misses a claim. While `changes` is set, the handler does nothing; this function
 * itself checks afterwards whether the claim was lost.
 */
static inline bool claim_replace(struct claim *c, uint64_t seen)
{
	bool done;

	claim_held.changes = 1;
	atomic_signal_fence(memory_order_seq_cst);
	claim_held.claim = c;
	claim_held.word = claim_word((uint32_t)(seen >> CLAIM_OWNER_BITS) + 1);
	/*
	 * Pairs with the release in claim_drop(), and with the other swaps. Sequentially
	 * consistent: one thread takes a lane first and reads the mutex afterwards, another takes
	 * the mutex first and reads the lanes afterwards. At least one of them must see the other.
	 */
	done = __atomic_compare_exchange_n(&c->word, &seen, claim_held.word, false,
		__ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
	if (!done)
		claim_held.claim = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	claim_held.changes = 0;
	atomic_signal_fence(memory_order_seq_cst);
	if (done && claim_kept()) {
		claim_acquired(c);
		return true;
	}
	claim_held.claim = NULL;
	return false;
}

/* Takes the claim if it has no owner. */
static inline bool claim_try(struct claim *c)
{
	uint64_t seen = __atomic_load_n(&c->word, __ATOMIC_RELAXED);

	return !(seen & CLAIM_OWNER_MASK) && claim_replace(c, seen);
}

/*
 * Releases the claim. Returns false if it was lost before. The thread clears claim_held first: if
 * it is stopped after that, it has no more stores to make, and the swap fails if the claim is lost.
 */
static inline bool claim_drop(struct claim *c)
{
	uint64_t mine;

	claim_releases(c);
	claim_held.claim = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	mine = claim_held.word; /* the handler does not change it any more */
	/* Release: pairs with the swap in claim_replace(). */
	return __atomic_compare_exchange_n(&c->word, &mine, mine & ~CLAIM_OWNER_MASK, false,
		__ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/*
 * Makes @c this thread's claim. The thread must have set the word of @c to @word while it held
 * another claim. Does not return if @c is lost already. claim_leave() leaves the thread without a
 * claim; it does not change the word.
 */
void claim_enter(struct claim *c, uint64_t word);
void claim_leave(void);

/* si_code of the signal, which no other sender uses. */
#define CLAIM_CODE (-0x68636131)

/* For the handler of SIGSEGV: returns true, and handles the signal, if it is about a claim. */
bool claim_signal(const siginfo_t *si, ucontext_t *uc);

/* The next owner of a claim that is taken over. */
enum claim_heir { CLAIM_FOR_ME, CLAIM_FOR_NOBODY };

/*
 * Takes the claim from an owner that is dead or has the signal pending, if the claim's word is
 * @word. Returns true if it did.
 */
bool claim_pass(struct claim *c, uint64_t word, enum claim_heir heir);

/*
 * Checks whether the owner in the claim's word is stopped. If it has been stopped for long enough,
 * or has ended, takes the claim over. Returns the word that the claim had before, or 0 if it was
 * not taken over. A waiting thread must call this repeatedly with the same @w.
 */
uint64_t claim_take_over(struct claim *c, struct claim_watch *w, enum claim_heir heir);

/*
 * Returns true if the owner in the word has ended, even if its slot belongs to another process
 * now.
 */
bool claim_is_over(uint64_t word);

/* Must be called in a forked child. */
void claim_forget(void);

#endif
