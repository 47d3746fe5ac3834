/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_SUPERVISE_H
#define SOFTHCA_RUN_SUPERVISE_H

/*
 * Runs argv[0] (searched in PATH) and waits for its end, as a member of the fabric
 * that the caller has attached to. Signals that this process gets are passed on.
 * When the program has ended, however it did, this process leaves the fabric and
 * removes what dead processes of this user left. A guardian process does the same
 * when this process is killed; the program then gets SIGTERM and, if that does not
 * end it, SIGKILL.
 * Returns the status to exit with: the program's, 128 + n when signal n ended it,
 * 126 or 127 when it could not be executed or found, 125 when fork() failed.
 */
int supervise(char **argv);

#endif
