/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_SHOW_H
#define SOFTHCA_RUN_SHOW_H

/*
 * Prints the fabric that this process is a member of; it does not count itself. What
 * is printed is of one moment: it is taken under the fabric's mutex, and written to out
 * when that is released.
 */

#include <stdio.h>

/* One line: name, processes, adapters, QPs. */
void show_summary(FILE *out, const char *name);

/* Adapters, processes with what they own and have done, QPs. */
void show_fabric(FILE *out, const char *name);

/* The fault rules, numbered from 1. */
void show_faults(FILE *out);

#endif
