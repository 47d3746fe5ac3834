/* SPDX-License-Identifier: MIT */
/*
 * Declares the membership of this process in its fabric, and the locks of the fabric.
 *
 * The files of a fabric are in the directory /dev/shm/softhca-<uid>-<name>/: `lock`, `arena`,
 * `sys/` and `fifo/`. Byte 0 of `lock` serialises creation and removal; byte 1 + slot is held by
 * the process of that slot. These are open-file-description locks, so the kernel drops them with
 * the process however it ends, and liveness never depends on a pid. A process that waits for the
 * end of a member takes a read lock on the member's byte. A process that tests whether a member
 * lives tests for a write lock, so a waiting process does not look like a member. Slots are
 * assigned under the arena's mutex. So while a thread holds the mutex, the pid of a slot whose byte
 * is locked is that of the process that holds the lock.
 */
#ifndef SOFTHCA_FABRIC_FABRIC_H
#define SOFTHCA_FABRIC_FABRIC_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "fabric/claim.h"

/*
 * The arena is protected by a mutex, by lanes and by latches.
 *
 * The holder of the mutex (arena()->whole) may access everything. Most messages use few objects. A
 * thread executes such a message without the mutex: it holds its lane and the latches of the QP,
 * SRQ and CQs that the message uses (latch.h). A process has PROC_LANES lanes. Each thread uses one
 * of them; threads share lanes if there are more threads than lanes. The holder of a lane may post
 * completions to the objects whose latches it holds, and take receives from them. It may read
 * everything else: keys, tables, states. It must not wait, release the lane temporarily, set a
 * timer, or change a state. If it has to, it exchanges the lane for the mutex first
 * (fabric_widen()).
 *
 * The mutex excludes all lanes: its holder waits until no open lane has an owner, and a thread that
 * has taken a lane releases it if the mutex has an owner or if the lane is shut. A thread that
 * needs a lane that is shut takes the mutex and opens the lane, before it waits for the lanes. A
 * lane that was not taken for a while is shut by the holder of the mutex. So the holder of the
 * mutex checks only the lanes that are in use, however many contexts there are. While a thread
 * holds the mutex to destroy an object, to change a key or a state, or to recover from a death, no
 * other thread executes a message. Only copies may still run, which do not need the mutex
 * (xport/copy.h).
 *
 * A thread holds the mutex or one lane, never both. It takes the latches while it holds its lane,
 * in the order that latch.h describes. If the owner of a lane is dead or stopped, the holder of the
 * mutex takes the lane from it.
 *
 * Chaos mode, the link model, fault rules, captures and strict mode use the mutex only.
 */

struct fabric_self {
	struct arena *arena; /* NULL: not attached */
	uint32_t slot;
	bool lanes; /* this process may execute messages with a lane */
	uint64_t patience_ns; /* how long a process may be stopped while others wait for it */
	int lock_fd;
	int32_t pid;
	char dir[128];
};

extern struct fabric_self fabric_self;

struct fabric_thread {
	uint32_t number; /* 1 + number of its lane among those of the process; 0: it has none yet */
	struct tally *tally; /* the counts of its lane, once it has taken the mutex or the lane */
};

extern __thread struct fabric_thread fabric_thread __attribute__((tls_model("initial-exec")));

static inline struct arena *arena(void)
{
	return fabric_self.arena;
}

static inline const struct softhca_rail *rail_at(uint32_t rail)
{
	return &arena()->topo.rails[rail];
}

#define FABRIC_NAME_MAX 63
#define FABRIC_NAME_GIVE "give up to 63 letters, digits, '.', '_' or '-'"

/* Returns true if @name is a valid name. fabric_name() converts the names of jobs to valid ones. */
bool fabric_name_ok(const char *name);

/* Writes the name of the fabric that the environment names (SOFTHCA_FABRIC, or the job's namespace,
 * or the default). */
void fabric_name(char name[FABRIC_NAME_MAX + 1]);

/*
 * Functions of the higher directories, which this directory calls without depending on them. They
 * are defined once, in member/hooks.c. The calling thread holds the mutex; when it calls flush(),
 * it may hold only its lane.
 */
struct fabric_hooks {
	void (*replay)(void); /* applies the steps that dead or stopped holders had begun */
	void (*recover)(void); /* called after replay(): continues operations of several steps */
	/*
	 * Called when a thread of the process of @slot has lost a claim. @lost: a claim's word that
	 * names this thread. Fails the QPs of the process.
	 */
	void (*fail)(uint32_t slot, uint64_t lost);
	void (*reap)(uint32_t slot); /* destroys the objects of a dead process */
	void (*flush)(uint32_t *list); /* writes out the compressed completions of a lane */
};

extern const struct fabric_hooks fabric_hooks;

/*
 * Takes the fabric's mutex, and returns 0. The caller must have blocked all asynchronous signals.
 *
 * If this process is stopped while it holds the mutex, another process may take the mutex over.
 * Then fabric_lock() returns a second time, as setjmp() does, whatever the thread was executing. It
 * returns -EIO, and the thread does not hold the mutex. The work under the mutex was done in part
 * or not at all, and the QPs of this process have failed. fabric_lock() is a macro because of
 * setjmp(): the calling function must not return before it unlocks, and its local variables that
 * changed after the first return are indeterminate after the second.
 */
#define fabric_lock() (_setjmp(claim_held.mark) ? fabric_lost() : fabric_take())

/*
 * Does the same as fabric_lock(), for a thread whose wake-up may preempt the holder of the mutex.
 * It spins, yields once and then sleeps, because each yield lowers the priority of its wake-ups.
 * Each sleep is long enough for the scheduler to run another thread.
 */
#define fabric_lock_by_naps() (_setjmp(claim_held.mark) ? fabric_lost() : fabric_take_by_naps())

/*
 * Does the same as fabric_lock(), but takes only the lane of this thread if that is enough. The
 * caller finds out by fabric_whole() whether it holds the mutex.
 */
#define fabric_lock_lane() (_setjmp(claim_held.mark) ? fabric_lost() : fabric_take_lane())

/* Releases the mutex, or the lane and all latches. */
void fabric_unlock(void);

/* Returns the lane that this thread holds, or arena()->whole if it holds the mutex. */
static inline struct lane *fabric_lane(void)
{
	return (struct lane *)claim_held.claim;
}

/*
 * Prepares the lanes of the new process that has @slot. Returns 0 or -errno. The caller must hold
 * the mutex.
 */
int fabric_give_lanes(uint32_t slot);

/* Returns true if this thread holds the mutex. It must hold the mutex or a lane. */
static inline bool fabric_whole(void)
{
	return fabric_lane() == &arena()->whole;
}

/*
 * Exchanges lane and latches of this thread for the mutex. Other threads may change any object in
 * between.
 */
void fabric_widen(void);

/*
 * Does the same as fabric_lock(), for code that has not blocked the signals: fabric_enter() blocks
 * them. If it returns -EIO, it has restored them.
 */
#define fabric_enter(saved)                                                                        \
	(fabric_block(saved), _setjmp(claim_held.mark) ? fabric_lost_within(saved) : fabric_take())
void fabric_leave(const sigset_t *saved);

/*
 * After fabric_unlock(), takes the mutex again in the function that called fabric_lock(). Returns
 * 0.
 */
int fabric_take(void);

/* The macros call these functions. */
int fabric_take_by_naps(void);
int fabric_take_lane(void);
void fabric_block(sigset_t *saved);
int fabric_lost(void);
int fabric_lost_within(const sigset_t *saved);

/*
 * Returns true if the process of @slot still lives. A caller that holds neither the mutex nor a
 * lane must be prepared for a new owner of the slot.
 */
bool fabric_alive(uint32_t slot);

/*
 * Returns true if the memory of @slot's process may be accessed. Unlike fabric_alive() this
 * function seldom makes a system call. It may return true for a process that has died since the
 * last check; then the access to its memory returns -ESRCH.
 */
bool fabric_reachable(uint32_t slot);

/* Identifies a process even after another process has taken its slot. */
struct fabric_peer {
	uint32_t slot;
	uint32_t life;
	int32_t pid;
};

/*
 * Returns the identity of the process of @slot, which the caller may use after it has released the
 * mutex. The caller must hold the mutex.
 */
struct fabric_peer fabric_peer(uint32_t slot);

/* Returns true if @peer still owns its slot and is reachable (fabric_reachable()). */
bool fabric_is_peer(const struct fabric_peer *peer);

/* Destroys the objects of dead processes and frees their slots. The caller must hold the mutex. */
void fabric_reap(void);

/* Builds the path of a FIFO of this fabric. */
void fabric_fifo_path(uint64_t id, char *path, size_t size);

#endif
