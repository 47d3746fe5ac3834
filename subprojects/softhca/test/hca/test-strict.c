/* SPDX-License-Identifier: MIT */
/* Strict mode finds each mistake of a hand-written send queue, and only mistakes. */
#include <endian.h>
#include <infiniband/mlx5dv.h>
#include <stdlib.h>

#include "rig.h"
#include "softhca.h"

static struct rig a, b;
static struct mlx5dv_qp dv;
static uint16_t post; /* next block */

static uint64_t violations(void)
{
	struct softhca_counters c;

	CHECK(!softhca_counters_self(&c));
	return c.violations;
}

static void open_pair(void)
{
	struct mlx5dv_obj obj = {.qp = {.out = &dv}};

	rig_open(&a, &(struct rig_attr){.cqe = 2047}); /* flushes find room */
	rig_open(&b, &(struct rig_attr){0});
	rig_connect_pair(&a, &b);
	obj.qp.in = a.qp;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_QP));
	post = 0;
}

static void close_pair(void)
{
	rig_close(&a);
	rig_close(&b);
}

static uint8_t *block(uint16_t index)
{
	return (uint8_t *)dv.sq.buf + (index & (dv.sq.wqe_cnt - 1)) * 64u;
}

/* A NOP at the next block that says it is WQE @index. */
static uint8_t *nop(uint16_t index, bool signaled)
{
	uint8_t *w = block(post++);
	uint32_t first = htobe32((uint32_t)index << 8), second = htobe32(a.qp->qp_num << 8 | 1);

	memset(w, 0, 64);
	memcpy(w, &first, 4);
	memcpy(w + 4, &second, 4);
	w[11] = signaled ? 8 : 0;
	return w;
}

static void record(uint16_t pi)
{
	__atomic_store_n((uint32_t *)&dv.dbrec[MLX5_SND_DBR], htobe32(pi), __ATOMIC_RELEASE);
}

static void ring(const uint8_t *wqe)
{
	uint64_t v;

	memcpy(&v, wqe, sizeof(v));
	__atomic_store_n((uint64_t *)dv.bf.reg, v, __ATOMIC_RELEASE);
}

/* A 64-byte copy whose byte @wrong differs, none if it is 64. */
static void blueflame(const uint8_t *wqe, unsigned wrong)
{
	for (unsigned i = 0; i < 64; i += 8) {
		uint64_t v;

		memcpy(&v, wqe + i, sizeof(v));
		if (wrong / 8 == i / 8)
			v ^= 1ull << wrong % 8 * 8;
		__atomic_store_n((uint64_t *)((char *)dv.bf.reg + i), v, __ATOMIC_RELAXED);
	}
}

/* @found: what the case above should have made of it. */
static void verdict(uint64_t before, bool found)
{
	CHECK_EQ(violations() - before, found);
	close_pair();
}

static void cases(void)
{
	uint64_t before = violations();
	uint8_t *w;

	open_pair(); /* right: two entries, one doorbell */
	nop(0, false);
	w = nop(1, true);
	record(2);
	ring(w);
	rig_wait_ok(a.scq);
	verdict(before, false);

	before = violations();
	open_pair(); /* the entry is not where it says */
	w = nop(7, true);
	memcpy(block(7), w, 64);
	record(8);
	ring(block(7));
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_QP_OP_ERR);
	verdict(before, true);

	before = violations();
	open_pair(); /* the doorbell before its record */
	w = nop(0, true);
	ring(w);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	verdict(before, true);

	before = violations();
	open_pair(); /* no doorbell at all */
	nop(0, true);
	record(1);
	verdict(before, false); /* found when the QP goes: */
	CHECK_EQ(violations() - before, 1);

	before = violations();
	open_pair(); /* more blocks than there are */
	for (uint32_t i = 0; i <= dv.sq.wqe_cnt; i++)
		w = nop((uint16_t)i, false);
	record(post);
	ring(w);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	verdict(before, true);

	before = violations();
	open_pair(); /* a completed slot, not polled yet, is used again */
	w = nop(0, true);
	record(1);
	ring(w);
	for (uint32_t i = 0; i < dv.sq.wqe_cnt; i++)
		w = nop((uint16_t)(1 + i), false);
	record(post);
	ring(w);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	verdict(before, true);
}

/* Writes 16 bytes at @at of the BlueFlame buffer in one store. */
static void store_16(const uint8_t *wqe, unsigned at)
{
	__asm__ volatile("movups (%0), %%xmm0\n\tmovups %%xmm0, (%1)"
			 :
			 : "r"(wqe + at), "r"((char *)dv.bf.reg + at)
			 : "xmm0", "memory");
}

/* A copy by vectors of 16 bytes that writes its start twice: @apart, at its end once more. */
static void overlapping_copy(bool apart)
{
	uint64_t before = violations();
	uint8_t *w;

	open_pair();
	w = nop(0, true);
	record(1);
	store_16(w, 0);
	if (!apart)
		store_16(w, 0);
	for (unsigned at = 16; at < 64; at += 16)
		store_16(w, at);
	if (apart)
		store_16(w, 0);
	rig_wait_ok(a.scq);
	verdict(before, apart);
}

static void blueflame_cases(void)
{
	uint64_t before = violations();
	uint8_t *w;

	open_pair();
	w = nop(0, true);
	record(1);
	blueflame(w, 64);
	rig_wait_ok(a.scq);
	verdict(before, false);

	before = violations();
	open_pair();
	w = nop(0, true);
	record(1);
	blueflame(w, 37);
	rig_wait_ok(a.scq);
	verdict(before, true);

	overlapping_copy(false); /* write-combining: one copy */
	overlapping_copy(true); /* two copies of one entry */
}

/* A string instruction is not decoded but executed, one step at a time. */
static void string_store(void)
{
	uint64_t before = violations();
	struct softhca_counters c;
	uint8_t *w, *to;
	size_t n = 64;

	open_pair();
	w = nop(0, true);
	record(1);
	to = dv.bf.reg;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(w), "+c"(n) : : "memory");
	rig_wait_ok(a.scq);
	CHECK(!softhca_counters_self(&c));
	CHECK(c.single_steps > 0);
	verdict(before, false);
}

int main(void)
{
	rig_fabric("strict");
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	CHECK(!setenv("SOFTHCA_BF", "1", 1));
	CHECK(!unsetenv("SOFTHCA_MODE"));
	/* The context that the counters need. */
	open_pair();
	close_pair();
	cases();
	blueflame_cases();
	string_store();
	return 0;
}
