/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_SUPERVISE_H
#define SOFTHCA_RUN_SUPERVISE_H

/*
 * Runs argv[0] (searched in PATH) and waits for its end, as a member of the fabric that the
 * caller has joined. Signals that this process gets are passed on. When the program has ended
 * in any way, this process leaves the fabric and removes the fabrics whose members are all
 * dead. If this process is killed, a guardian process does the same; the program then gets
 * SIGTERM and, if it does not end, SIGKILL.
 * Returns the exit status: the program's, 128 + n if signal n ended it, 126 or 127 if it
 * could not be executed or found, 125 if fork() failed.
 */
int supervise(char **argv);

#endif
