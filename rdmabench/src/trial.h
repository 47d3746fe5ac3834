/* SPDX-License-Identifier: MIT */
/* Measures a point on a device: runs engines and combines their reports and statistics. */
#ifndef RDMABENCH_TRIAL_H
#define RDMABENCH_TRIAL_H

#include "commands.h"
#include "measure.h"

#define TRIAL_SCRIPT 65536

/*
 * Writes the commands of a point as a script for sh, one per line. @name: name of the run. Returns
 * false if they do not fit.
 */
bool trial_script(const struct trial_attr *a, const struct point *p, const char *name, char *script,
	size_t size);

/*
 * Runs the commands of a point, all at the same time, and waits for their ends. Returns 0. -EIO: an
 * engine has failed or its output is not valid. -ETIMEDOUT: an engine did not end. -E2BIG: a
 * command is too long. -ENOMEM. After an error @why has the reason in one line, which is also on
 * standard error.
 */
int trial_run(const struct trial_attr *a, const struct point *p, const char *name,
	struct measure *m_p, char *why, size_t size);

#endif
