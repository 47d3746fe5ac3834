/* SPDX-License-Identifier: MIT */
/* RC in one process: every operation, the order of messages, wrapping indexes, refusals. */
#include <errno.h>
#include <sys/mman.h>

#include "rig.h"

#define PAGE 4096u
#define UNITS_MAX 63 /* of an entry */
#define SRC 0
#define DST 32768

static struct rig a, b;

static void open_pair(const struct rig_attr *attr)
{
	rig_open_pair(&a, attr, &b, attr);
}

static uint64_t at(const struct rig *r, uint32_t offset)
{
	return (uintptr_t)r->buf + offset;
}

static struct rig_wr write_wr(uint32_t len, unsigned flags)
{
	return (struct rig_wr){.id = 7,
		.op = IBV_WR_RDMA_WRITE,
		.flags = flags,
		.offset = SRC,
		.len = len,
		.raddr = at(&b, DST),
		.rkey = b.mr->rkey};
}

static void post_write(uint32_t len, unsigned flags)
{
	struct rig_wr w = write_wr(len, flags);

	rig_post(&a, &w);
}

TEST(writes_and_reads)
{
	static const uint32_t sizes[] = {1, 16, 64, 100, 4096, 5000, 32768};

	open_pair(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		uint32_t n = sizes[i];
		struct rig_wr w;
		struct ibv_wc wc;

		rig_fill(a.buf + SRC, n, n);
		post_write(n, IBV_SEND_SIGNALED | (n <= 100 ? IBV_SEND_INLINE : 0));
		/* Without a polling thread, the message is complete when the store returns. */
		if (rig_mode("trap"))
			CHECK_EQ(ibv_poll_cq(a.scq, 1, &wc), 1);
		else
			wc = rig_wait(a.scq);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
		CHECK_EQ(wc.wr_id, 7);
		CHECK(rig_same(b.buf + DST, n, n));
		memset(a.buf + SRC, 0, n);
		w = write_wr(n, IBV_SEND_SIGNALED);
		w.op = IBV_WR_RDMA_READ;
		rig_post(&a, &w);
		wc = rig_wait_ok(a.scq);
		CHECK_EQ(wc.opcode, IBV_WC_RDMA_READ);
		CHECK_EQ(wc.byte_len, n);
		CHECK(rig_same(a.buf + SRC, n, n));
	}
	rig_idle(a.scq);
	rig_idle(b.rcq);
}

/*
 * Every message has its own immediate; receives are taken in the order in which they were posted.
 * BlueFlame traps eight times for a message, so only one case is long with BlueFlame.
 */
static void immediates(bool srq, uint32_t cqe_size)
{
	const int all = 70000, batch = 16; /* across the 16-bit counters' wrap */
	const int rounds = srq && getenv("SOFTHCA_BF") ? all / 10 : all;
	uint32_t sent = 0, got = 0;

	open_pair(&(struct rig_attr){.srq = srq, .cqe_size = cqe_size});
	for (int i = 0; i < 32; i++)
		rig_recv(&b, (uint64_t)i, 0, 0);
	while (got < (uint32_t)rounds) {
		for (int i = 0; i < batch; i++, sent++) {
			struct rig_wr w = write_wr(8,
				IBV_SEND_INLINE | (i == batch - 1 ? IBV_SEND_SIGNALED : 0));

			w.op = IBV_WR_RDMA_WRITE_WITH_IMM;
			w.imm = sent;
			w.raddr += 8 * (sent % 16);
			memcpy(a.buf + SRC, &sent, sizeof(sent));
			rig_post(&a, &w);
		}
		rig_wait_ok(a.scq);
		for (int i = 0; i < batch; i++, got++) {
			struct ibv_wc wc = rig_wait_ok(b.rcq);

			CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
			CHECK_EQ(wc.imm_data, got);
			CHECK_EQ(wc.byte_len, 8);
			CHECK_EQ(wc.qp_num, b.qp->qp_num);
			CHECK_EQ(wc.src_qp, a.qp->qp_num);
			CHECK_EQ(wc.wr_id, got % 32);
			CHECK(!memcmp(b.buf + DST + 8 * (got % 16), &got, sizeof(got)));
			rig_recv(&b, wc.wr_id, 0, 0);
		}
	}
	rig_idle(a.scq);
	rig_idle(b.rcq);
}

TEST_WITH(immediates_to_queue, immediates, false, 0);
TEST_WITH(immediates_to_srq, immediates, true, 0);
TEST_WITH(immediates_in_large_cqes, immediates, true, 128);

static void sends(bool srq)
{
	open_pair(&(struct rig_attr){.srq = srq});
	for (uint32_t i = 0; i < 300; i++) {
		uint32_t len = 1 + i * 37 % 2000;
		bool imm = i & 1;
		struct ibv_wc wc;

		rig_recv(&b, i, DST, 2048);
		rig_fill(a.buf, len, i);
		rig_post(&a, &(struct rig_wr){.id = i,
				     .op = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
				     .flags = IBV_SEND_SIGNALED,
				     .imm = i,
				     .len = len});
		wc = rig_wait_ok(b.rcq);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.byte_len, len);
		CHECK_EQ(wc.wr_id, i);
		CHECK_EQ(!!(wc.wc_flags & IBV_WC_WITH_IMM), imm);
		if (imm)
			CHECK_EQ(wc.imm_data, i);
		CHECK(rig_same(b.buf + DST, len, i));
		CHECK_EQ(rig_wait_ok(a.scq).opcode, IBV_WC_SEND);
	}
}

TEST_WITH(sends_to_queue, sends, false);
TEST_WITH(sends_to_srq, sends, true);

TEST(atomics)
{
	uint64_t old, word = 100;
	struct rig_wr w;

	open_pair(NULL);
	memcpy(b.buf + DST, &word, 8);
	w = write_wr(8, IBV_SEND_SIGNALED);
	w.op = IBV_WR_ATOMIC_FETCH_AND_ADD;
	w.compare_add = 11;
	rig_post(&a, &w);
	CHECK_EQ(rig_wait_ok(a.scq).opcode, IBV_WC_FETCH_ADD);
	memcpy(&old, a.buf, 8);
	memcpy(&word, b.buf + DST, 8);
	CHECK_EQ(old, 100);
	CHECK_EQ(word, 111);
	w.op = IBV_WR_ATOMIC_CMP_AND_SWP;
	w.swap = 5;
	for (w.compare_add = 110; w.compare_add <= 111; w.compare_add++) {
		rig_post(&a, &w);
		CHECK_EQ(rig_wait_ok(a.scq).opcode, IBV_WC_COMP_SWAP);
		memcpy(&old, a.buf, 8);
		memcpy(&word, b.buf + DST, 8);
		CHECK_EQ(old, 111);
		CHECK_EQ(word, w.compare_add == 111 ? 5 : 111);
	}
}

/* Posts @w, which must be refused with @status; requests posted after it are flushed. */
static void refused(const struct rig_wr *w, enum ibv_wc_status status, bool responder_breaks)
{
	struct ibv_wc wc;

	rig_post(&a, w);
	wc = rig_wait(a.scq);
	CHECK_EQ(wc.status, status);
	CHECK_EQ(wc.wr_id, w->id);
	CHECK_EQ(wc.qp_num, a.qp->qp_num);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	CHECK_EQ(rig_state(&b), responder_breaks ? IBV_QPS_ERR : IBV_QPS_RTS);
	rig_post(&a, &(struct rig_wr){.id = 99, .op = IBV_WR_SEND, .len = 4});
	wc = rig_wait(a.scq);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(wc.wr_id, 99);
}

TEST(refusals)
{
	static const struct {
		uint32_t rkey, lkey; /* bits that are flipped */
		uint32_t raddr, offset;
		int access;
		bool local;
	} cases[] = {
		{.rkey = 1},
		{.raddr = RIG_BUF - 63 - DST},
		{.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
		{.lkey = 1, .local = true},
		{.offset = RIG_BUF - 63, .local = true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rig_wr w;

		open_pair(&(struct rig_attr){.access = cases[i].access});
		w = write_wr(64, 0); /* unsignaled: an error makes a CQE anyway */
		w.rkey ^= cases[i].rkey;
		w.lkey = a.mr->lkey ^ cases[i].lkey;
		w.raddr += cases[i].raddr;
		w.offset += cases[i].offset;
		refused(&w, cases[i].local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR,
			!cases[i].local);
	}
}

/* A key is refused if its region has the right memory, but a PD of the other end's context. */
static void other_domain(bool local)
{
	struct rig *at_end = local ? &a : &b, *other = local ? &b : &a;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct rig_wr w;

	open_pair(NULL);
	pd = ibv_alloc_pd(other->ctx);
	CHECK(pd);
	mr = ibv_reg_mr(pd, at_end->buf, RIG_BUF, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	w = write_wr(64, IBV_SEND_SIGNALED);
	if (local)
		w.lkey = mr->lkey;
	else
		w.rkey = mr->rkey;
	rig_post(&a, &w);
	CHECK_EQ(rig_wait(a.scq).status, local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_pd(pd));
}

TEST_WITH(other_domain_of_sender, other_domain, true);
TEST_WITH(other_domain_of_receiver, other_domain, false);

/* A QP may forbid an access that the region permits. */
TEST(forbidden_by_qp)
{
	struct ibv_qp_attr none = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
	struct rig_wr w;

	open_pair(NULL);
	CHECK(!ibv_modify_qp(b.qp, &none, IBV_QP_ACCESS_FLAGS));
	w = write_wr(64, IBV_SEND_SIGNALED);
	refused(&w, IBV_WC_REM_ACCESS_ERR, true);
}

/* A QP drops messages of a QP to which it is not connected. */
TEST(stranger)
{
	RIG c;

	open_pair(NULL);
	rig_open(&c, NULL);
	rig_connect(&c, rig_addr(&b), (struct rig_timers){.timeout = 8, .retry = 1});
	rig_write(&c, &b, 64);
	CHECK_EQ(rig_wait(c.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(rig_state(&b), IBV_QPS_RTS);
}

TEST(short_receive)
{
	struct ibv_wc wc;

	open_pair(NULL);
	rig_recv(&b, 3, DST, 63);
	rig_recv(&b, 4, DST, 64);
	rig_post(&a, &(struct rig_wr){.id = 1, .op = IBV_WR_SEND, .len = 64});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_INV_REQ_ERR);
	wc = rig_wait(b.rcq);
	CHECK_EQ(wc.status, IBV_WC_LOC_LEN_ERR);
	CHECK_EQ(wc.wr_id, 3);
	wc = rig_wait(b.rcq);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(wc.wr_id, 4);
}

/* A message without a receive waits for one, and later messages stay in order after it. */
TEST(receiver_not_ready)
{
	struct softhca_counters before, after;
	uint32_t i;

	open_pair(&(struct rig_attr){.srq = true});
	before = rig_counters();
	for (i = 0; i < 3; i++) {
		struct rig_wr w = write_wr(4, IBV_SEND_SIGNALED | IBV_SEND_INLINE);

		w.op = IBV_WR_RDMA_WRITE_WITH_IMM;
		w.imm = w.id = i;
		rig_post(&a, &w);
	}
	rig_idle(a.scq);
	for (i = 0; i < 3; i++) {
		rig_recv(&b, i, 0, 0);
		CHECK_EQ(rig_wait_ok(b.rcq).imm_data, i);
		CHECK_EQ(rig_wait_ok(a.scq).wr_id, i);
	}
	after = rig_counters();
	CHECK(after.rnr_naks > before.rnr_naks);
	CHECK_EQ(after.wqes[0x09] - before.wqes[0x09], 3);
}

/* Opens both ends. Connects a to b, and if @to_a is true also b to a. */
static void open_impatient(bool to_a)
{
	rig_open(&a, NULL);
	rig_open(&b, NULL);
	rig_connect(&a, rig_addr(&b),
		(struct rig_timers){.timeout = 8, .retry = 2, .rnr_retry = 2});
	if (to_a)
		rig_connect(&b, rig_addr(&a), (struct rig_timers){0});
}

TEST(gives_up)
{
	open_impatient(false);
	post_write(4, 0);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	open_impatient(true);
	rig_post(&a, &(struct rig_wr){.id = 5, .op = IBV_WR_SEND, .len = 4});
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(counts)
{
	struct softhca_counters before, after;

	open_pair(NULL);
	before = rig_counters();
	for (int i = 0; i < 10; i++)
		post_write(100, i == 9 ? IBV_SEND_SIGNALED : 0);
	rig_wait_ok(a.scq);
	after = rig_counters();
	/* A polling adapter may find several requests in one poll. */
	if (rig_mode("trap"))
		CHECK_EQ(after.doorbells - before.doorbells, 10);
	CHECK_EQ(after.wqes[0x08] - before.wqes[0x08], 10);
	CHECK_EQ(after.bytes[0x08] - before.bytes[0x08], 1000);
	CHECK_EQ(after.cqes - before.cqes, 1);
	CHECK_EQ(after.single_steps - before.single_steps, 0);
}

TEST(records)
{
	struct softhca_wqe_record w[8];
	struct softhca_cqe_record c[8];

	CHECK(!setenv("SOFTHCA_TRACE", "1", 1));
	open_pair(NULL);
	CHECK(!unsetenv("SOFTHCA_TRACE"));
	post_write(20, IBV_SEND_INLINE);
	post_write(300, IBV_SEND_SIGNALED);
	rig_wait_ok(a.scq);
	CHECK_EQ(softhca_trace_wqes(a.qp->qp_num, 0, w, 8), 2);
	CHECK_EQ(w[0].opcode, 0x08);
	CHECK_EQ(w[0].length, 20);
	CHECK_EQ(w[0].inline_len, 20);
	CHECK_EQ(w[0].raddr, at(&b, DST));
	CHECK_EQ(w[1].seq, 1);
	CHECK_EQ(w[1].length, 300);
	CHECK_EQ(w[1].inline_len, 0);
	CHECK_EQ(w[1].wqe_index, w[1].index);
	CHECK_EQ(w[1].flags & 8, 8);
	CHECK_EQ(softhca_trace_wqes(b.qp->qp_num, 0, w, 8), 0);
	CHECK_EQ(softhca_trace_cqes(rig_dv_cq(a.scq).cqn, 0, c, 8), 1);
	CHECK_EQ(c[0].wqe_counter, w[1].index);
	CHECK_EQ(c[0].qpn, a.qp->qp_num);
	CHECK_EQ(c[0].wqe_opcode, 0x08);
	open_pair(NULL);
	CHECK_EQ(softhca_trace_wqes(a.qp->qp_num, 0, w, 8), -ENOENT);
}

/* Writes NOP number @n, which says that it has @units, into the send queue. */
static uint8_t *nop_of(uint16_t n, uint8_t units)
{
	uint8_t *w = rig_nop(a.qp, n, n, false);

	w[7] = units;
	return w;
}

/* An entry that reaches beyond the posted blocks is an error. Nothing after it is executed. */
TEST(longer_than_posted)
{
	uint8_t *w;

	open_pair(NULL);
	nop_of(0, 1);
	w = nop_of(1, 5);
	rig_record(a.qp, 2);
	rig_ring(rig_dv_qp(a.qp).bf.reg, w);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	rig_idle(a.scq);
}

TEST(flushed_longer_than_posted)
{
	uint8_t *w;

	open_pair(NULL);
	nop_of(0, 0);
	w = nop_of(1, UNITS_MAX);
	rig_record(a.qp, 2);
	rig_ring(rig_dv_qp(a.qp).bf.reg, w);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	rig_idle(a.scq);
}

/*
 * The end of an entry cannot be read, because the program has protected the page that follows. The
 * entry is an error, and counts as one block. No block is flushed that is not posted.
 */
TEST(end_of_entry_protected)
{
	struct mlx5dv_qp dv;
	uintptr_t page;
	uint16_t last;
	uint8_t *w;

	open_pair(&(struct rig_attr){.depth = 256});
	dv = rig_dv_qp(a.qp);
	page = ((uintptr_t)dv.sq.buf + 2 * PAGE - 1) & ~(uintptr_t)(PAGE - 1);
	last = (uint16_t)((page - (uintptr_t)dv.sq.buf) / 64 - 1);
	for (uint16_t i = 0; i < last; i++)
		nop_of(i, 1);
	w = nop_of(last, UNITS_MAX);
	CHECK(!mprotect((void *)page, PAGE, PROT_NONE));
	rig_record(a.qp, last + 1);
	rig_ring(dv.bf.reg, w);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_LOC_QP_OP_ERR);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	CHECK(!mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
	w = nop_of(last + 1, 1);
	rig_record(a.qp, last + 2);
	rig_ring(dv.bf.reg, w);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	rig_idle(a.scq);
}

/* Exactly the bytes of a message are stored, whatever its length and place; a receive may be longer. */
TEST(lengths)
{
	static const uint8_t untouched[64];

	open_pair(NULL);
	rig_fill(a.buf, 512, 3);
	for (uint32_t len = 1; len < 300; len += len < 40 ? 1 : 7) {
		memset(b.buf + DST, 0, 512);
		rig_recv(&b, 1, DST + len % 8, 400);
		rig_send(&a, len);
		rig_wait_ok(a.scq);
		CHECK_EQ(rig_wait_ok(b.rcq).byte_len, len);
		CHECK(!memcmp(b.buf + DST, untouched, len % 8));
		CHECK(!memcmp(b.buf + DST + len % 8, a.buf, len));
		CHECK(!memcmp(b.buf + DST + len % 8 + len, untouched, sizeof(untouched)));
	}
}

FABRIC_MAIN("rc");
