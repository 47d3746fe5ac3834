/* SPDX-License-Identifier: MIT */
#include "sys/fds.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define MAX_FDS 65536
#define KIND_MASK 3u

/* The low two bits of an entry are the kind, the others the value. */
static _Atomic uint64_t fds[MAX_FDS];
/*
 * Entries from this index on were never stored, so a search ends there: reading the whole table
 * would take a page fault for each of its pages. Relaxed: fds_drop() need not find entries that are
 * stored during the drop. Earlier ones are ordered by fds_lock or by the program itself.
 */
static _Atomic int high;
/* Serialises fds_duplicate() and fds_drop(). */
static pthread_mutex_t fds_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t load(int fd)
{
	if (fd < 0 || fd >= MAX_FDS)
		return FD_OTHER;
	/* Pairs with the release in store(): the entry's object is complete. */
	return atomic_load_explicit(&fds[fd], memory_order_acquire);
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

	return (struct fd_entry){.kind = e & KIND_MASK, .value = e >> 2};
}

int fds_set(int fd, enum fd_kind kind, uint64_t value)
{
	return store(fd, value << 2 | kind);
}

int fds_duplicate(int from, int to)
{
	uint64_t e = load(from);
	int r;

	if (e == FD_OTHER)
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

	if (e == FD_OTHER)
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
