/* SPDX-License-Identifier: MIT */
/* benchkv-sim: what many ranks of benchkv would do, by the control code that it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/output.h"
#include "options.h"
#include "output.h"

static FILE *open_output(const char *name)
{
	FILE *f;

	if (!name)
		return NULL;
	f = strcmp(name, "-") ? fopen(name, "w") : stdout;
	if (!f) {
		fprintf(stderr, "benchkv-sim: %s: %s\n", name, strerror(errno));
		exit(2);
	}
	return f;
}

/* Returns true if everything has been written. */
static int close_output(FILE *f, const char *name)
{
	if (!f || (!fflush(f) && !ferror(f) && (f == stdout || !fclose(f))))
		return 0;
	fprintf(stderr, "benchkv-sim: %s: %s\n", name, strerror(errno));
	return 1;
}

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
	json = open_output(o.json);
	o.config.trace = open_output(o.trace);
	o.config.hgrm = open_output(o.hgrm);
	err = commands[o.command](&o, json);
	status = close_output(o.config.trace, o.trace);
	status |= close_output(o.config.hgrm, o.hgrm);
	status |= json != stdout ? close_output(json, o.json) : 0;
	/* A file that cannot be written has been named. */
	if (err && !status && !ferror(stdout)) {
		fprintf(stderr, "benchkv-sim: %s\n", strerror(-err));
		status = 1;
	}
	return output_end("benchkv-sim", status);
}
