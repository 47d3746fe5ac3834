/* SPDX-License-Identifier: MIT */
/*
 * Doorbell pages. The program maps them from the device file (a memfd). This library finds them in
 * /proc/self/maps and, in trap mode, makes them read-only (modes poll and auto: sched/doors.h). A
 * store to such a page faults, and is executed on the device before the program continues.
 */
#ifndef SOFTHCA_TRAP_TRAP_H
#define SOFTHCA_TRAP_TRAP_H

#include <signal.h>
#include <stdbool.h>

#include "trap/uctx.h"

/*
 * Finds and protects the doorbell pages of @u that were mapped since the last call. Returns
 * 0; -errno if the mappings cannot be read; -ENOSPC if there are too many pages.
 */
int trap_scan(struct uctx *u);

/* Removes the pages of a device file from the set when the file is closed. */
void trap_drop(const struct uctx *u);

/*
 * Must be called in a forked child: from then on, a store to any of the pages ends the process. The
 * handlers stay installed.
 */
void trap_forget(void);

/* Returns true if the handler of the signal belongs to this library. */
static inline int trap_owns(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGTRAP;
}

/*
 * Sets the program's own action for one of these signals; the program gets the signals that this
 * library has not caused. Returns false until this library has installed its handlers: the signals
 * still belong to the program.
 */
bool trap_set_action(int sig, const struct sigaction *act, struct sigaction *old);

#endif
