/* SPDX-License-Identifier: MIT */
/* The shared receive queue and the table of QPs, in plain memory. */
#include "plain.h"
#include <endian.h>

enum { DEPTH = 61, QPN = 77 };

TEST(receives_are_written_once)
{
	const struct mlx5dvl_srq_attr none = {.depth = DEPTH};
	uint8_t *wqes = plain_alloc((DEPTH + 1) * 32), buf[64];
	const struct mlx5dvl_srq_attr some = {.buf = buf, .buf_size = 1024, .lkey = 0x1234};
	struct mlx5dvl_srq srq;
	uint32_t record = 0;

	srq_init(&srq, wqes, 5, DEPTH, &record, &none);
	for (uint32_t i = 0; i <= DEPTH; i++) {
		CHECK_EQ(get16(wqes + i * 32 + 2), i + 1);
		CHECK_EQ(get32(wqes + i * 32 + 16), 0);
		CHECK_EQ(get32(wqes + i * 32 + 20), 0x100);
	}
	srq_init(&srq, wqes, 5, DEPTH, &record, &some);
	for (uint32_t i = 0; i <= DEPTH; i++) {
		CHECK_EQ(get32(wqes + i * 32 + 16), 1024);
		CHECK_EQ(get32(wqes + i * 32 + 20), 0x1234);
		CHECK_EQ(get64(wqes + i * 32 + 24), (uintptr_t)buf + i * 1024);
	}
	CHECK_EQ(mlx5dvl_srq_buf_len(DEPTH, 1024), (DEPTH + 1) * 1024);
	CHECK_EQ(mlx5dvl_srq_buf_len(0, 2), 2050);
	free(wqes);
}

/* With depth 1, the list's two entries share a buffer: only one entry is posted at a time. */
TEST(a_single_receive_has_a_single_buffer)
{
	uint8_t *wqes = plain_alloc(2 * 32), buf[64];
	const struct mlx5dvl_srq_attr attr = {.buf = buf, .buf_size = sizeof(buf), .lkey = 0x1234};
	struct mlx5dvl_srq srq;
	uint32_t record = 0;

	srq_init(&srq, wqes, 5, 1, &record, &attr);
	for (uint32_t i = 0; i < 2; i++) {
		CHECK_EQ(get32(wqes + i * 32 + 16), sizeof(buf));
		CHECK_EQ(get64(wqes + i * 32 + 24), (uintptr_t)buf);
	}
	CHECK_EQ(mlx5dvl_srq_buf_len(1, sizeof(buf)), sizeof(buf));
	free(wqes);
}

static void on_recv(void *arg, struct mlx5dvl_qp *qp, const struct mlx5dvl_recv *recv)
{
	uint64_t *sum = arg;

	*sum += recv->imm;
}

/* Acts as the device: follows the list, holds several receives at a time, and completes them in a
 * random order. */
struct device {
	struct mlx5dvl_srq srq;
	struct plain_cq cq;
	uint8_t *wqes;
	uint32_t record;
	uint16_t next, taken; /* next entry of the list; number of receives taken since the start */
	uint16_t open[DEPTH];
	uint32_t opened;
	bool busy[DEPTH + 1]; /* the device has taken the receive and not completed it */
	uint64_t completed, imm_sum;
};

static bool take(struct device *d)
{
	uint16_t posted = (uint16_t)be32toh(d->record);

	if (d->taken == posted)
		return false;
	CHECK((uint16_t)(posted - d->taken) <= DEPTH);
	CHECK(d->next <= DEPTH && !d->busy[d->next]);
	d->busy[d->next] = true;
	d->open[d->opened++] = d->next;
	d->next = get16(d->wqes + d->next * 64 + 2); /* read before its completion is written */
	d->taken++;
	return true;
}

static void complete_one(struct device *d, uint64_t *rand)
{
	uint32_t which = (uint32_t)(test_rand(rand) % d->opened), imm = (uint32_t)test_rand(rand);
	uint16_t i = d->open[which];

	d->open[which] = d->open[--d->opened];
	d->busy[i] = false;
	d->imm_sum += imm;
	d->completed++;
	PLAIN_CQE(&d->cq, .opcode = 1, .qpn = QPN, .counter = i, .imm = imm, .byte_cnt = 8);
}

/* Checks that the list begins with the posted receives, each once, and that the tail entry is not
 * posted. */
static void list_is_whole(struct device *d)
{
	bool seen[DEPTH + 1] = {false};
	uint16_t at = d->next;

	for (uint32_t n = (uint16_t)(be32toh(d->record) - d->taken); n; n--) {
		CHECK(at <= DEPTH && !seen[at] && !d->busy[at]);
		seen[at] = true;
		CHECK(at != d->srq.tail);
		at = get16(d->wqes + at * 64 + 2);
	}
}

TEST(list_survives_refills_out_of_order)
{
	const struct mlx5dvl_srq_attr attr = {.depth = DEPTH};
	bool emulated = getenv("MESON_EXE_WRAPPER"); /* an instruction-set emulator is slow */
	uint64_t rand = test_seed(), sum = 0, refills = 0, goal = emulated ? 300000 : 3000000;
	struct core core;
	struct plain_qp q;
	struct mlx5dvl_bf bf = {0};
	struct device d = {.wqes = plain_alloc((DEPTH + 1) * 64)};

	core_init(&core, NULL, NULL);
	plain_qp_init(&q, &core, 16, &bf, QPN);
	srq_init(&d.srq, d.wqes, 6, DEPTH, &d.record, &attr);
	plain_cq_init(&d.cq, &core, &d.srq, 64, 64, 0);
	CHECK_EQ(mlx5dvl_srq_post_(&d.srq), DEPTH);
	while (d.completed < goal) {
		uint32_t n = (uint32_t)(test_rand(&rand) % DEPTH);

		while (n-- && take(&d))
			;
		n = d.opened ? (uint32_t)(test_rand(&rand) % d.opened + 1) : 0;
		while (n--)
			complete_one(&d, &rand);
		mlx5dvl_mono_poll(&d.cq.cq, (int)(test_rand(&rand) % 64), on_recv, &sum);
		/* The device never has more receives than were posted. */
		CHECK(mlx5dvl_srq_posted(&d.srq) >= d.opened);
		uint32_t posted = mlx5dvl_srq_posted(&d.srq), added = mlx5dvl_srq_refill(&d.srq);

		CHECK_EQ(added, posted * 3 < DEPTH * 2 ? DEPTH - posted : 0);
		refills += added != 0;
		if (added && test_rand(&rand) % 64 == 0)
			list_is_whole(&d);
	}
	while (mlx5dvl_mono_poll(&d.cq.cq, 64, on_recv, &sum))
		;
	list_is_whole(&d);
	CHECK_EQ(sum, d.imm_sum);
	CHECK(refills > goal / DEPTH);
	plain_cq_fini(&d.cq);
	plain_qp_fini(&q, &core);
	core_fini(&core);
	free(d.wqes);
}

TEST(table_finds_what_was_added)
{
	static const uint32_t qpns[] = {1, 0xfff, 0x1000, 0x1001, 0x7ff000, 0xffffff};
	struct mlx5dvl_qp qp[ARRAY_SIZE(qpns)], twin;
	AT_END(core_fini) struct core core;

	core_init(&core, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(qpns); i++) {
		qp[i].qpn = twin.qpn = qpns[i];
		CHECK_EQ(core_add_qp(&core, &qp[i]), 0);
		CHECK_EQ(core_add_qp(&core, &twin), -EEXIST);
	}
	for (size_t i = 0; i < ARRAY_SIZE(qpns); i++) {
		CHECK(core.table.leaf[qpns[i] >> 12]->qp[qpns[i] & 0xfff] == &qp[i]);
		core_remove_qp(&core, &qp[i]);
		CHECK(!core.table.leaf[qpns[i] >> 12]->qp[qpns[i] & 0xfff]);
		twin.qpn = qpns[i];
		CHECK_EQ(core_add_qp(&core, &twin), 0);
	}
	CHECK(!core.table.leaf[0x800]->qp[1]);
}

TEST(registers_are_known_by_address)
{
	static uint8_t reg[BF_REGISTERS + 1];
	struct mlx5dvl_bf *a, *b;
	AT_END(core_fini) struct core core;

	core_init(&core, NULL, NULL);
	CHECK_EQ(core_get_bf(&core, reg, 256, &a), 0);
	CHECK_EQ(core_get_bf(&core, reg, 256, &b), 0);
	CHECK(a == b);
	for (size_t i = 1; i < BF_REGISTERS; i++) {
		CHECK_EQ(core_get_bf(&core, reg + i, 256, &b), 0);
		CHECK(a != b);
	}
	CHECK_EQ(core_get_bf(&core, reg + BF_REGISTERS, 256, &b), -ENOMEM);
}
