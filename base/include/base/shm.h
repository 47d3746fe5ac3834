/* SPDX-License-Identifier: MIT */
/*
 * A named shared-memory region. One process (the server) creates it, other processes of the same
 * user or group map it, and each of them can test whether another one is still alive.
 *
 *	struct shm_region r;
 *	err = shm_create("layer", "job7", size, &r);	the server; it locks byte 0
 *	... fill *r.addr in, store the magic last, with release ...
 *
 *	err = shm_attach("layer", "job7", min_size, &r);	client
 *	... load the magic with acquire, check it and every size against r.size ...
 *	err = shm_lock(&r, 1 + id);			claims client id `id`
 *	shm_locked(&r, SHM_SERVER)			tests whether the server is alive
 *	shm_close(&r);
 *
 * Liveness: each process holds a lock on one byte of the region's file. It is an open file
 * description lock, which the kernel drops with the last reference to the description: when
 * the process ends in any way, but not when a thread ends. It works across pid namespaces and
 * does not depend on pids, which may be reused. There must be no other references to the
 * description:
 *	- A mapping holds a reference, so another description is used for the mapping.
 *	- A forked child inherits the descriptor, so the child closes it in a pthread_atfork()
 *	  handler (and may only shm_close() the region). A child made by a bare clone(2) is not handled.
 *	- exec closes the descriptor (O_CLOEXEC).
 *
 * If several struct shm_region of the list of open regions (below) have the same region open, they
 * share one mapping. So there is one set of page tables, and a thread sanitizer sees that all of
 * them use the same memory.
 *
 * Members of a group open the region's file for writing, so they can lock any of its bytes.
 * Therefore the server of a group's region also locks byte SHM_SERVER of a second file, the guard
 * (mode 0600), whose contents identify the region. Processes that can open the guard test only the
 * lock on the guard. So even if a member of the group has locked the byte of a dead server's
 * region, a new server of the same user can replace it. Other users test the lock on the region
 * itself. The guard's name is made before the region's name, and removed after it. If a group's
 * region has no guard, a process that removes the region makes one first, and removes it last.
 *
 * The file is /dev/shm/<prefix>.<name>, mode 0600, or 0660 for a group; the guard is
 * /dev/shm/<prefix>-guard.<name>. shm_create() and shm_attach() do not follow symbolic links, and
 * refuse files that everybody may open or that another user owns. shm_attach_for() accepts another
 * user's region only if the region is for a group and the caller expects that. Otherwise another
 * member of the group could create a region with the name of the caller's own server, and the
 * caller would attach to it.
 *
 * A struct shm_region belongs to one thread at a time; different ones are independent. The struct
 * must not move while the region is open, because the list of open regions contains its address.
 *
 * src/shm.c is compiled into each library and program that uses this header, so each of them has
 * its own list of open regions and its own fork handler.
 */
#ifndef BASE_SHM_H
#define BASE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SHM_NAME_MAX 200 /* of prefix and name together */
#define SHM_SERVER 0 /* the byte that a server locks; the layer assigns the others */
#define SHM_NAMING UINT32_MAX /* byte locked while a server starts or a stale name is removed */

/* The users that may open a region. All zero: only its owner. */
struct shm_access {
	/* 0600, 0660, or 0: create makes 0600, attach accepts 0600 and 0660 of its own user */
	uint32_t mode;
	uint32_t gid; /* the group, if has_gid is set; otherwise it is the creator's group */
	bool has_gid;
};

struct shm_region {
	void *addr;
	size_t size;
	int fd; /* its description holds the locks; -1 in a forked child */
	bool named; /* this process has created the name and not removed it yet */
	char path[SHM_NAME_MAX + 9]; /* for shm_open(3) */
	struct shm_access access; /* of the file */
	dev_t dev; /* of the mapped file */
	ino_t ino;
	struct shm_region *guard; /* of a group's region, if this process may open it */
	struct shm_region *next; /* in the list of open regions of this library or program */
};

/*
 * Makes the region, zero-filled, with its memory allocated, and locks byte SHM_SERVER. Replaces
 * the region of a dead server with the same name. Returns 0 or
 *	-EINVAL		the name is empty, too long, or contains '/'; size 0
 *	-EFBIG		size exceeds the process's limit of file sizes, RLIMIT_FSIZE
 *	-EADDRINUSE	a living server has the name
 *	-EACCES, -ELOOP	another user has the name, or it is a symbolic link
 *	-EPERM		the process may not give a file to this group
 *	-ENOSPC, -ENOMEM, -EMFILE, ...	from the kernel; nothing is left behind
 */
int shm_create_for(const char *prefix, const char *name, size_t size,
	const struct shm_access *access, struct shm_region *r);

/* Like shm_create_for(), for this user alone. */
static inline int shm_create(const char *prefix, const char *name, size_t size,
	struct shm_region *r)
{
	const struct shm_access own = {0};

	return shm_create_for(prefix, name, size, &own, r);
}

/*
 * Maps the whole existing region, without locking a byte. The caller must check magic, version
 * and sizes. Returns 0 or
 *	-EINVAL		as for shm_create_for()
 *	-ENOENT		no such region: no server yet; try again later
 *	-ECONNREFUSED	its server is dead; a new one will replace it
 *	-EAGAIN		its server is still making it (smaller than min_size), or a new
 *			server is replacing it at this moment
 *	-EACCES		it belongs to another user, or its access is not the expected one; or it is
 *			a group's region whose server, of another user, has only just begun to make
 *			it
 *	-ELOOP		the name is a symbolic link
 *	-ENOMEM, -EMFILE, ...	from the kernel
 */
int shm_attach_for(const char *prefix, const char *name, size_t min_size,
	const struct shm_access *expected, struct shm_region *r);

/* Like shm_attach_for(), for a region of this user. */
static inline int shm_attach(const char *prefix, const char *name, size_t min_size,
	struct shm_region *r)
{
	const struct shm_access own = {0};

	return shm_attach_for(prefix, name, min_size, &own, r);
}

/*
 * Locks a byte of the region's file. Returns 0, also if @r has locked the byte already; -EAGAIN if
 * another struct shm_region has locked it; -EBADF in a forked child; or another -errno.
 */
int shm_lock(const struct shm_region *r, uint32_t byte);

void shm_unlock(const struct shm_region *r, uint32_t byte);

/*
 * Returns 1 if another struct shm_region has locked the byte, 0 if none has, or -errno. Makes a
 * system call. For SHM_SERVER it tests the guard, if there is one.
 */
int shm_locked(const struct shm_region *r, uint32_t byte);

/*
 * Returns true if @fd, which another process has sent over a socket, refers to the open file
 * description that has locked the byte.
 */
bool shm_holds(const struct shm_region *r, int fd, uint32_t byte);

#define SHM_SET_GID 1u /* bit of `set`: the gid is valid */

/*
 * Fills *a in. Returns 0, or -EINVAL for a mode other than 0, 0600 and 0660, for SHM_SET_GID
 * without mode 0660, for mode 0660 with a gid other than 0 without SHM_SET_GID, and for other bits.
 */
int shm_access_init(struct shm_access *a, uint32_t mode, uint32_t gid, uint32_t set);

/*
 * The server removes the name. Mappings stay valid, no process can attach any more, and nothing
 * is left behind if all processes crash. Returns 0, also if there is nothing to remove, or -errno.
 */
int shm_remove_name(struct shm_region *r);

/*
 * Removes the file that a dead server left behind under this name. Returns 0, or, with nothing
 * removed,
 *	-EADDRINUSE	its server is alive
 *	-EPROTO		its first 8 bytes are not @magic; with magic 0 any file may be removed
 *	-EAGAIN		another process is removing it or becoming its server at this moment
 *	-EINVAL, -ENOENT, -EACCES, -ELOOP	as for shm_attach_for()
 */
int shm_remove_remains(const char *prefix, const char *name, uint64_t magic);

/*
 * Opens a region of any user for shm_locked() and shm_read() only. The region is not mapped,
 * because access to the mapping raises SIGBUS if another process shortens the file. Sets r->size
 * and r->access. The caller must call shm_close(). Returns 0, or -EINVAL, -ENOENT, -EACCES or
 * -ELOOP as shm_attach_for() does.
 */
int shm_look(const char *prefix, const char *name, struct shm_region *r);

/* Reads len bytes of the file. Returns 0, -EPROTO if the file is too short, or -errno. */
int shm_read(const struct shm_region *r, uint64_t offset, void *buf, size_t len);

/* Moves an open struct shm_region from @from to @to, which must not be an open one. */
void shm_move(struct shm_region *to, struct shm_region *from);

/* Drops the locks on the region's file. The mapping stays until shm_close(). */
void shm_release(struct shm_region *r);

/* Unmaps the region, drops all locks, and removes the name if this process has made it. */
void shm_close(struct shm_region *r);

#endif
