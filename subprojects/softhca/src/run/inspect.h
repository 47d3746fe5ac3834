/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_INSPECT_H
#define SOFTHCA_RUN_INSPECT_H

/*
 * Prints a warning on standard error if the program @name will not see the adapters because the
 * library cannot be preloaded into it, for example because it is statically linked. @name is
 * searched as execvp() does; for a script, its interpreter is inspected.
 */
void inspect_program(const char *name);

#endif
