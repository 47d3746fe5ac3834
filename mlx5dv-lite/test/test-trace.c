/* SPDX-License-Identifier: MIT */
/*
 * Features that the verbs interface lacks, so a comparison with libibverbs is not possible: payload
 * whose first bytes are inline and whose rest the device reads from memory, NOPs at the ring's end,
 * requests signaled by the library, compressed completions. The test compares them with the
 * software HCA's record of executed requests and written completions.
 */
#include <endian.h>

#include "device.h"
#include "hca.h"
#include "support/hcacall.h"

static uint64_t rand_state;

static uint32_t below(uint32_t n)
{
	return (uint32_t)(test_rand(&rand_state) % n);
}

/* ---- requests ---- */

enum { DST = 32768, MAX_LEN = 2000, BATCH_MAX = 64 };

struct expected {
	uint32_t len, imm;
	uint64_t raddr;
	unsigned flags;
	bool imm_op;
};

static struct hca h;
static struct mlx5dvl_qp *a; /* the sender of a pair */

static struct expected post_random(void)
{
	struct expected e = {.len = below(3) ? below(MAX_LEN) : 215 + below(12),
		.imm = (uint32_t)test_rand(&rand_state),
		.flags = below(8) ? 0 : MLX5DVL_SIGNALED,
		.imm_op = below(2)};
	int err;

	e.raddr = (uintptr_t)h.mem + DST + below(1000);
	if (e.imm_op)
		err = mlx5dvl_post_write_imm(a, h.mem, h.mr.lkey, e.len, e.raddr, h.mr.rkey, e.imm,
			e.flags, 0);
	else
		err = mlx5dvl_post_write(a, h.mem, h.mr.lkey, e.len, e.raddr, h.mr.rkey, e.flags,
			0);
	CHECK_EQ(err, 0);
	return e;
}

static void same_request(const struct softhca_wqe_record *r, const struct expected *e)
{
	uint32_t inl = e->len <= 220 ? e->len : 204;

	CHECK_EQ(r->opcode, e->imm_op ? MLX5DVL_WRITE_IMM : MLX5DVL_WRITE);
	CHECK_EQ(r->syndrome, 0);
	CHECK_EQ(r->raddr, e->raddr);
	CHECK_EQ(r->rkey, h.mr.rkey);
	CHECK_EQ(r->length, e->len);
	CHECK_EQ(r->inline_len, inl);
	CHECK_EQ(r->segments, !!inl + (e->len > inl));
	CHECK(!e->imm_op || be32toh(r->imm) == e->imm);
	CHECK_EQ(r->index, r->wqe_index);
	CHECK(!(e->flags & MLX5DVL_SIGNALED) || (r->flags & 8));
	/* A request is contiguous in the ring. */
	CHECK((r->index & (a->depth - 1)) + (r->units + 3u) / 4 <= a->depth);
}

struct tally {
	uint64_t seq, nops;
	uint32_t quiet; /* blocks since the last signaled request */
};

/* Checks the records since the last call: the requests of the batch in order, with only NOPs in
 * between, which fill the ring's end. At least one request in 64 blocks is signaled. */
static void check_batch(struct tally *t, const struct expected *e, uint32_t n)
{
	struct softhca_wqe_record r;
	uint32_t i = 0;

	while (i < n) {
		CHECK_EQ(HCA(softhca_trace_wqes)(a->qpn, t->seq, &r, 1), 1);
		CHECK_EQ(r.seq, t->seq++);
		uint32_t blocks = (r.units + 3u) / 4;

		t->quiet = r.flags & 8 ? 0 : t->quiet + blocks;
		CHECK(t->quiet < 64);
		if (r.opcode == MLX5DVL_NOP) {
			CHECK_EQ(r.units, 1);
			CHECK((r.index & (a->depth - 1)) >= a->depth - 3);
			t->nops++;
		} else {
			same_request(&r, &e[i++]);
		}
	}
	CHECK_EQ(HCA(softhca_trace_wqes)(a->qpn, t->seq, &r, 1), 0);
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	++*(uint64_t *)arg;
}

TEST(what_was_posted_is_what_was_executed)
{
	struct tally t = {0};
	uint64_t sent = 0, received = 0, laps;
	struct mlx5dvl_qp *qp[2];

	rand_state = test_seed();
	hca_open(&h, &(struct hca_attr){0});
	hca_pair(&h, (struct mlx5dvl_qp_attr){0}, qp);
	a = qp[0];
	for (uint32_t round = 0; round < 1000; round++) {
		struct expected e[BATCH_MAX];
		uint32_t n = 0, most = 1 + below(BATCH_MAX);

		while (n < most && mlx5dvl_sq_room(a))
			e[n++] = post_random();
		for (uint32_t k = 0; k < MAX_LEN; k += 1 + below(100))
			h.mem[k] = (uint8_t)test_rand(&rand_state);
		mlx5dvl_ring(a);
		check_batch(&t, e, n);
		mlx5dvl_send_poll(h.scq, 256, hca_count_sent, &sent);
		mlx5dvl_mono_poll(h.rcq, 256, on_recv, &received);
		mlx5dvl_srq_refill(h.srq);
	}
	laps = a->pi / a->depth;
	CHECK(laps > 100);
	CHECK(t.nops > laps / 2 && t.nops <= 3 * laps);
	CHECK_EQ(h.nerrors, 0);
	hca_unpair(qp);
	hca_close(&h);
}

/* ---- compressed completions ---- */

struct reader {
	uint32_t cqn;
	uint64_t seq;
};

static void next_cqe(struct reader *r, struct softhca_cqe_record *c)
{
	CHECK_EQ(HCA(softhca_trace_cqes)(r->cqn, r->seq, c, 1), 1);
	CHECK_EQ(c->seq, r->seq++);
}

static void same_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	struct softhca_cqe_record c;

	next_cqe(arg, &c);
	CHECK_EQ(c.qpn, qp->qpn);
	CHECK_EQ(c.opcode, recv->opcode);
	CHECK_EQ(c.byte_cnt, recv->len);
	CHECK(recv->opcode == MLX5DVL_RECV_SEND || be32toh(c.imm) == recv->imm);
	CHECK(recv->buf == h.recv_mem + (size_t)c.wqe_counter * 8);
}

static void same_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct softhca_cqe_record c;

	next_cqe(arg, &c);
	CHECK_EQ(c.qpn, qp->qpn);
	CHECK_EQ(c.opcode, 0);
	CHECK_EQ(c.wqe_opcode, sent->opcode);
	CHECK_EQ(c.wqe_counter, sent->token & 0xffff);
}

/* Returns the number of compressed runs among the next @n unconsumed completions. */
static uint32_t compressed_runs(const struct mlx5dvl_cq *cq, uint32_t n)
{
	uint32_t runs = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint8_t op_own = mlx5dvl_cqe_at_(cq, cq->ci + i)->op_own;

		runs += !!((cq->ci + i) & cq->depth) == (op_own & 1) && op_own < 0xd0 &&
			(op_own & 0x0c) == 0x0c;
	}
	return runs;
}

static void post_burst(struct mlx5dvl_qp *qp, uint32_t n)
{
	uint32_t imm = below(3);
	bool send = below(2);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t token = qp->pi;
		uint32_t len = below(9);
		int err = send ? mlx5dvl_post_send_imm(qp, h.mem, 0, len, imm, MLX5DVL_SIGNALED,
					 token) :
				 mlx5dvl_post_write_imm(qp, h.mem, 0, len, (uintptr_t)h.mem + DST,
					 h.mr.rkey, imm, MLX5DVL_SIGNALED, token);

		CHECK_EQ(err, 0);
		imm += !below(20);
	}
	mlx5dvl_ring(qp);
}

static void compressed_completions(uint32_t cqe_size)
{
	struct mlx5dvl_qp *qp[2][2];
	uint64_t runs = 0;

	hca_open(&h, &(struct hca_attr){.compress = true,
			     .cqe_size = cqe_size,
			     .srq_depth = 256,
			     .recv_size = 8});
	struct reader recvs = {.cqn = cq_of(h.rcq)->cqn}, sends = {.cqn = cq_of(h.scq)->cqn};

	for (int i = 0; i < 2; i++)
		hca_pair(&h, (struct mlx5dvl_qp_attr){.sq_depth = 1024}, qp[i]);
	for (uint32_t round = 0; round < 1000; round++) {
		uint32_t n[2] = {below(80), below(80)};
		int got[2] = {0, 0};

		post_burst(qp[0][0], n[0]);
		post_burst(qp[1][0], n[1]);
		runs += compressed_runs(h.rcq, n[0] + n[1]) + compressed_runs(h.scq, n[0] + n[1]);
		while (got[0] + got[1] < (int)(2 * (n[0] + n[1]))) {
			got[0] += mlx5dvl_mono_poll(h.rcq, 1 + (int)below(100), same_recv, &recvs);
			got[1] += mlx5dvl_send_poll(h.scq, 1 + (int)below(100), same_sent, &sends);
		}
		CHECK_EQ(got[0], got[1]);
		mlx5dvl_srq_refill(h.srq);
	}
	CHECK(runs > 1000);
	CHECK_EQ(h.nerrors, 0);
	for (int i = 0; i < 2; i++)
		hca_unpair(qp[i]);
	hca_close(&h);
}

TEST(compressed_completions_are_those_recorded)
{
	rand_state = test_seed();
	compressed_completions(64);
	compressed_completions(128);
}
