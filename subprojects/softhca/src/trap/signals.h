/* SPDX-License-Identifier: MIT */
/* The handlers of SIGSEGV, SIGBUS and SIGTRAP; see trap.h for the program's side. */
#ifndef SOFTHCA_TRAP_SIGNALS_H
#define SOFTHCA_TRAP_SIGNALS_H

/* Puts them into force, once, and unblocks the signals in this thread. */
void signals_install(void);

/* In a forked child: the handlers stay, nobody changes the program's. */
void signals_forget(void);

#endif
