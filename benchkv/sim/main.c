/* SPDX-License-Identifier: MIT */
/* benchkv-sim simulates jobs of benchkv with many ranks. It runs benchkv's own control code. */
#include <string.h>

#include "base/output.h"
#include "options.h"
#include "output.h"

#define PROGRAM "benchkv-sim"

int main(int argc, char **argv)
{
	static int (*const commands[])(const struct sim_options *, FILE *) = {
		[SIM_RUN] = output_run,
		[SIM_TABLE] = output_table,
		[SIM_MAP] = output_map,
	};
	struct sim_options o;
	int err, status;
	FILE *json;

	sim_options(argc, argv, &o);
	if (output_open(PROGRAM, o.json, "we", &json) ||
		output_open(PROGRAM, o.trace, "we", &o.config.trace) ||
		output_open(PROGRAM, o.hgrm, "we", &o.config.hgrm))
		return 2;
	err = commands[o.command](&o, json);
	status = output_close(PROGRAM, o.trace, o.config.trace, 0);
	status = output_close(PROGRAM, o.hgrm, o.config.hgrm, status);
	status = output_close(PROGRAM, o.json, json, status);
	/* An error of a file has been printed already. */
	if (err && !status && !ferror(stdout)) {
		fprintf(stderr, PROGRAM ": %s\n", strerror(-err));
		status = 1;
	}
	return output_end(PROGRAM, status);
}
