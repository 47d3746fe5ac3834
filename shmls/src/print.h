/* SPDX-License-Identifier: MIT */
#ifndef SHMLS_PRINT_H
#define SHMLS_PRINT_H

#include <stdio.h>

#include "region.h"

/* A table of regions, with their clients below them if these are wanted. */
void print_table(const struct region *regions, size_t n, bool clients);

/* One object per line, always with the clients. Returns 0 or -ENOMEM. */
int print_json(const struct region *regions, size_t n);

/* A name, for a terminal: characters that are not printable ASCII become '?'. */
void print_name(FILE *f, const char *layer, const char *name);

#endif
