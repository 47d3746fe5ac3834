/* SPDX-License-Identifier: MIT */
/* The command line of benchkv-sim. */
#ifndef BENCHKV_SIM_OPTIONS_H
#define BENCHKV_SIM_OPTIONS_H

#include <stdbool.h>

#include "sim.h"

enum sim_command { SIM_RUN, SIM_TABLE, SIM_MAP };

struct sim_options {
	enum sim_command command;
	struct sim_config config;
	bool control_given; /* the map shows this control; otherwise several controls */
	const char *trace, *hgrm; /* files of the command run, or NULL */
	const char *json; /* file, - for standard output, or NULL */
};

/* Fills *o_p, or ends the program: with status 0 after --help and --version, 2 after an error. */
void sim_options(int argc, char **argv, struct sim_options *o_p);

#endif
