/* SPDX-License-Identifier: MIT */
/*
 * Joining and leaving a fabric. The first member makes the arena with the settings of its
 * environment (settings.h). hooks.c defines what happens when a holder of
 * the fabric's mutex has died.
 */
#ifndef SOFTHCA_MEMBER_MEMBER_H
#define SOFTHCA_MEMBER_MEMBER_H

/*
 * Joins (or creates) the fabric that the environment names. Idempotent; any thread may call
 * it. Returns 0 or -errno; -EINVAL: a variable of the environment is wrong; -EACCES: the
 * directory belongs to another uid; -EEXIST: the fabric was made with other settings than the
 * environment has; -EMFILE: all slots taken; -EPROTO: another version of
 * this library created it; -EXDEV: its members are in other namespaces; -ENOSPC: /dev/shm
 * has no room; -ENOENT: there is no /proc, or no /dev/shm; -EPERM, -EROFS: /dev/shm cannot be written.
 */
int member_attach(void);

/* After it has failed: the reason, one line without a newline. */
const char *member_why(void);

/* Leaves the fabric. The last process out removes its directory. At exit only. */
void member_detach(void);

/* In a forked child: forgets the parent's membership without touching it. */
void member_forget(void);

#endif
