/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages. The program maps them from the device file (a memfd) as it likes;
 * they are found in /proc/self/maps, made read-only, and each store to one faults and
 * is executed on the device before the program goes on.
 */
#ifndef SOFTHCA_TRAP_TRAP_H
#define SOFTHCA_TRAP_TRAP_H

#include <signal.h>
#include <stdbool.h>

#include "trap/uctx.h"

/*
 * Finds and protects the doorbell pages of @u that were mapped since the last call.
 * Returns 0 or -errno: what was mapped is not known, or not taken down.
 */
int trap_scan(struct uctx *u);

/* Forgets them: the device file is closed. */
void trap_drop(const struct uctx *u);

/* In a forked child: none of them is to be stored to any more; the handlers stay. */
void trap_forget(void);

/* The signals that this library needs for itself. */
static inline int trap_owns(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGTRAP;
}

/*
 * The program's own handler for one of these signals, called for what is not a
 * doorbell. Returns false before the first device is opened: the signal is still
 * the program's.
 */
bool trap_set_action(int sig, const struct sigaction *act, struct sigaction *old);

#endif
