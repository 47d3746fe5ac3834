/* SPDX-License-Identifier: MIT */
/* What --help prints. */
#ifndef BENCHKV_HELP_H
#define BENCHKV_HELP_H

#include <stdio.h>

#include "options.h"

/* The backends, and every option. */
void help_all(FILE *out);

/* The command. */
void help_measure(FILE *out);

/* One backend: what it is, and the options that it takes. */
void help_backend(enum backend b, FILE *out);

#endif
