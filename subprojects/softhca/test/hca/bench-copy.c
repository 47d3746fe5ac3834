/* SPDX-License-Identifier: MIT */
/*
 * Measures how much a writer of 64 B is slowed by a neighbour that writes 4 MiB, in the same fabric
 * and in another one. The runs of both kinds alternate, and medians are compared. The status is 1
 * if the writer takes more than 1.5 times as long in the neighbour's fabric.
 */
#include <signal.h>

#include "rig.h"

#define RUNS 9
#define MESSAGES 2000u
#define BIG (4u << 20)
#define RATIO_MAX 1.5

/* Opens an end with a buffer of BIG bytes, and connects it. */
static struct ibv_mr *open_end(struct rig *r, int fd, struct rig_addr *to)
{
	struct ibv_mr *mr;
	void *p = test_map(BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	memset(p, 1, BIG);
	rig_open(r, NULL);
	mr = ibv_reg_mr(r->pd, p, BIG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	CHECK(mr);
	*to = rig_meet(r, fd, mr, (struct rig_timers){0});
	return mr;
}

/* Leaves when its writer has been killed, so that no fabric stays. */
static void target(int fd)
{
	struct rig_addr to;
	struct rig r;

	open_end(&r, fd, &to);
	exit(recv(fd, &(char){0}, 1, 0) != 0);
}

static void write_one(struct rig *r, const struct ibv_mr *mr, const struct rig_addr *to,
	uint32_t len)
{
	rig_post(r, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			    .flags = IBV_SEND_SIGNALED,
			    .len = len,
			    .laddr = (uintptr_t)mr->addr,
			    .lkey = mr->lkey,
			    .raddr = to->addr,
			    .rkey = to->rkey});
	rig_wait_ok(r->scq);
}

static pid_t start(int fabric)
{
	char name[32];

	snprintf(name, sizeof(name), "bench-copy-%d-%d", getpid(), fabric);
	CHECK(!setenv("SOFTHCA_FABRIC", name, 1));
	return test_fork();
}

/* Writes BIG bytes over and over, until killed. */
static void big_writer(int fd, int ready)
{
	struct rig_addr to;
	struct ibv_mr *mr;
	struct rig r;

	mr = open_end(&r, fd, &to);
	write_one(&r, mr, &to, BIG);
	test_put(ready, "x", 1);
	for (;;)
		write_one(&r, mr, &to, BIG);
}

static void small_writer(int fd, int result)
{
	struct rig_addr to;
	struct ibv_mr *mr;
	struct rig r;
	uint64_t start;
	double us;

	mr = open_end(&r, fd, &to);
	start = test_now_ns();
	for (uint32_t n = 0; n < MESSAGES; n++)
		write_one(&r, mr, &to, 64);
	us = (double)(test_now_ns() - start) / 1e3 / MESSAGES;
	test_put(result, &us, sizeof(us));
	pause();
}

/* Starts a writer and its target in this fabric. The writer reports through @fd. */
static void start_pair(int fabric, void (*writer)(int, int), pid_t pid[2], int *fd)
{
	int ends[2], said[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, said));
	pid[0] = start(fabric);
	if (!pid[0]) {
		close(ends[1]);
		target(ends[0]);
	}
	pid[1] = start(fabric);
	if (!pid[1])
		writer(ends[1], said[1]);
	close(ends[0]);
	close(ends[1]);
	close(said[1]);
	*fd = said[0];
}

/* Returns the microseconds of a small message. */
static double run(bool one_fabric)
{
	pid_t pid[4];
	int fd[2];
	double us;
	char c;

	start_pair(1, big_writer, pid, &fd[0]);
	test_get(fd[0], &c, 1);
	start_pair(one_fabric ? 1 : 2, small_writer, pid + 2, &fd[1]);
	test_get(fd[1], &us, sizeof(us));
	for (int i = 2; i >= 0; i -= 2) {
		test_kill(pid[i + 1]);
		CHECK_EQ(test_reap(pid[i]), 0);
	}
	close(fd[0]);
	close(fd[1]);
	return us;
}

int main(void)
{
	double us[2][RUNS], ratio;

	for (int i = 0; i < RUNS; i++)
		for (int one = 0; one < 2; one++)
			us[one][i] = run(one);
	ratio = test_median(us[1], RUNS) / test_median(us[0], RUNS);
	printf("64 B beside 4 MiB, median of %d: %.2f us in one fabric, %.2f us in two: %.2f\n",
		RUNS, us[1][RUNS / 2], us[0][RUNS / 2], ratio);
	return ratio > RATIO_MAX;
}
