/* SPDX-License-Identifier: MIT */
/* A rank's part of the job, from the comparison of options to the report. */
#ifndef BENCHKV_JOB_H
#define BENCHKV_JOB_H

#include "launch.h"
#include "options.h"

enum {
	JOB_OK = 0,
	JOB_ERROR = 1, /* an error, or an operation was not verified */
	JOB_USAGE = OPTIONS_USAGE, /* a bad command line, or the ranks' command lines differ */
};

/*
 * Runs the job. @device: NULL if there is none; then @no_device is the reason. Returns the
 * exit status; prints errors on standard error.
 */
int job_run(const struct options *o, struct launch *l, const char *device, const char *no_device);

#endif
