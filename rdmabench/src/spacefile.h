/* SPDX-License-Identifier: MIT */
/*
 * Changes of the space, as text: a change on a line of a file, or as the value of an option.
 *
 *	NAME=VALUE[,VALUE]...	the values of a parameter
 *	NAME+=VALUE[,VALUE]...	more values
 *
 * NAME is a name of space_name(), or a pattern (fnmatch) that stands for all parameters whose names
 * match it. There may be spaces around NAME and each VALUE. In files # begins a comment.
 */
#ifndef RDMABENCH_SPACEFILE_H
#define RDMABENCH_SPACEFILE_H

#include "space.h"

/*
 * These functions return 0, or -EINVAL with one line in @why: the mistake and what is valid. After
 * -EINVAL a part of the changes may have been made.
 */

int space_change(struct space *s, const char *text, char *why, size_t size);
/* @why also names the file and the number of the bad line. */
int space_read(struct space *s, const char *path, char *why, size_t size);

/* Leaves out the value with that index. */
void space_leave_out(struct space *s, unsigned dim, unsigned at);

/*
 * Must be called after the changes. Leaves out the values that no point can have, because they are
 * not valid with any value of another parameter: depths below the smallest batch; numbers of QPs
 * that are less than the smallest number of regions or too large for the smallest depth; kinds of
 * QP that support none of a request's operations; and UD if every size of a request is larger than
 * the smallest MTU. Returns an error if the text of a flow's requests can be longer than a pattern
 * is allowed to be.
 */
int space_prune(struct space *s, char *why, size_t size);

/* Returns a new list: a text of space_change() for each parameter that was changed. */
json_t *space_json(const struct space *s);

#endif
