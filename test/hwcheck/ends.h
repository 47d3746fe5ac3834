/* SPDX-License-Identifier: MIT */
/* Two ends on one device, for the steps of hw-check: each with a context of its own. */
#ifndef HWCHECK_ENDS_H
#define HWCHECK_ENDS_H

#include <stdbool.h>
#include <stdint.h>

#include <mlx5dvl.h>

#define MEMORY (4u << 20) /* bytes that an end has registered */
#define QPS_MAX 64
#define PATIENCE_S 20.0 /* in which the device must do what it was asked for */

/* The options of the command line. */
struct wish {
	const char *device; /* NULL: the first one */
	int gid_index; /* -1: as mlx5dvl_ctx_open() chooses */
	bool quick;
};

struct end {
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_cq *recv_cq, *send_cq;
	struct mlx5dvl_qp *qp[QPS_MAX];
	struct mlx5dvl_mr mr, room; /* `room`: memory of the receives */
	uint8_t *memory;
	uint32_t srq_depth, recv_size;
	struct mlx5dvl_error error; /* the first that is no flush, else the first flush */
	uint64_t errors, sent, received, bytes;
	uint32_t imm; /* of the last message */
	const uint8_t *expect; /* SENDs must have this content; NULL: not checked */
	bool wrong; /* a SEND had another content */
};

extern const char *step_name;

/* Prints one line and ends the program. */
_Noreturn __attribute__((format(printf, 1, 2))) void broken(const char *format, ...);
void must(const char *what, int err);

/* srq_depth 0: 1024; recv_size 0: receives without memory. */
void end_open(struct end *e, const struct wish *w, uint32_t srq_depth, uint32_t recv_size,
	uint32_t sq_depth, int qps);
void end_close(struct end *e);

/* Connects the first n queue pairs of a with those of b. */
void ends_link(struct end *a, struct end *b, int n);

/* Polls both CQs. Without refill, consumed receives are not posted again. */
void end_poll(struct end *e, bool refill);

/*
 * Polls both ends until *count is at least n. Ends the program at an error, or if *count does not
 * change for 20 s.
 */
void ends_until(struct end *a, struct end *b, const uint64_t *count, uint64_t n);

/* Waits for an error of a, and prints how long that took. Another error than want is fatal. */
void ends_error(struct end *a, struct end *b, const char *what, int want);

double now_s(void);

#endif
