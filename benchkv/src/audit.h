/* SPDX-License-Identifier: MIT */
/* Before the audit the ranks exchange the numbers of operations that their clients have made. */
#ifndef BENCHKV_AUDIT_H
#define BENCHKV_AUDIT_H

#include "node.h"

/*
 * Must be called by all ranks after the last run: fills n->made with the numbers of operations of
 * every client of the job. Waits for all ranks, so that no put is under way when it returns. 0, or
 * -errno with a message in @why.
 */
int audit_prepare(struct node *n, char *why, int size);

#endif
