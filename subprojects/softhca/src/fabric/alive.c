/* SPDX-License-Identifier: MIT */
/* Membership of this process in its fabric, and liveness of the other members. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>

#include "fabric/fabric.h"
#include "fabric/lockfile.h"
#include "sys/sys.h"

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
 * The liveness of a live process is checked with a system call once per slot and tick of the coarse
 * clock (a few ms). A death may go unnoticed within a tick, but the pid cannot be reused that soon,
 * except by exec(): see vm_transfer(). A dead process is checked each time, because its pid may
 * have been reused already.
 */
static bool alive_lately(uint32_t slot)
{
	static _Atomic uint64_t seen_alive[MAX_PROCS]; /* relaxed: independent hints */
	uint64_t now = sys_clock_ns(CLOCK_MONOTONIC_COARSE);

	if (atomic_load_explicit(&seen_alive[slot], memory_order_relaxed) == now)
		return true;
	if (!fabric_alive(slot))
		return false;
	atomic_store_explicit(&seen_alive[slot], now, memory_order_relaxed);
	return true;
}

bool fabric_reachable(uint32_t slot)
{
	return slot == fabric_self.slot || alive_lately(slot);
}

struct fabric_peer fabric_peer(uint32_t slot)
{
	const struct proc *p = &arena()->procs[slot];

	return (struct fabric_peer){.slot = slot, .life = p->life, .pid = p->pid};
}

bool fabric_is_peer(const struct fabric_peer *peer)
{
	/*
	 * Relaxed: other processes raise `life` under the mutex. With an old value the result is
	 * that of an earlier call.
	 */
	uint32_t life = __atomic_load_n(&arena()->procs[peer->slot].life, __ATOMIC_RELAXED);

	return life == peer->life && fabric_reachable(peer->slot);
}

bool fabric_alive(uint32_t slot)
{
	int fd, r;

	if (slot == fabric_self.slot)
		return true;
	/*
	 * Pairs with the exchange in fds_move(): if another file had the number already, the number
	 * has changed. If the system call fails, the process counts as alive.
	 */
	do {
		fd = __atomic_load_n(&fabric_self.lock_fd, __ATOMIC_SEQ_CST);
		r = fabric_byte_lock(fd, F_OFD_GETLK, F_RDLCK, 1 + slot, 1);
	} while (fd != __atomic_load_n(&fabric_self.lock_fd, __ATOMIC_SEQ_CST));
	return r != 0;
}
