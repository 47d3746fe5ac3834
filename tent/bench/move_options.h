/* SPDX-License-Identifier: MIT */
/* Command lines of tentbench server and client. */
#ifndef TENTBENCH_MOVE_OPTIONS_H
#define TENTBENCH_MOVE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/args.h"

#define MOVE_MAX_THREADS 64
#define MOVE_PRIORITIES 3
#define MOVE_PEER_MEMCPY 1u
#define MOVE_PEER_CMA 2u
#define MOVE_PEER_UCX 4u
#define MOVE_PEERS 3

enum move_op {
	MOVE_WRITE,
	MOVE_READ,
	MOVE_MIXED,
};

struct move_options {
	const char *host; /* client: the server's host; NULL: none was given */
	const char *address; /* of the engine */
	const char *config, *json, *prometheus, *trace;
	uint16_t port; /* at which the client reads the server's description */
	/* If shm, gpu and tcp are 0, the rails are adapters. */
	uint32_t shm; /* number of copying threads */
	uint32_t gpu; /* number of queues in which GPUs copy */
	const char *location; /* of this side's memory; NULL: any */
	bool alloc; /* the memory of this side is from tent_alloc() */
	uint32_t tcp; /* number of rails over TCP */
	bool adapters; /* with tcp: adapters as well */
	uint64_t memory; /* of a server; 0: as much as the requests of the client need */
	struct arg_list sizes, batches;
	uint32_t threads;
	struct arg_list priorities; /* assigned to the threads in turn */
	uint64_t batches_each; /* batches of each thread; 0: until `seconds` have passed */
	double seconds;
	uint32_t timeout_s; /* maximum time to wait for a silent server */
	enum move_op op;
	uint32_t peers; /* MOVE_PEER_...: those that tent is compared with */
	bool check, fork, once, stats;
};

/*
 * @server: the command line is that of the server. 0; 1: --help was given, and its text has been
 * printed; -EINVAL: one line in @why explains the error.
 */
int move_options_parse(int argc, char **argv, bool server, struct move_options *o_p, char *why,
	size_t size);

const char *move_op_name(enum move_op op);

#endif
