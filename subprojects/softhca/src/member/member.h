/* SPDX-License-Identifier: MIT */
/*
 * Joining and leaving a fabric. This room binds the others together: it makes the arena from
 * topology, faults and link mode, and tells the fabric's mutex what to do when a holder died.
 */
#ifndef SOFTHCA_MEMBER_MEMBER_H
#define SOFTHCA_MEMBER_MEMBER_H

/*
 * Joins (or creates) the fabric that the environment names. Idempotent, any thread.
 * Returns 0 or -errno; -EINVAL: the environment asks for what is not there; -EACCES: the
 * directory belongs to another uid; -EMFILE: all slots taken; -EPROTO: another version of
 * this library created it; -EXDEV: its members are in other namespaces; -ENOSPC: /dev/shm
 * has no room; -ENOENT: there is no /proc.
 */
int member_attach(void);

/* What to tell the user after it failed: one line without its end. */
const char *member_why(void);

/* Leaves it; the last process out removes the directory. At exit only. */
void member_detach(void);

/* In a forked child: forgets the parent's membership without touching it. */
void member_forget(void);

#endif
