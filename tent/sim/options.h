/* SPDX-License-Identifier: MIT */
/* The command line of tentbench sim. */
#ifndef TENT_OPTIONS_H
#define TENT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/args.h"
#include "case.h"
#include "config.h"

#define OPTIONS_CASES 64

struct sim_options {
	const struct sim_case *cases[OPTIONS_CASES];
	uint32_t n_cases;
	uint32_t modes; /* a bit per enum tent_mode */
	uint32_t seeds;
	uint64_t first_seed;
	struct sim_assume assume;
	const char *config; /* a file, or NULL */
	const char *json, *trace; /* a file, - for standard output, or NULL */
	bool check, list, decisions;
};

/*
 * Returns 0; 1 if --help was given and its text has been printed; or -EINVAL: one line in @why
 * explains the error and the accepted values. argv[0] is the name of the sub-command.
 */
int sim_options_parse(int argc, char **argv, struct sim_options *o_p, char *why, size_t size);

#endif
