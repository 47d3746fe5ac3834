/* SPDX-License-Identifier: MIT */
/* One rank's part in the job, from meeting the others to the report. */
#ifndef BENCHKV_JOB_H
#define BENCHKV_JOB_H

#include "launch.h"
#include "options.h"

enum {
	JOB_OK = 0,
	JOB_ERROR = 1, /* also: an operation that was not verified */
	JOB_USAGE = OPTIONS_USAGE, /* also: another than the other ranks' */
};

/*
 * Runs it. device is NULL when there is none, and no_device then says why. Returns the
 * exit status; what went wrong has been said on standard error.
 */
int job_run(const struct options *o, struct launch *l, const char *device, const char *no_device);

#endif
