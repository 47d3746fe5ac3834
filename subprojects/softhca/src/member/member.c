/* SPDX-License-Identifier: MIT */
/* The first member makes the fabric, the last one removes it. */
#include "member/member.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "fabric/fabric.h"
#include "fabric/lockfile.h"
#include "fabric/reserve.h"
#include "hca/config.h"
#include "member/settings.h"
#include "sys/fds.h"
#include "sys/sys.h"
#include "sys/tree.h"
#include "sysfs/sysfs.h"
#include "trap/signals.h"
#include "xport/copy.h"

static pthread_mutex_t attach_lock = PTHREAD_MUTEX_INITIALIZER;
static char why[256]; /* written under attach_lock; "": no reason yet */
/*
 * This thread is in member_attach(). A handler may fork then: signals are not blocked, because the
 * wait for byte 0 of the lock file may be long. The child of such a handler knows the lock file by
 * fabric_self.lock_fd, except in the moment between the file's opening and the end of fds_own().
 */
static __thread bool attaching __attribute__((tls_model("initial-exec")));

static bool anyone_else_alive(void)
{
	return fabric_byte_lock(fabric_self.lock_fd, F_OFD_GETLK, F_RDLCK, 1, MAX_PROCS) > 0;
}

/* Formats the reason that member_why() returns, and returns @r. */
static int because(int r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return r;
}

/* Explains why the fabric's directory cannot be made: /dev/shm is missing or not writable. */
static int no_place(int r)
{
	if (r == -ENOSPC)
		return r;
	return because(r == -EACCES ? -EPERM : r,
		"cannot make the fabric: /dev/shm: %s: it must be there, and writable",
		strerror(-r));
}

/*
 * Opens the lock file of @dir as fabric_self.lock_fd, making it if necessary, and locks byte 0.
 */
static int open_locked(const char *dir)
{
	char path[192];
	struct stat st;
	int fd, r;

	snprintf(path, sizeof(path), "%s/lock", dir);
	for (;;) {
		if (mkdir(dir, 0700) && errno != EEXIST)
			return no_place(-errno);
		if (lstat(dir, &st))
			continue; /* the last member has removed the directory in between */
		if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077))
			return -EACCES;
		fd = sys_open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd == -ENOENT)
			continue;
		if (fd < 0)
			return fd;
		fabric_self.lock_fd = fd;
		fds_own(&fabric_self.lock_fd); /* before the wait, in which a handler may fork */
		r = fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLKW, F_WRLCK, 0, 1);
		if (!r)
			r = sys_fstat(fabric_self.lock_fd, &st);
		if (!r && st.st_nlink)
			return 0;
		fds_disown(&fabric_self.lock_fd);
		if (r)
			return r;
	}
}

const char *member_why(void)
{
	return why;
}

/* Sets the reason for the error @r, if there is none yet. */
static void explain(int r)
{
	if (*why)
		return;
	if (r == -EACCES)
		because(r, "cannot join the fabric: it must belong to this user, with mode 0700");
	else if (r == -ENOSPC)
		because(r, "no room for the fabric: /dev/shm: %s", strerror(-r));
	else
		because(r, "cannot join the fabric: %s", strerror(-r));
}

static int namespace_of(const char *path, uint64_t *ino)
{
	struct stat st;
	int r = (int)SYS(SYS_newfstatat, AT_FDCWD, path, &st, 0);

	*ino = st.st_ino;
	return r ? because(r, "%s: %s: the adapters need /proc", path, strerror(-r)) : 0;
}

static int own_namespaces(uint64_t *pid_ns, uint64_t *user_ns)
{
	int r = namespace_of("/proc/self/ns/pid", pid_ns);

	return r ? r : namespace_of("/proc/self/ns/user", user_ns);
}

/*
 * Refuses a fabric of other namespaces: there, a pid means another process, and the memory of the
 * members cannot be accessed.
 */
static int check_namespaces(const struct arena *a)
{
	uint64_t pid_ns, user_ns;
	int r = own_namespaces(&pid_ns, &user_ns);

	if (r)
		return r;
	if (pid_ns == a->pid_ns && user_ns == a->user_ns)
		return 0;
	return because(-EXDEV,
		"the programs of this fabric are in another %s namespace: give "
		"--fabric (SOFTHCA_FABRIC) another name",
		pid_ns == a->pid_ns ? "user" : "pid");
}

/*
 * Must be called before the size is checked, because another version may have another size. The
 * caller must hold the lock on byte 0.
 */
static int check_version(int fd)
{
	struct {
		uint64_t magic;
		uint32_t version;
	} head = {0};
	const size_t n = offsetof(struct arena, version) + sizeof(head.version);

	static_assert(offsetof(struct arena, version) == 8, "as in head");
	if (SYS(SYS_pread64, fd, &head, n, 0) == (long)n && head.magic == ARENA_MAGIC &&
		head.version == ARENA_VERSION)
		return 0;
	return because(-EPROTO,
		"cannot join the fabric: it is of version %u, this libsofthca.so of version %d",
		head.version, ARENA_VERSION);
}

static int map_arena(const char *path, bool create, struct arena **out)
{
	struct stat st;
	void *p;
	int fd, r;

	if (create && !sys_may_make(sizeof(struct arena)))
		return because(-EFBIG,
			"no room for the fabric: RLIMIT_FSIZE (ulimit -f) must be at least %zu MiB",
			(sizeof(struct arena) >> 20) + 1);
	fd = sys_open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_EXCL : 0),
		0600);
	if (fd < 0)
		return fd;
	r = create ? (int)SYS(SYS_ftruncate, fd, sizeof(struct arena)) : sys_fstat(fd, &st);
	if (!r && create)
		r = reserve_first(fd);
	if (!r && !create)
		r = check_version(fd);
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

/* Makes all parts of a new fabric. The caller must hold the lock on byte 0. */
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
	a->next_region = 1;
	a->next_cm_serial = 1;
	a->cm_high = FIRST_CM_ID;
	r = own_namespaces(&a->pid_ns, &a->user_ns);
	if (!r)
		r = settings_load(a, why, sizeof(why));
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
	r = check_namespaces(*out);
	if (!r)
		r = settings_compare(*out, why, sizeof(why));
	if (!r)
		return 0;
	munmap(*out, sizeof(struct arena));
	*out = NULL;
	return r;
}

/*
 * Clears all of the slot but its number of owners: if this process is killed before it has raised
 * the number, the next owner must not get one that an earlier owner had.
 */
static void clear(struct proc *p)
{
	const size_t after = offsetof(struct proc, life) + sizeof(p->life);

	memset(p, 0, offsetof(struct proc, life));
	memset((char *)p + after, 0, sizeof(*p) - after);
}

/*
 * A slot is free if it is not in use and its byte can be locked. Dead processes have been reaped since the mutex was
 * taken, so no object in the arena belongs to a former owner of the slot.
 */
static int take_slot(void)
{
	int r;

	for (uint32_t slot = 0; slot < MAX_PROCS; slot++) {
		struct proc *p = &arena()->procs[slot];

		if (p->used ||
			fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLK, F_WRLCK, 1 + slot, 1))
			continue;
		r = fabric_give_lanes(slot);
		if (r)
			return r;
		fabric_self.slot = slot;
		clear(p);
		if (arena()->procs_high <= slot)
			__atomic_store_n(&arena()->procs_high, slot + 1,
				__ATOMIC_RELAXED); /* read without the mutex by choose.c */
		p->pid = fabric_self.pid;
		__atomic_store_n(&p->life, p->life + 1,
			__ATOMIC_RELAXED); /* see fabric_is_peer() */
		p->used = 1;
		return 0;
	}
	return because(-EMFILE, "cannot join the fabric: it has %d processes already", MAX_PROCS);
}

static int enter_arena(void)
{
	sigset_t saved;
	int r;

	/* Byte 0 is locked, so this process is the only one that joins. */
	arena()->procs[NO_SLOT].pid = fabric_self.pid;
	while (fabric_enter(&saved)) {
		/* A thread that has lost the mutex in take_slot() comes back here. */
		fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLK, F_UNLCK, 1, MAX_PROCS);
		fabric_self.slot = NO_SLOT;
	}
	fabric_reap();
	r = take_slot();
	fabric_leave(&saved);
	return r;
}

/*
 * Replaces mode auto by trap if a setting below is on. Some of them need each doorbell store to
 * trap. The others determine the order in which messages are executed.
 */
static void exclude_auto(const struct arena *a)
{
	if (config_get()->strict)
		config_trap(WHY_STRICT);
	if (a->chaos)
		config_trap(WHY_CHAOS);
	if (a->link_mode)
		config_trap(WHY_LINK);
	if (config_get()->legacy_uars)
		config_trap(WHY_LEGACY);
}

/* Notifies the threads of mode auto, whose choice depends on the number of members. */
static void count_change(void)
{
	__atomic_fetch_add(&arena()->changes, 1, __ATOMIC_RELAXED);
}

static int enter(const char *dir, struct arena *a)
{
	int r;

	fabric_self.pid = getpid();
	fabric_self.slot = NO_SLOT;
	fabric_self.patience_ns = config_get()->patience_ns;
	fabric_self.lanes = !config_get()->strict && !a->chaos && !a->link_mode;
	strcpy(fabric_self.dir, dir);
	fabric_self.arena = a;
	exclude_auto(a);
	signals_install(); /* before the mutex is taken; see fabric/claim.h */
	r = enter_arena();
	if (!r) {
		count_change();
		return 0;
	}
	munmap(a, sizeof(*a));
	fabric_self.arena = NULL;
	return r;
}

static int attach(void)
{
	struct arena *a = NULL;
	char dir[128];
	int r;

	r = config_check(why, sizeof(why));
	if (r)
		return r;
	fabric_dir(dir, sizeof(dir));
	r = open_locked(dir);
	if (r)
		return r;
	r = anyone_else_alive() ? join_fabric(dir, &a) : create_fabric(dir, &a);
	if (!r)
		r = enter(dir, a);
	if (r) {
		if (!anyone_else_alive())
			tree_remove(dir);
		fds_disown(&fabric_self.lock_fd);
		return r;
	}
	/* Lets peers access this process's memory, which Yama's default forbids. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLK, F_UNLCK, 0, 1);
	return 0;
}

int member_attach(void)
{
	int r;

	attaching = true;
	pthread_mutex_lock(&attach_lock);
	*why = '\0';
	r = fabric_self.arena ? 0 : attach();
	if (r)
		explain(r);
	pthread_mutex_unlock(&attach_lock);
	attaching = false;
	return r;
}

void member_detach(void)
{
	sigset_t saved;

	if (!fabric_self.arena)
		return;
	while (fabric_enter(&saved))
		;
	if (copy_executing()) {
		/*
		 * A thread is still copying. Another member will reap this process after its
		 * end.
		 */
		fabric_leave(&saved);
		return;
	}
	fabric_hooks.reap(fabric_self.slot);
	arena()->procs[fabric_self.slot].used = 0;
	count_change();
	fabric_self.slot = NO_SLOT; /* the adapter's thread may still run for a moment */
	fabric_leave(&saved);
	fabric_byte_lock(fabric_self.lock_fd, F_OFD_SETLKW, F_WRLCK, 0, 1);
	/* F_OFD_GETLK does not report own locks, so this finds only the locks of other members. */
	if (!anyone_else_alive())
		tree_remove(fabric_self.dir);
	fds_disown(&fabric_self.lock_fd);
}

void member_hold(void)
{
	if (!attaching)
		pthread_mutex_lock(&attach_lock);
}

void member_release(void)
{
	if (!attaching)
		pthread_mutex_unlock(&attach_lock);
}

void member_forget(void)
{
	pthread_mutex_init(&attach_lock, NULL);
	attaching = false;
	/* Closing the inherited descriptor does not release the parent's locks. */
	fds_disown(&fabric_self.lock_fd);
	if (!fabric_self.arena)
		return;
	munmap(fabric_self.arena, sizeof(struct arena));
	claim_forget();
	memset(&fabric_self, 0, sizeof(fabric_self));
	fabric_self.lock_fd = -1;
}
