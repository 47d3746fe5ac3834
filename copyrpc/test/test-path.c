/* SPDX-License-Identifier: MIT */
/* The path of an endpoint: the attributes of its queue pair, as the device reports them. */
#include "device.h"
#include "pair.h"
#include "../src/internal.h"

static const struct copyrpc_path all_set = {
	.sl = 5,
	.traffic_class = 104,
	.flow_label = 0x12345,
	.mtu = 2,
	.timeout = 17,
	.retry_cnt = 3,
	.rnr_retry = 4,
	.min_rnr_timer = 9,
};

static struct ibv_qp_attr asked(const struct copyrpc_ep *ep)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	CHECK_EQ(ibv_query_qp(qp_of(ep->qp)->ibv, &a, IBV_QP_STATE, &init), 0);
	return a;
}

static void check_all_set(const struct copyrpc_ep *ep)
{
	struct ibv_qp_attr a = asked(ep);

	CHECK_EQ(a.ah_attr.sl, 5);
	CHECK_EQ(a.ah_attr.is_global, 1);
	CHECK_EQ(a.ah_attr.grh.traffic_class, 104);
	CHECK_EQ(a.ah_attr.grh.flow_label, 0x12345);
	CHECK_EQ(a.path_mtu, 2);
	CHECK_EQ(a.timeout, 17);
	CHECK_EQ(a.retry_cnt, 3);
	CHECK_EQ(a.rnr_retry, 4);
	CHECK_EQ(a.min_rnr_timer, 9);
}

static void check_default(const struct copyrpc_ep *ep)
{
	struct ibv_qp_attr a = asked(ep);

	CHECK_EQ(a.ah_attr.sl, 0);
	CHECK_EQ(a.path_mtu, 5);
	CHECK_EQ(a.timeout, COPYRPC_TIMEOUT);
	CHECK_EQ(a.retry_cnt, COPYRPC_RETRIES);
	CHECK_EQ(a.rnr_retry, 7);
	CHECK_EQ(a.min_rnr_timer, 12);
	CHECK_EQ(a.pkey_index, 0);
}

/* An endpoint's own path takes precedence over the context's. GID 0 can be set explicitly. */
TEST(a_path_is_taken_over)
{
	static const struct copyrpc_path none;
	struct copyrpc_ctx_attr attr = {.set = COPYRPC_SET_GID_INDEX, .path = &all_set};
	struct heard h = {0};
	PAIR p = pair_open(&attr);

	check_all_set(p.ep[0]);
	CHECK_EQ(copyrpc_call(p.ep[0], "x", 1, 1, 0), 0);
	copyrpc_poll(p.ctx[0], hear, &h);
	CHECK_EQ(copyrpc_poll(p.ctx[1], hear, &h), 1);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_create(p.ctx[i], &(struct copyrpc_ep_attr){.path = &none},
				 &p.ep[i]),
			0);
	connect_eps(p.ep);
	check_default(p.ep[0]);
}

TEST(the_default)
{
	PAIR p = pair_open(NULL);

	check_default(p.ep[0]);
	CHECK_EQ(asked(p.ep[0]).ah_attr.is_global, 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(copyrpc_ep_create(p.ctx[i], &(struct copyrpc_ep_attr){.path = &all_set},
				 &p.ep[i]),
			0);
	connect_eps(p.ep);
	CHECK_EQ(asked(p.ep[0]).timeout, 17);
	CHECK_EQ(asked(p.ep[0]).ah_attr.sl, 5);
}

TEST(zeros_that_are_set)
{
	const struct copyrpc_path zeros = {.set = COPYRPC_SET_TIMEOUT | COPYRPC_SET_RETRY_CNT |
						  COPYRPC_SET_RNR_RETRY |
						  COPYRPC_SET_MIN_RNR_TIMER};
	struct ibv_qp_attr a;
	PAIR p = pair_open(&(struct copyrpc_ctx_attr){.path = &zeros});

	a = asked(p.ep[0]);
	CHECK_EQ(a.timeout, 0);
	CHECK_EQ(a.retry_cnt, 0);
	CHECK_EQ(a.rnr_retry, 0);
	CHECK_EQ(a.min_rnr_timer, 0);
}

TEST(out_of_range)
{
	static const struct copyrpc_path wrong[] = {{.sl = 16}, {.flow_label = 1 << 20}, {.mtu = 6},
		{.timeout = 32}, {.retry_cnt = 8}, {.rnr_retry = 8}, {.min_rnr_timer = 32}};
	struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(NULL, &ctx), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK_EQ(copyrpc_ep_create(ctx, &(struct copyrpc_ep_attr){.path = &wrong[i]}, &ep),
			-EINVAL);
	copyrpc_ctx_destroy(ctx);
	CHECK_EQ(copyrpc_ctx_create(&(struct copyrpc_ctx_attr){.pkey_index = 1}, &ctx), -EINVAL);
	CHECK_EQ(copyrpc_ctx_create(&(struct copyrpc_ctx_attr){.gid_index = 1}, &ctx), -EINVAL);
}

/* The program was compiled for a later version, or for an earlier one, whose path had no `set`. */
TEST(programs_of_other_versions)
{
	struct {
		struct copyrpc_path path;
		uint64_t more;
	} later = {.path = {.size = sizeof(later), .timeout = 17}, .more = 1};
	struct copyrpc_path earlier = {.size = offsetof(struct copyrpc_path, set),
		.set = COPYRPC_SET_TIMEOUT};
	const struct copyrpc_ep_attr attr = {.path = &later.path};
	AT_END(end_ctx) struct copyrpc_ctx *ctx;
	struct copyrpc_ep *ep;

	CHECK_EQ(copyrpc_ctx_create(&(struct copyrpc_ctx_attr){.path = &later.path}, &ctx), -E2BIG);
	CHECK_EQ(copyrpc_ctx_create(&(struct copyrpc_ctx_attr){.path = &earlier}, &ctx), 0);
	CHECK_EQ(ctx->path.set, 0);
	CHECK_EQ(copyrpc_ep_create(ctx, &attr, &ep), -E2BIG);
	later.more = 0;
	CHECK_EQ(copyrpc_ep_create(ctx, &attr, &ep), 0);
	CHECK(ep->path.timeout == 17 && ep->path.size == sizeof(ep->path));
	later.path.set = COPYRPC_SET_MIN_RNR_TIMER << 1;
	CHECK_EQ(copyrpc_ep_create(ctx, &attr, &ep), -E2BIG);
}
