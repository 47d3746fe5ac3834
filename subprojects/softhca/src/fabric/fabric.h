/* SPDX-License-Identifier: MIT */
/*
 * Membership of this process in its fabric.
 *
 * A fabric is the directory /dev/shm/softhca-<uid>-<name>/: `lock`, `arena`, `sys/`
 * and `fifo/`. Byte 0 of `lock` serialises creation and removal; byte 1 + slot is held
 * by the process of that slot. These are open-file-description locks, so the kernel
 * drops them with the process however it ends, and liveness never depends on a pid.
 * A process that waits for the end of a member takes a read lock of its byte. A process
 * that tests whether a member lives looks for a write lock, so it does not take a waiting
 * process for a member. Slots are taken under the arena's mutex: while the mutex is held
 * and the byte is locked, the slot's pid is that of the process that holds the lock.
 */
#ifndef SOFTHCA_FABRIC_FABRIC_H
#define SOFTHCA_FABRIC_FABRIC_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric/arena.h"
#include "fabric/claim.h"

struct fabric_self {
	struct arena *arena; /* NULL: not attached */
	uint32_t slot;
	uint64_t patience_ns; /* for which a process may be stopped while others wait for it */
	int lock_fd;
	int32_t pid;
	char dir[128];
};

extern struct fabric_self fabric_self;

static inline struct arena *arena(void)
{
	return fabric_self.arena;
}

#define FABRIC_NAME_MAX 63
#define FABRIC_NAME_GIVE "give up to 63 letters, digits, '.', '_' or '-'"

/* Returns true if @name is valid as given by a user. Names of jobs are converted instead. */
bool fabric_name_ok(const char *name);

/*
 * Functions of the directories above, called when the mutex changes hands, so that this directory need
 * not know them. Defined once, in member/hooks.c. The mutex is held in each of them.
 */
struct fabric_hooks {
	void (*replay)(void); /* applies the step that a dead holder had begun */
	void (*recover)(void); /* after that: goes on with what takes several steps */
	/* A thread of the process of @slot has lost a claim, word @lost: its QPs fail. */
	void (*fail)(uint32_t slot, uint64_t lost);
	void (*reap)(uint32_t slot); /* destroys the objects of a dead process */
	void (*release)(void); /* before the mutex is released */
};

extern const struct fabric_hooks fabric_hooks;

/*
 * Takes the fabric's mutex, and returns 0. All asynchronous signals must be blocked.
 *
 * Returns -EIO after another process has taken the mutex over, because this one was stopped while
 * it had it: then the call returns for the second time, without the mutex, wherever the thread was. Its
 * work was not done, or in part, and the QPs of the process have failed. So it is a macro, whose
 * caller must not have returned, and the caller's variables that have changed since the first return are
 * undefined.
 */
#define fabric_lock() (_setjmp(claim_held.mark) ? fabric_lost() : fabric_take())

/*
 * fabric_lock() for a thread that takes the core from a program when it wakes up, and so perhaps
 * from the mutex's holder. It yields once, and then sleeps: each yield uses up some of what makes it
 * come first. A nap that is over before the core is given away is no nap, so it is not short.
 */
#define fabric_lock_by_naps() (_setjmp(claim_held.mark) ? fabric_lost() : fabric_take_by_naps())
void fabric_unlock(void);

/* The same for ordinary code: blocks the signals itself, and restores them after -EIO. */
#define fabric_enter(saved)                                                                        \
	(fabric_block(saved), _setjmp(claim_held.mark) ? fabric_lost_within(saved) : fabric_take())
void fabric_leave(const sigset_t *saved);

/* Takes the mutex again that fabric_unlock() has released within one fabric_lock(). Returns 0. */
int fabric_take(void);

/* For the macros. */
int fabric_take_by_naps(void);
void fabric_block(sigset_t *saved);
int fabric_lost(void);
int fabric_lost_within(const sigset_t *saved);

/* Returns true if the process of @slot still lives. The mutex is held. */
bool fabric_alive(uint32_t slot);

/*
 * Returns true if the memory of @slot's process may be accessed. As fabric_alive(), but asks the
 * kernel rarely; if the process has died since, the access returns -ESRCH.
 */
bool fabric_reachable(uint32_t slot);

/* Identifies a process even after another one has taken over its slot. */
struct fabric_peer {
	uint32_t slot;
	uint32_t life;
	int32_t pid;
};

/* The process of @slot, for use after the mutex is released. The mutex is held. */
struct fabric_peer fabric_peer(uint32_t slot);

/* Returns true if that process still owns the slot and is reachable (fabric_reachable()). */
bool fabric_is_peer(const struct fabric_peer *peer);

/* Destroys the objects of dead processes and frees their slots. The mutex is held. */
void fabric_reap(void);

/* Builds the path of a FIFO of this fabric. */
void fabric_fifo_path(uint64_t id, char *path, size_t size);

#endif
