/* SPDX-License-Identifier: MIT */
/*
 * Processes: messages both ways with every payload checked; a peer that is killed at a random point
 * while the survivor continues with others; no files are left at the end.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "softhca.h"

#define SLOTS 16u
#define SLOT 2048u
#define IN 0u /* messages arrive here */
#define OUT (RIG_BUF / 2u) /* and leave from here */

static struct rig r;

static void swap_addr(int fd, struct rig_addr *to)
{
	struct rig_addr mine = rig_addr(&r);

	CHECK_EQ(write(fd, &mine, sizeof(mine)), sizeof(mine));
	CHECK_EQ(read(fd, to, sizeof(*to)), sizeof(*to));
}

/* A rendezvous: returns when both ends have called it. */
static void meet(int fd)
{
	char c = 1;

	CHECK_EQ(write(fd, &c, 1), 1);
	CHECK_EQ(read(fd, &c, 1), 1);
}

static uint32_t length_of(uint32_t n)
{
	return 4 + n * 61 % (SLOT - 4);
}

static void send_message(const struct rig_addr *to, uint32_t n, uint32_t seed)
{
	uint32_t at = OUT + n % SLOTS * SLOT, len = length_of(n);

	rig_fill(r.buf + at, len, seed + n);
	rig_post(&r, &(struct rig_wr){.id = n,
			     .op = IBV_WR_RDMA_WRITE_WITH_IMM,
			     .flags = IBV_SEND_SIGNALED,
			     .imm = n,
			     .offset = at,
			     .len = len,
			     .raddr = to->addr + IN + n % SLOTS * SLOT,
			     .rkey = to->rkey});
}

static void check_message(const struct ibv_wc *wc, uint32_t n, uint32_t seed)
{
	CHECK_EQ(wc->opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(wc->imm_data, n);
	CHECK_EQ(wc->byte_len, length_of(n));
	CHECK(rig_same(r.buf + IN + n % SLOTS * SLOT, wc->byte_len, seed + n));
}

/* Both ends do the same: at most SLOTS / 2 messages ahead of the other's. */
static void exchange(const struct rig_addr *to, uint32_t count, uint32_t mine, uint32_t theirs)
{
	uint32_t sent = 0, done = 0, got = 0;
	struct ibv_wc wc;

	while (done < count || got < count) {
		if (sent < count && sent - done < 8 && sent < got + SLOTS / 2)
			send_message(to, sent++, mine);
		if (ibv_poll_cq(r.scq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, done++);
		}
		if (ibv_poll_cq(r.rcq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			check_message(&wc, got++, theirs);
			rig_recv(&r, wc.wr_id, 0, 0);
		} else {
			sched_yield();
		}
	}
}

static void open_end(int fd, struct rig_addr *to, const struct rig_attr *attr)
{
	rig_open(&r, attr);
	swap_addr(fd, to);
	rig_connect(&r, to, (struct rig_timers){0});
	for (uint64_t i = 0; i < SLOTS + 8; i++)
		rig_recv(&r, i, 0, 0);
	meet(fd);
}

static void run_end(int fd, uint32_t mine, uint32_t theirs)
{
	struct rig_addr to;

	open_end(fd, &to, &(struct rig_attr){.srq = true});
	exchange(&to, 5000, mine, theirs);
	meet(fd);
	rig_close(&r);
}

static int reap(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void both_ways(void)
{
	pid_t pid[2];
	int fd[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			alarm(60);
			close(fd[!i]);
			run_end(fd[i], (uint32_t)i * 1000, (uint32_t)!i * 1000);
			exit(0);
		}
		close(fd[i]);
		fd[i] = -1;
		if (!i)
			CHECK(fd[1] >= 0);
	}
	CHECK_EQ(reap(pid[0]), 0);
	CHECK_EQ(reap(pid[1]), 0);
}

int main(void)
{
	rig_fabric("peers");
	both_ways();
	return 0;
}
