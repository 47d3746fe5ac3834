/* SPDX-License-Identifier: MIT */
/* The send queue in plain memory: bytes of every request, the ring, slots, signals, doorbells. */
#include <endian.h>

#include "plain.h"
#include "post.h"

static struct core core;
static struct mlx5dvl_bf no_bf;
static uint8_t payload[4096], bf_memory[512];

static struct plain_qp q;

static void init(void)
{
	core_init(&core, NULL, NULL);
	no_bf = (struct mlx5dvl_bf){bf_memory, 0, 0};
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + 3);
}

enum { QPN = 0x123456, LKEY = 0x11223344, RKEY = 0x55667788, IMM = 0xcafe0123 };

static void teardown(void)
{
	plain_qp_fini(&q, &core);
	core_fini(&core);
}

static void setup(uint32_t depth, bool blueflame)
{
	struct mlx5dvl_bf *bf = &no_bf;

	test_finally(teardown);
	init();
	if (blueflame)
		CHECK_EQ(core_get_bf(&core, bf_memory, 256, &bf), 0);
	plain_qp_init(&q, &core, depth, bf, QPN);
}

#define RADDR 0x0123456789abcdefull

/* Writes the bytes that a request must have according to the device's manual. Returns its length in
 * units of 16 bytes. */
static uint32_t expect(uint8_t *w, uint8_t opcode, uint32_t index, uint32_t len, unsigned flags,
	bool signaled)
{
	bool remote = opcode != MLX5DVL_SEND && opcode != MLX5DVL_SEND_IMM && opcode != MLX5DVL_NOP;
	bool atomic = opcode == MLX5DVL_CMP_SWAP || opcode == MLX5DVL_FETCH_ADD;
	bool imm = opcode == MLX5DVL_WRITE_IMM || opcode == MLX5DVL_SEND_IMM;
	bool by_ref = (flags & MLX5DVL_BY_REF) || opcode == MLX5DVL_READ || atomic;
	uint32_t at = 16, inl = by_ref ? 0 : len <= 220 ? len : 204;

	memset(w, 0, 256);
	if (remote) {
		put64(w + at, RADDR);
		put32(w + at + 8, RKEY);
		at += 16;
	}
	if (atomic) {
		put64(w + at, opcode == MLX5DVL_CMP_SWAP ? 222 : 111);
		put64(w + at + 8, opcode == MLX5DVL_CMP_SWAP ? 111 : 0);
		at += 16;
	}
	if (inl) {
		memset(w + at, 0xa5, align_up(4 + inl, 16)); /* the padding is not written */
		put32(w + at, 1u << 31 | inl);
		memcpy(w + at + 4, payload, inl);
		at = (uint32_t)align_up(at + 4 + inl, 16);
	}
	if (len > inl) {
		put32(w + at, len - inl);
		put32(w + at + 4, LKEY);
		put64(w + at + 8, (uintptr_t)payload + inl);
		at += 16;
	}
	put32(w, (index & 0xffff) << 8 | opcode);
	put32(w + 4, (uint32_t)QPN << 8 | at / 16);
	w[11] = (uint8_t)((signaled ? 8 : 0) | (flags & MLX5DVL_SOLICITED ? 2 : 0) |
			  (flags & MLX5DVL_FENCE ? 0x80 : 0));
	put32(w + 12, imm ? IMM : 0);
	return at / 16;
}

static int post(struct mlx5dvl_qp *qp, uint8_t opcode, uint32_t len, unsigned flags, uint64_t token)
{
	const struct mlx5dvl_op_ op = {.opcode = opcode,
		.imm = IMM,
		.len = len,
		.laddr = payload,
		.lkey = LKEY,
		.raddr = RADDR,
		.rkey = RKEY,
		.operand = {111, 222}};

	return post_op(qp, &op, flags, token);
}

static const uint8_t opcodes[] = {MLX5DVL_NOP, MLX5DVL_WRITE, MLX5DVL_WRITE_IMM, MLX5DVL_SEND,
	MLX5DVL_SEND_IMM, MLX5DVL_READ, MLX5DVL_CMP_SWAP, MLX5DVL_FETCH_ADD};

static uint32_t real_len(uint8_t opcode, uint32_t len)
{
	if (opcode == MLX5DVL_NOP)
		return 0;
	return opcode == MLX5DVL_CMP_SWAP || opcode == MLX5DVL_FETCH_ADD ? 8 : len;
}

/* Compares two requests. Before, each byte of the send queue was 0xa5. */
static void compare(const uint8_t *got, const uint8_t *want, uint32_t ds, uint32_t at)
{
	for (uint32_t i = 0; i < ds * 16; i++) {
		if (got[i] == want[i])
			continue;
		fprintf(stderr, "request at %u: byte %u is %02x, not %02x\n", at, i, got[i],
			want[i]);
		exit(1);
	}
}

static void one(uint8_t opcode, uint32_t len, unsigned flags)
{
	uint8_t want[256];

	setup(16, false);
	/* Starts at each position, so that every number of blocks is left before the ring's end. */
	for (uint32_t start = 0; start < 16; start++) {
		memset(q.sq, 0xa5, 16 * 64);
		q.qp.pi = q.qp.ci = q.qp.rung = q.qp.last = q.qp.stop = 0xfff0 + start;
		q.qp.left = q.qp.interval;
		CHECK_EQ(post(&q.qp, opcode, len, flags, 99), 0);
		uint32_t at = q.qp.last & 15, ds;

		ds = expect(want, opcode, q.qp.last, real_len(opcode, len), flags,
			(flags & MLX5DVL_SIGNALED) || q.qp.left == q.qp.interval);
		compare(q.sq + at * 64, want, ds, at);
		CHECK_EQ(q.qp.pi - q.qp.last, (ds + 3) / 4);
		CHECK(at + (ds + 3) / 4 <= 16);
		CHECK_EQ(q.qp.slots[at].token, 99);
		CHECK_EQ(q.qp.slots[at].request.blocks, (ds + 3) / 4);
		CHECK_EQ(q.qp.slots[at].request.opcode, opcode);
	}
}

TEST(bytes_of_every_request)
{
	static const uint32_t lens[] = {0, 1, 7, 8, 11, 12, 13, 27, 28, 29, 32, 64, 203, 204, 205,
		219, 220, 221, 236, 237, 1024, 4096};

	for (size_t o = 0; o < ARRAY_SIZE(opcodes); o++)
		for (size_t l = 0; l < ARRAY_SIZE(lens); l++)
			for (unsigned flags = 0; flags < 16; flags++)
				one(opcodes[o], lens[l], flags);
}

/* If the length is constant, the compiler generates other code; the bytes must be the same. */
TEST(constant_lengths)
{
	uint8_t want[256];

	setup(64, false);
	mlx5dvl_post_write_imm(&q.qp, payload, LKEY, 32, RADDR, RKEY, IMM, 0, 0);
	compare(q.sq, want, expect(want, MLX5DVL_WRITE_IMM, 0, 32, 0, false), 0);
	mlx5dvl_post_write_imm(&q.qp, payload, LKEY, 220, RADDR, RKEY, IMM, 0, 0);
	compare(q.sq + 128, want, expect(want, MLX5DVL_WRITE_IMM, 2, 220, 0, false), 2);
	mlx5dvl_post_write(&q.qp, payload, LKEY, 221, RADDR, RKEY, 0, 0);
	compare(q.sq + 384, want, expect(want, MLX5DVL_WRITE, 6, 221, 0, false), 6);
	CHECK_EQ(q.qp.pi, 10);
}

/* The caller, not the library, writes the payload into the request. For every length and position
 * in the ring, the request has the same bytes as one whose payload the library copies.
 * mlx5dvl_sq_fits() returns true only if no NOPs are necessary. */
TEST(payload_written_in_place)
{
	uint8_t want[256];

	setup(16, false);
	for (uint32_t start = 0; start < 16; start++) {
		for (uint32_t len = 1; len <= MLX5DVL_INLINE_MAX; len++) {
			uint32_t blocks = (36 + len + 63) / 64, ds;

			q.qp.pi = q.qp.ci = q.qp.rung = q.qp.last = q.qp.stop = 0xfff0 + start;
			q.qp.left = q.qp.interval;
			CHECK(!mlx5dvl_sq_fits(&q.qp, len));
			mlx5dvl_sq_update(&q.qp);
			CHECK_EQ(mlx5dvl_sq_fits(&q.qp, len), start + blocks <= 16);
			if (start + blocks > 16)
				continue;
			memset(q.sq, 0xa5, 16 * 64);
			memcpy(mlx5dvl_sq_here(&q.qp), payload, len);
			mlx5dvl_post_write_imm_here(&q.qp, mlx5dvl_sq_here(&q.qp), len, RADDR,
				mlx5dvl_rkey_word(RKEY), IMM, 0, 99);
			ds = expect(want, MLX5DVL_WRITE_IMM, q.qp.last, len, 0,
				q.qp.left == q.qp.interval);
			compare(q.sq + start * 64, want, ds, start);
			CHECK_EQ(q.qp.pi - q.qp.last, blocks);
			CHECK_EQ(q.qp.slots[start].token, 99);
			CHECK_EQ(q.qp.slots[start].request.blocks, blocks);
		}
	}
	q.qp.pi = q.qp.ci + 14;
	q.qp.pi &= ~15u; /* position of the ring's start */
	q.qp.ci = q.qp.rung = q.qp.pi - 14;
	q.qp.last = q.qp.stop = q.qp.pi;
	mlx5dvl_sq_update(&q.qp);
	CHECK(mlx5dvl_sq_fits(&q.qp, 92));
	CHECK(!mlx5dvl_sq_fits(&q.qp, 93));
	sq_stop(&q.qp, -EIO);
	mlx5dvl_sq_update(&q.qp);
	CHECK(!mlx5dvl_sq_fits(&q.qp, 1));
}

TEST(ring_end_is_filled_with_nops)
{
	uint8_t want[256];

	setup(16, false);
	for (int i = 0; i < 13; i++)
		CHECK_EQ(mlx5dvl_post_nop(&q.qp, 0, 0), 0);
	q.qp.ci = q.qp.rung = 13;
	q.qp.left = 3 + 4 - 1; /* one block less than the NOPs and the request have */
	CHECK_EQ(post(&q.qp, MLX5DVL_WRITE_IMM, 220, 0, 5), 0);
	for (uint32_t i = 13; i < 16; i++) {
		CHECK_EQ(get32(q.sq + i * 64), i << 8 | MLX5DVL_NOP);
		CHECK_EQ(get32(q.sq + i * 64 + 4), (uint32_t)QPN << 8 | 1);
		CHECK_EQ(q.qp.slots[i].request.blocks, 1);
	}
	CHECK_EQ(q.qp.last, 16);
	CHECK_EQ(mlx5dvl_sq_fillers(&q.qp), 3);
	compare(q.sq, want, expect(want, MLX5DVL_WRITE_IMM, 16, 220, 0, true), 0);
}

TEST(refuses_before_and_after_connection)
{
	setup(16, false);
	q.qp.limit = q.qp.stop = 0;
	q.qp.status = -ENOTCONN;
	CHECK_EQ(mlx5dvl_sq_room(&q.qp), 0);
	CHECK_EQ(mlx5dvl_post_nop(&q.qp, 0, 0), -ENOTCONN);
	sq_open(&q.qp);
	CHECK_EQ(mlx5dvl_sq_room(&q.qp), 3);
	CHECK_EQ(mlx5dvl_post_nop(&q.qp, 0, 0), 0);
	sq_stop(&q.qp, -ETIMEDOUT);
	sq_stop(&q.qp, -ECANCELED);
	CHECK_EQ(q.qp.status, -ETIMEDOUT);
	CHECK_EQ(mlx5dvl_post_nop(&q.qp, 0, 0), -ENOTCONN);
}

/*
 * Random requests, checked against a model of the ring: no block is written again before its
 * completion, mlx5dvl_sq_room() is never too large, and the queue has room again when all requests
 * are executed. There are enough requests to wrap the 16-bit index.
 */
struct model {
	struct plain_qp q;
	struct plain_cq scq;
	uint32_t executed; /* the device's position in the ring */
	uint64_t next_token, seen_token; /* tokens of signaled requests: posted, completed */
	uint32_t depth;
	uint64_t posts, nops;
};

static void on_sent(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_sent *sent)
{
	struct model *m = arg;

	CHECK(qp == &m->q.qp);
	CHECK_EQ(sent->token, ++m->seen_token);
}

/* Acts as the device: executes the requests announced by the doorbell, and completes the signaled
 * ones. */
static void execute(struct model *m)
{
	while (m->executed != m->q.qp.rung) {
		const uint8_t *w = m->q.sq + (m->executed & (m->depth - 1)) * 64;
		uint32_t ds = get32(w + 4) & 0x3f, blocks = (ds + 3) / 4;

		CHECK_EQ(get32(w) >> 8, m->executed & 0xffff);
		CHECK(ds >= 1 && (m->executed & (m->depth - 1)) + blocks <= m->depth);
		if (w[11] & 8)
			PLAIN_CQE(&m->scq, .qpn = QPN, .wqe_opcode = w[3],
				.counter = (uint16_t)m->executed);
		m->nops += w[3] == MLX5DVL_NOP;
		m->executed += blocks;
	}
	CHECK_EQ(be32toh(m->q.record), m->q.qp.pi & 0xffff);
}

static void post_random(struct model *m, uint64_t *rand)
{
	uint8_t opcode = opcodes[test_rand(rand) % ARRAY_SIZE(opcodes)];
	uint32_t len = (uint32_t)(test_rand(rand) % 300), room = mlx5dvl_sq_room(&m->q.qp);
	bool signaled = test_rand(rand) % 16 == 0;
	int r = post(&m->q.qp, opcode, len, signaled ? MLX5DVL_SIGNALED : 0,
		signaled ? m->next_token + 1 : ~0ull);

	if (room)
		CHECK_EQ(r, 0);
	if (r == 0) {
		m->next_token += signaled;
		m->posts++;
		/* No request was overwritten before the device has executed it. */
		CHECK(m->q.qp.pi - m->executed <= m->depth);
		CHECK(m->q.qp.pi - m->q.qp.ci <= m->depth);
		return;
	}
	CHECK_EQ(r, -EAGAIN);
	mlx5dvl_ring(&m->q.qp);
	execute(m);
	uint32_t before = m->q.qp.ci;

	CHECK(mlx5dvl_send_poll(&m->scq.cq, 1 << 20, on_sent, m) > 0);
	CHECK(m->q.qp.ci != before);
	CHECK(mlx5dvl_sq_room(&m->q.qp) > 0);
}

TEST(slots_are_accounted)
{
	uint64_t rand = test_seed();

	init();
	for (uint32_t depth = 16; depth <= 32768; depth *= 2) {
		struct model m = {.depth = depth};

		plain_qp_init(&m.q, &core, depth, &no_bf, QPN);
		plain_cq_init(&m.scq, &core, NULL, depth < 64 ? 64 : depth, 64, 0);
		for (int i = 0; i < 50000; i++) {
			post_random(&m, &rand);
			if (test_rand(&rand) % 8 == 0) {
				mlx5dvl_ring(&m.q.qp);
				execute(&m);
			}
			if (test_rand(&rand) % 16 == 0)
				mlx5dvl_send_poll(&m.scq.cq, 3, on_sent, &m);
		}
		mlx5dvl_ring(&m.q.qp);
		execute(&m);
		while (mlx5dvl_send_poll(&m.scq.cq, 64, on_sent, &m))
			;
		CHECK_EQ(m.seen_token, m.next_token);
		CHECK(m.q.qp.pi - m.q.qp.ci <= (uint32_t)m.q.qp.interval);
		/* The completion of a signaled request of four blocks frees all blocks. */
		CHECK_EQ(post(&m.q.qp, MLX5DVL_WRITE, 220, MLX5DVL_SIGNALED, ++m.next_token), 0);
		mlx5dvl_ring(&m.q.qp);
		execute(&m);
		mlx5dvl_send_poll(&m.scq.cq, 64, on_sent, &m);
		CHECK_EQ(m.q.qp.ci, m.q.qp.pi);
		CHECK(m.nops > m.posts / ARRAY_SIZE(opcodes) / 2);
		plain_cq_fini(&m.scq);
		plain_qp_fini(&m.q, &core);
	}
	core_fini(&core);
}

TEST(one_completion_in_64_blocks)
{
	uint32_t signaled = 0;

	setup(1024, false);
	for (uint32_t i = 0; i < 640; i++)
		CHECK_EQ(mlx5dvl_post_nop(&q.qp, 0, 0), 0);
	for (uint32_t i = 0; i < 640; i++)
		signaled += !!(q.sq[i * 64 + 11] & 8);
	CHECK_EQ(signaled, 10);
}

TEST(doorbell_of_a_batch)
{
	setup(64, true);
	memset(bf_memory, 0xee, sizeof(bf_memory));
	mlx5dvl_ring(&q.qp);
	CHECK_EQ(q.record, 0);
	CHECK_EQ(bf_memory[0], 0xee);
	post(&q.qp, MLX5DVL_WRITE_IMM, 8, 0, 0);
	post(&q.qp, MLX5DVL_WRITE_IMM, 16, 0, 0);
	mlx5dvl_ring(&q.qp);
	CHECK_EQ(be32toh(q.record), 2);
	CHECK(!memcmp(bf_memory, q.sq + 64, 8));
	CHECK_EQ(bf_memory[8], 0xee); /* only 8 bytes were written */
	CHECK_EQ(bf_memory[256], 0xee);
	post(&q.qp, MLX5DVL_NOP, 0, 0, 0);
	post(&q.qp, MLX5DVL_NOP, 0, 0, 0);
	mlx5dvl_ring(&q.qp);
	CHECK(!memcmp(bf_memory + 256, q.sq + 3 * 64, 8)); /* the other buffer */
}

TEST(blueflame_of_a_single_request)
{
	setup(64, true);
	for (uint32_t i = 0; i < 8; i++) {
		uint32_t len = i % 2 ? 220 : 8, blocks = i % 2 ? 4 : 1;

		memset(bf_memory, 0xee, sizeof(bf_memory));
		post(&q.qp, MLX5DVL_WRITE_IMM, len, 0, 0);
		uint8_t *half = bf_memory + (i % 2 ? 256 : 0);
		uint8_t *other = bf_memory + (i % 2 ? 0 : 256);

		mlx5dvl_ring(&q.qp);
		CHECK(!memcmp(half, q.sq + (q.qp.last & 63) * 64, blocks * 64));
		CHECK(blocks == 4 || half[blocks * 64] == 0xee);
		CHECK_EQ(other[0], 0xee);
	}
}

TEST(qps_share_the_turn_of_a_register)
{
	static uint8_t registers[4][512];
	struct plain_qp qs[17];
	uint32_t turns[4] = {0};

	init();
	for (uint32_t i = 0; i < 17; i++) {
		struct mlx5dvl_bf *bf;

		CHECK_EQ(core_get_bf(&core, registers[i % 4], 256, &bf), 0);
		plain_qp_init(&qs[i], &core, 16, bf, 100 + i);
	}
	CHECK_EQ(core.bf_count, 4);
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < 17; i++) {
			uint8_t *reg = registers[i % 4], *half = reg + (turns[i % 4]++ % 2) * 256;

			memset(reg, 0xee, 512);
			CHECK_EQ(mlx5dvl_post_nop(&qs[i].qp, 0, 0), 0);
			mlx5dvl_ring(&qs[i].qp);
			CHECK_EQ(get32(half + 4) >> 8, 100 + i);
			CHECK_EQ(reg[(half - reg) ^ 256], 0xee);
			qs[i].qp.ci = qs[i].qp.pi;
		}
	}
	for (uint32_t i = 0; i < 17; i++)
		plain_qp_fini(&qs[i], &core);
	core_fini(&core);
}

TEST(without_blueflame_every_doorbell_is_8_bytes)
{
	setup(16, false);
	for (uint32_t i = 0; i < 3; i++) {
		memset(bf_memory, 0xee, sizeof(bf_memory));
		CHECK_EQ(post(&q.qp, MLX5DVL_WRITE_IMM, 8, 0, 0), 0);
		mlx5dvl_ring(&q.qp);
		CHECK(!memcmp(bf_memory, q.sq + i * 64, 8));
		CHECK_EQ(bf_memory[8], 0xee);
		CHECK_EQ(bf_memory[256], 0xee);
	}
}

/* Devices assign QP numbers from the whole range, so a leaf of the table is freed when its last QP
 * is removed. */
TEST(tables_of_qps_that_are_gone)
{
	enum { LIVE = 3, LEAVES = (1 << 24) / MLX5DVL_QPN_LEAF_ };
	struct mlx5dvl_qp qp[LIVE] = {0}, same;
	uint64_t seed = test_seed();

	init();
	CHECK_EQ(core_leaves(&core), 0);
	for (uint32_t i = 0; i < 4 * LEAVES; i++) {
		struct mlx5dvl_qp *one_of = &qp[i % LIVE];

		if (i >= LIVE)
			core_remove_qp(&core, one_of);
		one_of->qpn = (i % LEAVES) * MLX5DVL_QPN_LEAF_ +
			      (uint32_t)(test_rand(&seed) % MLX5DVL_QPN_LEAF_);
		CHECK_EQ(core_add_qp(&core, one_of), 0);
		same.qpn = one_of->qpn;
		CHECK_EQ(core_add_qp(&core, &same), -EEXIST);
		CHECK_EQ(core_leaves(&core), i < LIVE ? i + 1 : LIVE);
	}
	same.qpn = qp[0].qpn ^ 1; /* another number of the same leaf */
	CHECK_EQ(core_add_qp(&core, &same), 0);
	CHECK_EQ(core_leaves(&core), LIVE);
	for (int i = 0; i < LIVE; i++)
		core_remove_qp(&core, &qp[i]);
	CHECK_EQ(core_leaves(&core), 1);
	core_remove_qp(&core, &same);
	CHECK_EQ(core_leaves(&core), 0);
	core_fini(&core);
}
