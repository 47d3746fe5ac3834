/* SPDX-License-Identifier: MIT */
/* Command lines of tentbench server and client. */
#ifndef TENTBENCH_MOVE_OPTIONS_H
#define TENTBENCH_MOVE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOVE_LIST 16
#define MOVE_MAX_THREADS 64
#define MOVE_PRIORITIES 3

enum move_op {
	MOVE_WRITE,
	MOVE_READ,
	MOVE_MIXED,
};

struct move_options {
	const char *host; /* of a client; NULL: none was given */
	const char *address; /* of the engine */
	const char *config, *json, *prometheus, *trace;
	uint16_t port; /* where client and server meet */
	uint32_t shm; /* shared-memory rails; 0: adapters */
	uint64_t memory; /* of a server; 0: what the requests of the client need */
	uint64_t sizes[MOVE_LIST], batches[MOVE_LIST];
	uint32_t n_sizes, n_batches;
	uint32_t threads;
	uint8_t priorities[MOVE_PRIORITIES]; /* of the threads, in turn */
	uint32_t n_priorities;
	uint64_t batches_each; /* 0: as many as fit in the time */
	double seconds;
	int timeout_ms; /* until a server that says nothing is given up */
	enum move_op op;
	bool check, fork, once, stats, help;
};

extern const char move_usage[];

/* @server: which of the two. 0, or -EINVAL and one line in why that says what to give. */
int move_options_parse(int argc, char **argv, bool server, struct move_options *o_p, char *why,
	size_t size);

const char *move_op_name(enum move_op op);

#endif
