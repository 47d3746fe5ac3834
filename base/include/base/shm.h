/* SPDX-License-Identifier: MIT */
/*
 * A named shared-memory region, made by one process (the server) and mapped by others
 * of the same user, or of one group, in which everybody can see who is still there.
 *
 *	struct shm_region r;
 *	err = shm_create("layer", "job7", size, &r);	server; holds byte 0
 *	... fill *r.addr in, store the magic last, with release ...
 *
 *	err = shm_attach("layer", "job7", min_size, &r);	client
 *	... load the magic with acquire, check it and every size against r.size ...
 *	err = shm_lock(&r, 1 + id);			"I am client id"
 *	shm_locked(&r, SHM_SERVER)			is the server alive?
 *	shm_close(&r);
 *
 * Liveness: who is there holds a byte lock on the region's file, an open file
 * description lock, which the kernel drops when the last reference to the description
 * goes: with the process, however it ends, and not with a thread. It sees through pid
 * namespaces and does not mistake a reused pid. Three things would break it, hence:
 * a mapping holds a reference, so the description that locks is not the one that is
 * mapped; a forked child inherits the description, so the child closes it in a
 * pthread_atfork() handler (and may only shm_close() the region); exec'd programs
 * would, too: O_CLOEXEC. A child made by a bare clone(2) is not seen.
 *
 * A process maps a region once, however many objects of its threads have it open: the
 * tables of its pages are shared, and a thread sanitizer sees that it is the same memory.
 *
 * The file is /dev/shm/<prefix>.<name>, mode 0600, or 0660 for a group. Neither function
 * follows a symbolic link, and both refuse what everybody may open, and what another user owns:
 * unless it is for a group, and who attaches says that this is what it expects. Otherwise any
 * member of a group that two users share could lay a region of a known name in the other's way.
 *
 * A region is one thread's at a time; different regions are independent. It must not
 * move while it is open (the fork handler knows its address).
 */
#ifndef BASE_SHM_H
#define BASE_SHM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHM_NAME_MAX 200 /* of prefix and name together */
#define SHM_SERVER 0 /* the byte that a server holds; the others are the layer's to give */
#define SHM_NAMING UINT32_MAX /* but this: held while a file gets a server or loses its name */
#define SHM_TRIES 1000 /* lost races with other creators before -EADDRINUSE */

/* Whom a region is for; all zero: its user alone. */
struct shm_access {
	uint32_t mode; /* 0600, 0660, or 0: create makes 0600, attach takes either of its user's */
	uint32_t gid; /* with has_gid: the group, otherwise the creator's */
	bool has_gid;
};

struct shm_region {
	void *addr;
	size_t size;
	int fd; /* the description that holds the locks; -1 in a forked child */
	bool named; /* this process made the name and has not removed it yet */
	char path[SHM_NAME_MAX + 3]; /* for shm_open(3) */
	struct shm_access access; /* as the file has it */
	dev_t dev; /* of the file that is mapped */
	ino_t ino;
	struct shm_region *next;
};

/*
 * Every open region that one library (or program) has in this process: for the fork
 * handler, and to find a mapping that is there. Weak: all that include this have one.
 */
struct shm_registry {
	pthread_mutex_t lock;
	pthread_once_t once;
	struct shm_region *first;
};

__attribute__((weak,
	visibility("hidden"))) struct shm_registry shm_regions = {PTHREAD_MUTEX_INITIALIZER,
	PTHREAD_ONCE_INIT, NULL};

static inline void shm_fork_prepare(void)
{
	pthread_mutex_lock(&shm_regions.lock);
}

static inline void shm_fork_parent(void)
{
	pthread_mutex_unlock(&shm_regions.lock);
}

/* The child gives up every claim; the mappings stay, so that it may shm_close() them. */
static inline void shm_fork_child(void)
{
	for (struct shm_region *r = shm_regions.first; r; r = r->next) {
		if (r->fd >= 0)
			close(r->fd);
		r->fd = -1;
		r->named = false;
	}
	pthread_mutex_unlock(&shm_regions.lock);
}

static inline void shm_fork_init(void)
{
	pthread_atfork(shm_fork_prepare, shm_fork_parent, shm_fork_child);
}

/* Opens the lock's description, known to the fork handler from its first moment on. */
static inline int shm_open_locked(struct shm_region *r, int flags)
{
	int err = 0;

	pthread_once(&shm_regions.once, shm_fork_init);
	pthread_mutex_lock(&shm_regions.lock);
	r->fd = shm_open(r->path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (r->fd < 0) {
		err = -errno;
	} else {
		r->next = shm_regions.first;
		shm_regions.first = r;
	}
	pthread_mutex_unlock(&shm_regions.lock);
	return err;
}

/* Another region of ours that maps the same; the registry is locked. */
static inline struct shm_region *shm_same_mapping(const struct shm_region *r)
{
	struct shm_region *q = shm_regions.first;

	while (q &&
		(q == r || !q->addr || q->dev != r->dev || q->ino != r->ino || q->size != r->size))
		q = q->next;
	return q;
}

/* Drops the locks, and the mapping if nobody else has it. */
static inline void shm_close_locked(struct shm_region *r)
{
	struct shm_region **p = &shm_regions.first;

	pthread_mutex_lock(&shm_regions.lock);
	while (*p && *p != r)
		p = &(*p)->next;
	if (*p)
		*p = r->next;
	if (r->addr && !shm_same_mapping(r))
		munmap(r->addr, r->size);
	r->addr = NULL;
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	pthread_mutex_unlock(&shm_regions.lock);
}

/* -EINVAL when prefix.name is no usable file name. */
static inline int shm_set_path(struct shm_region *r, const char *prefix, const char *name)
{
	int n;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (!name || !*name || strchr(name, '/'))
		return -EINVAL;
	n = snprintf(r->path, sizeof(r->path), "/%s.%s", prefix, name);
	return n < 0 || (size_t)n >= sizeof(r->path) ? -EINVAL : 0;
}

static inline struct flock shm_flock(short type, uint32_t byte)
{
	struct flock fl = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fl;
}

/*
 * Takes a byte. 0; -EAGAIN when somebody else holds it; -EBADF in a forked child.
 * Taking it again is no error.
 */
static inline int shm_lock(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_WRLCK, byte);

	if (fcntl(r->fd, F_OFD_SETLK, &fl) == 0)
		return 0;
	return errno == EACCES ? -EAGAIN : -errno;
}

static inline void shm_unlock(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_UNLCK, byte);

	fcntl(r->fd, F_OFD_SETLK, &fl);
}

/* 1 when somebody else holds the byte, 0 when nobody does, -errno. A system call. */
static inline int shm_locked(const struct shm_region *r, uint32_t byte)
{
	struct flock fl = shm_flock(F_WRLCK, byte);

	if (fcntl(r->fd, F_OFD_GETLK, &fl) != 0)
		return -errno;
	return fl.l_type != F_UNLCK;
}

/* -EINVAL: another mode than those two, or a group that the mode gives nothing. */
static inline int shm_access_init(struct shm_access *a, uint32_t mode, uint32_t gid, bool has_gid)
{
	if (mode && mode != 0600 && mode != 0660)
		return -EINVAL;
	if (has_gid && mode != 0660)
		return -EINVAL;
	*a = (struct shm_access){.mode = mode, .gid = has_gid ? gid : 0, .has_gid = has_gid};
	return 0;
}

/* Is this process a member? Who may open everything need not be. */
static inline bool shm_in_group(gid_t gid)
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

/* Ours, or our group's where that is expected, and for nobody else? -EACCES otherwise. */
static inline int shm_check_owner(int fd, const struct shm_access *expected, struct stat *st_p)
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

/* Opens the file to a group: by its descriptor, and before anybody is told that it is ready. */
static inline int shm_give_access(int fd, const struct shm_access *a)
{
	if (a->has_gid && fchown(fd, (uid_t)-1, a->gid) != 0)
		return -errno;
	if (a->mode && fchmod(fd, a->mode) != 0)
		return -errno;
	return 0;
}

/*
 * 1 when the name still means the file of this descriptor, 0 when not, -errno. Takes no
 * descriptor: a process that has none left can still remove its names.
 */
static inline int shm_is_current(const struct shm_region *r)
{
	char path[sizeof("/dev/shm") + sizeof(r->path)];
	struct stat mine, named;

	snprintf(path, sizeof(path), "/dev/shm%s", r->path);
	if (lstat(path, &named) != 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(r->fd, &mine) != 0)
		return -errno;
	return named.st_dev == mine.st_dev && named.st_ino == mine.st_ino;
}

/*
 * Maps, through a description of its own, or shares a mapping that this process has. The
 * name can have passed to another file since the lock's description was opened: -ESTALE.
 */
static inline int shm_map(struct shm_region *r, const struct stat *locked, size_t size,
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

/*
 * The name is taken: by a living server (-EADDRINUSE), or by what a dead one left, which
 * is removed. Who removes a file's name, or becomes its server, holds its naming byte; so
 * of several servers that find the same remains, one removes them, once, and none removes
 * what has just found its server. -EAGAIN: look again.
 */
static inline int shm_remove_stale(struct shm_region *r)
{
	const struct shm_access own = {0};
	struct stat st;
	int err = shm_open_locked(r, 0), alive, current = 0;

	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	err = shm_check_owner(r->fd, &own, &st);
	if (!err)
		err = shm_lock(r, SHM_NAMING);
	if (!err)
		current = shm_is_current(r);
	if (current < 0)
		err = current;
	if (current > 0) {
		alive = shm_locked(r, SHM_SERVER);
		if (alive)
			err = alive < 0 ? alive : -EADDRINUSE;
		else
			shm_unlink(r->path);
	}
	shm_close_locked(r);
	return err ? err : -EAGAIN;
}

/* One try to make the file and to hold its server byte. -EAGAIN: lost a race. */
static inline int shm_create_file(struct shm_region *r)
{
	int err = shm_open_locked(r, O_CREAT | O_EXCL), current = 0;

	if (err == -EEXIST)
		return shm_remove_stale(r);
	if (err)
		return err;
	/* Until the server byte is held another server may take the new file for remains. */
	err = shm_lock(r, SHM_NAMING);
	if (!err)
		current = shm_is_current(r);
	if (!err && current <= 0)
		err = current ? current : -EAGAIN;
	if (!err)
		err = shm_lock(r, SHM_SERVER);
	if (err && current > 0)
		shm_unlink(r->path);
	shm_unlock(r, SHM_NAMING);
	if (err)
		shm_close_locked(r);
	return err;
}

/*
 * Makes the region, zero-filled, with its memory allocated, and holds byte SHM_SERVER;
 * what a dead server left under that name is replaced. 0, or
 *	-EINVAL		the name is empty, too long, or has a '/' in it; size 0
 *	-EADDRINUSE	a living server has the name
 *	-EACCES, -ELOOP	another user has the name, or it is a symbolic link
 *	-EPERM		the process may not give a file to this group
 *	-ENOSPC, -ENOMEM, -EMFILE, ...	as the kernel says; nothing is left behind
 */
static inline int shm_create_for(const char *prefix, const char *name, size_t size,
	const struct shm_access *access, struct shm_region *r)
{
	struct stat st;
	int err = size ? shm_set_path(r, prefix, name) : -EINVAL;

	if (err)
		return err;
	err = -EAGAIN;
	for (int i = 0; err == -EAGAIN && i < SHM_TRIES; i++) {
		err = shm_create_file(r);
		if (err == -EAGAIN)
			sched_yield();
	}
	if (err)
		return err == -EAGAIN ? -EADDRINUSE : err;
	err = shm_give_access(r->fd, access);
	if (err)
		goto remove;
	/* ftruncate alone would let a full /dev/shm come as a SIGBUS later. */
	do
		err = -posix_fallocate(r->fd, 0, (off_t)size);
	while (err == -EINTR);
	if (!err && fstat(r->fd, &st) != 0)
		err = -errno;
	if (!err)
		err = shm_map(r, &st, size, access);
	if (err)
		goto remove;
	r->named = true;
	return 0;
remove:
	shm_unlink(r->path);
	shm_close_locked(r);
	return err;
}

/* For the user alone. */
static inline int shm_create(const char *prefix, const char *name, size_t size,
	struct shm_region *r)
{
	const struct shm_access own = {0};

	return shm_create_for(prefix, name, size, &own, r);
}

/*
 * Maps an existing region, whole; holds no byte yet. The caller checks magic, version
 * and sizes. 0, or
 *	-EINVAL		as above
 *	-ENOENT		no such region: no server yet; try again later
 *	-ECONNREFUSED	its server is dead; a new one will replace it
 *	-EAGAIN		its server is still making it (smaller than min_size), or a new
 *			one is replacing it at this moment
 *	-EACCES		another user's, or not what is expected; or a group's region whose
 *			server has only just begun to make it
 */
static inline int shm_attach_for(const char *prefix, const char *name, size_t min_size,
	const struct shm_access *expected, struct shm_region *r)
{
	struct stat st;
	int err = shm_set_path(r, prefix, name);

	if (!err)
		err = shm_open_locked(r, 0);
	if (err)
		return err;
	err = shm_check_owner(r->fd, expected, &st);
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

/* What is the user's own. */
static inline int shm_attach(const char *prefix, const char *name, size_t min_size,
	struct shm_region *r)
{
	const struct shm_access own = {0};

	return shm_attach_for(prefix, name, min_size, &own, r);
}

/*
 * The server takes the name away; mappings live on, nobody can attach any more, and a
 * crash of all its users leaves nothing. 0, also when there is nothing (more) to remove.
 */
static inline int shm_remove_name(struct shm_region *r)
{
	int current = r->named ? shm_is_current(r) : 0;

	if (current < 0)
		return current;
	if (current && shm_unlink(r->path) != 0 && errno != ENOENT)
		return -errno;
	r->named = false;
	return 0;
}

/* Unmaps, drops every byte, and removes the name if this process made it. */
static inline void shm_close(struct shm_region *r)
{
	shm_remove_name(r);
	shm_close_locked(r);
}

#endif
