/* SPDX-License-Identifier: MIT */
/* Removal of fabrics whose members were all killed. */
#ifndef SOFTHCA_FABRIC_SWEEP_H
#define SOFTHCA_FABRIC_SWEEP_H

/* Removes every fabric of this user that has no living member. Errors are ignored. */
void fabric_sweep(void);

/*
 * Leaves the fabric without taking its mutex, which a stopped process may hold for a while. Only
 * for members that own no objects. The last member removes the fabric.
 */
void fabric_let_go(void);

/*
 * Calls @each with the name of every fabric of this user, until it returns a value other than
 * 0. Returns the last return value, 0 if there is no fabric, -errno if /dev/shm cannot be
 * read.
 */
int fabric_each(int (*each)(const char *name, void *arg), void *arg);

/*
 * To be called after fabric_let_go(). Waits without a limit until the fabric has no members, and
 * removes it, because members that are killed do not remove it.
 */
void fabric_outlast(void);

#endif
