/* SPDX-License-Identifier: MIT */
/* The library on a device, with both ends in one process: every kind of request and of failure. */
#include "duo.h"
#include "post.h"

static void fill(uint8_t *p, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(test_rand(&seed) >> 32);
}

/* ---- every request ---- */

static int post(uint8_t opcode, uint32_t len, uint32_t imm, unsigned flags)
{
	uint8_t *src = duo.h.mem + SRC, *dst = duo.h.mem + DST;
	bool read = opcode == MLX5DVL_READ;
	const struct mlx5dvl_op_ op = {.opcode = opcode,
		.imm = imm,
		.len = len,
		.laddr = read ? dst : src,
		.lkey = duo.h.mr.lkey,
		.raddr = (uintptr_t)(read ? src : dst),
		.rkey = duo.h.mr.rkey};

	return post_op(duo.a, &op, flags, 0);
}

static void moves(uint8_t opcode, uint32_t len, unsigned flags, uint64_t seed)
{
	bool send = opcode == MLX5DVL_SEND || opcode == MLX5DVL_SEND_IMM;
	struct got *g = &duo.got;
	uint8_t *src = duo.h.mem + SRC, *dst = duo.h.mem + DST;

	fill(src, MAX_LEN, seed);
	memset(dst - GUARD, 0xcc, MAX_LEN + 2 * GUARD);
	CHECK_EQ(post(opcode, len, (uint32_t)seed, flags), 0);
	hca_fence(&duo.h, duo.a);
	for (uint32_t i = 0; i < GUARD; i++)
		CHECK(dst[-1 - (int)i] == 0xcc && dst[(send ? 0 : len) + i] == 0xcc);
	if (!send)
		CHECK(!memcmp(dst, src, len));
	if (opcode == MLX5DVL_WRITE || opcode == MLX5DVL_READ)
		return;
	wait_recv(&duo.h, g, g->n + 1);
	CHECK(g->qp == duo.b);
	CHECK_EQ(g->len, len);
	CHECK_EQ(g->opcode, opcode == MLX5DVL_WRITE_IMM ? MLX5DVL_RECV_WRITE_IMM :
			    opcode == MLX5DVL_SEND      ? MLX5DVL_RECV_SEND :
							  MLX5DVL_RECV_SEND_IMM);
	CHECK(opcode == MLX5DVL_SEND || g->imm == (uint32_t)seed);
	CHECK(!send || !memcmp(g->buf, src, len));
}

TEST(every_request_moves_its_payload)
{
	static const uint8_t opcodes[] = {MLX5DVL_WRITE, MLX5DVL_WRITE_IMM, MLX5DVL_READ,
		MLX5DVL_SEND, MLX5DVL_SEND_IMM};
	static const uint32_t sizes[] = {0, 1, 8, 31, 32, 64, 203, 204, 205, 219, 220, 221, 236,
		237, 1024, 4096, MAX_LEN};
	static const unsigned flags[] = {0, MLX5DVL_BY_REF, MLX5DVL_SOLICITED, MLX5DVL_FENCE};
	uint64_t seed = test_seed();

	for (uint32_t cqe_size = 64; cqe_size <= 128; cqe_size *= 2) {
		open_duo(&(struct hca_attr){.recv_size = MAX_LEN, .cqe_size = cqe_size},
			&(struct mlx5dvl_qp_attr){0});
		for (size_t o = 0; o < ARRAY_SIZE(opcodes); o++)
			for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
				for (size_t f = 0; f < ARRAY_SIZE(flags); f++)
					moves(opcodes[o], sizes[s], flags[f], seed++);
		CHECK_EQ(duo.h.nerrors, 0);
	}
}

TEST(atomics_return_the_old_value)
{
	uint64_t *result, *word, seed = test_seed();

	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	result = (uint64_t *)(void *)duo.h.mem;
	word = (uint64_t *)(void *)(duo.h.mem + DST);
	for (int i = 0; i < 100; i++) {
		uint64_t old = *word = test_rand(&seed), operand = test_rand(&seed);
		uint64_t compare = i % 2 ? old : test_rand(&seed);

		CHECK_EQ(mlx5dvl_post_fetch_add(duo.a, result, duo.h.mr.lkey, (uintptr_t)word,
				 duo.h.mr.rkey, operand, 0, 0),
			0);
		hca_fence(&duo.h, duo.a);
		CHECK(*result == old && *word == old + operand);
		*word = old;
		CHECK_EQ(mlx5dvl_post_cmp_swap(duo.a, result, duo.h.mr.lkey, (uintptr_t)word,
				 duo.h.mr.rkey, compare, operand, 0, 0),
			0);
		hca_fence(&duo.h, duo.a);
		CHECK(*result == old && *word == (i % 2 ? operand : old));
	}
}

/* ---- errors ---- */

static void one_error(uint64_t token, int err, struct mlx5dvl_qp *qp)
{
	hca_wait_errors(&duo.h, 1);
	CHECK_EQ(duo.h.errors[0].token, token);
	CHECK_EQ(duo.h.errors[0].err, err);
	CHECK(!duo.h.errors[0].is_recv);
	CHECK(duo.h.error_qp[0] == qp);
	CHECK_EQ(mlx5dvl_qp_status(qp), err);
	CHECK_EQ(mlx5dvl_post_nop(qp, 0, 0), -ENOTCONN);
}

/* The requests are unsignaled, so only errors are reported; a second pair of QPs keeps working. */
TEST(errors_of_unsignaled_requests)
{
	for (int what = 0; what < 5; what++) {
		open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
		struct mlx5dvl_qp *more[2];
		const struct mlx5dvl_mr *mr = &duo.h.mr;
		uint64_t dst = (uintptr_t)duo.h.mem + DST;
		uint64_t end = (uintptr_t)duo.h.mem + duo.h.mem_len;
		int err = -EACCES;

		hca_pair(&duo.h, (struct mlx5dvl_qp_attr){0}, more);
		if (what == 0)
			mlx5dvl_post_write(duo.a, duo.h.mem, 0, 8, dst, mr->rkey + 1, 0, 50);
		else if (what == 1)
			mlx5dvl_post_write_imm(duo.a, duo.h.mem, 0, 8, end - 7, mr->rkey, 0, 0, 50);
		else if (what == 2)
			mlx5dvl_post_read(duo.a, duo.h.mem, mr->lkey, 8, end, mr->rkey, 0, 50);
		else
			err = -EFAULT;
		if (what == 3)
			mlx5dvl_post_write(duo.a, duo.h.mem, mr->lkey + 1, 1024, dst, mr->rkey, 0,
				50);
		else if (what == 4)
			mlx5dvl_post_write(duo.a, duo.h.mem + duo.h.mem_len - 8, mr->lkey, 9, dst,
				mr->rkey, MLX5DVL_BY_REF, 50);
		mlx5dvl_ring(duo.a);
		one_error(50, err, duo.a);
		CHECK_EQ(mlx5dvl_qp_status(duo.b), 0);
		hca_fence(&duo.h, more[0]);
		hca_unpair(more);
	}
}

TEST(a_peer_without_rights)
{
	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){.no_remote = true});
	mlx5dvl_post_write(duo.a, duo.h.mem, 0, 8, (uintptr_t)duo.h.mem + DST, duo.h.mr.rkey, 0, 7);
	mlx5dvl_ring(duo.a);
	hca_wait_errors(&duo.h, 1);
	CHECK_EQ(duo.h.errors[0].token, 7);
	CHECK(duo.h.errors[0].err == -EACCES || duo.h.errors[0].err == -EREMOTEIO);
}

TEST(a_peer_that_is_gone)
{
	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){.timeout = 8, .retry_cnt = 1});
	mlx5dvl_qp_destroy(duo.b);
	duo.b = NULL;
	CHECK_EQ(mlx5dvl_post_nop(duo.a, 0, 60), 0);
	mlx5dvl_post_write(duo.a, duo.h.mem, 0, 8, (uintptr_t)duo.h.mem + DST, duo.h.mr.rkey, 0,
		61);
	mlx5dvl_ring(duo.a);
	one_error(61, -ETIMEDOUT, duo.a);
}

TEST(a_peer_without_receives)
{
	open_duo(&(struct hca_attr){.srq_depth = 3},
		&(struct mlx5dvl_qp_attr){.rnr_retry = 1, .min_rnr_timer = 1});
	for (uint32_t i = 0; i < 4; i++)
		CHECK_EQ(mlx5dvl_post_send(duo.a, NULL, 0, 0, 0, 70 + i), 0);
	mlx5dvl_ring(duo.a);
	one_error(73, -ENOBUFS, duo.a);
	wait_recv(&duo.h, &duo.got, 3);
}

/* A request fails on each of four QPs whose send queues are full. Every request gets a completion.
 * The CQ is exactly as deep as the send queues of the QPs and of their peers together. */
TEST(full_queues_are_flushed_without_overrun)
{
	struct mlx5dvl_qp *qp[4][2];
	struct hca *h = &duo.h;
	uint32_t each = 64;

	hca_open(h, &(struct hca_attr){.scq_depth = 8 * each});
	h->mem[SRC] = 1;
	for (uint32_t i = 0; i < 4; i++)
		hca_pair(h, (struct mlx5dvl_qp_attr){.sq_depth = each}, qp[i]);
	CHECK_EQ(mlx5dvl_qp_create(h->ctx,
			 &(struct mlx5dvl_qp_attr){.send_cq = h->scq, .sq_depth = 16}, &duo.a),
		-ENOSPC);
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(mlx5dvl_post_write(qp[i][0], h->mem, 0, 8, 0, h->mr.rkey, 0, i << 8), 0);
		for (uint32_t k = 1; k < each; k++)
			CHECK_EQ(mlx5dvl_post_write(qp[i][0], h->mem, 0, 8, (uintptr_t)h->mem + DST,
					 h->mr.rkey, 0, i << 8 | k),
				0);
		CHECK_EQ(mlx5dvl_post_nop(qp[i][0], 0, 0), -EAGAIN);
		mlx5dvl_ring(qp[i][0]);
	}
	hca_wait_errors(h, 4 * each);
	uint32_t next[4] = {0};

	for (uint32_t i = 0; i < 4 * each; i++) {
		uint32_t q = (uint32_t)h->errors[i].token >> 8;

		CHECK(h->error_qp[i] == qp[q][0]);
		CHECK_EQ(h->errors[i].token & 0xff, next[q]);
		CHECK_EQ(h->errors[i].err, next[q]++ ? -ECANCELED : -EACCES);
	}
	for (uint32_t i = 0; i < 4; i++) {
		CHECK_EQ(h->mem[DST], 0); /* no flushed WRITE was executed */
		hca_unpair(qp[i]);
	}
	hca_close(h);
}

/* The counter grows with the port's packets; an unknown or invalid name is refused. */
TEST(counters_of_the_port)
{
	static const char *const wrong[] = {"", "../state", "counters/port_rcv_packets", ".",
		"port_rcv_packets/../../../node_guid"};
	uint64_t before = 0, after = 0;

	open_duo(&(struct hca_attr){0}, &(struct mlx5dvl_qp_attr){0});
	CHECK_EQ(mlx5dvl_ctx_counter(duo.h.ctx, "port_rcv_packets", &before), 0);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(post(MLX5DVL_WRITE, 8, 0, 0), 0);
	hca_fence(&duo.h, duo.a);
	CHECK_EQ(mlx5dvl_ctx_counter(duo.h.ctx, "port_rcv_packets", &after), 0);
	CHECK(after >= before + 10);
	CHECK_EQ(mlx5dvl_ctx_counter(duo.h.ctx, "no_such_counter", &after), -ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK_EQ(mlx5dvl_ctx_counter(duo.h.ctx, wrong[i], &after), -EINVAL);
}

TEST(to_error_flushes)
{
	open_duo(&(struct hca_attr){.srq_depth = 2}, &(struct mlx5dvl_qp_attr){0});
	for (uint32_t i = 0; i < 5; i++) /* the third and later ones find no receives */
		CHECK_EQ(mlx5dvl_post_send(duo.a, NULL, 0, 0, 0, i), 0);
	mlx5dvl_ring(duo.a);
	hca_until((mlx5dvl_mono_poll(duo.h.rcq, 64, on_recv, &duo.got), duo.got.n >= 2));
	CHECK_EQ(mlx5dvl_qp_to_error(duo.a), 0);
	CHECK_EQ(mlx5dvl_qp_status(duo.a), -ECANCELED);
	CHECK_EQ(mlx5dvl_post_nop(duo.a, 0, 0), -ENOTCONN);
	uint64_t sent = 0;

	hca_until((mlx5dvl_send_poll(duo.h.scq, 64, hca_count_sent, &sent), duo.h.nerrors >= 3));
	CHECK_EQ(sent, 0);
	CHECK_EQ(duo.h.nerrors, 3); /* the two SENDs that arrived are not reported */
	for (uint32_t i = 0; i < 3; i++) {
		CHECK_EQ(duo.h.errors[i].token, 2 + i);
		CHECK_EQ(duo.h.errors[i].err, -ECANCELED);
	}
}
