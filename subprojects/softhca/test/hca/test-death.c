/* SPDX-License-Identifier: MIT */
/* The end of a killed peer is noticed immediately, or by the sender's timeout and retry counter. */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "softhca.h"

#define RETRIES 3 /* of rig_connect() */

static struct rig r;

static struct rig_addr meet(int fd)
{
	struct rig_addr to, mine;

	rig_open(&r, &(struct rig_attr){0});
	mine = rig_addr(&r);
	CHECK_EQ(write(fd, &mine, sizeof(mine)), (ssize_t)sizeof(mine));
	CHECK_EQ(read(fd, &to, sizeof(to)), (ssize_t)sizeof(to));
	rig_connect(&r, &to, (struct rig_timers){0});
	return to;
}

static void write_to_the_dead(void)
{
	const char *death = getenv("SOFTHCA_DEATH");
	struct softhca_counters c;
	struct rig_addr to;
	int fd[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		meet(fd[1]);
		CHECK_EQ(write(fd[1], "c", 1), 1);
		for (;;)
			pause();
	}
	to = meet(fd[0]);
	CHECK_EQ(read(fd[0], &(char){0}, 1), 1);
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	rig_post(&r, &(struct rig_wr){.op = IBV_WR_RDMA_WRITE,
			     .flags = IBV_SEND_SIGNALED,
			     .len = 8,
			     .raddr = to.addr,
			     .rkey = to.rkey});
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK(!softhca_counters_self(&c));
	CHECK_EQ(c.retries, death && !strcmp(death, "timers") ? RETRIES + 1 : 0);
	rig_close(&r);
	exit(0);
}

int main(void)
{
	rig_fabric("death");
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
	CHECK(!setenv("SOFTHCA_DEATH", "timers", 1));
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
	return 0;
}
