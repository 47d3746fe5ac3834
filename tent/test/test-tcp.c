/* SPDX-License-Identifier: MIT */
/*
 * The transport over TCP without an engine: a peer sends arbitrary messages to a target. The test's
 * thread plays both sides.
 */
#include "tcppeer.h"

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
		{PAGE, 100, 1024, EACCES}, /* a key in the same bucket of the hash table */
		{PAGE - 1, 1, 0, EACCES},
		{PAGE - 1, 2, 0, EACCES},
		{2 * PAGE - 1, 2, 0, EACCES},
		{PAGE, PAGE + 1, 0, EACCES},
		{2 * PAGE + 1, 1, 0, EACCES},
		{3 * PAGE, 1, 0, EACCES},
	};
	uint8_t bytes[PAGE];
	AT_END(end_close_fd) int fd = target_guest();

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
}

/* Requests whose length exceeds any memory are refused. */
TEST(lengths_without_end)
{
	static const uint64_t lens[] = {UINT64_MAX, UINT64_MAX - PAGE, (uint64_t)INT64_MAX};
	AT_END(end_close_fd) int fd = target_guest();

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
}

/* The rest of a write arrives after the registration has ended. */
TEST(a_registration_ends_in_the_middle)
{
	uint64_t until = clock_ns() + GUARD_NS;
	uint8_t bytes[PAGE / 2];
	AT_END(end_close_fd) int fd = target_guest();
	struct frame f = frame(FRAME_WRITE, PAGE, PAGE);

	memset(bytes, 'w', sizeof(bytes));
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
}

/* The target sends zeros in place of bytes that it cannot read, and a second reply with EFAULT. */
TEST(memory_that_was_unmapped)
{
	struct frame f;
	uint8_t bytes[PAGE];
	AT_END(end_close_fd) int fd = target_guest();

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
}

/* The registration ends after a part of a read has been sent. */
TEST(a_registration_ends_during_a_read)
{
	const size_t len = 64u << 20; /* more than the buffers of the sockets hold */
	uint8_t *much = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t until = clock_ns() + GUARD_NS;
	struct region r;
	struct frame f;
	size_t got = 0;
	AT_END(end_close_fd) int fd;

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
}

TEST(who_is_not_let_in)
{
	int fd[STREAMS], more;

	open_target();
	is_closed(guest(TCP_MAGIC, 1));
	is_closed(guest(TCP_MAGIC + 1, 0));
	is_closed(guest(TCP_MAGIC + (1u << 24), 0)); /* the next version, and the one before */
	is_closed(guest(TCP_MAGIC - (1u << 24), 0));
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
	more = target_guest();
	is_well(more);
	target->ops->stop(target);
	is_closed(more);
	is_closed(guest(TCP_MAGIC, 0));
}

/* A child that was forked keeps the sockets open: a stranger is disconnected nevertheless. */
TEST(a_forked_child_has_a_stranger)
{
	struct pollfd p = {.events = POLLIN};
	pid_t child;
	int fd;

	open_target();
	p.fd = port->fd;
	fd = stranger_connect(end.port);
	stranger_say(fd, "g", 1);
	while (poll(&p, 1, 0)) /* the first byte was read, and the socket is watched */
		target->ops->poll_marks(target, 0, count_mark, NULL);
	child = test_fork();
	if (!child)
		for (;;)
			pause();
	stranger_say(fd, &(struct greeting){0}, sizeof(struct greeting) - 1);
	is_closed(fd);
	CHECK_EQ(poll(&p, 1, 0), 0);
	test_kill(child);
}

TEST(frames_that_are_none)
{
	static const uint32_t types[] = {0, FRAME_MARK + 1, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		int fd = target_guest();

		is_well(fd);
		say(fd, frame(types[i], PAGE, 1));
		is_closed(fd);
	}
}

TEST(who_sends_no_token)
{
	struct greeting g = {.magic = TCP_MAGIC};

	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		AT_END(strangers_leave) struct strangers s;
		AT_END(end_close_fd) int fd;

		open_target();
		s = strangers_come(kind, end.port, &g, sizeof(g));
		fd = guest(TCP_MAGIC, 0);
		strangers_drip(&s);
		is_well(fd);
	}
}

/* The target stores MARKS marks until the engine takes them; more marks wait in the connection. */
TEST(marks_wait)
{
	struct frame f = {.type = FRAME_MARK};
	uint16_t sent = 0;
	AT_END(end_close_fd) int fd = target_guest();

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
	target->ops->stop(target); /* acknowledged marks are not lost */
	while (target->ops->poll_marks(target, 1000, count_mark, NULL))
		;
	CHECK_EQ(marks, sent);
}
