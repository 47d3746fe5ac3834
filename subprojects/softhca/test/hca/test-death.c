/* SPDX-License-Identifier: MIT */
/* The end of a killed peer is noticed immediately, or by the sender's timeout and retry counter. */
#include <signal.h>

#include "rig.h"

#define RETRIES 3 /* of rig_connect() */

static struct rig r;

static void victim(int fd)
{
	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (;;)
		pause();
}

static void write_to_the_dead(void)
{
	const char *death = getenv("SOFTHCA_DEATH");
	struct rig_addr to;
	int fd;
	pid_t pid = test_peer(victim, &fd);

	rig_open(&r, NULL);
	to = rig_meet(&r, fd, NULL, (struct rig_timers){0});
	test_kill(pid);
	rig_request(&r, IBV_WR_RDMA_WRITE, 8, to);
	CHECK_EQ(rig_wait(r.scq).status, IBV_WC_RETRY_EXC_ERR);
	CHECK_EQ(rig_counters().retries, death && !strcmp(death, "timers") ? RETRIES + 1 : 0);
	rig_close(&r);
	exit(0);
}

TEST(noticed_immediately)
{
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
}

TEST(noticed_by_timers)
{
	CHECK(!setenv("SOFTHCA_DEATH", "timers", 1));
	CHECK_EQ(rig_child(write_to_the_dead, NULL), 0);
}

FABRIC_MAIN("death");
