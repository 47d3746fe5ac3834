/* SPDX-License-Identifier: MIT */
/* A run of the benchmark, its options and its results. */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>

#include "base/args.h"
#include "rpcbench.h"

#define RPCBENCH_IMPLS 6 /* two layers, four peers */

struct rpcbench_options {
	struct arg_list clients, depths, mesh;
	enum rpcbench_pattern pattern;
	uint32_t pattern_nodes;
	uint64_t step; /* calls of a window in which one thread runs server and clients; 0: each has
			  a thread */
	enum rpcbench_loop loop[RPCBENCH_LOOPS];
	uint32_t loops;
	uint32_t peers; /* bit i: rpcbench_peers[i] */
	double seconds;
	uint32_t req_size, resp_size;
	uint32_t peer_slots;
	uint32_t wakes;
	FILE *json;
};

/* An implementation that is set up. */
struct rpcbench_side {
	const struct rpcbench_impl *impl;
	void *state;
	struct rpcbench_server server;
	struct rpcbench_client client[RPCBENCH_CLIENTS];
};

struct rpcbench_thread {
	struct rpcbench_bench *bench;
	uint32_t index; /* of the client; for the server, the number of clients */
	pthread_t id;
	uint64_t cpu_ns; /* of the last window */
};

struct rpcbench_bench {
	struct rpcbench_run run;
	struct rpcbench_config cfg;
	struct rpcbench_options opt;
	const struct rpcbench_impl *impl[RPCBENCH_IMPLS];
	uint32_t impls; /* the first ones are layers, the others peers */
	struct rpcbench_side side[RPCBENCH_IMPLS];
	uint32_t current; /* index of the side that the window measures */
	uint32_t cpus;
	int cpu[CPU_SETSIZE];
	double probe_ns;
	pthread_barrier_t begin, end;
	struct rpcbench_thread thread[RPCBENCH_CLIENTS + 1];
};

#define RPCBENCH_ROUNDS 20000u

/* The windows of one implementation in one loop with one number of clients; arrays are [round]. */
struct rpcbench_cell {
	const struct rpcbench_impl *impl;
	enum rpcbench_loop loop;
	uint32_t clients;
	uint64_t rpcs; /* verified calls, including those that ended after their window */
	uint64_t bursts; /* bursts published for these calls, if the implementation counts bursts */
	double least_rate; /* of the slowest client, calls per ns over all windows */
	double ns[RPCBENCH_ROUNDS]; /* per call, all clients together */
	bool disturbed[RPCBENCH_ROUNDS];
	uint32_t clean; /* number of windows that were not disturbed */
};

struct rpcbench_spread {
	double p10, median, p90;
};

/* Results of one queue depth. */
struct rpcbench_result {
	const struct rpcbench_config *cfg;
	uint32_t rounds;
	double line_rtt_ns;
	struct rpcbench_cell *cells; /* [clients][loop][impl]; impl 0: the layer under test */
	uint32_t counts, loops, impls;
};

extern const char *const rpcbench_loop_names[RPCBENCH_LOOPS + 1]; /* ends with NULL */
extern const char *const rpcbench_pattern_names[RPCBENCH_PATTERNS];

/* The peers that are built in; the array ends with NULL. */
extern const struct rpcbench_impl *const rpcbench_peers[];

/* Prints what is wrong and a valid alternative, and ends the program with status 2. */
void rpcbench_die(const char *what, const char *hint) __attribute__((noreturn));
void rpcbench_options(struct rpcbench_bench *b, int argc, char **argv);

/* Returns quantiles of v, which it sorts. */
struct rpcbench_spread rpcbench_spread(double *v, uint32_t n);
/* Runs a node's part of a window. */
void rpcbench_mesh_window(const struct rpcbench_impl *impl, struct rpcbench_client *c);
/*
 * Runs a window with at least this many calls in the calling thread, which steps all clients (or
 * nodes) and the server of this implementation.
 */
void rpcbench_step(struct rpcbench_side *side, struct rpcbench_run *run, uint64_t calls);

void rpcbench_print_head(FILE *json);
void rpcbench_print(const struct rpcbench_result *r, FILE *json);
void rpcbench_print_wake(const char *layer, const struct latrec_hist *h, double server_cpu,
	double client_cpu, FILE *json);

#endif
