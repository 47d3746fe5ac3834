/* SPDX-License-Identifier: MIT */
/* Two connected QPs of one context, and the last received completion. */
#ifndef DUO_H
#define DUO_H

#include "hca.h"

enum { SRC = 0, DST = 16384, GUARD = 64, MAX_LEN = 8192 };

struct got {
	uint32_t n, imm, len;
	uint64_t imm_sum;
	uint8_t opcode;
	struct mlx5dvl_qp *qp;
	uint8_t buf[MAX_LEN];
};

static inline void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct got *g = arg;

	g->n++;
	g->imm = recv->imm;
	g->imm_sum += recv->imm;
	g->len = recv->len;
	g->opcode = recv->opcode;
	g->qp = qp;
	if (recv->buf)
		memcpy(g->buf, recv->buf, recv->len);
}

static inline void wait_recv(struct hca *h, struct got *g, uint32_t n)
{
	hca_until(
		(mlx5dvl_mono_poll(h->rcq, 64, on_recv, g), mlx5dvl_srq_refill(h->srq), g->n >= n));
}

struct duo {
	struct hca h;
	struct mlx5dvl_qp *a, *b;
	struct got got;
};

static struct duo duo;

static inline void close_duo(void)
{
	mlx5dvl_qp_destroy(duo.a);
	mlx5dvl_qp_destroy(duo.b);
	hca_close(&duo.h);
}

/* Opens the context and the QPs; they are destroyed at the end of the test case. */
static inline void open_duo(const struct hca_attr *ha, const struct mlx5dvl_qp_attr *qa)
{
	test_finally(close_duo);
	memset(&duo.got, 0, sizeof(duo.got));
	hca_open(&duo.h, ha);
	duo.a = hca_qp(&duo.h, *qa);
	duo.b = hca_qp(&duo.h, *qa);
	hca_connect(duo.a, duo.b);
}

#endif
