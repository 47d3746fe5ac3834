/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_RUN_SHOW_H
#define SOFTHCA_RUN_SHOW_H

/*
 * Print the fabric of which this process is a member, without this process itself. The output
 * is a snapshot: it is made under the fabric's mutex and written to out afterwards.
 */

#include <stdio.h>

/* One line: name, processes, adapters, QPs. Nothing if the fabric has no other process. */
void show_summary(FILE *out, const char *name);

/* Tables of the adapters, of the processes with their objects and counters, and of the QPs. */
void show_fabric(FILE *out, const char *name);

/* The fault rules, numbered from 1. */
void show_faults(FILE *out);

#endif
