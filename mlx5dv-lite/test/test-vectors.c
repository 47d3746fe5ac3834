/* SPDX-License-Identifier: MIT */
/* Completion vectors and moderation of CQs: the values that are passed to libmlx5. */
#include "device.h"
#include "hca.h"
#include "support/fdtest.h"

#define CQ(...)                                                                                    \
	&(struct mlx5dvl_cq_attr)                                                                  \
	{                                                                                          \
		.size = sizeof(struct mlx5dvl_cq_attr), __VA_ARGS__                                \
	}

static uint32_t vector; /* vector of the last CQ that was created */
static struct ibv_moderate_cq moderation; /* moderation of the last modified CQ */
static int modified;
static int (*modify)(struct ibv_cq *, struct ibv_modify_cq_attr *);

struct ibv_cq_ex *__real_mlx5dv_create_cq(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr,
	struct mlx5dv_cq_init_attr *dv);
struct ibv_cq_ex *__wrap_mlx5dv_create_cq(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr,
	struct mlx5dv_cq_init_attr *dv);

struct ibv_cq_ex *__wrap_mlx5dv_create_cq(struct ibv_context *ibv, struct ibv_cq_init_attr_ex *attr,
	struct mlx5dv_cq_init_attr *dv)
{
	vector = attr->comp_vector;
	return __real_mlx5dv_create_cq(ibv, attr, dv);
}

static int observe(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
	CHECK_EQ(attr->attr_mask, IBV_CQ_ATTR_MODERATE);
	moderation = attr->moderate;
	modified++;
	return modify(cq, attr);
}

static struct mlx5dvl_ctx *open_ctx(void)
{
	struct mlx5dvl_ctx *ctx;

	CHECK_EQ(mlx5dvl_ctx_open(NULL, &ctx), 0);
	modify = verbs_get_ctx(ctx->ibv)->modify_cq;
	verbs_get_ctx(ctx->ibv)->modify_cq = observe;
	return ctx;
}

static int create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_cq_attr *attr)
{
	struct mlx5dvl_cq *cq;
	int rc = mlx5dvl_cq_create(ctx, attr, &cq);

	if (!rc) {
		CHECK_EQ(mlx5dvl_cq_vector(cq), vector);
		CHECK_EQ(mlx5dvl_cq_destroy(cq), 0);
	}
	return rc;
}

TEST(a_vector_is_chosen_by_the_user)
{
	struct mlx5dvl_ctx *ctx = open_ctx();
	uint32_t n = (uint32_t)ctx->ibv->num_comp_vectors;

	ctx->vector = n - 1; /* so that no CQ has vector 0 by default */
	for (uint32_t v = 0; v < n; v++) {
		CHECK_EQ(create(ctx, CQ(.vector = v, .set = MLX5DVL_SET_VECTOR)), 0);
		CHECK_EQ(vector, v);
	}
	CHECK_EQ(create(ctx, CQ(.vector = n - 1)), 0);
	CHECK_EQ(vector, n - 1);
	CHECK_EQ(create(ctx, CQ(.vector = n)), -EINVAL);
	CHECK_EQ(create(ctx, CQ(.vector = UINT32_MAX)), -EINVAL);
	mlx5dvl_ctx_close(ctx);
}

/* The CQs of a context have the same vector, and each new context of a process has the next one. */
TEST(contexts_take_turns)
{
	uint32_t last = 0;

	for (uint32_t i = 0; i < 12; i++) {
		struct mlx5dvl_ctx *ctx = open_ctx();
		uint32_t n = (uint32_t)ctx->ibv->num_comp_vectors, first;

		CHECK_EQ(create(ctx, NULL), 0);
		first = vector;
		CHECK_EQ(create(ctx, CQ(.events = true)), 0);
		CHECK_EQ(vector, first);
		CHECK(!i || first == (last + 1) % n);
		last = first;
		mlx5dvl_ctx_close(ctx);
	}
}

TEST(moderation_reaches_the_device)
{
	struct mlx5dvl_ctx *ctx = open_ctx();

	modified = 0;
	CHECK_EQ(create(ctx, CQ(.events = true)), 0);
	CHECK_EQ(modified, 0);
	CHECK_EQ(create(ctx, CQ(.events = true, .event_count = 7, .event_period_us = 11)), 0);
	CHECK_EQ(modified, 1);
	CHECK_EQ(moderation.cq_count, 7);
	CHECK_EQ(moderation.cq_period, 11);
	CHECK_EQ(create(ctx, CQ(.event_period_us = 3)), 0);
	CHECK_EQ(moderation.cq_count, 0);
	CHECK_EQ(moderation.cq_period, 3);
	CHECK_EQ(create(ctx, CQ(.event_count = 1)), 0);
	CHECK_EQ(create(ctx, CQ(.event_count = 2)), -EINVAL); /* the event could never come */
	CHECK_EQ(create(ctx, CQ(.event_count = 2, .event_period_us = 65535)), -EINVAL);
	mlx5dvl_ctx_close(ctx);
}

/* If there are fewer completions than event_count, the event comes at the end of the period. */
TEST(the_event_of_one_completion_comes)
{
	struct mlx5dvl_cq *cq;
	struct mlx5dvl_qp *qp[2];
	static struct hca h;
	uint64_t done = 0;

	hca_open(&h, &(struct hca_attr){.srq_depth = 4});
	CHECK_EQ(mlx5dvl_cq_create(h.ctx,
			 CQ(.events = true, .event_count = 100, .event_period_us = 2000), &cq),
		0);
	CHECK_EQ(mlx5dvl_cq_destroy(h.scq), 0);
	h.scq = cq;
	hca_pair(&h, (struct mlx5dvl_qp_attr){.sq_depth = 16}, qp);
	mlx5dvl_cq_arm(cq);
	CHECK_EQ(mlx5dvl_post_nop(qp[0], MLX5DVL_SIGNALED, 0), 0);
	mlx5dvl_ring(qp[0]);
	CHECK(fdtest_readable_within(mlx5dvl_cq_fd(cq), -1));
	CHECK_EQ(mlx5dvl_cq_event(cq), 1);
	CHECK_EQ(mlx5dvl_send_poll(cq, 64, hca_count_sent, &done), 1);
	hca_unpair(qp);
	hca_close(&h);
}
