/* SPDX-License-Identifier: MIT */
/* Removal of what killed processes left of fabrics that nobody will join again. */
#ifndef SOFTHCA_FABRIC_SWEEP_H
#define SOFTHCA_FABRIC_SWEEP_H

/* Removes every fabric of this user without a living member, on its best effort. */
void fabric_sweep(void);

/*
 * Leaves the fabric without its mutex, which a process that is stopped may hold for
 * ever: for a member that owns no objects. The last one out removes the fabric.
 */
void fabric_let_go(void);

/*
 * Calls @each with the name of every fabric of this user, until it returns other than
 * 0. Returns what the last call returned, 0 without a fabric, -errno if /dev/shm
 * cannot be read.
 */
int fabric_each(int (*each)(const char *name, void *arg), void *arg);

/*
 * Waits, for as long as it takes, until the fabric that was let go has no members, and
 * removes it: those who are killed cannot.
 */
void fabric_outlast(void);

#endif
