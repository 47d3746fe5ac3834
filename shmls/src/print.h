/* SPDX-License-Identifier: MIT */
#ifndef SHMLS_PRINT_H
#define SHMLS_PRINT_H

#include <stdio.h>

#include "region.h"

/* Prints a table of regions, with the clients of each if @clients is true. */
void print_table(const struct region *regions, size_t n, bool clients);

/* Prints one object per line, always with the clients. Returns 0 or -ENOMEM. */
int print_json(const struct region *regions, size_t n);

/* Prints a region's file name for a terminal: bytes that are not printable ASCII become '?'. */
void print_name(FILE *f, const char *layer, const char *name);

#endif
