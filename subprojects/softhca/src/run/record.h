/* SPDX-License-Identifier: MIT */
/* softhcactl capture: a capture of the fabric that was joined, until a signal ends it. */
#ifndef SOFTHCA_RUN_RECORD_H
#define SOFTHCA_RUN_RECORD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Captures into @file ("-": standard output) until SIGINT, SIGTERM or SIGHUP, until its reader has
 * closed a pipe, or until this process is the only member left. @qpn: the only QP, or 0. A
 * summary goes to standard error. Returns 0, or -errno with one line in err.
 */
int record(const char *file, uint32_t qpn, char *err, size_t errlen);

#endif
