/* SPDX-License-Identifier: MIT */
/*
 * Runs verbs of the control path, and requests that must fail, during the traffic. These use the
 * traffic's thread and context, but separate queue pairs. Also plants the events of enum
 * inject_kind, which the software HCA causes at the n-th message of a queue pair.
 */
#ifndef RDMABENCH_CONTROL_H
#define RDMABENCH_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "latrec.h"
#include "mlx5dvl.h"
#include "traffic.h"

#define INJECT_DELAY_NS 1000000

struct control {
	enum control_kind kind;
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_cq *cq;
	uint64_t every_ns, due_ns;
	uint8_t *scratch;
	struct latrec_hist *times; /* durations in nanoseconds */
	int failed; /* status of the request that must fail */
	uint64_t errors; /* unexpected results */
	int first_error;
};

/* Returns 0 or -errno. control_close() must be called after an error as well. */
int control_open(struct control *c, struct mlx5dvl_ctx *ctx, enum control_kind kind,
	uint64_t every_ns, uint64_t now_ns);
void control_close(struct control *c);

/* Runs the next operation if it is due. */
void control_tend(struct control *c, const struct latrec_clock *clock);

/* Must be called for a completion with error of a QP that control_tend() has created. */
void control_on_error(struct control *c, const struct mlx5dvl_error *error);

/*
 * Plants an event at message number @at, counted from 1, of a QP of this process. Returns the
 * event's number, counted from 1. -EOPNOTSUPP: there is no software HCA. Otherwise -errno.
 */
int inject_plant(enum inject_kind kind, uint32_t qpn, uint64_t at);

/* Removes the event with this number. Returns true if it has happened. */
bool inject_remove(int number);

#endif
