/* SPDX-License-Identifier: MIT */
/*
 * The two ends of connections: the server's and the client's event channel, and children that are
 * killed. Only one file of a program may include this header.
 */
#ifndef SOFTHCA_TEST_CM_ENDS_H
#define SOFTHCA_TEST_CM_ENDS_H

#include <sys/syscall.h>

#include "../trace.h"
#include "raw.h"

#define NO_SERVICE 8 /* reasons of a rejection */
#define CONSUMER 28
#define GUARD_MS 60000

static int sch, cch; /* event channels of server and client; 0: not open */

static inline void open_channels(void)
{
	if (!sch)
		sch = raw_open(0);
	if (!cch)
		cch = raw_open(0);
}

/* Makes the server's id that listens. Returns its port. */
static inline uint16_t serve(uint32_t *listener)
{
	open_channels();
	return raw_listener(sch, SERVER, LOOP, 0, listener);
}

static uint64_t sent; /* when the last message was sent */

/* Makes an id that requests a connection. */
static inline uint32_t request(enum rdma_ucm_port_space ps, uint64_t uid, uint16_t port)
{
	struct rdma_ucm_conn_param p = raw_param(1, NULL);
	uint32_t id = raw_ready(cch, uid, ps, NULL, LOOP, port);

	sent = test_now_ns();
	CHECK_EQ(raw_connect(cch, id, &p), 0);
	return id;
}

/* Lets a child go on that waits for a byte, and kills it at the first byte that it writes anywhere. */
static inline void kill_at_write(pid_t pid, int fd)
{
	test_get(fd, &(char){0}, 1);
	CHECK(!ptrace(PTRACE_SEIZE, pid, NULL, (void *)PTRACE_O_TRACESYSGOOD));
	CHECK(!ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	test_stopped(pid);
	test_put(fd, "g", 1);
	trace_to_entry(pid, 0, SYS_write);
	test_kill(pid);
	close(fd);
}

/* The last step of a connection before one of its processes is killed. */
enum { ASKED, READ_REQUEST, ACCEPTED, CONNECTED, DYING };

/* Set for a child that is killed: its last stage, and the server's port. */
static int last_stage;
static uint16_t server_port;

/* Reports to the parent that this process has reached its last stage, and waits to be killed. */
static inline void await_death(int fd)
{
	test_put(fd, "x", 1);
	for (;;)
		pause();
}

static inline void none_left(void)
{
	CHECK(!raw_readable(sch, 0));
	CHECK(!raw_readable(cch, 0));
}

#endif
