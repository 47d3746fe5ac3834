/* SPDX-License-Identifier: MIT */
/* Before the audit the ranks tell each other what their clients have done. */
#ifndef BENCHKV_AUDIT_H
#define BENCHKV_AUDIT_H

#include "node.h"

/*
 * After the last run: fills n->made with what every client of the job has done. All ranks
 * meet in it, so that no put is under way when it returns. 0, or -errno, and why[] says what
 * failed.
 */
int audit_prepare(struct node *n, char *why, int size);

#endif
