/* SPDX-License-Identifier: MIT */
#include "control.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define SCRATCH 65536
#define CQ_DEPTH 4096 /* a destroyed QP occupies entries until mlx5dv-lite has freed it */
#define QUEUE_BLOCKS 16
#define PAYLOAD 64
#define ANSWER_NS NSEC_PER_SEC
#define NO_KEY 0xfffffe00u /* its index is so large that no region has this key */

int control_open(struct control *c, struct mlx5dvl_ctx *ctx, enum control_kind kind,
	uint64_t every_ns, uint64_t now_ns)
{
	struct mlx5dvl_cq_attr cq = {.depth = CQ_DEPTH};

	*c = (struct control){.kind = kind,
		.ctx = ctx,
		.every_ns = every_ns,
		.due_ns = now_ns + every_ns};
	if (kind == CONTROL_NONE)
		return 0;
	c->scratch = aligned_alloc(4096, SCRATCH);
	if (latrec_hist_create(NULL, &c->times))
		return -ENOMEM;
	return c->scratch ? mlx5dvl_cq_create(ctx, &cq, &c->cq) : -ENOMEM;
}

void control_close(struct control *c)
{
	mlx5dvl_cq_destroy(c->cq);
	free(c->scratch);
	latrec_hist_destroy(c->times);
}

void control_on_error(struct control *c, const struct mlx5dvl_error *error)
{
	if (error->err != -ECANCELED)
		c->failed = error->err;
}

static void no_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
}

/* Posts a request that must fail, and polls its completion. Returns 0 if it failed as expected. */
static int fail_once(struct control *c, struct mlx5dvl_qp *qp, const struct mlx5dvl_mr *mr)
{
	bool remote = c->kind == CONTROL_RKEY;
	uint64_t start = clock_ns();
	int err = mlx5dvl_post_write(qp, c->scratch, remote ? mr->lkey : NO_KEY, PAYLOAD,
		(uintptr_t)c->scratch + SCRATCH / 2, remote ? NO_KEY : mr->rkey,
		MLX5DVL_SIGNALED | MLX5DVL_BY_REF, 0);

	if (err)
		return err;
	mlx5dvl_ring(qp);
	for (c->failed = 0; !c->failed; sched_yield()) {
		mlx5dvl_send_poll(c->cq, 1, no_sent, NULL);
		if (clock_ns() - start > ANSWER_NS)
			return -ETIMEDOUT;
	}
	return c->failed == (remote ? -EACCES : -EFAULT) ? 0 : c->failed;
}

/* Registers a region for a moment. If qp is not NULL, posts to qp a request that must fail. */
static int with_region(struct control *c, unsigned rights, struct mlx5dvl_qp *qp)
{
	struct mlx5dvl_mr mr;
	int err = mlx5dvl_mr_reg(c->ctx, c->scratch, SCRATCH, rights, &mr);

	if (err)
		return err;
	err = qp ? fail_once(c, qp, &mr) : 0;
	mlx5dvl_mr_dereg(&mr);
	return err;
}

static int connect_pair(struct mlx5dvl_qp *qp, struct mlx5dvl_qp *peer)
{
	struct mlx5dvl_qp_info a, b;
	int err;

	mlx5dvl_qp_get_info(qp, &a, sizeof(a));
	mlx5dvl_qp_get_info(peer, &b, sizeof(b));
	err = mlx5dvl_qp_connect(qp, &b, sizeof(b));
	return err ? err : mlx5dvl_qp_connect(peer, &a, sizeof(a));
}

static int use_pair(struct control *c, struct mlx5dvl_qp *qp, struct mlx5dvl_qp *peer)
{
	int err = c->kind == CONTROL_QP ? 0 : connect_pair(qp, peer);

	if (err || c->kind == CONTROL_QP)
		return err;
	return c->kind == CONTROL_MODIFY ?
		       mlx5dvl_qp_to_error(qp) :
		       with_region(c, MLX5DVL_LOCAL_WRITE | MLX5DVL_REMOTE_WRITE, qp);
}

/*
 * Creates a QP, uses it as c->kind says, and destroys it. If the QP is connected, its peer is
 * another QP of this process, so that no other process is disturbed.
 */
static int change_qps(struct control *c)
{
	struct mlx5dvl_qp_attr a = {.send_cq = c->cq, .sq_depth = QUEUE_BLOCKS};
	struct mlx5dvl_qp *qp = NULL, *peer = NULL;
	int err = mlx5dvl_qp_create(c->ctx, &a, &qp);

	if (!err && c->kind != CONTROL_QP)
		err = mlx5dvl_qp_create(c->ctx, &a, &peer);
	if (!err)
		err = use_pair(c, qp, peer);
	mlx5dvl_qp_destroy(qp);
	mlx5dvl_qp_destroy(peer);
	return err;
}

void control_tend(struct control *c, const struct latrec_clock *clock)
{
	uint64_t now;
	int err;

	if (c->kind == CONTROL_NONE)
		return;
	now = latrec_clock_now(clock);
	if (now < c->due_ns)
		return;
	err = c->kind == CONTROL_MR ? with_region(c, MLX5DVL_LOCAL_WRITE, NULL) : change_qps(c);
	c->due_ns = latrec_clock_now(clock);
	latrec_hist_record(c->times, c->due_ns - now);
	c->due_ns += c->every_ns;
	c->errors += err != 0;
	if (!c->first_error)
		c->first_error = err;
}

/* ---- injected events ---- */

int inject_plant(enum inject_kind kind, uint32_t qpn, uint64_t at)
{
	static const char *const actions[] =
		{[INJECT_DROP] = "no_answer", [INJECT_RNR] = "rnr", [INJECT_DELAY] = "delay"};
	int (*add)(const char *rule);
	char rule[160];

	*(void **)&add = dlsym(RTLD_DEFAULT, "softhca_fault_add");
	if (!add)
		return -EOPNOTSUPP;
	snprintf(rule, sizeof(rule), "action=%s qpn=0x%x nth=%llu", actions[kind], qpn,
		(unsigned long long)at);
	if (kind == INJECT_DELAY)
		snprintf(rule + strlen(rule), sizeof(rule) - strlen(rule), " delay_ns=%d",
			INJECT_DELAY_NS);
	return add(rule);
}

bool inject_remove(int number)
{
	long long (*take)(int number);

	*(void **)&take = dlsym(RTLD_DEFAULT, "softhca_fault_remove");
	return take && number > 0 && take(number) > 0;
}
