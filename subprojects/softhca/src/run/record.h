/* SPDX-License-Identifier: MIT */
/* The command softhcactl capture. */
#ifndef SOFTHCA_RUN_RECORD_H
#define SOFTHCA_RUN_RECORD_H

#include <stddef.h>
#include <stdint.h>

/*
 * Captures into @file ("-": standard output) until SIGINT, SIGTERM or SIGHUP arrives, until the
 * reader closes @file, if it is a pipe, or until this process is the only member left. @qpn: the
 * only QP whose packets are captured; 0: all. Prints a summary on standard error. Returns 0, or
 * -errno with one line in err.
 */
int record(const char *file, uint32_t qpn, char *err, size_t errlen);

#endif
