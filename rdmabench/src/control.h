/* SPDX-License-Identifier: MIT */
/*
 * What is done beside the traffic, in its thread and on its context: verbs of the control path, and
 * requests that must fail, on queue pairs of their own. And what is done to the traffic itself, at
 * the n-th message of a queue pair: the software HCA can do that.
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
	struct latrec_hist times; /* of each, in nanoseconds */
	int failed; /* of the request that must fail: how it did */
	uint64_t errors; /* what did not go as it should */
	int first_error;
};

/* 0 or -errno. After an error, too, control_close(). */
int control_open(struct control *c, struct mlx5dvl_ctx *ctx, enum control_kind kind,
	uint64_t every_ns, uint64_t now_ns);
void control_close(struct control *c);

/* Does one, if it is due. */
void control_tend(struct control *c, const struct latrec_clock *clock);

/* A completion with error of a QP of ours. */
void control_on_error(struct control *c, const struct mlx5dvl_error *error);

/*
 * Lets something happen to message number at, from 1, of a QP of this process. Its number, from 1;
 * -EOPNOTSUPP: only the software HCA can; -errno.
 */
int inject_plant(enum inject_kind kind, uint32_t qpn, uint64_t at);

/* Takes it back; whether it has happened. */
bool inject_remove(int number);

#endif
