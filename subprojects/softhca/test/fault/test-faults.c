/* SPDX-License-Identifier: MIT */
/*
 * The effects of fault rules on messages, as a program sees them. Each case has a fabric of its
 * own.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>

#include "../hca/rig.h"
#include "softhca.h"

#define FAULT_RULES 64 /* at most in a fabric */
#define DST 32768
#define DELAY_NS 2000000u
#define LATE_NS 1000000000u

static struct rig a, b;

static void open_pair(struct rig_timers t)
{
	rig_open(&a, NULL);
	rig_open(&b, NULL);
	rig_connect(&a, rig_addr(&b), t);
	rig_connect(&b, rig_addr(&a), t);
	rig_fill(a.buf, 4096, 1);
	memset(b.buf + DST, 0, 4096);
}

static void post(uint64_t id, enum ibv_wr_opcode op, uint32_t len)
{
	rig_post(&a, &(struct rig_wr){.id = id,
			     .op = op,
			     .flags = IBV_SEND_SIGNALED,
			     .len = len,
			     .imm = 5,
			     .raddr = (uintptr_t)b.buf + DST,
			     .rkey = b.mr->rkey});
}

static void write_ends(uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	post(id, IBV_WR_RDMA_WRITE, 64);
	wc = rig_wait(a.scq);
	CHECK_EQ(wc.wr_id, id);
	CHECK_EQ(wc.status, status);
}

/* The third WRITE is refused; SENDs before it are not counted. */
static void error_with_syndrome(void)
{
	open_pair((struct rig_timers){0});
	rig_recv(&b, 9, 0, 64);
	post(1, IBV_WR_SEND, 64);
	CHECK_EQ(rig_wait_ok(a.scq).wr_id, 1);
	rig_wait_ok(b.rcq);
	write_ends(2, IBV_WC_SUCCESS);
	write_ends(3, IBV_WC_SUCCESS);
	write_ends(4, IBV_WC_REM_ACCESS_ERR);
	CHECK_EQ(rig_state(&a), IBV_QPS_ERR);
	write_ends(5, IBV_WC_WR_FLUSH_ERR);
}

/* Two attempts find no receive although one is posted; the third succeeds. */
static void rnr_twice(void)
{
	open_pair((struct rig_timers){0});
	rig_recv(&b, 9, 0, 64);
	post(1, IBV_WR_SEND, 64);
	CHECK_EQ(rig_wait_ok(a.scq).wr_id, 1);
	CHECK_EQ(rig_wait_ok(b.rcq).wr_id, 9);
	CHECK_EQ(rig_counters().rnr_naks, 2);
	rig_idle(a.scq);
	rig_idle(b.rcq);
}

static void rnr_for_ever(void)
{
	open_pair((struct rig_timers){.rnr_retry = 2});
	rig_recv(&b, 9, 0, 64);
	post(1, IBV_WR_SEND, 64);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RNR_RETRY_EXC_ERR);
	rig_idle(b.rcq);
}

static void no_answer_for_ever(void)
{
	open_pair((struct rig_timers){0});
	write_ends(1, IBV_WC_RETRY_EXC_ERR);
}

/* The delayed WRITE and those after it complete in their order, and not too early. */
static void delayed(void)
{
	uint64_t start;

	open_pair((struct rig_timers){0});
	start = test_now_ns();
	for (uint64_t id = 1; id <= 3; id++)
		post(id, IBV_WR_RDMA_WRITE, 64);
	for (uint64_t id = 1; id <= 3; id++)
		CHECK_EQ(rig_wait_ok(a.scq).wr_id, id);
	CHECK(test_now_ns() - start >= DELAY_NS);
	CHECK(rig_same(b.buf + DST, 64, 1));
}

/* 100 of 4096 bytes are placed, no receive is taken, and the sender gets an error. */
static void partial_write(void)
{
	struct ibv_wc wc;

	open_pair((struct rig_timers){0});
	rig_recv(&b, 9, 0, 64);
	post(1, IBV_WR_RDMA_WRITE_WITH_IMM, 4096);
	wc = rig_wait(a.scq);
	CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
	CHECK(!memcmp(a.buf, b.buf + DST, 100));
	for (int i = 100; i < 4096; i++)
		CHECK_EQ(b.buf[DST + i], 0);
	rig_idle(b.rcq);
}

/* The first bytes are placed completely, although a payload comes in pieces. */
static void partial_write_in_pieces(void)
{
	CHECK(!setenv("SOFTHCA_CHAOS", "5", 1));
	partial_write();
}

static void open_datagrams(struct rig *r, unsigned rail)
{
	rig_open(r, &(struct rig_attr){.rail = rail, .type = IBV_QPT_UD, .srq = true});
	rig_datagrams(r);
}

static void post_datagram(struct rig_addr to)
{
	struct ibv_ah_attr path = {.port_num = 1, .dlid = to.lid};
	struct ibv_ah *ah = ibv_create_ah(a.pd, &path);

	rig_post_datagram(&a, ah, to.qpn, 0, 64, IBV_WR_SEND);
	CHECK(!ibv_destroy_ah(ah));
}

/* The datagram goes to mlx5_1: the rule for mlx5_0 does not apply to it, the one for mlx5_1 does. */
static void datagram_to_peer(void)
{
	open_datagrams(&a, 0);
	open_datagrams(&b, 1);
	post_datagram(rig_addr(&b));
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_RETRY_EXC_ERR);
}

/* The receiver's SRQ loses a receive to the datagram, which completes when the receiver fails. */
static void datagram_holds_receive(void)
{
	struct ibv_wc wc;

	CHECK(!setenv("SOFTHCA_MODE", "trap",
		1)); /* so post_datagram() returns after the attempt */
	open_datagrams(&a, 0);
	open_datagrams(&b, 1);
	rig_recv(&b, 9, 0, 128);
	post_datagram(rig_addr(&b));
	rig_modify(&b, IBV_QPS_ERR);
	CHECK_EQ(ibv_poll_cq(b.rcq, 1, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void receive_datagrams(int fd)
{
	struct rig_addr to;
	char byte;

	open_datagrams(&b, 1);
	to = rig_addr(&b);
	test_put(fd, &to, sizeof(to));
	test_get(fd, &byte, 1);
	test_put(fd, &byte, 1); /* only a process that lives answers */
	test_get(fd, &byte, 1);
}

/* The first datagram has the LID of another port, so it has no receiver. */
static void datagram_kills_peer(void)
{
	struct rig_addr to, nowhere;
	int fd;
	pid_t pid = test_peer(receive_datagrams, &fd);

	open_datagrams(&a, 0);
	test_get(fd, &to, sizeof(to));
	nowhere = to;
	nowhere.lid = a.port.lid;
	post_datagram(nowhere);
	rig_wait_ok(a.scq);
	test_meet(fd);
	post_datagram(to);
	rig_wait_ok(a.scq);
	CHECK(!close(fd)); /* would end the receiver with status 1 */
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
}

static struct softhca_counters await_late(void)
{
	struct softhca_counters c;

	do {
		poll(NULL, 0, 1);
		c = rig_counters();
	} while (!c.late_placed && !c.late_lost);
	return c;
}

/* Returns true if this machine has been so slow since @start that the WRITE may have arrived. */
static bool is_too_late(uint64_t start)
{
	return test_now_ns() - start >= LATE_NS;
}

/* The sender gets an error and reuses its memory; the WRITE still arrives. */
static void late_write(void)
{
	uint64_t start;

	open_pair((struct rig_timers){0});
	start = test_now_ns();
	write_ends(1, IBV_WC_RETRY_EXC_ERR);
	CHECK(!b.buf[DST] || is_too_late(start));
	rig_fill(a.buf, 4096, 2);
	CHECK_EQ(await_late().late_placed, 1);
	CHECK(rig_same(b.buf + DST, 64, 1));
}

/* The fence: a receiver in the error state accepts no WRITE any more. */
static void late_write_after_fence(void)
{
	uint64_t start;

	open_pair((struct rig_timers){0});
	start = test_now_ns();
	write_ends(1, IBV_WC_RETRY_EXC_ERR);
	rig_modify(&b, IBV_QPS_ERR);
	if (is_too_late(start))
		return;
	CHECK_EQ(await_late().late_lost, 1);
	CHECK_EQ(b.buf[DST], 0);
}

/* The sender sets its QP to the error state before the WRITE completes. The WRITE still arrives. */
static void late_write_given_up(void)
{
	uint64_t start;

	open_pair((struct rig_timers){0});
	start = test_now_ns();
	post(1, IBV_WR_RDMA_WRITE, 4096);
	rig_modify(&a, IBV_QPS_ERR);
	if (is_too_late(start))
		return;
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(await_late().late_placed, 1);
	CHECK(rig_same(b.buf + DST, 4096, 1));
}

/* A sender that waits long enough gets no error: one WRITE is slow. */
static void late_write_waited_for(void)
{
	struct softhca_counters c;

	open_pair((struct rig_timers){0});
	write_ends(1, IBV_WC_SUCCESS);
	write_ends(2, IBV_WC_SUCCESS);
	CHECK(rig_same(b.buf + DST, 64, 1));
	c = rig_counters();
	CHECK_EQ(c.late_held, 1);
	CHECK_EQ(c.late_placed + c.late_lost, 0);
}

/* Makes ten WRITEs, to which no rule but one that kills the process applies. */
static void not_meant(void)
{
	open_pair((struct rig_timers){0});
	for (uint64_t id = 1; id <= 10; id++)
		write_ends(id, IBV_WC_SUCCESS);
}

/* Some attempts are affected and some are not, but every message arrives. */
static void at_random(void)
{
	open_pair((struct rig_timers){.timeout = 8, .retry = 7});
	for (uint64_t id = 1; id <= 20; id++) {
		rig_recv(&b, id, 0, 64);
		post(id, IBV_WR_SEND, 64);
		CHECK_EQ(rig_wait_ok(a.scq).wr_id, id);
		CHECK_EQ(rig_wait_ok(b.rcq).wr_id, id);
	}
	CHECK(rig_counters().rnr_naks > 0);
}

static enum ibv_port_state port_state(struct rig *r)
{
	struct ibv_port_attr attr;

	CHECK(!ibv_query_port(r->ctx, 1, &attr));
	return attr.state;
}

/* The second WRITE takes the link down: retries fail, and the other context gets the event. */
static void link_goes_down(void)
{
	CHECK_EQ(softhca_link_set("mlx5_0", true), -ENODEV);
	open_pair((struct rig_timers){0});
	CHECK_EQ(port_state(&a), IBV_PORT_ACTIVE);
	write_ends(1, IBV_WC_SUCCESS);
	write_ends(2, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(port_state(&a), IBV_PORT_DOWN);
	rig_hears_port(&b, IBV_EVENT_PORT_ERR);
	CHECK_EQ(softhca_link_set("none", true), -EINVAL);
	CHECK_EQ(softhca_link_set("mlx5_0", true), 0);
	CHECK_EQ(port_state(&a), IBV_PORT_ACTIVE);
	rig_hears_port(&b, IBV_EVENT_PORT_ACTIVE);
}

/* A program's own rules: their numbers, their hits, and their removal. */
static void by_program(void)
{
	char rule[96];
	int first, second;

	CHECK_EQ(softhca_fault_add("action=rnr"), -ENODEV);
	CHECK_EQ(softhca_fault_remove(1), -ENODEV);
	open_pair((struct rig_timers){0});
	/* Lock: the first one the fabric's mutex, the others the thread's lane (docs/locks.md). */
	for (uint64_t id = 1; id <= 3; id++)
		write_ends(id, IBV_WC_SUCCESS);
	snprintf(rule, sizeof(rule), "action=error qpn=0x%x nth=3 syndrome=remote_op",
		a.qp->qp_num);
	first = softhca_fault_add(rule);
	second = softhca_fault_add("action=rnr count=0 opcode=send");
	CHECK_EQ(first, 1);
	CHECK_EQ(second, 2);
	CHECK_EQ(softhca_fault_add("action=none"), -EINVAL);
	CHECK_EQ(softhca_fault_add(""), -EINVAL);
	CHECK_EQ(softhca_fault_add("action=rnr; action=rnr"), -EINVAL);
	CHECK_EQ(softhca_fault_add("device=mlx5_10 action=rnr"), -EINVAL); /* there are 0 to 9 */
	CHECK_EQ(softhca_fault_add("peer=mlx5_10 action=rnr"), -EINVAL);
	write_ends(1, IBV_WC_SUCCESS);
	write_ends(2, IBV_WC_SUCCESS);
	CHECK_EQ(softhca_fault_remove(second), 0);
	CHECK_EQ(softhca_fault_remove(second), -ENOENT);
	CHECK_EQ(softhca_fault_remove(0), -ENOENT);
	CHECK_EQ(softhca_fault_remove(FAULT_RULES + 1), -ENOENT);
	CHECK_EQ(softhca_fault_remove(INT_MAX), -ENOENT);
	CHECK_EQ(softhca_fault_remove(INT_MIN), -ENOENT);
	rig_recv(&b, 9, 0, 64);
	post(3, IBV_WR_SEND, 64);
	CHECK_EQ(rig_wait(a.scq).status, IBV_WC_REM_OP_ERR);
	CHECK_EQ(softhca_fault_remove(first), 1);
	for (int i = 0; i < FAULT_RULES; i++)
		CHECK(softhca_fault_add("action=rnr pid=1") > 0);
	CHECK_EQ(softhca_fault_add("action=rnr pid=1"), -ENOSPC);
}

/*
 * Runs @fn with these rules in a process and a fabric of its own. @signal: the signal that must end
 * the process, or 0.
 */
static void run(const char *rules, void (*fn)(void), int signal)
{
	if (!test_in_child())
		return;
	test_fabric("faults");
	setenv("SOFTHCA_FAULTS", rules, 1);
	if (signal) {
		/* The fabric of a killed process stays until another member leaves. */
		CHECK_EQ(rig_child(fn, NULL), 128 + signal);
		rig_open_pair(&a, NULL, &b, NULL);
	} else {
		fn();
	}
	rig_close_pair(&a, &b);
	exit(0);
}

TEST_WITH(error, run, "opcode=write nth=3 action=error syndrome=remote_access", error_with_syndrome,
	0);
TEST_WITH(rnr, run, "opcode=send action=rnr count=2", rnr_twice, 0);
TEST_WITH(rnr_exceeded, run, "action=rnr count=0", rnr_for_ever, 0);
TEST_WITH(no_answer, run, "action=no_answer count=0", no_answer_for_ever, 0);
TEST_WITH(delay, run, "nth=1 action=delay delay_ns=2000000" /* DELAY_NS */, delayed, 0);
TEST_WITH(partial, run, "action=partial bytes=100", partial_write, 0);
TEST_WITH(partial_in_chaos, run, "action=partial bytes=100", partial_write_in_pieces, 0);
TEST_WITH(datagram_peer, run,
	"peer=mlx5_0 action=error syndrome=remote_op; peer=mlx5_1 action=error", datagram_to_peer,
	0);
TEST_WITH(datagram_held, run, "action=hold_receive", datagram_holds_receive, 0);
TEST_WITH(datagram_kills, run, "action=kill_peer count=0", datagram_kills_peer, 0);
TEST_WITH(late, run,
	"peer=mlx5_0 action=late delay_ns=1000000000 syndrome=retry_exceeded" /* LATE_NS */,
	late_write, 0);
TEST_WITH(late_fenced, run, "action=late delay_ns=1000000000 syndrome=retry_exceeded",
	late_write_after_fence, 0);
TEST_WITH(late_given_up, run, "action=late delay_ns=1000000000", late_write_given_up, 0);
TEST_WITH(late_waited_for, run, "action=late delay_ns=2000000", late_write_waited_for, 0);
TEST_WITH(others, run,
	"device=mlx5_9 action=error; peer=mlx5_9 action=error; pid=1 action=error; qpn=0xffffff action=error;"
	"opcode=read action=error; nth=11 action=error",
	not_meant, 0);
TEST_WITH(random_rnr, run, "percent=50 count=0 seed=3 action=rnr", at_random, 0);
TEST_WITH(link_down, run, "nth=2 action=link_down device=mlx5_0", link_goes_down, 0);
TEST_WITH(programs_own, run, "", by_program, 0);
TEST_WITH(killed, run, "nth=4 action=kill bytes=32", not_meant, SIGKILL);

int main(int argc, char **argv)
{
	CHECK(!setenv("SOFTHCA_RAILS", "10", 1)); /* a rule's adapter must exist */
	return test_main(argc, argv);
}
