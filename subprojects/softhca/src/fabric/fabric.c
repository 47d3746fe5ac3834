/* SPDX-License-Identifier: MIT */
#include "fabric/fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fabric/journal.h"
#include "fabric/tree.h"
#include "hca/config.h"
#include "hca/copy.h"
#include "hca/cq.h"
#include "hca/objects.h"
#include "hca/qp.h"
#include "shim/sys.h"
#include "sysfs/sysfs.h"
#include "xport/link.h"

#define LOCK_SPINS 50
#define LOCK_YIELDS 500
#define LOCK_NAP_NS 50000

struct fabric_self fabric_self = {.lock_fd = -1};

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;

static int byte_lock(int fd, int cmd, short type, off_t start, off_t len)
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
 * The kernel is asked once per coarse tick (a few ms) and slot. Within it a process may
 * die unnoticed, but its pid cannot come round to another one.
 */
static bool checked_lately(uint32_t slot)
{
	static _Atomic uint64_t checked[MAX_PROCS]; /* each a hint on its own: all relaxed */
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

struct dma_peer fabric_peer(uint32_t slot)
{
	const struct proc *p = &arena()->procs[slot];

	return (struct dma_peer){.slot = slot, .life = p->life, .pid = p->pid};
}

bool fabric_is_peer(const struct dma_peer *peer)
{
	/* A plain counter that others raise under the mutex: any old value will do. */
	uint32_t life = __atomic_load_n(&arena()->procs[peer->slot].life, __ATOMIC_RELAXED);

	return life == peer->life && fabric_reachable(peer->slot);
}

bool fabric_alive(uint32_t slot)
{
	if (slot == fabric_self.slot)
		return true;
	/* When the kernel cannot say, nobody is declared dead. */
	return byte_lock(fabric_self.lock_fd, F_OFD_GETLK, F_WRLCK, 1 + slot, 1) != 0;
}

static bool anyone_else_alive(int fd)
{
	return byte_lock(fd, F_OFD_GETLK, F_WRLCK, 1, MAX_PROCS) > 0;
}

void fabric_fifo_path(uint64_t id, char *path, size_t size)
{
	snprintf(path, size, "%s/fifo/%llu", fabric_self.dir, (unsigned long long)id);
}

static bool in_a_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("._-", c));
}

bool fabric_name_ok(const char *name)
{
	size_t n = 0;

	while (in_a_name(name[n]))
		n++;
	return n && n <= FABRIC_NAME_MAX && !name[n];
}

/* Of what a job is called, anything that cannot be in a name is replaced. */
static void fabric_dir(char *dir, size_t size)
{
	const char *name = getenv("SOFTHCA_FABRIC");
	char clean[FABRIC_NAME_MAX + 1];
	size_t i;

	if (!name || !*name)
		name = getenv("PMIX_NAMESPACE");
	if (!name || !*name)
		name = "default";
	for (i = 0; name[i] && i + 1 < sizeof(clean); i++)
		clean[i] = in_a_name(name[i]) ? name[i] : '_';
	clean[i] = '\0';
	snprintf(dir, size, "/dev/shm/softhca-%u-%s", (unsigned)geteuid(), clean);
}

/* Opens the lock file of the directory that stands at @dir now, and locks byte 0. */
static int open_locked(const char *dir)
{
	char path[192];
	struct stat st;
	int fd, r;

	snprintf(path, sizeof(path), "%s/lock", dir);
	for (;;) {
		if (mkdir(dir, 0700) && errno != EEXIST)
			return -errno;
		if (lstat(dir, &st))
			continue; /* the last one out removed it in between */
		if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
			return -EACCES;
		fd = sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		r = byte_lock(fd, F_OFD_SETLKW, F_WRLCK, 0, 1);
		if (!r)
			r = sys_fstat(fd, &st);
		if (!r && st.st_nlink)
			return fd;
		sys_close(fd);
		if (r)
			return r;
	}
}

static int lock_init(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;
	int r;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	r = pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
	return -r;
}

static int check_environment(void)
{
	char err[256];
	int r = config_check(err, sizeof(err));

	if (r)
		fprintf(stderr, "softhca: %s\n", err);
	return r;
}

static int load_topology(struct softhca_topology *t)
{
	char err[256];
	int r = softhca_topology_from_env(t, err, sizeof(err));

	if (r)
		fprintf(stderr, "softhca: %s\n", err);
	return r;
}

static int load_faults(struct fault_rule *rules)
{
	char err[256];
	int r = fault_load_env(rules, err, sizeof(err));

	if (r)
		fprintf(stderr, "softhca: %s\n", err);
	return r;
}

static int load_link_mode(uint32_t *mode)
{
	int r = link_mode_from_env();

	if (r < 0) {
		fprintf(stderr, "softhca: SOFTHCA_LINK must be off, real or virtual\n");
		return r;
	}
	*mode = (uint32_t)r;
	return 0;
}

static int map_arena(const char *path, bool create, struct arena **out)
{
	int fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_EXCL : 0),
		0600);
	struct stat st;
	void *p;
	int r;

	if (fd < 0)
		return fd;
	r = create ? (int)SYS(SYS_ftruncate, fd, sizeof(struct arena)) : sys_fstat(fd, &st);
	if (!r && !create && st.st_size != (off_t)sizeof(struct arena))
		r = -EPROTO;
	if (!r) {
		p = mmap(NULL, sizeof(struct arena), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED)
			r = -errno;
		else
			*out = p;
	}
	sys_close(fd);
	return r;
}

/* First in: everything anew, whatever a former fabric left. Byte 0 is held. */
static int create_fabric(const char *dir, struct arena **out)
{
	char path[192];
	struct arena *a;
	int r;

	tree_empty(dir, "lock");
	snprintf(path, sizeof(path), "%s/fifo", dir);
	if (mkdir(path, 0700))
		return -errno;
	snprintf(path, sizeof(path), "%s/arena", dir);
	r = map_arena(path, true, &a);
	if (r)
		return r;
	a->version = ARENA_VERSION;
	a->size = sizeof(*a);
	a->next_fifo = 1;
	a->next_copy = 1;
	r = load_topology(&a->topo);
	if (!r)
		r = load_faults(a->faults);
	if (!r)
		r = load_link_mode(&a->link_mode);
	if (!r)
		r = lock_init(&a->lock);
	snprintf(path, sizeof(path), "%s/sys", dir);
	if (!r)
		r = softhca_sysfs_build(path, &a->topo);
	if (r) {
		munmap(a, sizeof(*a));
		return r;
	}
	a->magic = ARENA_MAGIC;
	*out = a;
	return 0;
}

static int join_fabric(const char *dir, struct arena **out)
{
	char path[192];
	int r;

	snprintf(path, sizeof(path), "%s/arena", dir);
	r = map_arena(path, false, out);
	if (r)
		return r;
	if ((*out)->magic == ARENA_MAGIC && (*out)->version == ARENA_VERSION)
		return 0;
	munmap(*out, sizeof(struct arena));
	return -EPROTO;
}

/*
 * A slot is free when its byte can be locked. The dead are reaped before, under the same
 * mutex, so nothing in the arena takes this process for a former owner of the slot.
 */
static int claim_slot(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		struct proc *p = &arena()->procs[slot];
		uint32_t life = p->life;

		if (p->used || byte_lock(fabric_self.lock_fd, F_OFD_SETLK, F_WRLCK, 1 + slot, 1))
			continue;
		fabric_self.slot = slot;
		memset(p, 0, sizeof(*p));
		p->pid = fabric_self.pid;
		__atomic_store_n(&p->life, life + 1, __ATOMIC_RELAXED); /* see fabric_is_peer() */
		p->used = 1;
		return 0;
	}
	return -EMFILE;
}

static int enter_arena(void)
{
	sigset_t saved;
	int r;

	fabric_enter(&saved);
	fabric_reap();
	r = claim_slot();
	fabric_leave(&saved);
	return r;
}

static int enter(const char *dir, int fd, struct arena *a)
{
	int r;

	fabric_self.lock_fd = fd;
	fabric_self.pid = getpid();
	fabric_self.slot = NO_SLOT;
	strcpy(fabric_self.dir, dir);
	fabric_self.arena = a;
	r = enter_arena();
	if (!r)
		return 0;
	munmap(a, sizeof(*a));
	fabric_self.arena = NULL;
	fabric_self.lock_fd = -1;
	return r;
}

static int attach(void)
{
	struct arena *a = NULL;
	char dir[128];
	int fd, r = check_environment();

	if (r)
		return r;
	fabric_dir(dir, sizeof(dir));
	fd = open_locked(dir);
	if (fd < 0)
		return fd;
	r = anyone_else_alive(fd) ? join_fabric(dir, &a) : create_fabric(dir, &a);
	if (!r)
		r = enter(dir, fd, a);
	if (r) {
		if (!anyone_else_alive(fd))
			tree_remove(dir);
		sys_close(fd);
		return r;
	}
	/* Peers reach this process's memory: Yama's default would forbid it. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	byte_lock(fd, F_OFD_SETLK, F_UNLCK, 0, 1);
	return 0;
}

int fabric_attach(void)
{
	int r;

	pthread_mutex_lock(&attach_lock);
	r = fabric_self.arena ? 0 : attach();
	pthread_mutex_unlock(&attach_lock);
	return r;
}

void fabric_detach(void)
{
	sigset_t saved;

	if (!fabric_self.arena)
		return;
	fabric_enter(&saved);
	if (copy_executing()) {
		/* A thread copies on until this process has ended, and has not left before. */
		fabric_leave(&saved);
		return;
	}
	objects_reap(fabric_self.slot);
	arena()->procs[fabric_self.slot].used = 0;
	fabric_leave(&saved);
	byte_lock(fabric_self.lock_fd, F_OFD_SETLKW, F_WRLCK, 0, 1);
	/* Own locks do not show to the own description, so this asks about the others. */
	if (!anyone_else_alive(fabric_self.lock_fd))
		tree_remove(fabric_self.dir);
	sys_close(fabric_self.lock_fd);
	fabric_self.lock_fd = -1;
}

void fabric_forget(void)
{
	pthread_mutex_init(&attach_lock, NULL);
	if (!fabric_self.arena)
		return;
	munmap(fabric_self.arena, sizeof(struct arena));
	/* Closing the inherited descriptor leaves the parent's locks where they are. */
	sys_close(fabric_self.lock_fd);
	memset(&fabric_self, 0, sizeof(fabric_self));
	fabric_self.lock_fd = -1;
}

/*
 * Never asleep on the mutex itself, which can lose a wake-up: a waiter is woken, somebody
 * else takes the mutex first, and the woken one is killed before it can note that others
 * still wait. It is held for microseconds, unless its holder is stopped.
 */
static int lock_robust(pthread_mutex_t *m)
{
	static const struct timespec nap = {.tv_nsec = LOCK_NAP_NS};
	int r;

	for (uint32_t n = 0;; n++) {
		r = pthread_mutex_trylock(m);
		if (r != EBUSY)
			return r;
		if (n < LOCK_SPINS)
			__builtin_ia32_pause();
		else if (n < LOCK_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

/* No memory is touched any more by the pid of a dead process, which may be another's. */
static void bury_dead(void)
{
	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (p->used && p->pid && !fabric_alive(slot))
			p->pid = 0;
	}
}

void fabric_lock(void)
{
	int r = lock_robust(&arena()->lock);

	if (r == EOWNERDEAD) {
		arena()->recoveries++;
		bury_dead();
		journal_replay();
		pthread_mutex_consistent(&arena()->lock);
		qp_recover();
		fabric_reap();
	} else if (r) {
		/* Nothing that any process of the fabric did can lead here but a wild store. */
		static const char msg[] = "softhca: the arena's lock is destroyed\n";

		sys_write(2, msg, sizeof(msg) - 1);
		abort();
	}
}

void fabric_unlock(void)
{
	cq_flush_runs();
	pthread_mutex_unlock(&arena()->lock);
}

void fabric_enter(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	/* A fault in user memory is how a bad address shows; it must stay deliverable. */
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
		objects_reap(slot);
		a->procs[slot].used = 0;
	}
}
