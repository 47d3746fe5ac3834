/* SPDX-License-Identifier: MIT */
/* rdmabench engine: its command line, both its roles, and what it reports. */
#ifndef RDMABENCH_ENGINE_H
#define RDMABENCH_ENGINE_H

#include <stdbool.h>

#include "counters.h"
#include "side.h"
#include "traffic.h"

struct engine_options {
	const char *host; /* NULL: server */
	uint32_t port; /* of TCP */
	uint32_t hosts; /* clients that the server waits for */
	struct side_device device;
	struct traffic t;
	bool fork; /* both roles, on this machine */
	const char *server_device; /* with fork; NULL: the same */
	bool all; /* runs with one size after another */
	uint32_t first_size, last_size;
	bool more; /* not the first of these */
	const char *json; /* a file, - for standard output, or NULL */
	const char *stats_dir, *stats_file, *run;
	uint64_t stats_window;
	bool compat;
	bool gbits;
	bool hw_ts; /* completions are timed by the device's stamps */
	uint32_t timeout_s; /* of the TCP connection */
};

/*
 * 0; 1 after --help, whose text is on standard output; -EINVAL: why says what is wrong and what to
 * give, in one line.
 */
int engine_options_parse(int argc, char **argv, struct engine_options *o_p, char *why, size_t size);

/* Gives the options another size; the traffic was checked with the largest. */
void engine_options_resize(struct engine_options *o, uint32_t bytes);

/* The sub-command: its exit status. */
int engine_main(int argc, char **argv);

/* ---- the report (report.c) ---- */

struct engine_report {
	const struct engine_options *o;
	const struct side *s;
	const char *run;
	char device[64];
	struct counters *before, *after;
};

/* Writes the table to out; of many sizes one row, below the heads that the first one has. */
void report_table(const struct engine_report *r, FILE *out);
/* A new object. */
json_t *report_json(const struct engine_report *r);
/* Before there is a report: whether the file can be opened. 0 or -1, having said why. */
int report_try(const char *path);
/*
 * Writes one line to a file, whose content goes or, with append, stays, or to standard output
 * for "-". 0 or 1, having said why.
 */
int report_write(json_t *o, const char *path, bool append);

/* 0 all went well; 1 errors, mismatches, or a peer was lost. */
int report_status(const struct side *s);

#endif
