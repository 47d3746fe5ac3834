/* SPDX-License-Identifier: MIT */
/* Strict mode finds each mistake in a hand-written send queue, and reports nothing else. */
#include <endian.h>

#include "said.h"

static struct rig a, b;
static struct mlx5dv_qp dv;
static struct mlx5dv_cq dv_cq;
static uint16_t post; /* next block */

static void open_pair_attr(const struct rig_attr *attr)
{
	rig_open_pair(&a, attr, &b, NULL);
	dv = rig_dv_qp(a.qp);
	dv_cq = rig_dv_cq(a.scq);
	post = 0;
}

static void open_pair(void)
{
	open_pair_attr(&(struct rig_attr){.cqe = 2047}); /* room for the flushed completions */
}

/* Ends the case: see said_verdict(). */
static void verdict(const char *what)
{
	rig_close_pair(&a, &b);
	said_verdict(what);
}

/* Writes a NOP with the index @index into the next block. */
static uint8_t *nop(uint16_t index, bool signaled)
{
	return rig_nop(a.qp, post++, index, signaled);
}

/* Copies the WQE into the BlueFlame buffer, with byte @wrong changed. 64: no byte is changed. */
static void blueflame(const uint8_t *wqe, unsigned wrong)
{
	uint8_t copy[64 + 1];

	memcpy(copy, wqe, 64);
	copy[wrong] ^= 1;
	rig_blueflame(dv.bf.reg, copy);
}

/* Opens the pair, and posts a signaled entry whose doorbell has not rung. */
static uint8_t *open_posted(void)
{
	uint8_t *w;

	open_pair();
	w = nop(0, true);
	rig_record(a.qp, 1);
	return w;
}

TEST(right)
{
	uint8_t *w;

	open_pair(); /* two entries, one doorbell */
	nop(0, false);
	w = nop(1, true);
	rig_record(a.qp, 2);
	rig_ring(dv.bf.reg, w);
	rig_wait_ok(a.scq);
	verdict(NULL);
}

/* Two entries and a doorbell for both; the first one's word @n is wrong. */
static void wrong_entry(unsigned n, uint32_t word, const char *what)
{
	uint8_t *first, *w;

	open_pair();
	first = nop(0, true);
	/* Less than 256: this QP's number, with this DS. */
	word = htobe32(word > 0xff ? word : a.qp->qp_num << 8 | word);
	memcpy(first + 4ul * n, &word, sizeof(word));
	w = nop(1, true);
	rig_record(a.qp, 2);
	rig_ring(dv.bf.reg, w);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_QP_OP_ERR);
	verdict(what);
}

TEST_WITH(wrong_index, wrong_entry, 0, 7 << 8, "WQE 0 says that it is WQE 7");
TEST_WITH(wrong_qp_number, wrong_entry, 1, 0x654321u << 8 | 1,
	"WQE 0 has QP number 0x654321 and DS 1");
TEST_WITH(no_units, wrong_entry, 1, 0, " and DS 0");
TEST_WITH(too_many_units, wrong_entry, 1, 9, "WQE 0 has DS 9, but only 2 WQEBBs are posted");

/*
 * Writes one entry, posts it if @posted, and rings a doorbell whose two words are @first and the
 * second word of an entry of this QP, or @second if it names another QP.
 */
static void wrong_doorbell(bool posted, uint32_t first, uint32_t second, const char *what)
{
	uint32_t words[2] = {htobe32(first), htobe32(second)};
	bool other_qp;

	open_pair();
	other_qp = second >> 8 && second >> 8 != a.qp->qp_num;
	if (!other_qp)
		words[1] = htobe32(a.qp->qp_num << 8 | 1);
	nop(0, true);
	if (posted)
		rig_record(a.qp, 1);
	rig_ring(dv.bf.reg, words);
	CHECK_EQ(rig_state(&a), other_qp ? IBV_QPS_RTS : IBV_QPS_ERR);
	verdict(what);
}

TEST_WITH(rung_before_posted, wrong_doorbell, false, 0, 0, "has not advanced");
TEST_WITH(rung_for_other_entry, wrong_doorbell, true, 5 << 8, 0,
	"names WQE 5, which is not among the posted 0..0");
TEST_WITH(rung_with_other_bytes, wrong_doorbell, true, 1, 0,
	"WQE 0: the doorbell's bytes differ from the queue's");
TEST_WITH(rung_for_other_qp, wrong_doorbell, false, 0, 0x654321u << 8,
	"doorbell of QP 0x654321, which this context");

TEST(rung_twice)
{
	uint8_t *w;

	w = open_posted();
	rig_ring(dv.bf.reg, w);
	rig_ring(dv.bf.reg, w);
	rig_wait_ok(a.scq);
	verdict("its record (1) has not advanced");
}

TEST(no_doorbell)
{
	open_pair();
	nop(0, true);
	rig_record(a.qp, 1);
	verdict("WQE 0..0 were posted, but their doorbell never rang"); /* on destroy */
}

/*
 * @polled_first: the program polls the completion of the first entry, whose slot it may then reuse
 * even before it stores the consumer index. Otherwise the first entry is unsignaled, and no
 * completion has freed its slot.
 */
static void full_ring(bool polled_first)
{
	__be32 told;
	uint8_t *w;

	open_pair();
	w = nop(0, polled_first);
	rig_record(a.qp, 1);
	rig_ring(dv.bf.reg, w);
	if (polled_first) {
		told = *dv_cq.dbrec;
		rig_wait_ok(a.scq);
		CHECK(*dv_cq.dbrec != told);
		*dv_cq.dbrec = told;
	}
	for (uint32_t i = 0; i < dv.sq.wqe_cnt; i++)
		w = nop((uint16_t)(1 + i), false);
	rig_record(a.qp, post);
	rig_ring(dv.bf.reg, w);
	CHECK_EQ(rig_state(&a), polled_first ? IBV_QPS_RTS : IBV_QPS_ERR);
	verdict(polled_first ? NULL : "a slot is reused before its completion was polled");
}

TEST_WITH(full_ring_not_polled, full_ring, false);
TEST_WITH(full_ring_polled, full_ring, true);

/* Writes @n signaled entries, and rings a doorbell for each. */
static void each_rung(uint32_t n)
{
	while (n--) {
		uint8_t *w = nop(post, true);

		rig_record(a.qp, post);
		rig_ring(dv.bf.reg, w);
	}
}

/*
 * All slots of the send queue have completed: more completions than strict mode records one by one
 * (STRICT_COMPLETIONS). A quarter of them is polled. The program then reuses a quarter of the
 * slots; with @reuse_more, three quarters.
 */
static void many_completions(bool reuse_more)
{
	uint32_t quarter;

	open_pair();
	quarter = dv.sq.wqe_cnt / 4;
	each_rung(4 * quarter);
	for (uint32_t i = 0; i < quarter; i++)
		rig_wait_ok(a.scq);
	each_rung(reuse_more ? 3 * quarter : quarter);
	verdict(reuse_more ? "a slot is reused before its completion was polled" : NULL);
}

TEST_WITH(many_completions_reused, many_completions, false);
TEST_WITH(many_completions_reused_early, many_completions, true);

/* With ignore_overrun the consumer index is not used. */
TEST(overrun_ignored)
{
	open_pair_attr(&(struct rig_attr){.cqe = 7, .ignore_overrun = true});
	each_rung(4u * dv.sq.wqe_cnt);
	CHECK_EQ(*dv_cq.dbrec, 0);
	verdict(NULL);
}

TEST(completion_queue)
{
	uint8_t *w;

	open_pair_attr(&(struct rig_attr){.cqe = 3});
	for (int i = 0; i < 5; i++)
		w = nop((uint16_t)i, true);
	rig_record(a.qp, post);
	rig_ring(dv.bf.reg, w);
	verdict("is overrun: all 4 places are in use");

	w = open_posted();
	rig_ring(dv.bf.reg, w);
	__atomic_store_n(&dv_cq.dbrec[0], htobe32(100), __ATOMIC_RELEASE);
	CHECK(!ibv_resize_cq(a.scq, 15)); /* reads the consumer index */
	rig_wait_ok(a.scq);
	verdict("consumer index 0x64 is not between 0x0 and 0x1");
}

/* Writes 16 bytes at @at of the BlueFlame buffer in one store. */
static void store_16(const uint8_t *wqe, unsigned at)
{
	__asm__ volatile("movups (%0), %%xmm0\n\tmovups %%xmm0, (%1)"
			 :
			 : "r"(wqe + at), "r"((char *)dv.bf.reg + at)
			 : "xmm0", "memory");
}

/*
 * Copies a WQE by stores of 16 bytes, and stores the first 16 bytes twice: immediately, or, with
 * @apart, again after the last store.
 */
static void overlapping_copy(bool apart)
{
	uint8_t *w;

	w = open_posted();
	store_16(w, 0);
	if (!apart)
		store_16(w, 0);
	for (unsigned at = 16; at < 64; at += 16)
		store_16(w, at);
	if (apart)
		store_16(w, 0);
	rig_wait_ok(a.scq);
	verdict(apart ? "has not advanced" : NULL);
}

TEST(blueflame_cases)
{
	uint8_t *w;

	w = open_posted();
	blueflame(w, 64);
	rig_wait_ok(a.scq);
	verdict(NULL);

	w = open_posted();
	blueflame(w, 37);
	rig_wait_ok(a.scq);
	verdict("WQE 0: BlueFlame byte 32 differs from the queue");

	open_pair(); /* the middle of a copy that was not begun */
	store_16(nop(0, true), 16);
	verdict("a store of 16 bytes at 0x");

	open_pair(); /* a copy that continues in the other buffer */
	w = nop(0, true);
	rig_record(a.qp, 1);
	store_16(w, 0);
	store_16(w, 256 + 16);
	rig_wait_ok(a.scq);
	verdict("a store of 16 bytes at 0x");

	overlapping_copy(false); /* write-combining: one copy */
	overlapping_copy(true); /* two copies of one entry */
}

/* A string instruction is not decoded but executed, one step at a time. */
TEST(string_store)
{
	struct softhca_counters c;
	uint8_t *w, *to;
	size_t n = 64;

	w = open_posted();
	to = dv.bf.reg;
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(w), "+c"(n) : : "memory");
	rig_wait_ok(a.scq);
	c = rig_counters();
	CHECK(c.single_steps > 0);
	verdict(NULL);
}

int main(int argc, char **argv)
{
	test_fabric("strict");
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	CHECK(!setenv("SOFTHCA_BF", "1", 1));
	CHECK(!unsetenv("SOFTHCA_MODE"));
	said_listen();
	return test_main(argc, argv);
}
