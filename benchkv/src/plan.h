/* SPDX-License-Identifier: MIT */
/* --dry-run: prints the plan of a rank with reasons. */
#ifndef BENCHKV_PLAN_H
#define BENCHKV_PLAN_H

#include <stdio.h>

struct node;

/* Writes the plan in one piece, because the ranks of a job print at the same time. */
void plan_print(const struct node *n, FILE *out);

#endif
