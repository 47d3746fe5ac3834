/* SPDX-License-Identifier: MIT */
/*
 * The part of the storm that does not use copyrpc: it creates QPs of mlx5dv-lite, which send, fail
 * and are destroyed, in a context that may or may not read its asynchronous events. In every case
 * the device must free the QPs, and the SRQ must keep its receives. In half of the schedules the
 * library's clock stands still, so that no QP is freed because time has passed.
 */
#ifndef COPYRPC_TEST_STORM_CHURN_H
#define COPYRPC_TEST_STORM_CHURN_H

#include <sched.h>

#include "../../mlx5dv-lite/test/hca.h"
#include "device.h"

enum { CHURN_PAIRS = 3, CHURN_DEPTH = 16, CHURN_SQ = 16 };

struct churn_pair {
	struct mlx5dvl_qp *qp[2];
	uint32_t sent, received; /* messages from qp[0] to qp[1] */
};

struct churn {
	struct hca h;
	struct churn_pair pair[CHURN_PAIRS];
	uint64_t seed;
	uint32_t reads; /* events are read once per this many rounds, on average; 0: never */
	bool fatal; /* the device has failed */
};

static inline uint64_t churn_stopped_clock(void)
{
	return 1000 * NSEC_PER_SEC;
}

static inline void churn_open(struct churn *c, uint64_t seed)
{
	static const uint32_t reads[] = {0, 0, 1, 16};

	*c = (struct churn){.seed = seed};
	c->reads = reads[test_rand(&c->seed) % ARRAY_SIZE(reads)];
	/* The send CQ has room for all pairs, and for one that is destroyed and not freed yet. */
	hca_open(&c->h, &(struct hca_attr){.srq_depth = CHURN_DEPTH,
				.scq_depth = 2 * CHURN_SQ * (CHURN_PAIRS + 1)});
	if (test_rand(&c->seed) % 2)
		c->h.ctx->clock = churn_stopped_clock;
}

/* Checks that the messages of a pair arrive in order and that none is missing. The immediate is the
 * number of the message. */
static inline void churn_received(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *r)
{
	struct churn_pair *p = mlx5dvl_qp_user(qp);

	CHECK(qp == p->qp[1]);
	CHECK(r->imm < p->sent);
	CHECK_EQ(r->imm, p->received);
	p->received++;
}

static inline void churn_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	CHECK(0 && "no request was signaled");
}

static inline void churn_poll(struct churn *c)
{
	c->h.nerrors = 0;
	mlx5dvl_mono_poll(c->h.rcq, 64, churn_received, NULL);
	mlx5dvl_srq_refill(c->h.srq);
	mlx5dvl_send_poll(c->h.scq, 64, churn_sent, NULL);
}

static inline void churn_create(struct churn *c, struct churn_pair *p, int i)
{
	struct mlx5dvl_qp_attr attr = {.send_cq = c->h.scq,
		.recv_cq = c->h.rcq,
		.sq_depth = CHURN_SQ,
		.timeout = 10,
		.user = p};
	int rc;

	/* -ENOSPC until destroyed QPs are freed, which must be soon. */
	while ((rc = mlx5dvl_qp_create(c->h.ctx, &attr, &p->qp[i])) == -ENOSPC) {
		churn_poll(c);
		sched_yield();
	}
	CHECK_EQ(rc, 0);
}

static inline void churn_make(struct churn *c, struct churn_pair *p)
{
	p->sent = p->received = 0;
	for (int i = 0; i < 2; i++)
		churn_create(c, p, i);
	hca_connect(p->qp[0], p->qp[1]);
}

static inline void churn_destroy(struct churn *c, struct churn_pair *p)
{
	int first = (int)(test_rand(&c->seed) % 2);

	for (int i = 0; i < 2; i++) {
		mlx5dvl_qp_destroy(p->qp[first ^ i]);
		p->qp[first ^ i] = NULL;
	}
}

static inline void churn_send(struct churn *c, struct churn_pair *p, uint32_t n)
{
	while (n-- && !mlx5dvl_post_write_imm(p->qp[0], c->h.mem, c->h.mr.lkey, 8,
			      (uintptr_t)c->h.mem, c->h.mr.rkey, p->sent, 0, 0))
		p->sent++;
	mlx5dvl_ring(p->qp[0]);
}

/* Sends a message of which only a half may arrive, because of a fault that direct() (test-storm.c)
 * may have set. The receiver then holds a receive of the SRQ, and later messages wait. */
static inline void churn_send_half(struct churn *c, struct churn_pair *p)
{
	if (!mlx5dvl_post_send_imm(p->qp[0], NULL, 0, 0, p->sent, 0, 0))
		p->sent++;
	mlx5dvl_ring(p->qp[0]);
}

static inline void churn_read_events(struct churn *c)
{
	enum mlx5dvl_event e;

	while ((e = mlx5dvl_ctx_event(c->h.ctx)) != MLX5DVL_EVENT_NONE)
		c->fatal |= e == MLX5DVL_EVENT_FATAL;
}

static inline void churn_round(struct churn *c)
{
	struct churn_pair *p = &c->pair[test_rand(&c->seed) % CHURN_PAIRS];

	churn_poll(c);
	if (!p->qp[0])
		churn_make(c, p);
	churn_send(c, p, (uint32_t)(test_rand(&c->seed) % 4));
	if (test_rand(&c->seed) % 4 == 0)
		churn_send_half(c, p);
	for (int i = 0; i < 2; i++)
		if (test_rand(&c->seed) % 3 == 0)
			mlx5dvl_qp_to_error(p->qp[i]);
	if (mlx5dvl_qp_status(p->qp[0]) || mlx5dvl_qp_status(p->qp[1]) ||
		test_rand(&c->seed) % 4 == 0)
		churn_destroy(c, p);
	if (c->reads && test_rand(&c->seed) % c->reads == 0)
		churn_read_events(c);
}

/* Checks that no receive is lost: CHURN_DEPTH messages, one for each receive of the SRQ, arrive
 * without a refill. The caller must have removed all faults. */
static inline void churn_check_receives(struct churn *c)
{
	struct churn_pair *p = &c->pair[0];

	churn_make(c, p);
	for (uint32_t n = 0; n < CHURN_DEPTH; n += CHURN_SQ / 4) {
		churn_send(c, p, CHURN_SQ / 4);
		while (p->received < p->sent) {
			CHECK_EQ(mlx5dvl_qp_status(p->qp[0]), 0);
			mlx5dvl_mono_poll(c->h.rcq, 64, churn_received, NULL);
			mlx5dvl_send_poll(c->h.scq, 64, churn_sent, NULL);
			sched_yield();
		}
	}
	churn_destroy(c, p);
}

static inline void churn_until_freed(struct churn *c)
{
	while (mlx5dvl_ctx_retired(c->h.ctx)) {
		churn_poll(c);
		sched_yield();
	}
}

static inline void churn_close(struct churn *c, bool check)
{
	for (int i = 0; i < CHURN_PAIRS; i++)
		if (c->pair[i].qp[0])
			churn_destroy(c, &c->pair[i]);
	if (check) {
		churn_until_freed(c);
		churn_poll(c);
		mlx5dvl_srq_post_(c->h.srq);
		churn_check_receives(c);
		churn_until_freed(c);
	}
	hca_close(&c->h);
}

#endif
