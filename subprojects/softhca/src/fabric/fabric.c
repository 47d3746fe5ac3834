/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "fabric/lockfile.h"
#include "sys/sys.h"

#define LOCK_SPINS 50
#define LOCK_YIELDS 500
#define LOCK_NAP_NS 50000

struct fabric_self fabric_self = {.lock_fd = -1};

int fabric_byte_lock(int fd, int cmd, short type, off_t start, off_t len)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len};
	int r;

	do
		r = sys_fcntl(fd, cmd, &fl);
	while (r == -EINTR);
	if (r < 0)
		return r;
	return cmd == F_OFD_GETLK ? fl.l_type != F_UNLCK : 0;
}

/*
 * The kernel is asked once per slot and coarse clock tick (a few ms). A process may die
 * unnoticed within a tick, but its pid cannot be reused that soon.
 */
static bool checked_lately(uint32_t slot)
{
	static _Atomic uint64_t checked[MAX_PROCS]; /* relaxed: independent hints */
	struct timespec ts;
	uint64_t now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	if (atomic_load_explicit(&checked[slot], memory_order_relaxed) == now)
		return true;
	atomic_store_explicit(&checked[slot], now, memory_order_relaxed);
	return false;
}

bool fabric_reachable(uint32_t slot)
{
	return slot == fabric_self.slot || checked_lately(slot) || fabric_alive(slot);
}

struct fabric_peer fabric_peer(uint32_t slot)
{
	const struct proc *p = &arena()->procs[slot];

	return (struct fabric_peer){.slot = slot, .life = p->life, .pid = p->pid};
}

bool fabric_is_peer(const struct fabric_peer *peer)
{
	/* Relaxed: others raise it under the mutex, and an old value does no harm here. */
	uint32_t life = __atomic_load_n(&arena()->procs[peer->slot].life, __ATOMIC_RELAXED);

	return life == peer->life && fabric_reachable(peer->slot);
}

bool fabric_alive(uint32_t slot)
{
	if (slot == fabric_self.slot)
		return true;
	/* An error counts as alive. */
	return fabric_byte_lock(fabric_self.lock_fd, F_OFD_GETLK, F_RDLCK, 1 + slot, 1) != 0;
}

/*
 * Does not sleep in pthread_mutex_lock(), because a robust mutex can lose a wake-up: a
 * waiter is woken, another thread takes the mutex first, and the woken waiter is killed
 * before it has noted that others still wait. The mutex is held for microseconds, unless
 * its holder is stopped.
 */
static inline int lock_robust(pthread_mutex_t *m, uint32_t yields)
{
	static const struct timespec nap = {.tv_nsec = LOCK_NAP_NS};
	int r;

	for (uint32_t n = 0;; n++) {
		r = pthread_mutex_trylock(m);
		if (r != EBUSY)
			return r;
		if (n < LOCK_SPINS)
			__builtin_ia32_pause();
		else if (n < yields)
			SYS(SYS_sched_yield); /* libc's may be replaced by shim/ */
		else
			nanosleep(&nap, NULL);
	}
}

/* Clears the pids of dead processes, which may be reused, so that no memory is accessed. */
static void bury_dead(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (p->used && p->pid && !fabric_alive(slot))
			p->pid = 0;
	}
}

/* @r is from lock_robust(). */
static inline void locked(int r)
{
	if (r == EOWNERDEAD) {
		arena()->recoveries++;
		bury_dead();
		fabric_hooks.replay();
		pthread_mutex_consistent(&arena()->lock);
		fabric_hooks.recover();
		fabric_reap();
	} else if (r) {
		/* Only a stray store into the arena leads here. */
		static const char msg[] = "softhca: the arena's lock is destroyed\n";

		sys_write(2, msg, sizeof(msg) - 1);
		abort();
	}
}

void fabric_lock(void)
{
	locked(lock_robust(&arena()->lock, LOCK_YIELDS));
}

void fabric_lock_by_naps(void)
{
	locked(lock_robust(&arena()->lock, LOCK_SPINS + 1));
}

void fabric_unlock(void)
{
	fabric_hooks.release();
	pthread_mutex_unlock(&arena()->lock);
}

void fabric_enter(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	/* Bad user addresses show as faults, so these must stay deliverable. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &all, saved);
	fabric_lock();
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
