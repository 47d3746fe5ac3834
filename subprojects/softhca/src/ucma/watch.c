/* SPDX-License-Identifier: MIT */
#include "ucma/watch.h"

#include <stdbool.h>
#include <sys/epoll.h>

#include "fabric/fabric.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "sys/thread.h"

#define TAG (0x736f6674ull << 32) /* in events of this file's epoll, beside the slot */

static struct watched { /* protected by the fabric's mutex */
	bool used;
	uint32_t life; /* of the slot; see struct proc */
	int fd; /* pidfd */
} watched[MAX_PROCS];
static int epoll = -1; /* the thread waits on it; set before `thread` runs */
static struct thread_once thread = THREAD_ONCE;

static void unwatch(struct watched *w)
{
	if (w->used)
		fds_disown(&w->fd);
	w->used = false;
}

/*
 * Handles the end of the process of @slot. If the slot has a new owner, which lives, `watched` is
 * not changed: the pidfd may be that of the new owner.
 */
static void ended(uint64_t slot)
{
	sigset_t saved;

	if (fabric_enter(&saved))
		return; /* other members have reaped the process */
	if (watched[slot].used && !fabric_alive((uint32_t)slot))
		unwatch(&watched[slot]);
	fabric_reap();
	fabric_leave(&saved);
}

/*
 * The program may close the epoll by a system call of its own, and have another file with its
 * number, or an epoll of its own. Then the thread ends. It may have taken one event of that epoll.
 */
static void *wait_for_ends(void *arg)
{
	struct epoll_event e;
	int fd, r;

	(void)arg;
	do {
		fd = __atomic_load_n(&epoll, __ATOMIC_RELAXED); /* see fds_own() */
		r = (int)SYS(SYS_epoll_pwait, fd, &e, 1, -1, NULL, 8);
		if (r == 1 && e.data.u64 - TAG >= MAX_PROCS)
			r = -EBADF;
		if (r == 1)
			ended(e.data.u64 - TAG);
	} while (r >= 0 || r == -EINTR || fd != __atomic_load_n(&epoll, __ATOMIC_RELAXED));
	return NULL;
}

static int start(void)
{
	int r;

	epoll = (int)SYS(SYS_epoll_create1, EPOLL_CLOEXEC);
	if (epoll < 0)
		return epoll;
	fds_own(&epoll);
	r = thread_start(wait_for_ends, NULL);
	if (r)
		fds_disown(&epoll);
	return r;
}

static bool add(struct watched *w, uint32_t slot)
{
	/*
	 * Each pidfd causes only one event, so that a process that has ended does not keep the
	 * thread busy.
	 */
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = TAG + slot};

	return !SYS(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, w->fd, &e);
}

static void watch_slot(uint32_t slot)
{
	struct fabric_peer peer = fabric_peer(slot);
	struct watched *w = &watched[slot];

	if (w->used && w->life == peer.life)
		return;
	unwatch(w);
	w->fd = (int)SYS(SYS_pidfd_open, peer.pid, 0);
	w->life = peer.life;
	w->used = w->fd >= 0;
	if (w->used)
		fds_own(&w->fd);
	/*
	 * Checked after the pidfd is made: if the process of the slot still lives now, its pid was
	 * not reused before, so the pidfd is that of this process.
	 */
	if (!fabric_alive(slot)) {
		unwatch(w);
		fabric_reap();
	} else if (w->used && !add(w, slot)) {
		unwatch(w);
	}
}

void watch(uint32_t slot)
{
	sigset_t saved;

	if (slot == NO_SLOT || slot == fabric_self.slot || thread_start_once(&thread, start))
		return;
	if (fabric_enter(&saved))
		return;
	watch_slot(slot);
	fabric_leave(&saved);
}

void watch_forget(void)
{
	thread_forget(&thread);
	for (uint32_t i = 0; i < MAX_PROCS; i++)
		unwatch(&watched[i]);
	fds_disown(&epoll);
}
