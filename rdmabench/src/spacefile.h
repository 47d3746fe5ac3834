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
 * space_change() and space_read() return 0, or -EINVAL with one line in @why: the mistake and what
 * is valid. After -EINVAL a part of the changes may have been made.
 */

int space_change(struct space *s, const char *text, char *why, size_t size);
/* @why also names the file and the number of the bad line. */
int space_read(struct space *s, const char *path, char *why, size_t size);

/* Removes the value with index @at from the list of a dimension. */
void space_leave_out(struct space *s, unsigned dim, unsigned at);

/*
 * Must be called after the changes. Removes the values that no point can have, because they are not
 * valid with any value of another parameter: depths below the smallest batch; numbers of QPs that
 * are less than the smallest number of regions or too large for the smallest depth; kinds of QP
 * that support none of a request's operations; if UD is the only kind of QP, MTUs below every size
 * of a request, otherwise UD if every size of a request is larger than the smallest MTU. Returns 0,
 * or -EINVAL with one line in @why: a list has become empty, or the text of a flow's requests can
 * be longer than PATTERN_TEXT_MAX.
 */
int space_prune(struct space *s, char *why, size_t size);

/* Returns a new list: for each parameter that was changed, a text that space_change() reads. */
json_t *space_json(const struct space *s);

#endif
