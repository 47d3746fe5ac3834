/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_INSPECT_H
#define SOFTHCA_RUN_INSPECT_H

/*
 * Says, in a line on standard error, why the program @name (looked for as execvp() does;
 * of a script, its interpreter) will not see the adapters, if that is so: the dynamic
 * linker is not asked, or does not preload.
 */
void inspect_program(const char *name);

#endif
