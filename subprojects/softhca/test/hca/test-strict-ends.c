/* SPDX-License-Identifier: MIT */
/*
 * Strict mode of the software HCA (softhca(7)) reports mistakes that it tolerates otherwise, but
 * that a kernel or an adapter refuses. Most cases make one such mistake; some make none, and
 * nothing must be reported.
 */
#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "../tmpdir.h"
#include "said.h"

#define NOWHERE 0x4000 /* a LID that no adapter has */
#define MORE 3u /* QPs in addition to a's; each page of doorbell registers serves two QPs */

static struct rig a, b;

/* The attributes of an end. Two ends with the defaults can be connected. */
struct end {
	uint32_t rq_psn, sq_psn;
	enum ibv_mtu mtu; /* 0: 1024 */
	uint8_t rd, dest_rd; /* the QP's values minus 1 */
	uint16_t dlid; /* 0: the peer's */
	int more; /* attributes in addition to those that the transition needs */
};

static int to_rtr(struct rig *r, const struct rig *to, const struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = e->mtu ? e->mtu : IBV_MTU_1024,
		.dest_qp_num = to->qp->qp_num,
		.rq_psn = e->rq_psn,
		.max_dest_rd_atomic = (uint8_t)(1 + e->dest_rd),
		.min_rnr_timer = 1,
		.ah_attr = {.dlid = e->dlid ? e->dlid : to->port.lid, .port_num = 1},
	};

	return ibv_modify_qp(r->qp, &attr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | e->more);
}

static void to_rts(struct rig *r, const struct end *e)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = e->sq_psn,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 7,
		.max_rd_atomic = (uint8_t)(1 + e->rd),
	};

	CHECK(!ibv_modify_qp(r->qp, &attr,
		IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void open_ends(const struct rig_attr *attr_a, struct end ea, struct end eb)
{
	rig_open(&a, attr_a);
	rig_open(&b, &(struct rig_attr){.srq = true});
	CHECK(!to_rtr(&a, &b, &ea));
	CHECK(!to_rtr(&b, &a, &eb));
	to_rts(&a, &ea);
	to_rts(&b, &eb);
}

static void open_pair(void)
{
	open_ends(NULL, (struct end){0}, (struct end){0});
}

static void verdict(const char *what)
{
	rig_close_pair(&a, &b);
	said_verdict(what);
}

static enum ibv_wc_status write_from(uint32_t lkey, uint64_t from, uint64_t to, uint32_t rkey)
{
	rig_post(&a, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 8,
			     .laddr = from,
			     .lkey = lkey,
			     .raddr = to,
			     .rkey = rkey});
	return rig_wait(a.scq).status;
}

static enum ibv_wc_status write_one(void)
{
	return write_from(a.mr->lkey, (uintptr_t)a.buf, (uintptr_t)b.buf, b.mr->rkey);
}

static void abort_at_once(void)
{
	CHECK(!setenv("SOFTHCA_STRICT", "abort", 1));
	open_ends(NULL, (struct end){.sq_psn = 7}, (struct end){0});
	write_one();
	exit(0);
}

/*
 * This case comes first, because a process reads its mode once and its children inherit the mode.
 */
TEST(abort_mode)
{
	CHECK_EQ(rig_child(abort_at_once, "it sends from PSN"), 128 + SIGABRT);
	said_forget();
	open_pair(); /* this process removes the killed child's fabric at its end */
	verdict(NULL);
}

static void ends(struct end ea, struct end eb, enum ibv_wc_status status, const char *what)
{
	open_ends(NULL, ea, eb);
	CHECK_EQ(write_one(), status);
	verdict(what);
}

TEST(connections)
{
	ends((struct end){.sq_psn = 7, .rq_psn = 9, .rd = 3},
		(struct end){.sq_psn = 9, .rq_psn = 7, .dest_rd = 3}, IBV_WC_SUCCESS, NULL);
	ends((struct end){.sq_psn = 7}, (struct end){0}, IBV_WC_RETRY_EXC_ERR,
		"it sends from PSN 0x000007, but QP 0x");
	ends((struct end){0}, (struct end){.mtu = IBV_MTU_512}, IBV_WC_REM_INV_REQ_ERR,
		"its path MTU is 1024, that of QP 0x");
	ends((struct end){.rd = 1}, (struct end){0}, IBV_WC_REM_INV_REQ_ERR,
		"max_rd_atomic 2 exceeds the max_dest_rd_atomic 1 of QP 0x");
	ends((struct end){0}, (struct end){.dlid = NOWHERE}, IBV_WC_RETRY_EXC_ERR,
		"to which it sends, does not lead back to it");
}

TEST(refused_attributes)
{
	static const struct {
		struct end end;
		const char *says;
	} cases[] = {
		{{.more = IBV_QP_TIMEOUT}, "attributes 0x0 are missing, 0x200 are not allowed"},
		{{.more = IBV_QP_PKEY_INDEX}, NULL},
		{{.mtu = IBV_MTU_4096}, "path MTU 4096 exceeds the port's active MTU 2048"},
	};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		rig_open(&a, NULL);
		rig_open(&b, NULL);
		CHECK_EQ(to_rtr(&a, &b, &cases[i].end), cases[i].says ? EINVAL : 0);
		verdict(cases[i].says);
	}
	rig_open(&a, NULL);
	rig_open(&b, NULL);
	CHECK_EQ(ibv_modify_qp(a.qp, &reset, IBV_QP_STATE | IBV_QP_PORT), EINVAL);
	verdict("0x20 are not allowed");
}

/* Writes a NOP to block @index of a's queue, and stores the doorbell record. */
static const uint8_t *nop(uint16_t index)
{
	const uint8_t *w = rig_nop(a.qp, index, index, true);

	rig_record(a.qp, (uint16_t)(index + 1));
	return w;
}

TEST(foreign_register)
{
	struct mlx5dv_qp dv, other_dv;
	struct ibv_qp *others[MORE];
	uint32_t n = 0;

	open_pair();
	dv = rig_dv_qp(a.qp);
	do { /* until one has its register on another page */
		CHECK(n < MORE);
		others[n] = rig_qp(&a);
		other_dv = rig_dv_qp(others[n++]);
	} while ((uintptr_t)other_dv.bf.reg / 4096 == (uintptr_t)dv.bf.reg / 4096);
	rig_ring(other_dv.bf.reg, nop(0));
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	while (n)
		CHECK(!ibv_destroy_qp(others[--n]));
	verdict(", which is not its own");
}

/* Makes two BlueFlame copies; @half selects the half of the register for the second one. */
static void halves(uint32_t half, const char *what)
{
	struct mlx5dv_qp dv;

	open_pair();
	dv = rig_dv_qp(a.qp);
	for (uint16_t n = 0; n < 2; n++) {
		rig_blueflame((char *)dv.bf.reg + (n ? half * dv.bf.size : 0), nop(n));
		rig_wait_ok(a.scq);
	}
	verdict(what);
}

TEST_WITH(halves_in_turn, halves, 1, NULL);
TEST_WITH(same_half, halves, 0, "BlueFlame copy into the half of its register that was used last");

/* Bytes that the limit permits once in addition to the buffers of the ends, but not twice. */
#define MOST (800u << 10)

TEST(locked_memory)
{
	uint8_t *p = aligned_alloc(4096, 1 << 20);
	struct ibv_mr *mr;

	CHECK(p);
	open_pair();
	CHECK(!ibv_reg_mr(a.pd, p, 1 << 20, IBV_ACCESS_LOCAL_WRITE));
	CHECK_EQ(errno, ENOMEM);
	verdict("1152 KiB would be locked with this region of 1048576 bytes; the limit (ulimit -l) "
		"is 1024 KiB");

	open_pair(); /* a region that shrinks, or is deregistered, leaves room */
	mr = ibv_reg_mr(a.pd, p, MOST, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, a.pd, p, 1, 0));
	for (int i = 0; i < 2; i++) {
		struct ibv_mr *other = ibv_reg_mr(a.pd, p, MOST, IBV_ACCESS_LOCAL_WRITE);

		CHECK(other && !ibv_dereg_mr(other));
	}
	CHECK(!ibv_dereg_mr(mr));
	verdict(NULL);

	open_pair(); /* a region that grows uses up the room */
	mr = ibv_reg_mr(a.pd, p, 1, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, a.pd, p, MOST, 0));
	CHECK(!ibv_reg_mr(a.pd, p, MOST, IBV_ACCESS_LOCAL_WRITE));
	CHECK_EQ(errno, ENOMEM);
	CHECK(!ibv_dereg_mr(mr));
	verdict("would be locked with this region of 819200 bytes");
	free(p);
}

/* Unmaps the memory of a region. @remote: the receiver's. */
static void unmapped(bool remote)
{
	uint8_t *p = test_map(4096, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	struct ibv_mr *mr;

	open_pair();
	mr = ibv_reg_mr(remote ? b.pd : a.pd, p, 4096,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	CHECK(!munmap(p, 4096));
	if (remote)
		CHECK_EQ(write_from(a.mr->lkey, (uintptr_t)a.buf, (uintptr_t)p, mr->rkey),
			IBV_WC_REM_OP_ERR);
	else
		CHECK_EQ(write_from(mr->lkey, (uintptr_t)p, (uintptr_t)b.buf, b.mr->rkey),
			IBV_WC_LOC_PROT_ERR);
	CHECK(!ibv_dereg_mr(mr));
	verdict("memory was unmapped while registered");
}

TEST_WITH(unmapped_source, unmapped, false);
TEST_WITH(unmapped_target, unmapped, true);

TEST(too_many_receives)
{
	struct mlx5dv_srq dv;
	struct mlx5dv_obj obj = {.srq = {.out = &dv}};

	open_pair();
	obj.srq.in = b.srq;
	CHECK(!mlx5dv_init_obj(&obj, MLX5DV_OBJ_SRQ));
	rig_recv(&b, 0, 0, 8);
	__atomic_store_n((uint32_t *)dv.dbrec, htobe32(20000), __ATOMIC_RELEASE);
	rig_send(&a, 8);
	rig_wait_ok(a.scq);
	verdict(": 20000 receives are posted, but its max_wr is ");
}

static void open_events(void)
{
	open_ends(&(struct rig_attr){.events = true}, (struct end){0}, (struct end){0});
}

/* Reads the event of a.scq as a program does that does not use ibv_get_cq_event(). */
static void read_event(void)
{
	uint64_t event;

	CHECK_EQ(read(a.channel->fd, &event, sizeof(event)), (ssize_t)sizeof(event));
}

TEST(arming)
{
	open_events(); /* correct use */
	for (int i = 0; i < 3; i++) {
		CHECK(!ibv_req_notify_cq(a.scq, 0));
		CHECK_EQ(write_one(), IBV_WC_SUCCESS);
		rig_take_event(&a, a.scq);
	}
	verdict(NULL);

	open_events(); /* the event is still to be read */
	for (int i = 0; i < 2; i++) {
		CHECK(!ibv_req_notify_cq(a.scq, 0));
		CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	}
	verdict(NULL);

	open_events();
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	read_event();
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	ibv_ack_cq_events(a.scq, 1);
	verdict("armed with sequence number 0, whose event has been read");

	open_events(); /* the doorbell record is behind the polled completions */
	CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	__atomic_store_n(&rig_dv_cq(a.scq).dbrec[0], 0, __ATOMIC_RELEASE);
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	verdict("armed with consumer index 0x1, but its doorbell record says 0x0");
}

/* Without a free descriptor, it is not known whether the event was read. */
TEST(arming_without_descriptor)
{
	struct rlimit before, none;

	CHECK(!getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){0, before.rlim_max};
	open_events();
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	CHECK_EQ(write_one(), IBV_WC_SUCCESS);
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	CHECK(!ibv_req_notify_cq(a.scq, 0));
	CHECK(!setrlimit(RLIMIT_NOFILE, &before));
	read_event();
	ibv_ack_cq_events(a.scq, 1);
	verdict(NULL);
}

int main(int argc, char **argv)
{
	test_fabric("strict-ends");
	CHECK(!setenv("SOFTHCA_STRICT", "1", 1));
	CHECK(!setenv("SOFTHCA_BF", "1", 1));
	CHECK(!setenv("SOFTHCA_MEMLOCK", "1048576", 1));
	tmpdir_topology("mtu=2048\n"); /* not the largest */
	CHECK(!unsetenv("SOFTHCA_MODE"));
	said_listen();
	return test_main(argc, argv);
}
