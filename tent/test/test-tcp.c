/* SPDX-License-Identifier: MIT */
/*
 * The transport over TCP without an engine: a peer that sends what it likes to a target, and one
 * that replies what it likes to an initiator. The test's thread plays both sides.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tcp.h"
#include "support/stranger.h"
#include "tcplink.h"

#define PAGE 4096u
#define GUARD_NS (60 * NSEC_PER_SEC) /* against hanging */
#define MARKS 128 /* as in tcp.c */

extern const struct transport tcp_transport;

static struct port *port;
static struct region region; /* the second of four pages */
static uint8_t *memory;
static struct link *target;
static struct tcp_end end; /* of the target */
static uint16_t marks; /* the engine has taken so many */

static void count_mark(void *arg, const struct notice_mark *mark)
{
	CHECK_EQ(mark->value, ++marks);
}

static void open_port(void)
{
	const struct tent_attr attr = {.address = "127.0.0.1"};

	memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	memset(memory, 'm', 4 * PAGE);
	CHECK_EQ(tcp_transport.open(&attr, "tcp0", false, &port, NULL), 0);
	CHECK_EQ(tcp_transport.add(port, (uintptr_t)memory + PAGE, PAGE, &region), 0);
}

static void close_port(void)
{
	if (region.own)
		tcp_transport.remove(&region);
	region.own = NULL;
	tcp_transport.close(port);
	munmap(memory, 4 * PAGE);
}

/* ---- a peer of a target ---- */

static void open_target(void)
{
	struct link_end mine, theirs = {{0}};

	open_port();
	marks = 0;
	CHECK_EQ(tcp_transport.accept(port, &theirs, &mine, &target), 0);
	memcpy(&end, mine.bytes, sizeof(end));
}

static void close_target(void)
{
	target->ops->destroy(target);
	close_port();
}

/* The target serves its peers until @fd is readable. False: @fd is closed. */
static bool served(int fd, int max)
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

static void is_closed(int fd)
{
	CHECK(!served(fd, 0));
	close(fd);
}

static int guest(uint32_t magic, uint8_t last)
{
	struct greeting g = {.magic = magic};
	int fd = stranger_connect(end.port);

	memcpy(g.token, end.token, TOKEN_LEN);
	g.token[TOKEN_LEN - 1] ^= last;
	stranger_say(fd, &g, sizeof(g));
	return fd;
}

static struct frame frame(enum frame_type type, uint64_t at, uint64_t len)
{
	return (struct frame){.type = type,
		.key = region.rkey,
		.token = 77 + at,
		.addr = (uintptr_t)memory + at,
		.len = len};
}

static void say(int fd, struct frame f)
{
	stranger_say(fd, &f, sizeof(f));
}

/* Returns the status of the reply to @f. */
static int reply(int fd, struct frame f)
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

static void is_well(int fd)
{
	struct frame f = frame(FRAME_PROBE, 0, 0);

	say(fd, f);
	CHECK_EQ(reply(fd, f), 0);
}

static void write_at(int fd, uint64_t at, uint64_t len, uint32_t key, int status)
{
	struct frame f = frame(FRAME_WRITE, at, len);
	uint8_t bytes[2 * PAGE];

	memset(bytes, 'w', sizeof(bytes));
	f.key += key;
	say(fd, f);
	stranger_say(fd, bytes, len);
	CHECK_EQ(reply(fd, f), status);
}

TEST(bytes_go_where_a_key_allows)
{
	static const struct {
		uint64_t at, len;
		uint32_t key;
		int status;
	} cases[] = {
		{PAGE, PAGE, 0, 0},
		{2 * PAGE - 1, 1, 0, 0},
		{PAGE, 100, 1, EACCES},
		{PAGE, 100, 1024, EACCES}, /* in the same bucket */
		{PAGE - 1, 1, 0, EACCES},
		{PAGE - 1, 2, 0, EACCES},
		{2 * PAGE - 1, 2, 0, EACCES},
		{PAGE, PAGE + 1, 0, EACCES},
		{2 * PAGE + 1, 1, 0, EACCES},
		{3 * PAGE, 1, 0, EACCES},
	};
	uint8_t bytes[PAGE];
	int fd;

	open_target();
	fd = guest(TCP_MAGIC, 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct frame f = frame(FRAME_READ, cases[i].at, cases[i].len);

		memset(memory, 'm', 4 * PAGE);
		write_at(fd, cases[i].at, cases[i].len, cases[i].key, cases[i].status);
		test_filled(memory + cases[i].at, cases[i].len, cases[i].status ? 'm' : 'w');
		test_filled(memory, PAGE, 'm');
		test_filled(memory + 2 * PAGE, 2 * PAGE, 'm');
		f.key += cases[i].key;
		say(fd, f);
		CHECK_EQ(reply(fd, f), cases[i].status);
		if (cases[i].status)
			continue;
		CHECK_EQ(tcp_get(fd, bytes, f.len, clock_ns() + GUARD_NS), 0);
		test_filled(bytes, f.len, 'w');
		CHECK_EQ(reply(fd, f), 0);
	}
	is_well(fd);
	close(fd);
	close_target();
}

/* Lengths that nobody can send or hold. */
TEST(lengths_without_end)
{
	static const uint64_t lens[] = {UINT64_MAX, UINT64_MAX - PAGE, (uint64_t)INT64_MAX};
	int fd;

	open_target();
	fd = guest(TCP_MAGIC, 0);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		struct frame f = frame(FRAME_READ, PAGE, lens[i]);

		say(fd, f);
		CHECK_EQ(reply(fd, f), EACCES);
	}
	say(fd, frame(FRAME_WRITE, PAGE, UINT64_MAX));
	for (int i = 0; i < 100; i++) {
		stranger_say(fd, memory + 3 * PAGE, PAGE);
		target->ops->poll_marks(target, 0, count_mark, NULL);
	}
	test_filled(memory, 4 * PAGE, 'm');
	close(fd);
	close_target();
}

/* The rest of a write arrives when the registration has ended. */
TEST(a_registration_ends_in_the_middle)
{
	uint64_t until = clock_ns() + GUARD_NS;
	uint8_t bytes[PAGE / 2];
	struct frame f;
	int fd;

	memset(bytes, 'w', sizeof(bytes));
	open_target();
	f = frame(FRAME_WRITE, PAGE, PAGE);
	fd = guest(TCP_MAGIC, 0);
	say(fd, f);
	stranger_say(fd, bytes, sizeof(bytes));
	while (memory[PAGE + sizeof(bytes) - 1] != 'w') {
		CHECK(clock_ns() < until);
		target->ops->poll_marks(target, 0, count_mark, NULL);
	}
	tcp_transport.remove(&region);
	region.own = NULL;
	memset(memory, 'p', 3 * PAGE);
	stranger_say(fd, bytes, sizeof(bytes));
	CHECK_EQ(reply(fd, f), EACCES);
	test_filled(memory, 3 * PAGE, 'p');
	is_well(fd);
	close(fd);
	close_target();
}

/* Zeros take the place of bytes that cannot be read, and the second reply tells so. */
TEST(memory_that_was_unmapped)
{
	struct frame f;
	uint8_t bytes[PAGE];
	int fd;

	open_target();
	fd = guest(TCP_MAGIC, 0);
	CHECK_EQ(munmap(memory + PAGE, PAGE), 0);
	write_at(fd, PAGE, PAGE, 0, EFAULT);
	is_well(fd);
	f = frame(FRAME_READ, PAGE, PAGE);
	say(fd, f);
	CHECK_EQ(reply(fd, f), 0);
	CHECK_EQ(tcp_get(fd, bytes, PAGE, clock_ns() + GUARD_NS), 0);
	test_filled(bytes, PAGE, 0);
	CHECK_EQ(reply(fd, f), EFAULT);
	is_well(fd);
	close(fd);
	close_target();
}

/* The registration ends when a part of a read has been sent. */
TEST(a_registration_ends_during_a_read)
{
	const size_t len = 64u << 20; /* more than the sockets hold */
	uint8_t *much = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t until = clock_ns() + GUARD_NS;
	struct region r;
	struct frame f;
	size_t got = 0;
	int fd;

	CHECK(much != MAP_FAILED);
	open_target();
	CHECK_EQ(tcp_transport.add(port, (uintptr_t)much, len, &r), 0);
	f = (struct frame){.type = FRAME_READ, .key = r.rkey, .addr = (uintptr_t)much, .len = len};
	fd = guest(TCP_MAGIC, 0);
	say(fd, f);
	CHECK_EQ(reply(fd, f), 0);
	while (target->ops->poll_marks(target, 0, count_mark, NULL))
		;
	tcp_transport.remove(&r);
	CHECK_EQ(munmap(much, len), 0);
	while (got < len) {
		ssize_t n = recv(fd, NULL, len - got, MSG_TRUNC | MSG_DONTWAIT);

		CHECK(n > 0 || (n < 0 && errno == EAGAIN && clock_ns() < until));
		got += n > 0 ? (size_t)n : 0;
		target->ops->poll_marks(target, 0, count_mark, NULL);
	}
	CHECK_EQ(reply(fd, f), EACCES);
	is_well(fd);
	close(fd);
	close_target();
}

TEST(who_is_not_let_in)
{
	int fd[STREAMS], more;

	open_target();
	is_closed(guest(TCP_MAGIC, 1));
	is_closed(guest(TCP_MAGIC + 1, 0));
	for (int i = 0; i < STREAMS; i++) {
		fd[i] = guest(TCP_MAGIC, 0);
		is_well(fd[i]);
	}
	is_closed(guest(TCP_MAGIC, 0)); /* the link has all of its connections */
	is_well(fd[0]);
	for (int i = 1; i < STREAMS; i++)
		close(fd[i]);
	is_closed(fd[0]); /* a link fails as a whole */
	is_closed(guest(TCP_MAGIC, 0));
	close_target();
	open_target();
	more = guest(TCP_MAGIC, 0);
	is_well(more);
	target->ops->stop(target);
	is_closed(more);
	is_closed(guest(TCP_MAGIC, 0));
	close_target();
}

TEST(frames_that_are_none)
{
	static const uint32_t types[] = {0, FRAME_MARK + 1, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		int fd;

		open_target();
		fd = guest(TCP_MAGIC, 0);
		is_well(fd);
		say(fd, frame(types[i], PAGE, 1));
		is_closed(fd);
		close_target();
	}
}

TEST(who_sends_no_token)
{
	struct greeting g = {.magic = TCP_MAGIC};

	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		struct strangers s;
		int fd;

		open_target();
		s = strangers_come(kind, end.port, &g, sizeof(g));
		fd = guest(TCP_MAGIC, 0);
		strangers_drip(&s);
		is_well(fd);
		close(fd);
		strangers_leave(&s);
		close_target();
	}
}

/* Marks wait in the target until the engine takes them; then the connection waits. */
TEST(marks_wait)
{
	struct frame f = {.type = FRAME_MARK};
	uint16_t sent = 0;
	int fd;

	open_target();
	fd = guest(TCP_MAGIC, 0);
	while (sent < MARKS) {
		f.mark = (struct notice_mark){.value = ++sent};
		say(fd, f);
		CHECK_EQ(reply(fd, f), 0);
	}
	f.mark.value = ++sent;
	say(fd, f);
	for (int i = 0; i < 100; i++)
		target->ops->poll_marks(target, 0, count_mark, NULL);
	CHECK_EQ(recv(fd, &(char){0}, 1, MSG_DONTWAIT), -1);
	CHECK_EQ(marks, 0);
	target->ops->poll_marks(target, 1, count_mark, NULL);
	CHECK_EQ(marks, 1);
	CHECK_EQ(reply(fd, f), 0);
	target->ops->stop(target); /* what has been acknowledged is not lost */
	while (target->ops->poll_marks(target, 1000, count_mark, NULL))
		;
	CHECK_EQ(marks, sent);
	close(fd);
	close_target();
}

/* ---- a peer of an initiator ---- */

static struct {
	struct link *link;
	int listener, fds[STREAMS];
	uint64_t token;
	int ended, status;
} it;

static void on_done(void *arg, uint64_t token, int status)
{
	it.ended++;
	it.token = token;
	it.status = status;
}

static void ends(int n)
{
	uint64_t until = clock_ns() + GUARD_NS;

	while (it.ended < n) {
		CHECK(clock_ns() < until);
		it.link->ops->poll(it.link, on_done, NULL);
	}
	CHECK_EQ(it.ended, n);
}

/* Receives bytes that the initiator sends. */
static void hear(int fd, void *bytes, size_t len)
{
	uint64_t until = clock_ns() + GUARD_NS;

	for (size_t got = 0; tcp_read(fd, bytes, len, &got) == -EAGAIN;) {
		CHECK(clock_ns() < until);
		it.link->ops->poll(it.link, on_done, NULL);
	}
}

static void answer(int fd, uint32_t magic, uint32_t status, uint64_t token)
{
	const struct reply r = {magic, status, token};

	stranger_say(fd, &r, sizeof(r));
}

/* Makes a link to the test, whose connections are it.fds in the order of their frames. */
static void open_initiator(void)
{
	struct desc peer = {.port = 0};
	struct link_end theirs = {{0}};
	struct tcp_end e = {.token = "a token of 16 B"};
	struct sockaddr_in *at = (struct sockaddr_in *)&peer.at;

	open_port();
	memset(&it, 0, sizeof(it));
	CHECK_EQ(tcp_listen("127.0.0.1", 0, &it.listener), 0);
	e.port = (uint16_t)tcp_port(it.listener);
	memcpy(theirs.bytes, &e, sizeof(e));
	*at = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK_EQ(tcp_transport.link(port, &peer, &it.link), 0);
	CHECK_EQ(it.link->ops->connect(it.link, &theirs), 0);
	CHECK_EQ(it.link->ops->post_probe(it.link, 5), 0);
	CHECK_EQ(it.link->ops->post_probe(it.link, 6), -ENOTCONN); /* one at a time */
	for (int i = 0; i < STREAMS; i++) {
		struct greeting g;
		struct frame f;

		CHECK_EQ(tcp_accept(it.listener, clock_ns() + GUARD_NS, &it.fds[i]), 0);
		hear(it.fds[i], &g, sizeof(g));
		CHECK(g.magic == TCP_MAGIC && !memcmp(g.token, e.token, TOKEN_LEN));
		hear(it.fds[i], &f, sizeof(f));
		CHECK(f.type == FRAME_PROBE && f.token == 5);
		CHECK_EQ(it.ended, 0); /* a probe tests all connections */
		answer(it.fds[i], TCP_MAGIC, 0, 5);
	}
	ends(1);
	CHECK_EQ(it.token, 5);
	CHECK_EQ(it.status, 0);
	it.ended = 0;
}

static void close_initiator(void)
{
	it.link->ops->destroy(it.link);
	for (int i = 0; i < STREAMS; i++)
		close(it.fds[i]);
	close(it.listener);
	close_port();
}

static void post(bool write, uint64_t at, uint64_t len, uint64_t token)
{
	const struct link_move m = {.write = write,
		.local = memory + at,
		.remote = 0x1000,
		.len = len,
		.rkey = 9,
		.token = token};

	CHECK_EQ(it.link->ops->post(it.link, &m), 0);
}

/* The connection whose frame comes next. */
static int spoken(void)
{
	struct pollfd p[STREAMS];
	uint64_t until = clock_ns() + GUARD_NS;

	for (int i = 0; i < STREAMS; i++)
		p[i] = (struct pollfd){.fd = it.fds[i], .events = POLLIN};
	while (!poll(p, STREAMS, 0)) {
		CHECK(clock_ns() < until);
		it.link->ops->poll(it.link, on_done, NULL);
	}
	for (int i = 0;; i++) {
		if (p[i].revents)
			return it.fds[i];
	}
}

TEST(replies_of_a_stranger)
{
	static const struct {
		bool write;
		uint32_t magic, status;
		uint64_t token;
		int result;
		bool over; /* the link has failed */
		uint32_t end_magic,
			end_status; /* of the second reply to a read; 0: there is none */
		uint64_t end_token;
	} cases[] = {
		{false, TCP_MAGIC, 0, 7, 0, false, TCP_MAGIC, 0, 7},
		{false, TCP_MAGIC, 0, 7, -EFAULT, false, TCP_MAGIC, EFAULT, 7},
		{false, TCP_MAGIC, 0, 7, -EACCES, false, TCP_MAGIC, EACCES, 7},
		{false, TCP_MAGIC, 0, 7, -EACCES, false, TCP_MAGIC, 99, 7},
		{false, TCP_MAGIC, 0, 7, -EREMOTEIO, true, TCP_MAGIC + 1, 0, 7},
		{false, TCP_MAGIC, 0, 7, -EREMOTEIO, true, TCP_MAGIC, 0, 8},
		{true, TCP_MAGIC, 0, 7, 0, false, 0, 0, 0},
		{true, TCP_MAGIC, EACCES, 7, -EACCES, false, 0, 0, 0},
		{false, TCP_MAGIC, EACCES, 7, -EACCES, false, 0, 0, 0},
		{true, TCP_MAGIC, EFAULT, 7, -EFAULT, false, 0, 0, 0},
		{true, TCP_MAGIC, 99, 7, -EACCES, false, 0, 0, 0},
		{true, TCP_MAGIC, UINT32_MAX, 7, -EACCES, false, 0, 0, 0},
		{true, TCP_MAGIC + 1, 0, 7, -EREMOTEIO, true, 0, 0, 0},
		{true, TCP_MAGIC, 0, 8, -EREMOTEIO, true, 0, 0, 0},
		{false, TCP_MAGIC, 0, 8, -EREMOTEIO, true, 0, 0, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t bytes[100] = {0};
		struct frame f;
		int fd;

		open_initiator();
		post(cases[i].write, PAGE, 100, 7);
		fd = spoken();
		hear(fd, &f, sizeof(f));
		CHECK_EQ(f.type, cases[i].write ? FRAME_WRITE : FRAME_READ);
		CHECK(f.key == 9 && f.token == 7 && f.addr == 0x1000 && f.len == 100);
		if (cases[i].write)
			hear(fd, bytes, sizeof(bytes));
		answer(fd, cases[i].magic, cases[i].status, cases[i].token);
		if (cases[i].end_magic) {
			stranger_say(fd, bytes, sizeof(bytes));
			answer(fd, cases[i].end_magic, cases[i].end_status, cases[i].end_token);
		}
		ends(1);
		CHECK_EQ(it.token, 7);
		CHECK_EQ(it.status, cases[i].result);
		CHECK_EQ(it.link->ops->post_probe(it.link, 1), cases[i].over ? -ENOTCONN : 0);
		close_initiator();
	}
}

/* A read gets its own bytes, however they come, and no others. */
TEST(bytes_of_a_read)
{
	uint8_t bytes[PAGE];
	struct frame f;
	int fd;

	memset(bytes, 'r', sizeof(bytes));
	open_initiator();
	post(false, PAGE, PAGE, 3);
	fd = spoken();
	hear(fd, &f, sizeof(f));
	answer(fd, TCP_MAGIC, 0, 3);
	for (uint32_t i = 0; i < PAGE; i += 512) {
		CHECK_EQ(it.ended, 0);
		stranger_say(fd, bytes, 512);
		it.link->ops->poll(it.link, on_done, NULL);
	}
	CHECK_EQ(it.ended, 0);
	answer(fd, TCP_MAGIC, 0, 3);
	answer(fd, TCP_MAGIC, 0, 99); /* nobody has asked for that */
	ends(1);
	CHECK_EQ(it.status, 0);
	test_filled(memory, PAGE, 'm');
	test_filled(memory + PAGE, PAGE, 'r');
	test_filled(memory + 2 * PAGE, 2 * PAGE, 'm');
	close_initiator();
}

/* One connection fails: all that is posted ends. */
TEST(a_link_fails_as_a_whole)
{
	int fd;

	open_initiator();
	for (uint64_t i = 0; i < LINK_DEPTH; i++)
		post(true, PAGE, 64, i);
	CHECK_EQ(it.link->ops->post(it.link, &(struct link_move){.write = true}), -EAGAIN);
	fd = spoken();
	shutdown(fd, SHUT_RDWR);
	ends(LINK_DEPTH);
	CHECK(it.status == -ECANCELED || it.status == -EREMOTEIO);
	CHECK_EQ(it.link->posted, 0);
	CHECK_EQ(it.link->ops->post(it.link, &(struct link_move){.write = true}), -ENOTCONN);
	close_initiator();
}

/* Local memory of which the second page is not mapped: the move fails, and its link goes on. */
TEST(local_memory_that_was_unmapped)
{
	for (int write = 0; write < 2; write++) {
		uint8_t bytes[2 * PAGE];
		struct frame f;
		int fd;

		open_initiator();
		CHECK_EQ(munmap(memory + PAGE, PAGE), 0);
		post(write, 0, sizeof(bytes), 4);
		post(write, 2 * PAGE, 100, 5);
		for (int i = 0; i < 2; i++) {
			fd = spoken();
			hear(fd, &f, sizeof(f));
			memset(bytes, 'r', sizeof(bytes));
			if (write)
				hear(fd, bytes, f.len);
			answer(fd, TCP_MAGIC, 0, f.token);
			if (!write) {
				stranger_say(fd, bytes, f.len);
				answer(fd, TCP_MAGIC, 0, f.token);
			}
			ends(i + 1);
			CHECK_EQ(it.status, f.token == 4 ? -EFAULT : 0);
			if (write && f.token == 4)
				test_filled(bytes + PAGE, PAGE, 0);
		}
		test_filled(memory + 2 * PAGE, 100, write ? 'm' : 'r');
		CHECK_EQ(it.link->ops->post_probe(it.link, 1), 0);
		close_initiator();
	}
}

/* After stop() no byte arrives any more. */
TEST(a_stopped_initiator)
{
	uint8_t bytes[100] = {0};
	struct frame f;
	int fd;

	open_initiator();
	post(false, PAGE, 100, 4);
	fd = spoken();
	hear(fd, &f, sizeof(f));
	answer(fd, TCP_MAGIC, 0, 4);
	stranger_say(fd, bytes, 50);
	it.link->ops->stop(it.link);
	ends(1);
	CHECK_EQ(it.status, -ECANCELED);
	test_filled(memory, 4 * PAGE, 'm');
	close_initiator();
}

/* ---- a peer whose host is gone, and one that is stopped ---- */

/* A socket of this process whose peer has this port. -1: there is none from @fd on. */
static int socket_to(uint16_t to, int fd)
{
	for (; fd < 1024; fd++) {
		struct sockaddr_in peer;
		socklen_t len = sizeof(peer);

		if (!getpeername(fd, (struct sockaddr *)&peer, &len) &&
			peer.sin_family == AF_INET && ntohs(peer.sin_port) == to)
			return fd;
	}
	return -1;
}

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int value = 0;

	CHECK_EQ(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

/* Checks the sockets of an initiator, or of a target. */
static void sockets_are(uint16_t to, bool alive)
{
	int n = 0;

	for (int fd = 0; (fd = socket_to(to, fd)) >= 0; fd++) {
		CHECK_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
		CHECK_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), alive);
		if (alive)
			CHECK_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) +
					 option(fd, IPPROTO_TCP, TCP_KEEPINTVL) *
						 option(fd, IPPROTO_TCP, TCP_KEEPCNT),
				3);
		n++;
	}
	CHECK(n >= 1);
}

/*
 * TCP_USER_TIMEOUT would end the connection to a process that is stopped. The kernel asks a peer
 * that owes a reply for a sign of life.
 */
TEST(options_of_sockets)
{
	struct frame f;
	int fd;

	open_initiator();
	post(false, PAGE, 100, 4);
	fd = spoken();
	hear(fd, &f, sizeof(f));
	sockets_are((uint16_t)tcp_port(it.listener), true);
	close_initiator();
	open_target();
	fd = guest(TCP_MAGIC, 0);
	is_well(fd);
	sockets_are((uint16_t)tcp_port(fd), false);
	close(fd);
	close_target();
}

TEST(what_silence_is)
{
	CHECK(!wire_silent(&(struct tcp_info){.tcpi_retransmits = 3, .tcpi_probes = 2}));
	CHECK(wire_silent(&(struct tcp_info){.tcpi_retransmits = 4}));
	CHECK(wire_silent(&(struct tcp_info){.tcpi_probes = 3}));
}

/* Lets the link run for so long, or until a call has ended. */
static void run_for(uint64_t ns)
{
	uint64_t until = clock_ns() + ns;

	while (!it.ended && clock_ns() < until) {
		struct pollfd p = {.fd = it.link->fds[0], .events = POLLIN};

		poll(&p, 1, tcp_left_ms(until));
		it.link->ops->disarm(it.link);
		while (it.link->ops->poll(it.link, on_done, NULL) > 0)
			;
	}
}

/* The peer's host receives no more packets. */
static void lose_host(void)
{
	struct sock_filter none = {BPF_RET | BPF_K, 0, 0, 0};
	const struct sock_fprog program = {1, &none};

	for (int i = 0; i < STREAMS; i++)
		CHECK_EQ(setsockopt(it.fds[i], SOL_SOCKET, SO_ATTACH_FILTER, &program,
				 sizeof(program)),
			0);
}

static void is_noticed(void)
{
	run_for(GUARD_NS);
	CHECK_EQ(it.link->posted, 0);
	CHECK(it.status == -EREMOTEIO || it.status == -ECANCELED);
}

/* The kernel's timers cannot be hurried, so only the long form has the time. */
TEST(hosts_that_are_lost)
{
	struct frame f;
	int fd;

	if (!getenv("SOAK"))
		return;
	for (int write = 0; write < 2; write++) {
		open_initiator();
		if (write) {
			lose_host();
			post(true, PAGE, 100, 4);
		} else {
			post(false, PAGE, 100, 4);
			fd = spoken();
			hear(fd, &f, sizeof(f));
			lose_host();
		}
		is_noticed();
		close_initiator();
	}
}

TEST(a_process_that_is_stopped)
{
	const size_t len = 32u << 20; /* more than the sockets hold */
	const uint64_t stop_ns = 10 * NSEC_PER_SEC;
	struct link_move m = {.write = true, .remote = 0x1000, .len = len, .rkey = 9, .token = 4};
	struct frame f;
	uint8_t *bytes;
	int fd;

	if (!getenv("SOAK"))
		return;
	bytes = malloc(len);
	m.local = calloc(1, len);
	CHECK(m.local && bytes);
	for (int lost = 0; lost < 2; lost++) {
		open_initiator();
		CHECK_EQ(it.link->ops->post(it.link, &m), 0);
		run_for(lost ? 0 : stop_ns);
		CHECK_EQ(it.ended, 0);
		if (lost) {
			lose_host();
			is_noticed();
		} else {
			fd = spoken();
			hear(fd, &f, sizeof(f));
			hear(fd, bytes, len);
			answer(fd, TCP_MAGIC, 0, 4);
			ends(1);
			CHECK_EQ(it.status, 0);
		}
		close_initiator();
	}
	free(m.local);
	free(bytes);
}
