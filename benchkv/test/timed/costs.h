/* SPDX-License-Identifier: MIT */
/*
 * The times that daemons and clients take. Their functions are called as ever; in front of or
 * behind each one (link-time wrappers, costs.c) the running task spends what the simulator's
 * machine says that it costs. In between, the adapters do what is due.
 */
#ifndef BENCHKV_TIMED_COSTS_H
#define BENCHKV_TIMED_COSTS_H

#include <stdint.h>

#include "machine.h"

#define COSTS_RANKS 16 /* at most */
#define COSTS_CLIENTS 64 /* of a rank, at most */

/* For a job with that many clients in each rank. sq_depth: of copyrpc; 0: as it ships. */
void costs_begin_job(const struct machine *m, uint32_t clients, uint32_t sq_depth);

/*
 * For a run of it. Until single_until_ns each message of a daemon leaves in a WRITE of its own, as
 * in the simulator's initial state "low".
 */
void costs_begin_run(uint64_t single_until_ns);

/* The adapters: a task that looks at them every few nanoseconds until costs_stop_adapters(). */
void *costs_adapters(void *arg);
void costs_stop_adapters(void);

#endif
