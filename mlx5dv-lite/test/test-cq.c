/* SPDX-License-Identifier: MIT */
/* Completion queues in plain memory: the test writes completions as the device would. */
#include "plain.h"
#include <endian.h>

enum { QPN = 0x4321, DEPTH = 64 };

struct seen {
	uint64_t n, sum;
	uint32_t last_imm, last_len;
	uint8_t last_opcode;
	struct mlx5dvl_qp *last_qp;
	const void *last_buf;
	struct mlx5dvl_error errors[DEPTH];
	uint32_t nerrors;
};

static struct core core;
static struct mlx5dvl_srq srq;
static struct plain_qp qp;
static struct plain_cq cq;
static struct seen seen;
static uint8_t *wqes;
static uint32_t srq_record;
static struct mlx5dvl_bf bf;

static void on_error(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_error *error)
{
	struct seen *s = arg;

	s->last_qp = q;
	s->errors[s->nerrors++] = *error;
}

static void on_recv(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_recv *recv)
{
	struct seen *s = arg;

	s->n++;
	s->sum += recv->imm;
	s->last_imm = recv->imm;
	s->last_len = recv->len;
	s->last_opcode = recv->opcode;
	s->last_buf = recv->buf;
	s->last_qp = q;
}

static void on_sent(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_sent *sent)
{
	struct seen *s = arg;

	s->n++;
	s->sum += sent->token;
	s->last_opcode = sent->opcode;
	s->last_qp = q;
}

static void teardown(void)
{
	plain_qp_fini(&qp, &core);
	plain_cq_fini(&cq);
	core_fini(&core);
	free(wqes);
}

/* Creates an SRQ of DEPTH receives, all posted, a CQ at position @start, and one QP. */
static void setup(bool receives, uint32_t cqe_size, uint32_t start)
{
	const struct mlx5dvl_srq_attr attr = {.depth = DEPTH};

	test_finally(teardown);
	memset(&seen, 0, sizeof(seen));
	core_init(&core, on_error, &seen);
	wqes = plain_alloc((DEPTH + 1) * 32);
	srq_init(&srq, wqes, 5, DEPTH, &srq_record, &attr);
	mlx5dvl_srq_post_(&srq);
	plain_cq_init(&cq, &core, receives ? &srq : NULL, DEPTH, cqe_size, start);
	plain_qp_init(&qp, &core, DEPTH, &bf, QPN);
}

static void recv_cqe(uint32_t imm)
{
	PLAIN_CQE(&cq, .opcode = 1, .qpn = QPN, .imm = imm, .byte_cnt = 64,
		.counter = (uint16_t)(imm % DEPTH));
}

/* Tries every number of unconsumed completions, also at positions where the counter overflows. */
TEST(owner_bit_wraps)
{
	static const uint32_t starts[] = {0, 1, DEPTH, DEPTH + 5, (1u << 24) - 100, 0u - 100};

	for (uint32_t size = 64; size <= 128; size *= 2) {
		for (size_t s = 0; s < ARRAY_SIZE(starts); s++) {
			uint32_t imm = 0;

			setup(true, size, starts[s]);
			CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, DEPTH, on_recv, &seen), 0);
			for (uint32_t fill = 1; fill <= DEPTH; fill++) {
				uint64_t before = seen.n;

				CHECK(!mlx5dvl_cq_ready(&cq.cq));
				for (uint32_t i = 0; i < fill; i++)
					recv_cqe(imm++);
				CHECK(mlx5dvl_cq_ready(&cq.cq));
				CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, DEPTH + 1, on_recv, &seen),
					fill);
				CHECK_EQ(seen.n - before, fill);
				CHECK_EQ(seen.last_imm, imm - 1);
				CHECK_EQ(be32toh(cq.record[0]), cq.pi & 0xffffff);
				CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, DEPTH, on_recv, &seen), 0);
				mlx5dvl_srq_refill(&srq);
			}
		}
	}
}

TEST(poll_stops_at_max)
{
	setup(true, 64, 0);
	for (uint32_t i = 0; i < 10; i++)
		recv_cqe(i);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 0, on_recv, &seen), 0);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 4, on_recv, &seen), 4);
	CHECK_EQ(be32toh(cq.record[0]), 4);
	CHECK_EQ(mlx5dvl_srq_posted(&srq), DEPTH - 4);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 100, on_recv, &seen), 6);
	CHECK_EQ(seen.n, 10);
}

TEST(fields_arrive)
{
	static uint8_t buf[(DEPTH + 1) * 16];

	setup(true, 128, 0);
	PLAIN_CQE(&cq, .opcode = 3, .qpn = QPN, .imm = 0xdeadbeef, .byte_cnt = 0x10203,
		.counter = 7);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 1, on_recv, &seen), 1);
	CHECK_EQ(seen.last_imm, 0xdeadbeef);
	CHECK_EQ(seen.last_len, 0x10203);
	CHECK_EQ(seen.last_opcode, MLX5DVL_RECV_SEND_IMM);
	CHECK(seen.last_qp == &qp.qp);
	CHECK(!seen.last_buf);
	srq.buf = buf;
	srq.buf_size = 16;
	PLAIN_CQE(&cq, .opcode = 2, .qpn = QPN, .counter = 9);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 1, on_recv, &seen), 1);
	CHECK_EQ(seen.last_opcode, MLX5DVL_RECV_SEND);
	CHECK(seen.last_buf == buf + 9 * 16);
}

TEST(error_of_an_unsignaled_request)
{
	static const struct {
		uint8_t syndrome;
		int err;
	} map[] = {{0x01, -EMSGSIZE}, {0x02, -EIO}, {0x04, -EFAULT}, {0x05, -ECANCELED},
		{0x06, -EIO}, {0x10, -EIO}, {0x11, -EFAULT}, {0x12, -EREMOTEIO}, {0x13, -EACCES},
		{0x14, -EREMOTEIO}, {0x15, -ETIMEDOUT}, {0x16, -ENOBUFS}, {0x22, -EREMOTEIO},
		{0xff, -EIO}};

	for (size_t i = 0; i < ARRAY_SIZE(map); i++) {
		setup(false, 64, 0);
		CHECK_EQ(mlx5dvl_post_nop(&qp.qp, 0, 41), 0);
		CHECK_EQ(mlx5dvl_post_read(&qp.qp, NULL, 1, 100, 2, 3, 0, 42), 0);
		qp.qp.rung = qp.qp.pi; /* as after a doorbell; `bf` has no register */
		PLAIN_CQE(&cq, .opcode = 0xd, .qpn = QPN, .counter = 1, .wqe_opcode = MLX5DVL_READ,
			.syndrome = map[i].syndrome, .vendor = 0x77);
		CHECK_EQ(mlx5dvl_send_poll(&cq.cq, 8, on_sent, &seen), 1);
		CHECK_EQ(seen.n, 0);
		CHECK_EQ(seen.nerrors, 1);
		CHECK(seen.last_qp == &qp.qp);
		CHECK_EQ(seen.errors[0].err, map[i].err);
		CHECK_EQ(seen.errors[0].syndrome, map[i].syndrome);
		CHECK_EQ(seen.errors[0].vendor_syndrome, 0x77);
		CHECK_EQ(seen.errors[0].token, 42);
		CHECK_EQ(seen.errors[0].opcode, MLX5DVL_READ);
		CHECK(!seen.errors[0].is_recv);
		CHECK_EQ(qp.qp.status, map[i].err);
		CHECK_EQ(qp.qp.ci, 2);
		CHECK_EQ(mlx5dvl_post_nop(&qp.qp, 0, 0), -ENOTCONN);
	}
}

/* Request 10 fails, and all later ones are flushed: their tokens are reported once, in order. */
TEST(flush_reports_every_request)
{
	setup(false, 64, 0);
	for (uint32_t i = 0; i < 20; i++)
		CHECK_EQ(mlx5dvl_post_nop(&qp.qp, i == 3 ? MLX5DVL_SIGNALED : 0, 1000 + i), 0);
	PLAIN_CQE(&cq, .qpn = QPN, .counter = 3);
	for (uint16_t i = 10; i < 20; i++)
		PLAIN_CQE(&cq, .opcode = 0xd, .qpn = QPN, .counter = i,
			.syndrome = i == 10 ? 0x13 : 0x05);
	CHECK_EQ(mlx5dvl_send_poll(&cq.cq, 64, on_sent, &seen), 11);
	CHECK_EQ(seen.n, 1);
	CHECK_EQ(seen.sum, 1003);
	CHECK_EQ(seen.nerrors, 10);
	for (uint32_t i = 0; i < 10; i++) {
		CHECK_EQ(seen.errors[i].token, 1010 + i);
		CHECK_EQ(seen.errors[i].err, i ? -ECANCELED : -EACCES);
	}
	CHECK_EQ(qp.qp.status, -EACCES);
	CHECK_EQ(qp.qp.ci, 20);
}

TEST(error_of_a_receive)
{
	setup(true, 64, 0);
	PLAIN_CQE(&cq, .opcode = 0xe, .qpn = QPN, .counter = 5, .syndrome = 0x04);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 8, on_recv, &seen), 1);
	CHECK_EQ(seen.n, 0);
	CHECK_EQ(seen.nerrors, 1);
	CHECK(seen.errors[0].is_recv);
	CHECK_EQ(seen.errors[0].err, -EFAULT);
	CHECK_EQ(seen.errors[0].token, 0);
	CHECK_EQ(qp.qp.status, -EFAULT);
	CHECK_EQ(srq.tail, 5);
	CHECK_EQ(mlx5dvl_srq_posted(&srq), DEPTH - 1);
}

TEST(nobody_to_tell)
{
	setup(false, 64, 0);
	core.on_error = NULL;
	CHECK_EQ(mlx5dvl_post_nop(&qp.qp, 0, 0), 0);
	PLAIN_CQE(&cq, .opcode = 0xd, .qpn = QPN, .syndrome = 0x15);
	PLAIN_CQE(&cq, .opcode = 0xd, .qpn = QPN + 1, .syndrome = 0x15);
	CHECK_EQ(mlx5dvl_send_poll(&cq.cq, 64, on_sent, &seen), 2);
	CHECK_EQ(qp.qp.status, -ETIMEDOUT);
}

/* ---- compressed completions ---- */

struct run {
	uint32_t n;
	uint8_t opcode;
	uint16_t counter;
	uint32_t imm;
	const uint16_t *counters; /* of completions of requests; NULL: receives */
	const uint32_t *byte_cnt;
};

/*
 * Writes a compressed run as the device does: first the mini-CQEs, then the title, which is the
 * run's first CQE. The other CQEs of the run keep old contents. The function writes such contents,
 * with the owner bit of the present lap if cq.pi is odd, otherwise with that of the lap before.
 */
static void compressed(const struct run *r)
{
	uint32_t at = cq.pi, lap = cq.pi % 2 ? 0 : cq.depth;

	for (uint32_t i = 0; i < r->n; i++) {
		plain_cqe_write(&cq, at + i + lap,
			&(struct plain_cqe){.opcode = 1, .qpn = 0xbad, .imm = 0xbad});
	}
	for (uint32_t i = 0; i < r->n; i++) {
		uint8_t *mini = plain_cqe_place(&cq, at + (i < 8 ? 1 : i / 8 * 8)) + i % 8 * 8;

		put16(mini, r->counters ? r->counters[i] : 0xbad);
		mini[2] = r->counters ? MLX5DVL_WRITE : 0xbb;
		mini[3] = 0;
		put32(mini + 4, r->byte_cnt[i]);
	}
	plain_cqe_write(&cq, at,
		&(struct plain_cqe){.opcode = r->opcode,
			.format = 3,
			.qpn = QPN,
			.counter = r->counter,
			.imm = r->imm,
			.byte_cnt = r->n});
	cq.pi += r->n;
}

struct lens {
	uint32_t len[256];
	uint32_t n;
};

static void on_recv_len(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_recv *recv)
{
	struct lens *l = arg;

	CHECK(q == &qp.qp);
	CHECK_EQ(recv->imm, 0xc0ffee);
	l->len[l->n++] = recv->len;
}

TEST(compressed_receives)
{
	uint64_t rand = test_seed();
	uint32_t lens[DEPTH];

	for (uint32_t size = 64; size <= 128; size *= 2) {
		setup(true, size, 0);
		for (uint32_t i = 0; i < 5000; i++) {
			uint32_t n = 2 + (uint32_t)(test_rand(&rand) % (DEPTH - 3)), got = 0;
			uint16_t first = (uint16_t)(test_rand(&rand) % (DEPTH + 1));
			struct lens l = {.n = 0};

			first = first + n > DEPTH ? (uint16_t)(DEPTH + 1 - n) : first;
			for (uint32_t k = 0; k < n; k++)
				lens[k] = (uint32_t)test_rand(&rand);
			compressed(&(struct run){.n = n,
				.opcode = 1,
				.imm = 0xc0ffee,
				.counter = first,
				.byte_cnt = lens});
			PLAIN_CQE(&cq, .opcode = 1, .qpn = QPN, .imm = 0xc0ffee, .byte_cnt = 12345);
			while (got < n + 1) /* the limit can end a poll anywhere in the run */
				got += (uint32_t)mlx5dvl_mono_poll(&cq.cq,
					1 + (int)(test_rand(&rand) % 40), on_recv_len, &l);
			CHECK_EQ(got, n + 1);
			CHECK_EQ(l.n, n + 1);
			CHECK(!memcmp(l.len, lens, n * sizeof(*lens)));
			CHECK_EQ(l.len[n], 12345);
			CHECK_EQ(get16(wqes + (size_t)(first + n - 2) * 32 + 2), first + n - 1);
			CHECK_EQ(srq.tail, 0);
			CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 8, on_recv_len, &l), 0);
			srq.posted = DEPTH;
		}
	}
}

TEST(compressed_sends)
{
	uint64_t rand = test_seed();
	uint16_t counters[DEPTH];
	uint32_t zero[DEPTH] = {0};

	setup(false, 64, 0);
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t n = 2 + (uint32_t)(test_rand(&rand) % 30);
		uint64_t sum = 0;

		seen.sum = seen.n = 0;
		for (uint32_t k = 0; k < n; k++) {
			uint64_t token = test_rand(&rand);

			CHECK_EQ(mlx5dvl_post_nop(&qp.qp, MLX5DVL_SIGNALED, token), 0);
			counters[k] = (uint16_t)qp.qp.last;
			sum += token;
		}
		qp.qp.rung = qp.qp.pi; /* as after a doorbell */
		compressed(&(struct run){.n = n,
			.opcode = 0,
			.counter = counters[0],
			.counters = counters,
			.byte_cnt = zero});
		CHECK_EQ(mlx5dvl_send_poll(&cq.cq, 64, on_sent, &seen), n);
		CHECK_EQ(seen.n, n);
		CHECK(seen.sum == sum);
		CHECK(seen.last_qp == &qp.qp);
		CHECK_EQ(qp.qp.ci, qp.qp.pi);
	}
}

/* ---- QPs that are destroyed ---- */

TEST(completions_of_a_dead_qp_are_dropped)
{
	struct plain_qp other, again;
	uint32_t lens[3] = {1, 2, 3};

	setup(true, 64, DEPTH - 4);
	plain_qp_init(&other, &core, DEPTH, &bf, QPN + 1);
	recv_cqe(1);
	PLAIN_CQE(&cq, .opcode = 1, .qpn = QPN + 1, .imm = 100);
	CHECK_EQ(cq.pi % 2, 0); /* CQEs of the run, except the first, look unwritten */
	compressed(&(struct run){.n = 3, .opcode = 1, .byte_cnt = lens});
	PLAIN_CQE(&cq, .opcode = 0xe, .qpn = QPN, .syndrome = 4, .counter = 9);
	PLAIN_CQE(&cq, .opcode = 1, .qpn = QPN + 1, .imm = 200);
	cq_forget_qp(&cq.cq, QPN);
	plain_qp_fini(&qp, &core);
	plain_qp_init(&again, &core, DEPTH, &bf, QPN); /* a new QP gets the same number */
	recv_cqe(1000);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 64, on_recv, &seen), 8);
	CHECK_EQ(seen.n, 3);
	CHECK_EQ(seen.sum, 1300);
	CHECK(seen.last_qp == &again.qp);
	CHECK_EQ(seen.nerrors, 0);
	CHECK_EQ(mlx5dvl_srq_posted(&srq), DEPTH - 8); /* no receive of the dead QP is lost */
	plain_qp_fini(&other, &core);
	qp = again; /* for teardown() */
}

static void end_qp(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_recv *recv)
{
	uint32_t *calls = arg;

	++*calls;
	cq_forget_qp(&cq.cq, q->qpn);
	core_remove_qp(&core, q);
}

TEST(a_handler_may_end_its_qp)
{
	uint32_t calls = 0;

	setup(true, 64, 0);
	for (uint32_t i = 0; i < 5; i++)
		recv_cqe(i);
	CHECK_EQ(mlx5dvl_mono_poll(&cq.cq, 64, end_qp, &calls), 5);
	CHECK_EQ(calls, 1);
	CHECK_EQ(mlx5dvl_srq_posted(&srq), DEPTH - 5);
}

static void in_order(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_sent *sent)
{
	uint64_t *next = arg;

	CHECK(q == &qp.qp);
	CHECK_EQ(sent->token, (*next)++);
}

/* Posts a request to `qp` and writes its completion. */
static void sent_cqe(uint64_t token)
{
	CHECK_EQ(mlx5dvl_post_nop(&qp.qp, MLX5DVL_SIGNALED, token), 0);
	qp.qp.rung = qp.qp.pi; /* as after a doorbell */
	PLAIN_CQE(&cq, .qpn = QPN, .counter = (uint16_t)qp.qp.last);
}

/* A full send CQ: when a QP ends, all places of its completions are free, and those of the other QP
 * keep their order. */
TEST(a_dead_qp_takes_no_place)
{
	static const uint32_t starts[] = {0, DEPTH - 3, 2 * DEPTH, 0u - 20};
	uint64_t rand = test_seed();

	for (uint32_t i = 0; i < 400; i++) {
		uint64_t sent = 0, next = 0, ready;
		struct plain_qp other;

		setup(false, i % 2 ? 128 : 64, starts[i / 2 % ARRAY_SIZE(starts)]);
		plain_qp_init(&other, &core, DEPTH, &bf, QPN + 1);
		for (uint32_t n = 0; n < DEPTH; n++) {
			if (test_rand(&rand) % 100 < i % 101)
				sent_cqe(sent++);
			else
				PLAIN_CQE(&cq, .opcode = n % 3 ? 0xd : 0, .qpn = QPN + 1,
					.counter = (uint16_t)n, .syndrome = 5);
		}
		cq_forget_qp(&cq.cq, QPN + 1);
		plain_qp_fini(&other, &core);
		CHECK_EQ((cq.pi - be32toh(cq.record[0])) & 0xffffff, sent);
		while (next < sent && sent < DEPTH) {
			sent_cqe(sent++);
			CHECK_EQ(mlx5dvl_send_poll(&cq.cq, 1, in_order, &next), 1);
		}
		ready = sent - next;
		CHECK_EQ(mlx5dvl_send_poll(&cq.cq, DEPTH, in_order, &next), ready);
		CHECK_EQ(next, sent);
		CHECK_EQ(be32toh(cq.record[0]), cq.pi & 0xffffff);
		CHECK_EQ(seen.nerrors, 0);
	}
}

static struct plain_qp failing;

static void end_failing(void *arg, struct mlx5dvl_qp *q, const struct mlx5dvl_error *error)
{
	uint32_t released = cq.record[0];

	on_error(arg, q, error);
	cq_forget_qp(&cq.cq, q->qpn);
	core_remove_qp(&core, q);
	CHECK_EQ(cq.record[0], released); /* the device must not overwrite what the poll reads */
}

TEST(an_error_handler_may_end_its_qp)
{
	for (uint32_t before = 0; before < 3; before++) {
		uint64_t sent = 0, next = 0;

		setup(false, 64, DEPTH - 4);
		core.on_error = end_failing;
		plain_qp_init(&failing, &core, DEPTH, &bf, QPN + 1);
		CHECK_EQ(mlx5dvl_post_nop(&failing.qp, 0, 77), 0);
		while (sent < before)
			sent_cqe(sent++);
		for (uint16_t i = 0; i < 4; i++) {
			PLAIN_CQE(&cq, .opcode = 0xd, .qpn = QPN + 1, .counter = i, .syndrome = 5);
			sent_cqe(sent++);
		}
		/* The error and the other QP's completions. The rest is dropped. */
		CHECK_EQ(mlx5dvl_send_poll(&cq.cq, DEPTH, in_order, &next), 1 + sent);
		CHECK_EQ(next, sent);
		CHECK_EQ(seen.nerrors, 1);
		CHECK_EQ(seen.errors[0].token, 77);
		CHECK_EQ(be32toh(cq.record[0]), cq.pi & 0xffffff);
		for (uint32_t i = 0; i < DEPTH; i++)
			sent_cqe(sent++);
		CHECK_EQ(mlx5dvl_send_poll(&cq.cq, DEPTH, in_order, &next), DEPTH);
		CHECK_EQ(next, sent);
		sq_fini(&failing.qp); /* core_remove_qp() was called */
		free(failing.sq);
	}
}
