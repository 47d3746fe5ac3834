/* SPDX-License-Identifier: MIT */
/* Wrong use, tight queues, many QPs, QPs that end, threads, events. */
#include <endian.h>
#include <pthread.h>

#include "device.h"
#include "duo.h"
#include "support/fdtest.h"

TEST(wrong_attributes)
{
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_cq *cq, *small;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_qp *qp;
	struct mlx5dvl_mr mr;

	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.device = "nope"}, &ctx), -ENODEV);
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.port = 9}, &ctx), -EINVAL);
	CHECK_EQ(mlx5dvl_ctx_open(&(struct mlx5dvl_ctx_attr){.gid_index = 999}, &ctx), -EINVAL);
	hca_open(&duo.h, &(struct hca_attr){.srq_depth = 100});
	ctx = duo.h.ctx;
	CHECK_EQ(mlx5dvl_mr_reg(ctx, duo.h.mem, 0, 0, &mr), -EINVAL);
	CHECK_EQ(mlx5dvl_mr_reg(ctx, duo.h.mem, 1, MLX5DVL_REMOTE_WRITE, &mr), -EINVAL);
	CHECK_EQ(mlx5dvl_mr_reg(ctx, duo.h.mem, 1, 1 << 20, &mr), -EINVAL);
	CHECK(mlx5dvl_mr_reg(ctx, (void *)4096, 1, 0, &mr) < 0);
	CHECK_EQ(mlx5dvl_mr_reg_dmabuf(ctx, 0, 0, 0, 0, 0, &mr), -EINVAL);
	CHECK_EQ(mlx5dvl_mr_reg_dmabuf(ctx, 0, 0, 1, 0, MLX5DVL_REMOTE_WRITE, &mr), -EINVAL);
	CHECK_EQ(mlx5dvl_mr_reg_dmabuf(ctx, -1, 0, 1, 0, 0, &mr), -EBADF);
	CHECK_EQ(mlx5dvl_srq_create(ctx, &(struct mlx5dvl_srq_attr){.depth = 40000}, &srq),
		-EINVAL);
	CHECK_EQ(mlx5dvl_srq_create(ctx, &(struct mlx5dvl_srq_attr){.buf_size = 8}, &srq), -EINVAL);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.depth = 64, .srq = duo.h.srq},
			 &cq),
		-EINVAL);
	CHECK_EQ(mlx5dvl_cq_create(ctx,
			 &(struct mlx5dvl_cq_attr){.srq = duo.h.srq, .compress = true}, &cq),
		-EOPNOTSUPP);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.cqe_size = 32}, &cq), -EINVAL);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.depth = 1 << 30}, &cq), -EINVAL);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.depth = 64}, &small), 0);
	const struct mlx5dvl_qp_attr bad[] = {
		{.recv_cq = duo.h.rcq},
		{.send_cq = duo.h.rcq},
		{.send_cq = duo.h.scq, .recv_cq = duo.h.scq},
		{.send_cq = duo.h.scq, .sq_depth = 8},
		{.send_cq = duo.h.scq, .sq_depth = 1 << 20},
		{.send_cq = duo.h.scq, .mtu = 6},
		{.send_cq = duo.h.scq, .timeout = 32},
		{.send_cq = duo.h.scq, .retry_cnt = 8},
		{.send_cq = duo.h.scq, .rnr_retry = 8},
		{.send_cq = duo.h.scq, .min_rnr_timer = 32},
		{.send_cq = duo.h.scq, .rd_atomic = 17},
		{.send_cq = duo.h.scq, .sl = 16},
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_EQ(mlx5dvl_qp_check(ctx, &bad[i]), -EINVAL);
		CHECK_EQ(mlx5dvl_qp_create(ctx, &bad[i], &qp), -EINVAL);
	}
	CHECK_EQ(mlx5dvl_qp_check(ctx, &(struct mlx5dvl_qp_attr){.send_cq = small}), 0);
	CHECK_EQ(mlx5dvl_qp_create(ctx, &(struct mlx5dvl_qp_attr){.send_cq = small}, &qp), -ENOSPC);
	CHECK_EQ(mlx5dvl_cq_fd(small), -EINVAL);
	CHECK_EQ(mlx5dvl_cq_destroy(small), 0);
	hca_close(&duo.h);
}

TEST(objects_in_use_stay)
{
	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	CHECK_EQ(mlx5dvl_srq_destroy(duo.h.srq), -EBUSY);
	CHECK_EQ(mlx5dvl_cq_destroy(duo.h.rcq), -EBUSY);
	CHECK_EQ(mlx5dvl_cq_destroy(duo.h.scq), -EBUSY);
	test_now(close_duo);
	CHECK_EQ(mlx5dvl_srq_destroy(NULL), 0);
	CHECK_EQ(mlx5dvl_cq_destroy(NULL), 0);
	mlx5dvl_qp_destroy(NULL);
	mlx5dvl_ctx_close(NULL);
}

TEST(connect_checks_its_peer)
{
	struct mlx5dvl_qp_info good, bad[7];

	hca_open(&duo.h, &(struct hca_attr){0});
	duo.a = hca_qp(&duo.h, (struct mlx5dvl_qp_attr){.user = &duo});
	duo.b = hca_qp(&duo.h, (struct mlx5dvl_qp_attr){0});
	CHECK(mlx5dvl_qp_user(duo.a) == &duo);
	CHECK_EQ(mlx5dvl_qp_status(duo.a), -ENOTCONN);
	CHECK_EQ(mlx5dvl_post_nop(duo.a, 0, 0), -ENOTCONN);
	mlx5dvl_qp_get_info(duo.b, &good, sizeof(good));
	CHECK_EQ(good.qpn, mlx5dvl_qp_qpn(duo.b));
	for (int i = 0; i < 7; i++)
		bad[i] = good;
	bad[0].qpn = 0;
	bad[1].qpn |= 1 << 24;
	bad[2].psn |= 1 << 24;
	bad[3].mtu = 0;
	bad[4].mtu = 6;
	bad[5].rd_atomic = 129;
	bad[6].lid = 0;
	memset(bad[6].gid, 0, 16);
	for (int i = 0; i < 7; i++)
		CHECK_EQ(mlx5dvl_qp_connect(duo.a, &bad[i], sizeof(bad[i])), -EINVAL);
	hca_connect(duo.a, duo.b);
	CHECK_EQ(mlx5dvl_qp_connect(duo.a, &good, sizeof(good)), -EISCONN);
	hca_fence(&duo.h, duo.a);
	close_duo();
}

/* Sizes that are not set have the documented defaults. */
TEST(sizes_have_defaults)
{
	struct mlx5dvl_cq *send, *recv, *least;
	struct mlx5dvl_ctx *ctx;
	struct mlx5dvl_srq *srq;
	struct mlx5dvl_qp *qp;

	hca_open(&duo.h, &(struct hca_attr){0});
	ctx = duo.h.ctx;
	CHECK_EQ(mlx5dvl_srq_create(ctx, &(struct mlx5dvl_srq_attr){0}, &srq), 0);
	CHECK_EQ(srq->depth, 1024);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.srq = srq}, &recv), 0);
	CHECK_EQ(recv->depth, 1024);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){0}, &send), 0);
	CHECK_EQ(send->depth, 4096);
	CHECK_EQ(mlx5dvl_cq_create(ctx, &(struct mlx5dvl_cq_attr){.depth = 1}, &least), 0);
	CHECK_EQ(least->depth, 64);
	CHECK_EQ(mlx5dvl_qp_create(ctx, &(struct mlx5dvl_qp_attr){.send_cq = send, .recv_cq = recv},
			 &qp),
		0);
	CHECK_EQ(qp->depth, 256);
	mlx5dvl_qp_destroy(qp);
	mlx5dvl_cq_destroy(least);
	mlx5dvl_cq_destroy(send);
	mlx5dvl_cq_destroy(recv);
	mlx5dvl_srq_destroy(srq);
	hca_close(&duo.h);
}

/* The attributes of a program that was compiled for a later version: they have one more field,
 * which is set. */
TEST(programs_of_a_later_version)
{
	struct {
		struct mlx5dvl_ctx_attr attr;
		uint64_t more;
	} ctx = {.attr.size = sizeof(ctx), .more = 1};
	struct {
		struct mlx5dvl_srq_attr attr;
		uint64_t more;
	} srq = {.attr.size = sizeof(srq), .more = 1};
	struct {
		struct mlx5dvl_cq_attr attr;
		uint64_t more;
	} cq = {.attr.size = sizeof(cq), .more = 1};
	struct {
		struct mlx5dvl_qp_attr attr;
		uint64_t more;
	} qp = {.attr.size = sizeof(qp), .more = 1};
	struct {
		struct mlx5dvl_qp_info known;
		uint64_t more;
	} info = {.more = 1};
	struct mlx5dvl_qp_info short_info = {.gid = {7}, .qkey = 7};
	struct mlx5dvl_port port = {.mbps = 7};

	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	CHECK_EQ(mlx5dvl_ctx_open(&ctx.attr, &(struct mlx5dvl_ctx *){0}), -E2BIG);
	CHECK_EQ(mlx5dvl_srq_create(duo.h.ctx, &srq.attr, &(struct mlx5dvl_srq *){0}), -E2BIG);
	CHECK_EQ(mlx5dvl_cq_create(duo.h.ctx, &cq.attr, &(struct mlx5dvl_cq *){0}), -E2BIG);
	CHECK_EQ(mlx5dvl_qp_create(duo.h.ctx, &qp.attr, &(struct mlx5dvl_qp *){0}), -E2BIG);
	CHECK_EQ(mlx5dvl_ctx_get_port(duo.h.ctx, &port, offsetof(struct mlx5dvl_port, mbps)), 0);
	CHECK(port.max_mr_len && port.mbps == 7);
	mlx5dvl_qp_get_info(duo.a, &short_info, offsetof(struct mlx5dvl_qp_info, gid));
	CHECK(short_info.qpn == duo.a->qpn && short_info.gid[0] == 7 && short_info.qkey == 7);
	mlx5dvl_qp_get_info(duo.a, &info.known, sizeof(info));
	CHECK(info.known.qpn == duo.a->qpn && !info.more);
	CHECK_EQ(mlx5dvl_qp_connect(duo.b, &info.known, sizeof(info)), -EISCONN);
	info.more = 1;
	CHECK_EQ(mlx5dvl_qp_connect(duo.b, &info.known, sizeof(info)), -E2BIG);
}

/* The receive CQ has exactly one CQE per receive. */
TEST(a_tight_receive_cq_does_not_overrun)
{
	uint32_t n = 0, goal = getenv("SOFTHCA_CHAOS") ? 20000 : getenv("SOAK") ? 1000000 : 200000;
	uint64_t sum = 0, sent = 0;

	open_duo(&(struct hca_attr){.srq_depth = 64, .scq_depth = 512},
		&(struct mlx5dvl_qp_attr){0});
	while (n < goal) {
		for (int i = 0; i < 40 && mlx5dvl_sq_room(duo.a); i++) {
			CHECK_EQ(mlx5dvl_post_write_imm(duo.a, &n, 0, sizeof(n),
					 (uintptr_t)duo.h.mem, duo.h.mr.rkey, n, 0, 0),
				0);
			sum += n++;
		}
		mlx5dvl_ring(duo.a);
		mlx5dvl_mono_poll(duo.h.rcq, 64, on_recv, &duo.got);
		mlx5dvl_srq_refill(duo.h.srq);
		mlx5dvl_send_poll(duo.h.scq, 64, hca_count_sent, &sent);
		if (!mlx5dvl_sq_room(duo.a))
			sched_yield();
	}
	wait_recv(&duo.h, &duo.got, n);
	CHECK_EQ(duo.got.imm_sum, sum);
	CHECK_EQ(*(uint32_t *)(void *)duo.h.mem, n - 1);
	CHECK_EQ(duo.h.nerrors, 0);
}

/* 17 QPs, in random order, post batches of random length; the peer of each gets its messages. */
TEST(many_qps_share_a_context)
{
	struct mlx5dvl_qp *qp[17][2];
	uint32_t per_qp[17] = {0};
	uint64_t rand = test_seed(), sent = 0;
	struct got g = {0};

	hca_open(&duo.h, &(struct hca_attr){.scq_depth = 16384});
	for (size_t i = 0; i < 17; i++)
		hca_pair(&duo.h, (struct mlx5dvl_qp_attr){0}, qp[i]);
	for (uint32_t round = 0, n = 0; round < 3000; round++) {
		size_t i = test_rand(&rand) % 17;
		uint32_t batch = 1 + (uint32_t)(test_rand(&rand) % 4);

		for (uint32_t k = 0; k < batch; k++) {
			uint64_t slot = (uintptr_t)duo.h.mem + i * 64;

			per_qp[i]++;
			CHECK_EQ(mlx5dvl_post_write_imm(qp[i][0], &per_qp[i], 0, 4, slot,
					 duo.h.mr.rkey, (uint32_t)i, 0, 0),
				0);
		}
		mlx5dvl_ring(qp[i][0]);
		wait_recv(&duo.h, &g, n += batch);
		CHECK(g.qp == qp[i][1] && g.imm == i);
		CHECK(!memcmp(duo.h.mem + i * 64, &per_qp[i], 4));
		mlx5dvl_send_poll(duo.h.scq, 64, hca_count_sent, &sent);
	}
	CHECK_EQ(duo.h.nerrors, 0);
	for (size_t i = 0; i < 17; i++)
		hca_unpair(qp[i]);
	hca_close(&duo.h);
}

/* Returns the number of completions in @cq for the QP @qpn. */
static uint32_t pending(const struct mlx5dvl_cq *cq, uint32_t qpn)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < 60; i++)
		n += (be32toh(mlx5dvl_cqe_at_(cq, cq->ci + i)->sop_qpn) & 0xffffff) == qpn;
	return n;
}

/* A QP is destroyed while it has unconsumed completions: its receives are not lost, other QPs are
 * not affected, and no completion still has its number, which a new QP may get. */
TEST(destroyed_with_completions_pending)
{
	struct mlx5dvl_qp *more[2], *c;

	open_duo(&(struct hca_attr){.srq_depth = 64}, &(struct mlx5dvl_qp_attr){0});
	hca_pair(&duo.h, (struct mlx5dvl_qp_attr){0}, more);
	c = more[0];
	for (uint32_t i = 0; i < 60; i++) {
		struct mlx5dvl_qp *from = i % 2 ? duo.a : c;

		CHECK_EQ(mlx5dvl_post_send_imm(from, NULL, 0, 0, i, MLX5DVL_SIGNALED, i), 0);
		mlx5dvl_ring(from);
	}
	uint32_t c_qpn = mlx5dvl_qp_qpn(c), d_qpn = mlx5dvl_qp_qpn(more[1]);
	uint64_t sent = 0;

	hca_until(pending(duo.h.scq, c_qpn) == 30 && pending(duo.h.rcq, d_qpn) == 30);
	hca_until(pending(duo.h.scq, duo.a->qpn) == 30 && pending(duo.h.rcq, duo.b->qpn) == 30);

	hca_unpair(more);
	CHECK_EQ(pending(duo.h.scq, c_qpn), 0);
	CHECK_EQ(pending(duo.h.rcq, d_qpn), 0);
	CHECK_EQ(mlx5dvl_send_poll(duo.h.scq, 64, hca_count_sent, &sent), 30);
	CHECK_EQ(sent, 30);
	CHECK_EQ(mlx5dvl_mono_poll(duo.h.rcq, 64, on_recv, &duo.got), 60);
	CHECK_EQ(duo.got.n, 30);
	CHECK_EQ(duo.got.imm_sum, 900);
	CHECK(duo.got.qp == duo.b);
	CHECK_EQ(mlx5dvl_srq_refill(duo.h.srq), 60);
	for (uint32_t i = 0; i < 64; i++)
		CHECK_EQ(mlx5dvl_post_send_imm(duo.a, NULL, 0, 0, 0, 0, 0), 0);
	mlx5dvl_ring(duo.a);
	wait_recv(&duo.h, &duo.got, 94);
}

/* ---- threads and registers ---- */

static bool share_register(struct mlx5dvl_ctx *x, struct mlx5dvl_ctx *y)
{
	for (uint32_t i = 0; i < x->core.bf_count; i++)
		for (uint32_t j = 0; j < y->core.bf_count; j++)
			if (x->core.bf[i]->reg == y->core.bf[j]->reg)
				return true;
	return false;
}

struct worker {
	struct hca h;
	struct mlx5dvl_qp *qp;
	struct got got;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *me = arg;
	struct mlx5dvl_qp *peer = hca_qp(&me->h, (struct mlx5dvl_qp_attr){0});
	uint64_t sent = 0;

	hca_connect(me->qp, peer);
	for (uint32_t i = 1; i <= 5000; i++) {
		CHECK_EQ(mlx5dvl_post_write_imm(me->qp, &i, 0, 4, (uintptr_t)me->h.mem,
				 me->h.mr.rkey, i, 0, 0),
			0);
		mlx5dvl_ring(me->qp);
		wait_recv(&me->h, &me->got, i);
		CHECK_EQ(*(uint32_t *)(void *)me->h.mem, i);
		CHECK_EQ(me->got.imm, i);
		mlx5dvl_send_poll(me->h.scq, 64, hca_count_sent, &sent);
	}
	mlx5dvl_qp_destroy(peer);
	return NULL;
}

TEST(two_threads_two_contexts)
{
	static struct worker w[2];

	for (int i = 0; i < 2; i++) {
		hca_open(&w[i].h, &(struct hca_attr){0});
		w[i].qp = hca_qp(&w[i].h, (struct mlx5dvl_qp_attr){0});
	}
	CHECK(!share_register(w[0].h.ctx, w[1].h.ctx));
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(w[i].thread, NULL), 0);
		mlx5dvl_qp_destroy(w[i].qp);
		hca_close(&w[i].h);
	}
}

/* ---- events ---- */

TEST(an_armed_cq_tells_once)
{
	open_duo(&(struct hca_attr){.events = true}, &(struct mlx5dvl_qp_attr){0});
	for (uint32_t i = 1; i <= 10; i++) {
		mlx5dvl_cq_arm(duo.h.rcq);
		/* The arm word has the number of events; the device ignores an old number. */
		CHECK_EQ(be32toh(duo.h.rcq->record[1]) >> 28, (i - 1) & 3);
		CHECK_EQ(mlx5dvl_mono_poll(duo.h.rcq, 64, on_recv, &duo.got), 0);
		CHECK_EQ(mlx5dvl_cq_event(duo.h.rcq), 0);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(mlx5dvl_post_send_imm(duo.a, NULL, 0, 0, i, 0, 0), 0);
		mlx5dvl_ring(duo.a);
		CHECK(fdtest_readable_within(mlx5dvl_cq_fd(duo.h.rcq), 60000));
		CHECK_EQ(mlx5dvl_cq_event(duo.h.rcq), 1);
		CHECK_EQ(mlx5dvl_cq_event(duo.h.rcq), 0);
		wait_recv(&duo.h, &duo.got, 3 * i);
	}
}
