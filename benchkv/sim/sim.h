/* SPDX-License-Identifier: MIT */
/*
 * A discrete-event simulation of a job of benchkv with backend delegation or meta: NP ranks, each
 * with D daemons that share the rank's endpoints and C clients in a closed loop. The
 * daemons decide with the control that benchkv itself runs (control.h).
 *
 * The model of a daemon's loop has these parts, in this order: polls of received WRITEs, as often
 * as the control decides; clients' requests; the flush of the endpoints that the control selects.
 * Daemon (r + s) mod D of ranks r and s owns both sides of the connection of r and s. With backend
 * delegation a client gives its request to that daemon. With meta it gives all of them to its own
 * daemon, which passes them to the owner, and gets the responses back from there.
 *
 * Time goes on in windows of send_ns + wire_ns + recv_ns: what a rank does in one reaches
 * another rank in a later one, so within a window the ranks do not matter to each other. They
 * are shared out to threads; the result is the same for any number of them. The daemons of a
 * rank take turns in the order of their loops' beginnings. A request of a client to one that is
 * ahead of it is taken one loop later.
 */
#ifndef BENCHKV_SIM_SIM_H
#define BENCHKV_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bucket.h"
#include "control.h"
#include "machine.h"

struct sim_config {
	struct machine machine;
	struct control_spec control;
	uint32_t ranks, daemons, clients, depth;
	uint32_t depth_before; /* until step_ns; 0: depth */
	uint64_t step_ns;
	uint32_t client_waits; /* replies that a client has to see before its next requests; 0: 1 */
	uint32_t intake; /* requests of clients that a loop takes at most; 0: all */
	bool meta; /* the backend: meta, otherwise delegation */
	uint32_t threads; /* of the simulation */
	bool collapsed; /* begins with collapsed_ns of one message per WRITE */
	uint64_t collapsed_ns, warmup_ns, duration_ns;
	uint64_t stagger_ns; /* the first requests for rank r are made r * stagger_ns later */
	uint64_t seed;
	FILE *hgrm; /* percentiles of the latency, or NULL */
	FILE *trace; /* CSV of rank 0, or NULL */
	uint64_t trace_ns; /* interval of the lines of the trace */
};

/* Figures of the time after the warm-up. */
struct sim_result {
	double ops_per_s; /* of all ranks */
	double outstanding; /* calls of a rank that wait for their response, mean over time */
	double cqe_batch; /* responses per loop */
	double loops_per_s; /* of a daemon */
	double loop_us;
	double messages_per_write;
	double writes_per_s; /* of a rank */
	double p50_us, p99_us; /* from a request to the client's poll that finds the reply */
	double bucket[BUCKETS]; /* shares of the loops, by responses */
};

#define SIM_MAX_RANKS 4096u
#define SIM_MAX_SLOTS (1u << 20) /* clients x depth */

/*
 * 0, -EINVAL (a size of 0, more ranks or slots than that, or clients that wait for more than they
 * have in flight), -ENOMEM, -EAGAIN (a thread cannot be made).
 */
int sim_run(const struct sim_config *config, struct sim_result *result_p);

#endif
