/* SPDX-License-Identifier: MIT */
/* This library's handlers of SIGSEGV, SIGBUS and SIGTRAP; see trap.h for the program's handlers. */
#ifndef SOFTHCA_TRAP_SIGNALS_H
#define SOFTHCA_TRAP_SIGNALS_H

/* Installs the handlers, once, and unblocks the signals in this thread. */
void signals_install(void);

/* Must be called in a forked child: resets the lock. The handlers stay installed. */
void signals_forget(void);

#endif
