/* SPDX-License-Identifier: MIT */
/*
 * The transport over TCP without an engine: a peer sends arbitrary replies to an initiator. The
 * test's thread plays both sides.
 */
#include "tcppeer.h"

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

/* Polls the initiator, which has sent all of its frames, until it has read bytes. */
static void takes_bytes(void)
{
	uint64_t until = clock_ns() + GUARD_NS;

	while (it.link->ops->poll(it.link, on_done, NULL) <= 0)
		CHECK(clock_ns() < until);
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

static void close_initiator(void)
{
	it.link->ops->destroy(it.link);
	for (int i = 0; i < STREAMS; i++)
		close(it.fds[i]);
	close(it.listener);
	close_port();
}

/* Makes a link to the test, which accepts its connections. */
static void open_initiator(void)
{
	struct desc peer = {.port = 0};
	struct link_end theirs = {{0}};
	struct tcp_end e = {.token = "a token of 16 B"};
	struct sockaddr_in *at = (struct sockaddr_in *)&peer.at;

	test_finally(close_initiator);
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
	CHECK_EQ(it.link->ops->post_probe(it.link, 6), -ENOTCONN); /* only one probe at a time */
	for (int i = 0; i < STREAMS; i++) {
		struct greeting g;
		struct frame f;

		CHECK_EQ(tcp_accept(it.listener, clock_ns() + GUARD_NS, &it.fds[i]), 0);
		hear(it.fds[i], &g, sizeof(g));
		CHECK(g.magic == TCP_MAGIC && !memcmp(g.token, e.token, TOKEN_LEN));
		hear(it.fds[i], &f, sizeof(f));
		CHECK(f.type == FRAME_PROBE && f.token == 5);
	}
	for (int i = 0; i < STREAMS; i++) {
		CHECK_EQ(it.ended, 0); /* a probe tests all connections */
		answer(it.fds[i], TCP_MAGIC, 0, 5);
		takes_bytes();
	}
	CHECK_EQ(it.ended, 1);
	CHECK_EQ(it.token, 5);
	CHECK_EQ(it.status, 0);
	it.ended = 0;
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

/* Returns the connection on which the next frame arrives, and reads the frame unless @f is NULL. */
static int spoken(struct frame *f)
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
		if (!p[i].revents)
			continue;
		if (f)
			hear(it.fds[i], f, sizeof(*f));
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
			end_status; /* of the second reply to a read; end_magic 0: none */
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
		fd = spoken(&f);
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
	}
}

/* A read gets exactly its own bytes, in whatever portions they come. */
TEST(bytes_of_a_read)
{
	uint8_t bytes[PAGE];
	struct frame f;
	int fd;

	memset(bytes, 'r', sizeof(bytes));
	open_initiator();
	post(false, PAGE, PAGE, 3);
	fd = spoken(&f);
	answer(fd, TCP_MAGIC, 0, 3);
	for (uint32_t i = 0; i < PAGE; i += 512) {
		CHECK_EQ(it.ended, 0);
		stranger_say(fd, bytes, 512);
		it.link->ops->poll(it.link, on_done, NULL);
	}
	CHECK_EQ(it.ended, 0);
	answer(fd, TCP_MAGIC, 0, 3);
	answer(fd, TCP_MAGIC, 0, 99); /* no move has this token */
	ends(1);
	CHECK_EQ(it.status, 0);
	test_filled(memory, PAGE, 'm');
	test_filled(memory + PAGE, PAGE, 'r');
	test_filled(memory + 2 * PAGE, 2 * PAGE, 'm');
}

/* One connection fails: all posted moves end. */
TEST(a_link_fails_as_a_whole)
{
	int fd;

	open_initiator();
	for (uint64_t i = 0; i < LINK_DEPTH; i++)
		post(true, PAGE, 64, i);
	CHECK_EQ(it.link->ops->post(it.link, &(struct link_move){.write = true}), -EAGAIN);
	fd = spoken(NULL);
	shutdown(fd, SHUT_RDWR);
	ends(LINK_DEPTH);
	CHECK(it.status == -ECANCELED || it.status == -EREMOTEIO);
	CHECK_EQ(it.link->posted, 0);
	CHECK_EQ(it.link->ops->post(it.link, &(struct link_move){.write = true}), -ENOTCONN);
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
			fd = spoken(&f);
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
	fd = spoken(&f);
	answer(fd, TCP_MAGIC, 0, 4);
	stranger_say(fd, bytes, 50);
	it.link->ops->stop(it.link);
	ends(1);
	CHECK_EQ(it.status, -ECANCELED);
	test_filled(memory, 4 * PAGE, 'm');
}

/* ---- a peer whose host is gone, and one that is stopped ---- */

/* Returns a socket of this process whose peer has port @to. -1: no socket from @fd on has one. */
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

/* Checks the sockets whose peer has port @to. @alive: keep-alive is on. */
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
 * TCP_USER_TIMEOUT would end the connection to a process that is stopped, so it is not set. While a
 * reply is awaited, keep-alive is on.
 */
TEST(options_of_sockets)
{
	struct frame f;
	AT_END(end_close_fd) int fd;

	open_initiator();
	post(false, PAGE, 100, 4);
	fd = spoken(&f);
	sockets_are((uint16_t)tcp_port(it.listener), true);
	test_now(close_initiator);
	fd = target_guest();
	is_well(fd);
	sockets_are((uint16_t)tcp_port(fd), false);
}

TEST(what_silence_is)
{
	CHECK(!wire_silent(&(struct tcp_info){.tcpi_retransmits = 3, .tcpi_probes = 2}));
	CHECK(wire_silent(&(struct tcp_info){.tcpi_retransmits = 4}));
	CHECK(wire_silent(&(struct tcp_info){.tcpi_probes = 3}));
}

/* Lets the link run for @ns, or until a move has ended. */
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

/*
 * The kernel's timers cannot be accelerated, so only the long form of the test (SOAK) runs this
 * case.
 */
TEST(hosts_that_are_lost)
{
	struct frame f;

	if (!getenv("SOAK"))
		return;
	for (int write = 0; write < 2; write++) {
		open_initiator();
		if (write) {
			lose_host();
			post(true, PAGE, 100, 4);
		} else {
			post(false, PAGE, 100, 4);
			spoken(&f);
			lose_host();
		}
		is_noticed();
	}
}

TEST(a_process_that_is_stopped)
{
	const size_t len = 32u << 20; /* more than the buffers of the sockets hold */
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
			fd = spoken(&f);
			hear(fd, bytes, len);
			answer(fd, TCP_MAGIC, 0, 4);
			ends(1);
			CHECK_EQ(it.status, 0);
		}
	}
	free(m.local);
	free(bytes);
}
