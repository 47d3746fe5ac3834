/* SPDX-License-Identifier: MIT */
/* --dry-run: prints what a rank would run where, and why. */
#ifndef BENCHKV_PLAN_H
#define BENCHKV_PLAN_H

#include <stdio.h>

struct node;

/* In one piece: the ranks of a job print at the same time. */
void plan_print(const struct node *n, FILE *out);

#endif
