/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_SUPERVISE_H
#define SOFTHCA_RUN_SUPERVISE_H

/*
 * Runs argv[0] (searched for in PATH) and waits for its end. The caller has joined a fabric, of
 * which this process stays a member meanwhile. Signals that this process gets are passed on. When
 * the program has ended in any way, this process leaves the fabric and removes the fabrics whose
 * members are all dead. If this process is killed, a guardian process does that, after the program
 * got SIGTERM and, if it did not end, SIGKILL.
 * Returns the exit status: the program's, 128 + n if signal n ended it, 126 or 127 if it could not
 * be executed or found, 125 if a process could not be started.
 */
int supervise(char **argv);

#endif
