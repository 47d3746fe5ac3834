/* SPDX-License-Identifier: MIT */
#include "base/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"

/*
 * While shm_create_file() returns -EAGAIN, a server tries again: SHM_YIELDS times after a yield,
 * then SHM_NAPS times after a sleep of 1 ms. Then shm_become_server() returns -EADDRINUSE.
 */
#define SHM_YIELDS 1000
#define SHM_NAPS 1000

#define SHM_PIECE ((size_t)1 << 20) /* bytes that are allocated at once */

/*
 * The open regions of one library (or program) in this process, for the fork handler and to
 * find an existing mapping.
 */
static struct {
	pthread_mutex_t lock;
	pthread_once_t once;
	struct shm_region *first;
} shm_regions = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_ONCE_INIT, NULL};

static void shm_fork_prepare(void)
{
	pthread_mutex_lock(&shm_regions.lock);
}

static void shm_fork_parent(void)
{
	pthread_mutex_unlock(&shm_regions.lock);
}

/* The child closes the descriptors. The mappings stay until the child calls shm_close(). */
static void shm_fork_child(void)
{
	for (struct shm_region *r = shm_regions.first; r; r = r->next) {
		if (r->fd >= 0)
			close(r->fd);
		r->fd = -1;
		r->named = false;
	}
	pthread_mutex_unlock(&shm_regions.lock);
}

static void shm_fork_init(void)
{
	pthread_atfork(shm_fork_prepare, shm_fork_parent, shm_fork_child);
}

/* Opens the file description that holds the locks, and registers it for the fork handler. */
static int shm_open_locked(struct shm_region *r, int flags)
{
	int err = 0;

	pthread_once(&shm_regions.once, shm_fork_init);
	pthread_mutex_lock(&shm_regions.lock);
	r->fd = shm_open(r->path, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r->fd < 0) {
		err = -errno;
	} else {
		r->next = shm_regions.first;
		shm_regions.first = r;
	}
	pthread_mutex_unlock(&shm_regions.lock);
	return err;
}

/* Returns another mapped region of the same file and size, or NULL. Needs shm_regions.lock. */
static struct shm_region *shm_same_mapping(const struct shm_region *r)
{
	struct shm_region *q = shm_regions.first;

	while (q &&
		(q == r || !q->addr || q->dev != r->dev || q->ino != r->ino || q->size != r->size))
		q = q->next;
	return q;
}

/* Drops the locks on the file, and unmaps the memory if no other region shares it. */
static void shm_close_file(struct shm_region *r)
{
	pthread_mutex_lock(&shm_regions.lock);
	LIST_REMOVE(&shm_regions.first, r);
	if (r->addr && !shm_same_mapping(r))
		munmap(r->addr, r->size);
	r->addr = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	pthread_mutex_unlock(&shm_regions.lock);
}

static void shm_close_guard(struct shm_region *r)
{
	if (r->guard)
		shm_close_file(r->guard);
	free(r->guard);
	r->guard = NULL;
}

static void shm_close_locked(struct shm_region *r)
{
	shm_close_file(r);
	shm_close_guard(r);
}

/* Returns -EINVAL if prefix.name is not a valid file name. */
static int shm_set_path(struct shm_region *r, const char *prefix, const char *name)
{
	int n;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (!name || !*name || strchr(name, '/'))
		return -EINVAL;
	n = snprintf(r->path, sizeof(r->path), "/%s.%s", prefix, name);
	return n < 0 || n > SHM_NAME_MAX + 2 ? -EINVAL : 0;
}

static struct flock shm_flock(short type, uint32_t byte)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fl;
}

int shm_lock(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_WRLCK, byte);

	if (fcntl(r->fd, F_OFD_SETLK, &fl) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

void shm_unlock(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_UNLCK, byte);

	fcntl(r->fd, F_OFD_SETLK, &fl);
}

/* Like shm_locked(), but tests only the locks of this file. */
static int shm_file_locked(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_WRLCK, byte);

	if (fcntl(r->fd, F_OFD_GETLK, &fl) != 0)
		return -errno;
	return fl.l_type != F_UNLCK;
}

int shm_locked(const struct shm_region *r, uint32_t byte)
{
	return shm_file_locked(byte == SHM_SERVER && r->guard ? r->guard : r, byte);
}

bool shm_holds(const struct shm_region *r, int fd, uint32_t byte)
{
	struct flock fl = shm_flock(F_WRLCK, byte);
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_dev != r->dev || st.st_ino != r->ino)
		return false;
	/*
	 * F_OFD_GETLK with @fd ignores the locks of the description of @fd. So if the byte is
	 * locked, but F_OFD_GETLK with @fd finds no lock, that description holds the lock.
	 */
	if (shm_file_locked(r, byte) <= 0 || fcntl(fd, F_OFD_GETLK, &fl) != 0)
		return false;
	/* Tests again: another description may have dropped its lock before F_OFD_GETLK. */
	return fl.l_type == F_UNLCK && shm_file_locked(r, byte) > 0;
}

int shm_access_init(struct shm_access *a, uint32_t mode, uint32_t gid, uint32_t set)
{
	bool has_gid = set & SHM_SET_GID;

	if (set & ~SHM_SET_GID)
		return -EINVAL;
	if (mode && mode != 0600 && mode != 0660)
		return -EINVAL;
	if (has_gid && mode != 0660)
		return -EINVAL;
	if (gid && !has_gid && mode == 0660) /* the region would get a group that is not @gid */
		return -EINVAL;
	*a = (struct shm_access){.mode = mode, .gid = has_gid ? gid : 0, .has_gid = has_gid};
	return 0;
}

/* Returns true if this process is in the group. */
static bool shm_in_group(gid_t gid)
{
	int n = getgroups(0, NULL);
	gid_t *groups = (gid_t *)calloc(n > 0 ? (size_t)n : 1, sizeof(*groups));
	bool found = gid == getegid();

	n = groups ? getgroups(n, groups) : 0;
	for (int i = 0; i < n && !found; i++)
		found = groups[i] == gid;
	free(groups);
	return found;
}

/*
 * Returns 0 if the file has the expected mode and group, and belongs to this user, or, if mode 0660
 * is expected, to a group of this process; otherwise -EACCES.
 */
static int shm_check_owner(int fd, const struct shm_access *expected, struct stat *st_p)
{
	uint32_t mode;

	if (fstat(fd, st_p) != 0)
		return -errno;
	mode = st_p->st_mode & 0777;
	if (!S_ISREG(st_p->st_mode) || (mode & 077 && mode != 0660))
		return -EACCES;
	if (expected->mode && expected->mode != mode)
		return -EACCES;
	if (expected->has_gid && expected->gid != st_p->st_gid)
		return -EACCES;
	if (st_p->st_uid == geteuid())
		return 0;
	return expected->mode == 0660 && shm_in_group(st_p->st_gid) ? 0 : -EACCES;
}

/* Returns true if a server of this user may not have set the file's group and mode yet. */
static bool shm_begins(const struct stat *st)
{
	return st->st_mode == (S_IFREG | 0600) && !st->st_size && st->st_uid == geteuid();
}

/* Sets the group and the mode of the file. */
static int shm_give_access(int fd, const struct shm_access *a)
{
	if (a->has_gid && fchown(fd, (uid_t)-1, a->gid) != 0)
		return -errno;
	if (a->mode && fchmod(fd, a->mode) != 0)
		return -errno;
	return 0;
}

/*
 * Like lstat(2), for the region's name. Opens no descriptor, so that a process without free
 * descriptors can still remove its names.
 */
static int shm_stat_name(const struct shm_region *r, struct stat *st_p)
{
	char path[sizeof("/dev/shm") + sizeof(r->path)];

	snprintf(path, sizeof(path), "/dev/shm%s", r->path);
	return lstat(path, st_p);
}

/* Returns 1 if the name still refers to the file of this descriptor, 0 if not, -errno. */
static int shm_is_current(const struct shm_region *r)
{
	struct stat mine, named;

	if (shm_stat_name(r, &named) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(r->fd, &mine) != 0)
		return -errno;
	return named.st_dev == mine.st_dev && named.st_ino == mine.st_ino;
}

/*
 * Maps the file through another description, or shares an existing mapping of this process.
 * Returns -ESTALE if the name no longer refers to the file whose description holds the locks.
 */
static int shm_map(struct shm_region *r, const struct stat *locked, size_t size,
	const struct shm_access *expected)
{
	struct shm_region *same;
	struct stat st;
	void *addr = MAP_FAILED;
	int fd = shm_open(r->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	err = shm_check_owner(fd, expected, &st);
	if (!err && (st.st_dev != locked->st_dev || st.st_ino != locked->st_ino))
		err = -ESTALE;
	if (!err) {
		pthread_mutex_lock(&shm_regions.lock);
		r->dev = st.st_dev;
		r->ino = st.st_ino;
		r->size = size;
		r->access = (struct shm_access){st.st_mode & 0777, st.st_gid, true};
		same = shm_same_mapping(r);
		addr = same ? same->addr :
			      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (addr == MAP_FAILED)
			err = -errno;
		else
			r->addr = addr;
		pthread_mutex_unlock(&shm_regions.lock);
	}
	close(fd);
	return err;
}

/* ---- the guard of a group's region ---- */

/* The contents of the guard: they identify the region's file. */
struct shm_guarded {
	uint64_t dev, ino;
};

static void shm_guard_path(struct shm_region *g, const struct shm_region *r)
{
	const char *name = strchr(r->path, '.'); /* prefixes contain no dot */

	memset(g, 0, sizeof(*g));
	g->fd = -1;
	snprintf(g->path, sizeof(g->path), "%.*s-guard%s", (int)(name - r->path), r->path, name);
}

/*
 * Returns true if the file may be the guard of a region of @owner. Its owner must be able to open
 * it for writing, or no process could lock it and remove the region.
 */
static bool shm_is_guard(const struct stat *st, uid_t owner)
{
	return S_ISREG(st->st_mode) && st->st_uid == owner && (st->st_mode & 0677) == 0600;
}

/*
 * Opens the guard of a group's region. Leaves g->fd at -1 if there is none that belongs to the
 * file's owner and that this process may open. Returns 0 or -errno.
 */
static int shm_guard_open(struct shm_region *g, const struct shm_region *r, const struct stat *file,
	int flags)
{
	struct stat st;
	int err;

	shm_guard_path(g, r);
	if ((file->st_mode & 0777) != 0660)
		return 0;
	err = shm_open_locked(g, flags | O_NONBLOCK); /* it may be another user's FIFO */
	if (!err && fstat(g->fd, &st) != 0)
		err = -errno;
	if (!err && !shm_is_guard(&st, file->st_uid))
		err = -ENOENT;
	if (err)
		shm_close_file(g);
	return err == -ENOENT || err == -EACCES ? 0 : err;
}

/*
 * Opens the guard, if the region has one that this process may open. Then the guard's locks show
 * whether the server is alive. Returns 0 or -errno; -ECONNREFUSED if the guard belongs to another
 * region, whose server is just replacing this one.
 */
static int shm_guard_join(struct shm_region *r, const struct stat *file)
{
	struct shm_region *g = malloc(sizeof(*g));
	struct shm_guarded of;
	int err;

	if (!g)
		return -ENOMEM;
	err = shm_guard_open(g, r, file, O_RDONLY);
	if (err || g->fd < 0) {
		free(g);
		return err;
	}
	r->guard = g;
	err = shm_read(g, 0, &of, sizeof(of));
	if (!err && (of.dev != (uint64_t)file->st_dev || of.ino != (uint64_t)file->st_ino))
		err = -EPROTO;
	if (err)
		shm_close_guard(r);
	return err == -EPROTO ? -ECONNREFUSED : err;
}

/* Writes the region's identity into its guard. */
static int shm_guard_sign(const struct shm_region *r, const struct stat *file)
{
	const struct shm_guarded of = {file->st_dev, file->st_ino};

	if (!r->guard)
		return 0;
	if (pwrite(r->guard->fd, &of, sizeof(of), 0) == (ssize_t)sizeof(of))
		return 0;
	return errno ? -errno : -ENOSPC;
}

/* ---- names and servers ---- */

/* Returns true if the file begins with this word, or if the word is 0. */
static bool shm_begins_with(const struct shm_region *r, uint64_t magic)
{
	uint64_t word = 0;

	return !magic || (!shm_read(r, 0, &word, sizeof(word)) && word == magic);
}

/* Returns 0 if the name still refers to the file, -EAGAIN if not, or another -errno. */
static int shm_check_current(const struct shm_region *r)
{
	int current = shm_is_current(r);

	return current > 0 ? 0 : current ? current : -EAGAIN;
}

/*
 * Locks the naming byte, and returns 0 if the server of this file is dead and the name is current.
 * Returns -EADDRINUSE if the server is alive, and -EAGAIN if another process is removing the name
 * or becoming the server, or has just done so. A process holds the naming byte while it removes the
 * name of a stale file or becomes a file's server. So of several servers that find the same stale
 * file exactly one removes it, and none removes a file that has just got a server.
 */
static int shm_check_stale(const struct shm_region *r)
{
	int err = shm_lock(r, SHM_NAMING), alive;

	if (err)
		return err;
	alive = shm_file_locked(r, SHM_SERVER);
	if (alive < 0)
		return alive;
	/*
	 * Checked after the test of the server's lock: a server that ends removes its name before
	 * it drops its lock. So if the lock is free and the name is current, it stays current until
	 * we remove it.
	 */
	err = shm_check_current(r);
	return !err && alive ? -EADDRINUSE : err;
}

/*
 * Makes the file and locks its naming byte: without this lock, another server could regard the new
 * file as stale. Returns 0, -EEXIST, -EAGAIN if another server has removed the file already, or
 * another error.
 */
static int shm_make_file(struct shm_region *r)
{
	int err = shm_open_locked(r, O_RDWR | O_CREAT | O_EXCL);

	if (err)
		return err;
	err = shm_lock(r, SHM_NAMING);
	if (!err)
		err = shm_check_current(r);
	if (err)
		shm_close_file(r);
	return err;
}

/*
 * Makes the guard that a stale region of a group lacks. A new server of the group locks the guard,
 * not the stale region, before it removes the region. So without a guard both that server and this
 * process might remove a file of this name, and the later one would remove a new server's file. If
 * a file that is no guard has the guard's name, no server of the group can start unless it can
 * remove that file, and no guard is made. Returns 0, -EAGAIN if there is a guard now, or another
 * -errno.
 */
static int shm_guard_supply(struct shm_region *g)
{
	struct stat named;
	int err = shm_make_file(g);

	g->named = !err;
	if (err != -EEXIST)
		return err;
	return shm_stat_name(g, &named) == 0 && !shm_is_guard(&named, geteuid()) ? 0 : -EAGAIN;
}

/*
 * Removes the name, which must exist, unless it belongs to a living server (-EADDRINUSE)
 * or the file does not begin with magic (-EPROTO). -EAGAIN: see shm_check_stale(). If this process
 * can open the guard of a group's region, the locks of the guard show whether the server is alive,
 * and select the process that removes the file; otherwise the locks of the file itself do. If
 * r->guard is set, this process has locked the guard as the new server, so no other server of the
 * region is alive.
 */
static int shm_remove_stale(struct shm_region *r, uint64_t magic)
{
	const struct shm_access own = {0};
	struct shm_region guard = {.fd = -1};
	struct stat st;
	int err = shm_open_locked(r, O_RDWR);

	if (err)
		return err;
	err = shm_check_owner(r->fd, &own, &st);
	if (!err && !r->guard)
		err = shm_guard_open(&guard, r, &st, O_RDWR);
	if (!err && guard.fd >= 0)
		err = shm_check_stale(&guard);
	if (!err && ((st.st_mode & 0777) != 0660 || (!r->guard && guard.fd < 0)))
		err = shm_check_stale(r);
	if (!err && (st.st_mode & 0777) == 0660 && !r->guard && guard.fd < 0)
		err = shm_guard_supply(&guard);
	if (!err)
		err = shm_check_current(r);
	if (!err && !shm_begins_with(r, magic))
		err = -EPROTO;
	if (!err && shm_unlink(r->path) != 0)
		err = -errno;
	if (guard.fd >= 0 && (!err || guard.named))
		shm_unlink(guard.path);
	shm_close_file(&guard);
	shm_close_file(r);
	return err;
}

int shm_remove_remains(const char *prefix, const char *name, uint64_t magic)
{
	struct shm_region r;
	int err = shm_set_path(&r, prefix, name);

	return err ? err : shm_remove_stale(&r, magic);
}

/*
 * Tries once to make the file and to lock its server byte. Returns 0, -EAGAIN if the caller should
 * try again, or another error.
 */
static int shm_create_file(struct shm_region *r)
{
	int err = shm_make_file(r);

	if (err == -EEXIST) {
		err = shm_remove_stale(r, 0);
		return !err || err == -ENOENT ? -EAGAIN : err; /* the caller tries again */
	}
	if (err)
		return err;
	err = shm_lock(r, SHM_SERVER);
	if (err)
		shm_unlink(r->path);
	shm_unlock(r, SHM_NAMING);
	if (err)
		shm_close_file(r);
	return err;
}

/* Makes the file and locks its server byte. */
static int shm_become_server(struct shm_region *r)
{
	int err = shm_create_file(r);

	/* Also sleeps, because a process that holds the naming byte may have to wait for a core. */
	for (int i = 0; err == -EAGAIN && i < SHM_YIELDS + SHM_NAPS; i++) {
		if (i < SHM_YIELDS)
			sched_yield();
		else
			clock_nap(NSEC_PER_MSEC);
		err = shm_create_file(r);
	}
	r->named = !err;
	return err == -EAGAIN ? -EADDRINUSE : err;
}

static int shm_guard_create(struct shm_region *r)
{
	struct shm_region *g = malloc(sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	shm_guard_path(g, r);
	err = shm_become_server(g);
	if (err)
		free(g);
	else
		r->guard = g;
	return err;
}

/* Returns -EFBIG for a size at which the process would get SIGXFSZ. */
static int shm_check_limit(size_t size)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
		return -errno;
	return size > limit.rlim_cur ? -EFBIG : 0;
}

/*
 * Allocates the memory of a new file: with ftruncate() alone, a full /dev/shm would raise SIGBUS
 * later. Before Linux 6.10 a signal interrupts an allocation, which then frees all it has
 * allocated; so each call allocates only a piece, or periodic signals would keep a long one from
 * ending. In a tmpfs the file gets its size at the end: nobody may map a part of it.
 */
static int shm_allocate(int fd, size_t size)
{
	for (size_t at = 0, n; at < size;) {
		int err = 0;

		n = size - at < SHM_PIECE ? size - at : SHM_PIECE;
		if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)n))
			err = errno;
		if (err == EOPNOTSUPP) /* not a tmpfs: the C library writes zeros */
			err = posix_fallocate(fd, (off_t)at, (off_t)n);
		if (!err)
			at += n;
		else if (err != EINTR)
			return -err;
	}
	return ftruncate(fd, (off_t)size) ? -errno : 0;
}

int shm_create_for(const char *prefix, const char *name, size_t size,
	const struct shm_access *access, struct shm_region *r)
{
	struct stat st;
	int err = size ? shm_set_path(r, prefix, name) : -EINVAL;

	if (!err)
		err = shm_check_limit(size);
	if (!err && access->mode == 0660)
		err = shm_guard_create(r);
	if (err)
		return err;
	err = shm_become_server(r);
	if (err)
		goto remove;
	if (fstat(r->fd, &st) != 0)
		err = -errno;
	/* The guard must identify this file before members can open it. */
	if (!err)
		err = shm_guard_sign(r, &st);
	if (!err)
		err = shm_give_access(r->fd, access);
	if (!err)
		err = shm_allocate(r->fd, size);
	if (!err)
		err = shm_map(r, &st, size, access);
	if (!err)
		return 0;
remove:
	shm_close(r);
	return err;
}

int shm_attach_for(const char *prefix, const char *name, size_t min_size,
	const struct shm_access *expected, struct shm_region *r)
{
	struct stat st;
	int err = shm_set_path(r, prefix, name);

	if (!err)
		err = shm_open_locked(r, O_RDWR);
	if (err)
		return err;
	err = shm_check_owner(r->fd, expected, &st);
	if (!err)
		err = shm_guard_join(r, &st);
	else if (err == -EACCES && shm_begins(&st))
		err = 0;
	if (!err) {
		int alive = shm_locked(r, SHM_SERVER);

		if (alive <= 0)
			err = alive ? alive : -ECONNREFUSED;
		else if (st.st_size <= 0 || (size_t)st.st_size < min_size)
			err = -EAGAIN;
		else
			err = shm_map(r, &st, (size_t)st.st_size, expected);
	}
	if (err) {
		shm_close_locked(r);
		return err == -ESTALE ? -EAGAIN : err;
	}
	return 0;
}

int shm_look(const char *prefix, const char *name, struct shm_region *r)
{
	struct stat st;
	int err = shm_set_path(r, prefix, name);

	/* O_NONBLOCK: the file may be a FIFO. */
	if (!err)
		err = shm_open_locked(r, O_RDONLY | O_NONBLOCK);
	if (err)
		return err;
	if (fstat(r->fd, &st) != 0)
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EACCES;
	else
		err = shm_guard_join(r, &st);
	if (err == -ECONNREFUSED) /* the guard belongs to another region: do without it */
		err = 0;
	if (err) {
		shm_close_locked(r);
		return err;
	}
	r->size = (size_t)st.st_size;
	r->access = (struct shm_access){st.st_mode & 0777, st.st_gid, true};
	return 0;
}

int shm_read(const struct shm_region *r, uint64_t offset, void *buf, size_t len)
{
	ssize_t n = pread(r->fd, buf, len, (off_t)offset);

	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EPROTO;
}

int shm_remove_name(struct shm_region *r)
{
	int current = r->named ? shm_is_current(r) : 0;

	if (current < 0)
		return current;
	if (current && shm_unlink(r->path) != 0 && errno != ENOENT)
		return -errno;
	r->named = false;
	/*
	 * The guard is removed after the region: without a guard, the region's own locks would
	 * decide whether the server is alive.
	 */
	return r->guard ? shm_remove_name(r->guard) : 0;
}

void shm_move(struct shm_region *to, struct shm_region *from)
{
	struct shm_region **p = &shm_regions.first;

	pthread_mutex_lock(&shm_regions.lock);
	while (*p && *p != from)
		p = &(*p)->next;
	*to = *from;
	if (*p)
		*p = to;
	*from = (struct shm_region){.fd = -1};
	pthread_mutex_unlock(&shm_regions.lock);
}

void shm_release(struct shm_region *r)
{
	pthread_mutex_lock(&shm_regions.lock);
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	pthread_mutex_unlock(&shm_regions.lock);
}

void shm_close(struct shm_region *r)
{
	shm_remove_name(r);
	shm_close_locked(r);
}
