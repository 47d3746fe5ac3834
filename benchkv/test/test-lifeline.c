/* SPDX-License-Identifier: MIT */
/*
 * Rank 0's end of the lifeline (the TCP connections from all ranks to rank 0): which connections it
 * accepts, and how it handles messages.
 */
#include "lifeline.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/test.h"
#include "stop.h"

#define RANKS 4
#define GUARD_MS 60000

/* ---- a launcher with the functions that rank 0 uses ---- */

static struct launch launch = {.size = RANKS};
static char address[1024];

int launch_put(struct launch *l, const char *key, uint32_t number, const void *data, size_t len)
{
	CHECK(len <= sizeof(address));
	memcpy(address, data, len);
	return 0;
}

int launch_get(struct launch *l, uint32_t rank, const char *key, uint32_t number,
	uint64_t timeout_ns, void **data_p, size_t *len_p)
{
	return -EPROTO;
}

/* ---- another rank's end of its connection; the layouts are those of lifeline.c ---- */

enum {
	WELCOME = 1,
	STOP,
	RESULT,
	LEAVE,
};

struct message {
	uint32_t kind, arg;
	uint64_t len;
};

struct greeting {
	uint64_t magic;
	uint8_t secret[16];
	uint32_t rank, reserved;
};

static struct lifeline *line;

static void begin(void)
{
	lifeline_close(line);
	alarm(1200); /* replaces the alarm of stop_raise(), which ends the program soon */
	/* Relaxed: there is no other thread. */
	atomic_store_explicit(&stop_signal, 0, memory_order_relaxed);
	CHECK_EQ(lifeline_open(&launch, &line), 0);
	CHECK(line);
}

static struct greeting greeting_of(uint32_t rank)
{
	struct greeting g = {.rank = rank};

	memcpy(&g.magic, address, sizeof(g.magic));
	memcpy(g.secret, address + sizeof(g.magic), sizeof(g.secret));
	return g;
}

static int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint32_t port;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&port, address + 24, sizeof(port));
	to.sin_port = htons((uint16_t)port);
	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* Returns the kind of the message that rank 0 sends, or 0 if it closes the connection. */
static uint32_t answer(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct message msg;

	for (int i = 0; i < GUARD_MS; i++) {
		lifeline_look(line);
		if (poll(&p, 1, 1) > 0)
			return recv(fd, &msg, sizeof(msg), MSG_WAITALL) == sizeof(msg) ? msg.kind :
											 0;
	}
	CHECK(!"no answer");
	return 0;
}

static uint32_t greet(const struct greeting *g, int *fd_p)
{
	*fd_p = dial();
	CHECK_EQ(send(*fd_p, g, sizeof(*g), MSG_NOSIGNAL), (ssize_t)sizeof(*g));
	return answer(*fd_p);
}

static int join(uint32_t rank)
{
	struct greeting g = greeting_of(rank);
	int fd;

	CHECK_EQ(greet(&g, &fd), WELCOME);
	return fd;
}

static void say(int fd, uint32_t kind, uint32_t arg, uint64_t len)
{
	const struct message msg = {.kind = kind, .arg = arg, .len = len};

	CHECK_EQ(send(fd, &msg, sizeof(msg), MSG_NOSIGNAL), (ssize_t)sizeof(msg));
}

/* Waits until rank 0 has noticed something, or has had enough time to notice it. */
static bool noticed(void)
{
	lifeline_wait(line, 50 * NSEC_PER_MSEC);
	return stop_requested();
}

/* ---- cases ---- */

static void refuses(uint32_t rank, size_t spoilt)
{
	struct greeting g;
	AT_END(end_close_fd) int fd;

	begin();
	g = greeting_of(rank);
	if (spoilt)
		((uint8_t *)&g)[spoilt - 1] ^= 1;
	CHECK_EQ(greet(&g, &fd), 0);
	CHECK(!stop_requested() && lifeline_lost(line) < 0);
}

TEST(greetings_are_checked)
{
	refuses(1, 1); /* the magic */
	refuses(1, 9); /* the secret: its first byte, */
	refuses(1, 24); /* and its last one */
	refuses(0, 0);
	refuses(RANKS, 0);
	refuses(UINT32_MAX, 0);
}

TEST(a_place_is_taken_once)
{
	struct greeting g;
	int first, second;

	begin();
	first = join(2);
	g = greeting_of(2);
	CHECK_EQ(greet(&g, &second), 0);
	CHECK(!stop_requested());
	close(first);
	CHECK(noticed());
	CHECK_EQ(lifeline_lost(line), 2);
	CHECK(!lifeline_told(line) && !stop_told());
	close(second);
}

TEST(who_leaves_is_not_lost)
{
	int fd;

	begin();
	fd = join(1);
	say(fd, LEAVE, 0, 0);
	close(fd);
	CHECK(!noticed());
	CHECK_EQ(lifeline_lost(line), -1);
}

TEST(a_rank_tells_to_stop)
{
	static const struct {
		uint32_t arg;
		int told;
	} cases[] = {{SIGTERM, SIGTERM}, {STOP_FAILED, 0}, {UINT32_MAX, 0}, {0, 0}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AT_END(end_close_fd) int fd;

		begin();
		fd = join(1);
		say(fd, STOP, cases[i].arg, 0);
		CHECK(noticed());
		CHECK_EQ(stop_told(), cases[i].told);
		CHECK(lifeline_told(line) && lifeline_lost(line) < 0);
	}
}

struct heard {
	uint32_t n, rank, run;
	size_t len;
	int err;
};

static int on_result(void *arg, uint32_t rank, uint32_t run, const void *data, size_t len)
{
	struct heard *h = arg;

	h->n++;
	h->rank = rank;
	h->run = run;
	h->len = len;
	for (size_t i = 0; i < len; i++)
		CHECK_EQ(((const uint8_t *)data)[i], (uint8_t)(i * 7));
	return h->err;
}

TEST(results_come_whole)
{
	static uint8_t data[3000];
	struct heard h = {.n = 0};
	int one, two;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	begin();
	one = join(1);
	two = join(3); /* sends nothing, and must not delay the others */
	say(one, RESULT, 5, sizeof(data));
	CHECK_EQ(send(one, data, sizeof(data), MSG_NOSIGNAL), (ssize_t)sizeof(data));
	say(one, RESULT, LIFELINE_DAEMONS, 1);
	CHECK_EQ(send(one, data, 1, MSG_NOSIGNAL), 1);
	say(one, LEAVE, 0, 0);
	lifeline_gather(line, 100 * NSEC_PER_MSEC, on_result, &h);
	CHECK(h.n == 2 && h.rank == 1 && h.run == LIFELINE_DAEMONS && h.len == 1);
	close(one);
	close(two);
}

/* After an invalid message a rank is ignored, and the end of its connection is not a death. */
TEST(nonsense_ends_a_connection)
{
	static const struct message cases[] = {{.kind = 0}, {.kind = 5}, {.kind = RESULT},
		{.kind = RESULT, .len = 65u << 20}, {.kind = RESULT, .len = UINT64_MAX}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct heard h = {.n = 0};
		char byte;
		AT_END(end_close_fd) int fd;

		begin();
		fd = join(1);
		say(fd, cases[i].kind, 0, cases[i].len);
		lifeline_gather(line, GUARD_MS * NSEC_PER_MSEC, on_result, &h);
		CHECK_EQ(h.n, 0);
		CHECK_EQ(recv(fd, &byte, 1, 0), 0);
		CHECK(lifeline_lost(line) < 0);
	}
}
