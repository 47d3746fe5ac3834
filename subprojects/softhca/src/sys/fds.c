/* SPDX-License-Identifier: MIT */
#include "sys/fds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "sys/sys.h"
#include "sys/thread.h"

#define MAX_FDS 65536
#define KIND_BITS 3
#define KIND_MASK ((1u << KIND_BITS) - 1)

/* The low three bits of an entry are the kind, the others the value. */
static _Atomic uint64_t fds[MAX_FDS];
/*
 * Entries from this index on were never stored, so a search ends there: reading the whole table
 * would take a page fault for each of its pages. Relaxed: fds_drop() need not find entries that are
 * stored during the drop. Earlier ones are ordered by fds_lock or by the program itself.
 */
static _Atomic int high;
/* Serialises fds_duplicate() and fds_drop(). */
static pthread_mutex_t fds_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t hold_lock = PTHREAD_MUTEX_INITIALIZER; /* see fds_hold() */
static sigset_t hold_saved; /* protected by hold_lock */

static uint64_t load(int fd)
{
	if (fd < 0 || fd >= MAX_FDS)
		return FD_OTHER;
	/* Pairs with the release in store(): the entry's object is complete. */
	return atomic_load_explicit(&fds[fd], memory_order_acquire);
}

/* Returns true if the entry is that of an object of the program. */
static bool is_object(uint64_t e)
{
	return e != FD_OTHER && (e & KIND_MASK) != FD_OWN;
}

static void raise_high(int n)
{
	int old = atomic_load_explicit(&high, memory_order_relaxed);

	while (old < n && !atomic_compare_exchange_weak_explicit(&high, &old, n,
				  memory_order_relaxed, memory_order_relaxed))
		;
}

static int store(int fd, uint64_t entry)
{
	if (fd >= MAX_FDS)
		return -EMFILE;
	/* Pairs with the acquire in load(). */
	atomic_store_explicit(&fds[fd], entry, memory_order_release);
	raise_high(fd + 1);
	return 0;
}

struct fd_entry fds_get(int fd)
{
	uint64_t e = load(fd);

	return (struct fd_entry){.kind = e & KIND_MASK, .value = e >> KIND_BITS};
}

int fds_find(enum fd_kind kind, uint64_t value)
{
	int end = atomic_load_explicit(&high, memory_order_relaxed);

	for (int fd = 0; fd < end; fd++)
		if (load(fd) == (value << KIND_BITS | kind))
			return fd;
	return -1;
}

int fds_next(unsigned fd)
{
	unsigned end = (unsigned)atomic_load_explicit(&high, memory_order_relaxed);

	while (fd < end && load((int)fd) == FD_OTHER)
		fd++;
	return fd < end ? (int)fd : -1;
}

int fds_set(int fd, enum fd_kind kind, uint64_t value)
{
	return store(fd, value << KIND_BITS | kind);
}

/*
 * *fd_p is accessed atomically: fds_move() may change it at any moment. A reader may get the old
 * number, which may be the program's file by then; fabric_alive() must not use such a file, so it
 * reads the number again afterwards.
 */
void fds_own(int *fd_p)
{
	int fd = *fd_p, copy = sys_duplicate(fd);

	if (copy == -EBADF) {
		__atomic_store_n(fd_p, -1, __ATOMIC_RELAXED);
		return;
	}
	if (copy >= 0) {
		__atomic_store_n(fd_p, copy, __ATOMIC_RELAXED);
		sys_close(fd);
		fd = copy;
	}
	/* A descriptor beyond the table is not protected. */
	fds_set(fd, FD_OWN, (uintptr_t)fd_p);
}

/*
 * Returns *fd_p, and sets it to -1. If the program has closed the descriptor by a system call of its
 * own, another one of the library may have its number, and keeps the entry.
 */
static int take(int *fd_p)
{
	int fd = __atomic_exchange_n(fd_p, -1, __ATOMIC_RELAXED);
	struct fd_entry e = fds_get(fd);

	if (e.kind == FD_OWN && e.value == (uintptr_t)fd_p)
		store(fd, FD_OTHER);
	return fd;
}

void fds_disown(int *fd_p)
{
	int fd = take(fd_p);

	if (fd >= 0)
		sys_close(fd);
}

void fds_lose(int *fd_p)
{
	take(fd_p);
}

void fds_hold(void)
{
	sigset_t saved;

	thread_block_signals(&saved);
	pthread_mutex_lock(&hold_lock);
	hold_saved = saved;
}

void fds_release(void)
{
	sigset_t saved = hold_saved;

	pthread_mutex_unlock(&hold_lock);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

int fds_move(int fd)
{
	struct fd_entry e = fds_get(fd);
	int *fd_p = (int *)(uintptr_t)e.value, copy, was = fd;

	if (e.kind != FD_OWN)
		return 0;
	copy = sys_duplicate(fd);
	if (copy < 0)
		return copy;
	fds_set(copy, FD_OWN, e.value);
	if (__atomic_compare_exchange_n(fd_p, &was, copy, false, __ATOMIC_SEQ_CST,
		    __ATOMIC_RELAXED)) { /* see fabric_alive() */
		store(fd, FD_OTHER);
		return 1;
	}
	/* Another thread has closed the descriptor in between. */
	store(copy, FD_OTHER);
	sys_close(copy);
	return 0;
}

int fds_duplicate(int from, int to)
{
	uint64_t e = load(from);
	int r;

	if (!is_object(e))
		e = FD_OTHER;
	/*
	 * FD_OTHER is stored, too: the entry may be that of a file that the program has closed by a
	 * system call of its own.
	 */
	if (load(to) == e)
		return 0;
	pthread_mutex_lock(&fds_lock);
	r = store(to, e);
	pthread_mutex_unlock(&fds_lock);
	return r;
}

bool fds_drop(int fd, struct fd_entry *entry_p)
{
	uint64_t e = load(fd);
	bool last = true;

	if (!is_object(e))
		return false;
	*entry_p = fds_get(fd);
	pthread_mutex_lock(&fds_lock);
	store(fd, FD_OTHER);
	for (int i = 0; i < atomic_load_explicit(&high, memory_order_relaxed) && last; i++)
		last = load(i) != e;
	pthread_mutex_unlock(&fds_lock);
	return last;
}

void fds_forget(void)
{
	pthread_mutex_init(&fds_lock, NULL);
	for (int i = 0; i < atomic_load_explicit(&high, memory_order_relaxed); i++) {
		if (fds_get(i).kind == FD_CM)
			store(i, FD_CM);
		else if (load(i) != FD_OTHER)
			store(i, FD_OTHER);
	}
}
