/* SPDX-License-Identifier: MIT */
/*
 * For tests of the transport over TCP without the rest of tent (the engine): a listening port, the
 * target's end of a link on it, and a peer that connects to this end.
 */
#ifndef TENT_TEST_TCPPEER_H
#define TENT_TEST_TCPPEER_H

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tcp.h"
#include "support/stranger.h"
#include "tcplink.h"

#define PAGE 4096u
#define GUARD_NS (60 * NSEC_PER_SEC) /* time limit of waits, so that the test does not hang */
#define MARKS 128 /* as in tcp.c */

extern const struct transport tcp_transport;

static struct port *port;
static struct region region; /* the second of four pages */
static uint8_t *memory;
static struct link *target;
static struct tcp_end end; /* of the target */
static uint16_t marks; /* number of marks (notice.h) that arrived */

static inline void count_mark(void *arg, const struct notice_mark *mark)
{
	CHECK_EQ(mark->value, ++marks);
}

static inline void open_port(void)
{
	const struct tent_attr attr = {.address = "127.0.0.1"};

	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 'm', 4 * PAGE);
	CHECK_EQ(tcp_transport.open(&attr, "tcp0", false, &port, NULL), 0);
	CHECK_EQ(tcp_transport.add(port, (uintptr_t)memory + PAGE, PAGE, &region), 0);
}

static inline void close_port(void)
{
	if (region.own)
		tcp_transport.remove(&region);
	region.own = NULL;
	tcp_transport.close(port);
	munmap(memory, 4 * PAGE);
}

/* ---- a peer of a target ---- */

static inline void close_target(void)
{
	target->ops->destroy(target);
	close_port();
}

static inline void open_target(void)
{
	struct link_end mine, theirs = {{0}};

	test_finally(close_target);
	open_port();
	marks = 0;
	CHECK_EQ(tcp_transport.accept(port, &theirs, &mine, &target), 0);
	memcpy(&end, mine.bytes, sizeof(end));
}

/* The target serves its peers until @fd is readable. False: @fd is closed. */
static inline bool served(int fd, int max)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t until = clock_ns() + GUARD_NS;
	bool up;

	while (!poll(&p, 1, 0)) {
		CHECK(clock_ns() < until);
		if (!target->ops->poll_marks(target, max, count_mark, NULL))
			CHECK(!tcp_transport.event(port, &up));
	}
	return recv(fd, &(char){0}, 1, MSG_PEEK) == 1;
}

static inline void is_closed(int fd)
{
	CHECK(!served(fd, 0));
	close(fd);
}

static inline int guest(uint32_t magic, uint8_t last)
{
	struct greeting g = {.magic = magic};
	int fd = stranger_connect(end.port);

	memcpy(g.token, end.token, TOKEN_LEN);
	g.token[TOKEN_LEN - 1] ^= last;
	stranger_say(fd, &g, sizeof(g));
	return fd;
}

/* Opens the target, and returns a connection to it. */
static inline int target_guest(void)
{
	open_target();
	return guest(TCP_MAGIC, 0);
}

static inline struct frame frame(enum frame_type type, uint64_t at, uint64_t len)
{
	return (struct frame){.type = type,
		.key = region.rkey,
		.token = 77 + at,
		.addr = (uintptr_t)memory + at,
		.len = len};
}

static inline void say(int fd, struct frame f)
{
	stranger_say(fd, &f, sizeof(f));
}

/* Returns the status of the reply to @f. */
static inline int reply(int fd, struct frame f)
{
	struct reply r;
	size_t got = 0;

	while (got < sizeof(r)) {
		CHECK(served(fd, 0));
		CHECK(tcp_read(fd, &r, sizeof(r), &got) != -ECONNRESET);
	}
	CHECK_EQ(r.magic, TCP_MAGIC);
	CHECK_EQ(r.token, f.token);
	return (int)r.status;
}

static inline void is_well(int fd)
{
	struct frame f = frame(FRAME_PROBE, 0, 0);

	say(fd, f);
	CHECK_EQ(reply(fd, f), 0);
}

#endif
