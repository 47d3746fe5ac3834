/* SPDX-License-Identifier: MIT */
/* The command line. */
#ifndef BENCHKV_OPTIONS_H
#define BENCHKV_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "workload.h"

#define OPTIONS_MAX_DAEMONS 64
#define OPTIONS_USAGE 2 /* exit status of a bad command line */

struct backend;

struct options {
	bool measure; /* the command `measure`, and no backend */
	const struct backend *backend;
	uint32_t daemons, clients, queue_depth;
	uint32_t net_daemons; /* that own endpoints; the one for rank r is r mod net_daemons */
	uint64_t duration_ns; /* of a run; 0: by ops */
	uint64_t ops; /* of a run, over all clients of the job; 0: by duration */
	uint32_t runs;
	uint64_t warmup_ns; /* of a run, before what is measured; only with a duration */
	double rate; /* operations per second of all clients; 0: a closed loop */
	struct workload load;
	bool preload;
	uint32_t ring_size; /* 0: auto */
	const char *device; /* NULL: auto */
	struct control_spec control;
	uint64_t stagger_ns; /* first calls to rank r wait r times that */
	const char *machine; /* file of what the machine needs; NULL: none */
	const char *trace, *decisions; /* files; NULL: none */
	const char *json; /* NULL: none; "-": standard output */
	const char *hgrm; /* NULL: none */
	uint64_t timeout_ns;
	bool pin;
	bool wait_event; /* idle daemons sleep on descriptors */
	bool dry_run;
	char *const *command; /* the command line as it was given, up to a NULL */
};

/*
 * Fills *o_p in; the strings are argv's. 0: go on; 1: done, all was said (--help,
 * --version); -EINVAL: a bad argument, and why[] says in one line what to give.
 */
int options_parse(int argc, char **argv, struct options *o_p, char *why, size_t size);

/* A number that is equal for command lines that describe the same run. */
uint64_t options_digest(const struct options *o);

#endif
