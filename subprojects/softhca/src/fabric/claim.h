/* SPDX-License-Identifier: MIT */
/*
 * Claims: locks in the arena that can be taken from an owner that is stopped.
 *
 * SIGSTOP and debuggers stop a thread between any two instructions, and nothing defers that. A thread
 * that waits for the claim of such a thread takes it over after fabric_self.patience_ns. The thread may be
 * continued at any moment, and from then on it must store nothing into the arena or into the memory of
 * other processes. Three questions follow.
 *
 * Is the owner stopped, or slow? /proc/TID/status of the owner says "stopped" or "tracing stop" at two
 * times that lie the patience apart, with the same number of context switches at both: a thread that ran
 * in between has one more. An owner that runs, sleeps or is not scheduled is waited for without a limit.
 *
 * How does the owner find out? By a signal that is pending before the claim is taken. The kernel delivers
 * a pending signal before a continued thread executes its next instruction. The order is:
 *	1. The waiter queues SIGSEGV, which this library handles and never blocks, for that thread.
 *	2. The thread is still stopped, with the same number of context switches, and the signal is
 *	   pending. So the thread has executed nothing since, and will execute the handler first.
 *	3. The waiter replaces the claim's word, which names the owner and an epoch, by a compare and swap.
 * The handler swaps the word too, for the next epoch of the same owner. One of the two swaps fails. If it
 * is the waiter's, the owner goes on and nothing has happened. If it is the handler's, the claim is lost:
 * the handler never returns into the interrupted code, but to the place where the claim was taken.
 *
 * What of a system call? A thread that is stopped by a signal is in none. A debugger can also stop it
 * at the entry of one, which is then executed before the signal is delivered. The kernel reads the list
 * of pieces that process_vm_writev() writes to after that stop. So the list is in the claim:
 *	4. The waiter empties the list.
 *	5. The waiter waits until the owner is stopped or has received the signal. A system call that
 *	   a continued owner has begun with the full list is over then.
 * Only then does the waiter go on: it repairs as after a death, and a region is deregistered, if at all,
 * after that.
 *
 * A debugger that is told to drop the signal takes this protection away. Then the owner still finds out
 * before its next write to another process, and when it gives the claim up.
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

/* Bits of a claim's word: slot and thread of the owner, both 0 if there is none, and the epoch. */
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

/* The claim of this thread, and the place to which it returns when it has lost it. */
struct claim_held {
	struct claim *claim; /* NULL: none */
	uint64_t word; /* of the claim, as this thread has set it */
	uint32_t changes; /* the claim's word is being set to `word` */
	uint32_t tid; /* 0: not known yet */
	jmp_buf mark;
};

extern __thread struct claim_held claim_held __attribute__((tls_model("initial-exec")));

/*
 * The library is built without the thread sanitizer, which sees its copies by memcpy() all the same, and is
 * told here what orders them.
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

/* The owner's part of a word: this thread. */
uint32_t claim_self(void);

/* The word of a claim that this thread has with @epoch. */
static inline uint64_t claim_word(uint32_t epoch)
{
	return (uint64_t)epoch << CLAIM_OWNER_BITS | claim_self();
}

/* Goes to the mark, with no claim. */
_Noreturn void claim_lost(void);

/*
 * Returns true if this thread still has the claim that it has taken, if any. The epoch is not compared, because
 * the handler of the signal may change it at any moment; a claim that was lost has another owner.
 */
static inline bool claim_kept(void)
{
	const struct claim *c = claim_held.claim;

	/* Relaxed: a value that has just changed is no help anyway; see above for what is. */
	return !c || !((__atomic_load_n(&c->word, __ATOMIC_RELAXED) ^ claim_held.word) &
			     CLAIM_OWNER_MASK);
}

/*
 * Makes this thread the owner, with the next epoch, if the claim's word is @seen. Returns whether it is.
 * The thread's own record comes first, so that the handler of the signal never misses a claim. While the
 * record is ahead of the word the handler does nothing; a claim that is lost at once is noticed here.
 */
static inline bool claim_replace(struct claim *c, uint64_t seen)
{
	bool done;

	claim_held.changes = 1;
	atomic_signal_fence(memory_order_seq_cst);
	claim_held.claim = c;
	claim_held.word = claim_word((uint32_t)(seen >> CLAIM_OWNER_BITS) + 1);
	/* Pairs with the release in claim_drop(), and with the other swaps. */
	done = __atomic_compare_exchange_n(&c->word, &seen, claim_held.word, false,
		__ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
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

/* Takes the claim if nobody has it. */
static inline bool claim_try(struct claim *c)
{
	uint64_t seen = __atomic_load_n(&c->word, __ATOMIC_RELAXED);

	return !(seen & CLAIM_OWNER_MASK) && claim_replace(c, seen);
}

/*
 * Gives the claim up. Returns false if it was lost before. The thread's own record is erased first: a
 * thread that is stopped in between has nothing to store any more, and fails here.
 */
static inline bool claim_drop(struct claim *c)
{
	uint64_t mine;

	claim_releases(c);
	claim_held.claim = NULL;
	atomic_signal_fence(memory_order_seq_cst);
	mine = claim_held.word; /* from here on the handler does not change it */
	/* Release: pairs with the acquire in claim_replace(). */
	return __atomic_compare_exchange_n(&c->word, &mine, mine & ~CLAIM_OWNER_MASK, false,
		__ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/*
 * From here on this thread has the claim @c, whose word it has set to @word while it had another claim.
 * Does not return if the claim is lost already. claim_leave() ends this and leaves the word as it is.
 */
void claim_enter(struct claim *c, uint64_t word);
void claim_leave(void);

/* si_code of the signal, which no other sender uses. */
#define CLAIM_CODE (-0x68636131)

/* For the handler of SIGSEGV: whether the signal says that a claim may be lost. Then it is handled. */
bool claim_signal(const siginfo_t *si, ucontext_t *uc);

/* The next owner of a claim that is taken over. */
enum claim_heir { CLAIM_FOR_ME, CLAIM_FOR_NOBODY };

/*
 * The owner that the claim's word names may be stopped: looks whether it is. If it has been for long
 * enough, or has ended, takes the claim over. Returns the word that the claim had then, else 0. The
 * caller asks again and again with the same @w.
 */
uint64_t claim_take_over(struct claim *c, struct claim_watch *w, enum claim_heir heir);

/* In a forked child. */
void claim_forget(void);

#endif
