/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef BENCHKV_OPTIONS_H
#define BENCHKV_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/field.h"
#include "control.h"
#include "sizes.h"
#include "workload.h"

#define OPTIONS_MAX_DAEMONS 64
#define OPTIONS_USAGE 2 /* exit status of a bad command line */

struct backend;

enum command {
	COMMAND_RUN, /* a job with a backend */
	COMMAND_MEASURE,
	COMMAND_COMPARE,
	COMMAND_PAIR,
};

/* The files that a job writes on request, see files.h. */
enum file {
	FILE_JSON, /* report.h */
	FILE_HGRM, /* report.h */
	FILE_SERIES, /* report.h */
	FILE_TRACE, /* trace.h */
	FILE_DECISIONS, /* decision.h */
	FILES,
};

struct options {
	enum command does;
	const char *sides[2]; /* compare: files; run-pair: commands */
	double tolerance; /* of compare and run-pair */
	uint32_t pairs;
	const char *save; /* prefix of the files in which run-pair leaves its reports; NULL: none */
	const struct backend *backend; /* NULL: the command has none */
	uint32_t daemons, clients, queue_depth;
	uint32_t net_daemons; /* with endpoints; daemon r mod net_daemons has the one for rank r */
	uint64_t duration_ns; /* of a run; 0: `ops` limits the run */
	uint64_t ops; /* of a run, over all clients of the job; 0: duration_ns limits the run */
	uint32_t runs;
	uint64_t warmup_ns; /* of a run, before its measurement; only with a duration */
	double rate; /* operations per second of all clients; 0: a closed loop */
	struct workload load;
	bool preload;
	struct sizes sizes; /* of the values */
	uint32_t ring_size; /* 0: auto */
	const char *device; /* NULL: auto */
	struct control_spec control;
	uint64_t stagger_ns; /* the first calls to rank r are delayed by r * stagger_ns */
	const char *machine; /* file with the machine's times; NULL: none */
	const char *files[FILES]; /* names; NULL: none; "-" for FILE_JSON: standard output */
	uint64_t interval_ns; /* for throughput and latency over time; 0: none */
	uint64_t timeout_ns;
	bool pin;
	bool wait_event; /* idle daemons sleep on descriptors */
	bool dry_run;
	char *const *command; /* the words of the command line, terminated by NULL */
};

/*
 * Fills in *o_p, whose strings point into argv. 0; 1: --help or --version has been printed, and the
 * caller must exit; -EINVAL: a bad argument, and one line in @why names the accepted values.
 */
int options_parse(int argc, char **argv, struct options *o_p, char *why, size_t size);

#define OPTIONS_FIELDS 30

/* Fills in numbers that are equal for command lines that describe the same run. */
void options_fields(const struct options *o, uint64_t fields[OPTIONS_FIELDS]);

/* For each of these numbers: its option, and its field in struct options; size 0: it has none. */
extern const struct option_field {
	const char *name;
	struct field field;
} option_fields[OPTIONS_FIELDS];

#endif
