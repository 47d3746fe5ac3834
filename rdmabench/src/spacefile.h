/* SPDX-License-Identifier: MIT */
/*
 * Changes of the space, as text: a change on a line of a file, or as the value of an option.
 *
 *	NAME=VALUE[,VALUE]...	the values of a parameter
 *	NAME+=VALUE[,VALUE]...	more values
 *
 * NAME is a name of space_name(), or a pattern (fnmatch) that stands for all parameters that it
 * fits. There may be spaces around NAME and each VALUE. In files # begins a comment.
 */
#ifndef RDMABENCH_SPACEFILE_H
#define RDMABENCH_SPACEFILE_H

#include "space.h"

/*
 * These return 0, or -EINVAL with one line in @why: the mistake and what is valid. The space is then
 * changed in part.
 */

int space_change(struct space *s, const char *text, char *why, size_t size);
/* The line names the file and the number of the bad line in it. */
int space_read(struct space *s, const char *path, char *why, size_t size);

/* Leaves out the value with that index. */
void space_leave_out(struct space *s, unsigned dim, unsigned at);

/*
 * Must follow the changes: leaves out the values that no point can have, as no value of another
 * parameter goes with them. Depths smaller than the smallest batch are such values, QPs fewer than
 * the smallest number of regions or too many for the smallest depth, and kinds of QP that have none of the operations, or (UD) whose
 * packets are too small. Refuses requests whose text is longer than a pattern may be.
 */
int space_prune(struct space *s, char *why, size_t size);

/* Returns a new list: a text of space_change() for each parameter that was changed. */
json_t *space_json(const struct space *s);

#endif
