/* SPDX-License-Identifier: MIT */
/*
 * A discrete-event simulation of a job of benchkv with backend delegation or meta: NP ranks, each
 * with D daemons that share the rank's endpoints and C clients in a closed loop. The
 * daemons run the control of benchkv itself (control.h).
 *
 * The model of a daemon's loop has these parts, in this order: polls of received WRITEs, as often
 * as the control decides; clients' requests; the flush of the endpoints that the control selects.
 * The connection of ranks r and s belongs to daemon (r + s) mod D on both sides. With backend
 * delegation a client sends its request to that daemon. With meta a client sends all requests to
 * its own daemon, which passes each request to the daemon of the connection. The response returns
 * on the same path.
 *
 * Time is divided into windows of send_ns + wire_ns + recv_ns. A message that a rank sends in one
 * window reaches another rank in a later window, so within a window the ranks are independent.
 * Threads divide the ranks between them; the result does not depend on the number of threads. The
 * daemons of a rank are simulated in the order in which their steps begin. If the time of a
 * client's request is before the time that its daemon has reached, the daemon takes the request one
 * loop too late.
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
	uint32_t depth_before; /* depth until step_ns; 0: `depth` from the beginning */
	uint64_t step_ns;
	uint32_t client_waits; /* replies that a client must see before its next requests; 0 is 1 */
	uint32_t intake; /* maximum number of requests of clients that a loop handles; 0: all */
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
 * Simulates a job. 0, -EINVAL (a size is 0, there are too many ranks or slots, or clients wait for
 * more replies than they have requests in flight), -ENOMEM, -EAGAIN (a thread cannot be created).
 */
int sim_run(const struct sim_config *config, struct sim_result *result_p);

#endif
