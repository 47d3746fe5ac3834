/* SPDX-License-Identifier: MIT */
/*
 * A process is killed at each of the system calls that it makes while it sends a message, some of
 * which write the receiver's events. The receiver gets the events of a message that has arrived, and
 * can destroy its queues: libibverbs waits there until the program has acknowledged as many events
 * as the HCA reports.
 */
#include <poll.h>
#include <sys/ptrace.h>

#include "rig.h"
#include "trace.h"

/* When the receiver reads its completion events. */
enum when {
	BEFORE, /* the death is noticed */
	AFTER,
	NEVER,
};

static struct rig r;

static void sender(int fd)
{
	rig_open(&r, NULL);
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	CHECK(!raise(SIGSTOP));
	rig_post(&r, &(struct rig_wr){.op = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .len = 8});
	CHECK(!raise(SIGSTOP));
}

/*
 * Runs the sender until it has entered or left a system call @stops times. Returns true if it has
 * sent the message before.
 */
static bool run_sender(pid_t pid, unsigned stops)
{
	int sig = 0;

	CHECK_EQ(test_stopped(pid), SIGSTOP);
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
	while (stops) {
		CHECK(!ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)sig));
		sig = test_stopped(pid);
		if (sig == SIGSTOP)
			return true;
		stops -= sig == (SIGTRAP | 0x80);
		sig = trace_signal(sig);
	}
	return false;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0);
}

static unsigned take_events(void)
{
	unsigned n = 0;

	for (; readable(r.channel->fd); n++)
		rig_take_event(&r, r.rcq);
	return n;
}

/* The SRQ has reached its limit. */
static void take_limit_event(void)
{
	CHECK_EQ(rig_take_async(&r).event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(!readable(r.ctx->async_fd));
}

/* Returns true if the sender has sent the message before it was killed. */
static bool one(enum when when, unsigned stops)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	unsigned events = 0;
	bool sent, arrived;
	struct ibv_wc wc;
	int fd;
	pid_t pid;

	alarm(100);
	pid = test_peer(sender, &fd);
	rig_open(&r, &(struct rig_attr){.srq = true, .events = true});
	rig_meet(&r, fd, NULL, (struct rig_timers){0});
	for (uint64_t i = 0; i < 2; i++)
		rig_recv(&r, i, 0, 64);
	CHECK(!ibv_modify_srq(r.srq, &limit, IBV_SRQ_LIMIT));
	CHECK(!ibv_req_notify_cq(r.rcq, 0));
	sent = run_sender(pid, stops);
	if (when == BEFORE)
		events = take_events();
	trace_kill(pid, pid);
	close(fd);
	CHECK_EQ(rig_state(&r), IBV_QPS_RTS); /* a command, which notices the death */
	if (when == AFTER)
		events = take_events();
	arrived = ibv_poll_cq(r.rcq, 1, &wc) == 1;
	CHECK(arrived || !sent);
	CHECK(events <= arrived + 1u); /* a replay may write it again */
	CHECK(when != AFTER || !arrived == !events);
	if (arrived && when != NEVER)
		take_limit_event();
	fd = dup(r.channel->fd);
	rig_close(&r);
	CHECK(!readable(fd));
	close(fd);
	return sent;
}

static void sweep(enum when when)
{
	unsigned stops = 0;

	while (!one(when, stops))
		stops++;
	CHECK(stops > 6); /* a FIFO is opened, written and closed */
}

TEST_WITH(events_read_before, sweep, BEFORE);
TEST_WITH(events_read_after, sweep, AFTER);
TEST_WITH(events_not_read, sweep, NEVER);

FABRIC_MAIN("event-kill", "SOFTHCA_MODE=trap");
