/* SPDX-License-Identifier: MIT */
/*
 * Joining and leaving a fabric. The first member makes the arena with the settings of its
 * environment (settings.h). hooks.c repairs the arena after a holder of the fabric's mutex or of a
 * lane has died or was stopped.
 */
#ifndef SOFTHCA_MEMBER_MEMBER_H
#define SOFTHCA_MEMBER_MEMBER_H

/*
 * Joins (or creates) the fabric of the environment. Idempotent; any thread may call it. Returns 0
 * or -errno:
 * - -EINVAL: a variable of the environment is wrong;
 * - -EACCES: the directory belongs to another uid;
 * - -EEXIST: the fabric was made with other settings than those of the environment;
 * - -EMFILE: all slots are taken;
 * - -EPROTO: another version of this library created the fabric;
 * - -EXDEV: the members are in other namespaces;
 * - -ENOSPC: /dev/shm has no room;
 * - -ENOENT: there is no /proc, or no /dev/shm;
 * - -EPERM, -EROFS: /dev/shm cannot be written.
 */
int member_attach(void);

/* Returns the reason after member_attach() has failed: one line without a newline. */
const char *member_why(void);

/* Leaves the fabric. The last process removes its directory. To be called at exit only. */
void member_detach(void);

/*
 * To be called before fork(), and after it in both processes: no other thread is joining the fabric
 * at the moment of the fork. Otherwise the child would have the lock file without knowing it. If
 * the calling thread itself is in member_attach(), because a handler of a signal forks, nothing is
 * held.
 */
void member_hold(void);
void member_release(void);

/* Must be called in a forked child: forgets the parent's membership, which continues. */
void member_forget(void);

#endif
