/* SPDX-License-Identifier: MIT */
/* rdmabench engine, lat and bw: their command line, and the report. */
#ifndef RDMABENCH_ENGINE_H
#define RDMABENCH_ENGINE_H

#include <stdbool.h>

#include "counters.h"
#include "side.h"
#include "traffic.h"

enum engine_command {
	ENGINE_TRAFFIC, /* engine */
	ENGINE_LAT,
	ENGINE_BW,
};

struct engine_options {
	enum engine_command command;
	const char *program; /* its name for messages */
	const char *host; /* of the server; NULL: this is the server or, with --fork, starts it */
	uint32_t port; /* TCP port */
	uint32_t hosts; /* clients that the server waits for */
	struct side_device device;
	struct traffic t;
	bool fork; /* both roles run on this machine */
	bool serve; /* the server serves each client in a process of its own, without end */
	uint32_t wait_s; /* time limit for the server's first client; 0: none */
	const char *server_device; /* device of the server if fork is set; NULL: the client's */
	bool all; /* runs with all sizes, one after another */
	uint32_t first_size, last_size;
	bool more; /* not the first run of --all */
	const char *json, *hdr_log; /* files, - for standard output, or NULL */
	const char *stats_dir, *stats_file, *run;
	uint64_t stats_window;
	bool compat;
	bool gbits;
	bool histogram;
	bool hw_ts; /* completions are timed by the device's stamps */
	uint32_t timeout_s; /* time after which a silent peer is given up */
};

/*
 * argv[0] is the name of the command. Returns 0; 1 after --help, whose text is on standard output;
 * -EINVAL with one line in why: the mistake and the valid values.
 */
int engine_options_parse(int argc, char **argv, struct engine_options *o_p, char *why, size_t size);

struct arg_row;
/* Returns the row of an option. @name: without dashes; the option must exist. */
const struct arg_row *engine_option_row(const char *name);

/* Sets the size of the requests, for the next run of --all. */
void engine_options_resize(struct engine_options *o, uint32_t bytes);

/* Runs the sub-command and returns its exit status. */
int engine_main(int argc, char **argv);

/* ---- the report (report.c) ---- */

struct session;

/*
 * Writes the table to @out. With many sizes (--all) this is one row, and only the first run prints
 * column heads.
 */
void report_table(const struct session *e, FILE *out);
/* Returns a new object. */
json_t *report_json(const struct session *e);
/*
 * Writes one line to a file, which is truncated unless append is set, or to standard output for
 * "-". Returns 0, or 1 after an error message.
 */
int report_write(json_t *o, const char *path, bool append);
/* Writes the log of --hdr-log: its head in the first run, and the histograms. Returns 0 or 1. */
int report_hdr_log(const struct session *e);

/* Returns 1 after errors, mismatches, or messages lost on RC, or if a peer was lost; else 0. */
int report_status(const struct side *s);

#endif
