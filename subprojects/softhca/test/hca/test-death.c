/* SPDX-License-Identifier: MIT */
/*
 * A QP notices that its peer was killed: immediately by default, by its timeout and retry counter
 * with SOFTHCA_DEATH=timers (see softhca(7)). Both are also tested after another process has freed
 * the peer's objects. A peer that calls exec() ends as a member, too. An unreliable QP does not
 * notice the end of its peer.
 */
#include <signal.h>

#include "rig.h"
#include "stopped.h"

#define RETRIES 3 /* as rig_connect() sets it */

static struct rig r;

static struct rig_attr attr;

static void victim(int fd)
{
	rig_open(&r, &attr);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (;;)
		pause();
}

/* A process that joins the fabric frees the objects of the dead. */
static void joiner(int fd)
{
	test_get(fd, &(char){0}, 1);
	rig_open(&r, NULL);
	test_put(fd, "j", 1);
	pause();
}

static void expect_retries(struct rig_addr to, uint64_t n)
{
	uint64_t before = rig_counters().retries;

	rig_request(&r, IBV_WR_RDMA_WRITE, 8, to);
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(rig_counters().retries - before, n);
}

/* Only a QP that was connected while its peer lived notices the peer's end immediately. */
static void write_to(struct rig_addr to)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const char *death = getenv("SOFTHCA_DEATH");

	expect_retries(to, death && !strcmp(death, "timers") ? RETRIES + 1 : 0);
	rig_modify(&r, IBV_QPS_RESET);
	CHECK(!ibv_modify_qp(r.qp, &init,
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	rig_connect(&r, to, (struct rig_timers){0});
	expect_retries(to, RETRIES + 1);
	rig_close(&r);
	exit(0);
}

static void write_to_the_dead(void)
{
	struct rig_addr to;
	int fd;
	pid_t pid = test_peer(victim, &fd);

	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	test_kill(pid);
	write_to(to);
}

static void write_to_the_freed(void)
{
	struct rig_addr to;
	int fd, joiner_fd;
	pid_t pid = test_peer(victim, &fd), joins = test_peer(joiner, &joiner_fd);

	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	test_kill(pid);
	test_meet(joiner_fd);
	test_kill(joins);
	write_to(to);
}

TEST(noticed_immediately)
{
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
	CHECK_EQ(rig_child(write_to_the_freed, NULL), 0);
}

/* The WRITEs of a UC QP are sent, and nobody answers. */
static void write_unreliably(void)
{
	struct rig_addr to;
	pid_t pid;
	int fd;

	attr.type = IBV_QPT_UC;
	pid = test_peer(victim, &fd);
	rig_open(&r, &attr);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	test_kill(pid);
	for (int i = 0; i < 2; i++) {
		rig_request(&r, IBV_WR_RDMA_WRITE, 8, to);
		rig_wait_ok(r.scq);
	}
	CHECK_EQ(rig_state(&r), IBV_QPS_RTS);
	rig_close(&r);
	exit(0);
}

TEST(not_noticed)
{
	CHECK_EQ(rig_child(write_unreliably, NULL), 0);
}

TEST(noticed_by_timers)
{
	CHECK(!setenv("SOFTHCA_DEATH", "timers", 1));
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
	CHECK_EQ(rig_child(write_to_the_freed, NULL), 0);
}

/* Becomes a program that sends back what it gets. */
static void becomes_cat(int fd)
{
	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	test_get(fd, &(char){0}, 1);
	CHECK(dup2(fd, 0) == 0 && dup2(fd, 1) == 1);
	CHECK(!close(fd)); /* cat ends when the test closes its end */
	execlp("cat", "cat", NULL);
	exit(1);
}

/*
 * The new program has the old one's pid. Its memory is not accessed, even if the old one was seen
 * alive at the same time by the coarse clock.
 */
static void write_after_exec(void)
{
	struct rig_addr to;
	pid_t pid;
	int fd;

	pid = test_peer(becomes_cat, &fd);
	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	__atomic_store_n(&stopped_ns, test_now_ns(), __ATOMIC_RELAXED);
	rig_request(&r, IBV_WR_RDMA_WRITE, 8, to);
	rig_wait_ok(r.scq);
	test_put(fd, "xx", 2); /* the second one is for the new program */
	test_get(fd, &(char){0}, 1);
	rig_request(&r, IBV_WR_RDMA_WRITE, 8, to);
	__atomic_store_n(&stopped_ns, 0, __ATOMIC_RELAXED);
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
	rig_close(&r);
	CHECK(!close(fd));
	CHECK_EQ(test_reap(pid), 0);
	exit(0);
}

TEST(exec_is_an_end)
{
	CHECK_EQ(rig_child(write_after_exec, NULL), 0);
}

FABRIC_MAIN("death");
