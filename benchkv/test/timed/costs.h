/* SPDX-License-Identifier: MIT */
/*
 * The virtual times that daemons and clients take. The real functions run. Before or after each, a
 * link-time wrapper (costs.c) advances the running task's virtual time by the cost in the
 * simulator's machine. The adapters are also a task, which executes WRITEs whenever it runs.
 */
#ifndef BENCHKV_TIMED_COSTS_H
#define BENCHKV_TIMED_COSTS_H

#include <stdint.h>

#include "machine.h"

#define COSTS_RANKS 16 /* at most */
#define COSTS_CLIENTS 64 /* of a rank, at most */

/*
 * Prepares the costs for a job with @clients clients in each rank. @sq_depth: the depth of
 * copyrpc's send queues; 0: the default.
 */
void costs_begin_job(const struct machine *m, uint32_t clients, uint32_t sq_depth);

/*
 * Prepares a run of the job. Until @single_until_ns each message of a daemon is sent in a WRITE of
 * its own, as in the simulator's initial state "low".
 */
void costs_begin_run(uint64_t single_until_ns);

/*
 * The number of loops of the job that have left calls of other ranks to the next one. Each loop is
 * checked: it must serve as many as the control allows, or all.
 */
uint64_t costs_loops_left(void);

/*
 * The function of the adapters' task: executes their work every few nanoseconds until
 * costs_stop_adapters() is called.
 */
void *costs_adapters(void *arg);
void costs_stop_adapters(void);

#endif
