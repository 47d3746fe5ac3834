/* SPDX-License-Identifier: MIT */
/* A run of the bench, its options and its results. */
#ifndef BENCH_H
#define BENCH_H

#include <pthread.h>

#include "base/args.h"
#include "rpcbench.h"

#define RPCBENCH_IMPLS 6 /* two layers, four peers */

struct rpcbench_options {
	struct arg_list clients, depths;
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
	uint32_t index; /* client, or the number of clients for the server */
	pthread_t id;
};

struct rpcbench_bench {
	struct rpcbench_run run;
	struct rpcbench_config cfg;
	struct rpcbench_options opt;
	const struct rpcbench_impl *impl[RPCBENCH_IMPLS];
	uint32_t impls, layers; /* the first ones are layers, the others peers */
	struct rpcbench_side side[RPCBENCH_IMPLS];
	uint32_t current; /* side of the window */
	uint32_t cpus;
	int cpu[CPU_SETSIZE];
	double probe_ns;
	uint64_t server_cpu_ns, client_cpu_ns; /* of the last window */
	pthread_barrier_t begin, end;
	struct rpcbench_thread thread[RPCBENCH_CLIENTS + 1];
};

#define RPCBENCH_ROUNDS 20000u

/* The windows of one implementation in one loop with one number of clients; [round]. */
struct rpcbench_cell {
	const struct rpcbench_impl *impl;
	enum rpcbench_loop loop;
	uint32_t clients;
	uint64_t rpcs; /* verified, those that ended after their window included */
	double least_rate; /* of the slowest client, calls per ns over all windows */
	double ns[RPCBENCH_ROUNDS]; /* per call, all clients together */
	bool disturbed[RPCBENCH_ROUNDS];
	uint32_t clean; /* windows that were not */
};

struct rpcbench_spread {
	double p10, median, p90;
};

/* Results of one queue depth. */
struct rpcbench_result {
	const struct rpcbench_config *cfg;
	uint32_t rounds;
	double line_rtt_ns;
	struct rpcbench_cell *cells; /* [clients][loop][impl]; the layer is impl 0 */
	uint32_t counts, loops, impls;
};

extern const char *const rpcbench_loop_names[RPCBENCH_LOOPS + 1]; /* NULL at the end */

/* The peers that are built in, and NULL. */
extern const struct rpcbench_impl *const rpcbench_peers[];

/* Ends the program with status 2: what is wrong, and what to give. */
void rpcbench_die(const char *what, const char *hint) __attribute__((noreturn));
void rpcbench_finish_output(void);
void rpcbench_options(struct rpcbench_bench *b, int argc, char **argv);

/* Sorts v. */
struct rpcbench_spread rpcbench_spread(double *v, uint32_t n);
void rpcbench_print_head(FILE *json);
void rpcbench_print(const struct rpcbench_result *r, FILE *json);
void rpcbench_print_wake(const char *layer, const struct latrec_hist *h, double server_cpu,
	double client_cpu, FILE *json);

#endif
