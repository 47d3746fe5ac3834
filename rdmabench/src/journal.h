/* SPDX-License-Identifier: MIT */
/* The journal of a search: a header, then a line of JSON per measurement. */
#ifndef RDMABENCH_JOURNAL_H
#define RDMABENCH_JOURNAL_H

#include <jansson.h>
#include <stdio.h>

#include "explore.h"

/* Writes a line. Returns 0 or -EIO. */
int journal_append(FILE *journal, json_t *o);

/*
 * Reads the next line as JSON. Returns 1; 0 if there is no whole line (the file position then stays
 * where it was); -EBADMSG if the line is whole but not JSON.
 */
int journal_next(FILE *journal, json_t **o_p);

/* Returns the line of a measurement; @m is not used if err is not 0. */
json_t *journal_line(const struct explore_ask *ask, const struct measure *m, int err);

/*
 * Reads a line that journal_line() made and another program may have changed. Returns 1 with the
 * result and *err_p, or -EBADMSG if the line belongs to another point or is incomplete.
 */
int journal_read(const json_t *o, const struct explore_ask *ask, struct measure *m_p, int *err_p);

#endif
