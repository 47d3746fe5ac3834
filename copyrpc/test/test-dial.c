/* SPDX-License-Identifier: MIT */
/* Connections that are made inside polls: one thread serves all sides, so no function may block. */
#include <poll.h>
#include <sys/random.h>

#include "support/stranger.h"
#include "dial.h"
#include "lobby.h"

static bool no_random;

ssize_t __real_getrandom(void *buf, size_t len, unsigned flags);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	if (!no_random)
		return __real_getrandom(buf, len, flags);
	errno = ENOSYS;
	return -1;
}

TEST(up_and_down)
{
	struct copyrpc_ep_attr ep = {.user = &ep, .name = "the server"};
	const struct copyrpc_dial_attr a = {.ep = &ep};
	NODES n[2];

	open_nodes(n);
	CHECK_EQ(copyrpc_dial(n[0].ctx, &a, "127.0.0.1", n[1].port, FAR_MS, 7), 0);
	memset(&ep, 0, sizeof(ep)); /* was copied */
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	CHECK_EQ(n[0].up.token, 7);
	CHECK_EQ(n[1].up.token, 1);
	CHECK(copyrpc_ep_user(n[0].up.ep) == &ep);
	CHECK(described(n[0].up.ep, "(the server): connected"));
	CHECK(described(n[1].up.ep, "(127.0.0.1:"));
	call_both(n);
	copyrpc_ep_destroy(n[0].up.ep);
	CHECK_EQ(copyrpc_call(n[1].up.ep, "x", 1, 1, 0), 0);
	while (!n[1].downs)
		turn_both(n);
	CHECK(n[1].last.ep == n[1].up.ep && n[1].last.token == 1);
	CHECK(n[1].last.status < 0); /* of a goodbye, or of a probe: the test's clock runs faster
					than the HCA's */
	CHECK_EQ(n[0].downs, 0);
}

/* A context that listens may use copyrpc_connect(), but not copyrpc_accept() with its listener. */
TEST(waiting_and_listening)
{
	struct copyrpc_ep *ep;
	NODES n[2];

	open_nodes(n);
	n[0].ctx->clock = clock_ns;
	dial(&n[1], n[0].port, false, 3);
	CHECK_EQ(copyrpc_accept(n[0].ctx, NULL, n[0].listener, 0, &ep), -EBUSY);
	CHECK_EQ(copyrpc_listen(n[0].ctx, NULL, n[0].listener, 0), -EBUSY);
	CHECK_EQ(copyrpc_unlisten(n[0].ctx, n[1].listener), -ENOENT);
	/* Nobody answers: n[1] is polled by this thread, which waits in copyrpc_connect().
	 * Meanwhile n[0] accepts the connection of the dial. */
	CHECK_EQ(copyrpc_connect(n[0].ctx, NULL, "127.0.0.1", n[1].port, 100, &ep), -ETIMEDOUT);
	CHECK_EQ(container_of(n[0].ctx->side, struct lobby, side)->came, 1);
	n[0].ctx->clock = stopped_clock;
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	CHECK_EQ(n[0].ups, 1);
}

/* The first request arrives before the result that TCP carries, and the program destroys the
 * endpoint. */
TEST(destroyed_before_up)
{
	struct copyrpc_req *req;
	NODES n[2];

	open_nodes(n);
	dial(&n[0], n[1].port, false, 7);
	while (!n[0].ups) {
		turn(&n[0]);
		if (!n[0].ups)
			turn(&n[1]);
	}
	CHECK_EQ(n[1].ups, 0);
	CHECK_EQ(copyrpc_call(n[0].up.ep, "x", 1, 1, 0), 0);
	copyrpc_flush(n[0].ctx);
	n[1].ctx->side->stepped = now; /* this poll does not look at connections */
	copyrpc_poll(n[1].ctx, hear, &n[1].heard);
	CHECK_EQ(copyrpc_recv(n[1].ctx, &req), 1);
	copyrpc_ep_destroy(copyrpc_req_ep(req));
	copyrpc_reply(req, NULL, 0);
	while (!n[0].downs)
		turn_both(n);
	CHECK_EQ(n[1].ups, 0);
	CHECK_EQ(alive(&n[1]), 0);
}

/* ------------------------------------------------------------------ both dial */

/* Polls one of the two at random until both dials have ended. */
static void meet_at_random(struct node n[2], uint64_t *seed)
{
	uint64_t left = 1000000;

	while (n[0].up.token != 7 || n[1].up.token != 7 || alive(&n[0]) != 1 || alive(&n[1]) != 1) {
		turn(&n[test_rand(seed) % 2]);
		CHECK(--left);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(n[i].ups, 1);
		CHECK_EQ(n[i].gones + n[i].downs, 0);
	}
}

/* Any order of the steps results in one connection; both dials' events name its endpoint. */
TEST(both_dial)
{
	uint64_t seed = test_seed();
	uint32_t refused = 0;

	for (int round = 0; round < 40; round++) {
		NODES n[2];

		open_nodes(n);
		for (int i = 0; i < 2; i++) {
			dial(&n[i], n[!i].port, true, 7);
			for (uint64_t k = test_rand(&seed) % 8; k; k--)
				turn(&n[test_rand(&seed) % 2]);
		}
		meet_at_random(n, &seed);
		refused += (n[0].up.status == -EISCONN) + (n[1].up.status == -EISCONN);
		call_both(n);
		CHECK_EQ(alive(&n[0]) + alive(&n[1]), 2);
	}
	CHECK_EQ(refused, 40);
}

/* Each dial without `single`, and each dial of a context to itself, makes a connection. */
TEST(several_connections)
{
	NODES n[2];

	open_nodes(n);
	dial(&n[0], n[1].port, false, 7);
	dial(&n[1], n[0].port, false, 7);
	dial(&n[0], n[1].port, true, 7);
	while (n[0].ups + n[1].ups < 6)
		turn_both(n);
	CHECK_EQ(alive(&n[0]), 3);
	dial(&n[0], n[0].port, true, 7);
	dial(&n[0], n[0].port, true, 7);
	while (n[0].ups < 7)
		turn_both(n);
	CHECK_EQ(alive(&n[0]), 7);
}

/* A second dial gets the same endpoint. When one side has destroyed its endpoint, its next dial
 * makes a new connection, and the other side's old endpoint fails. */
TEST(single_again)
{
	for (int i = 0; i < 8; i++) {
		const int who = i % 2, calls = i / 2 % 2;
		struct copyrpc_ep *first;
		NODES n[2];

		open_nodes(n);
		dial(&n[0], n[1].port, true, 7);
		while (n[0].ups + n[1].ups < 2)
			turn_both(n);
		first = n[who].up.ep;
		dial(&n[who], n[!who].port, true, 8);
		while (n[who].up.token != 8)
			turn_both(n);
		CHECK(n[who].up.ep == first && n[who].up.status == -EISCONN);
		n[calls].up.ep->left = i >= 4; /* its goodbye is lost */
		copyrpc_ep_destroy(n[calls].up.ep);
		n[calls].up.ep = NULL;
		dial(&n[calls], n[!calls].port, true, 9);
		while (n[calls].up.token != 9 || n[!calls].ups < 2 || alive(&n[0]) != 1 ||
			alive(&n[1]) != 1)
			turn_both(n);
		CHECK_EQ(n[!calls].downs, 1);
		CHECK_EQ(n[calls].downs, 0);
		call_both(n);
	}
}

/* ------------------------------------------------------------------ faulty peers */

/* Polls the node until a connection has arrived at the listener, and accepts it. */
static int accept_raw(struct node *n, int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	int fd;

	while (!poll(&p, 1, 0))
		turn(n);
	fd = accept(listener, NULL, NULL);
	CHECK(fd >= 0);
	return fd;
}

/* Answers each attempt of a dial with these bytes, one byte at a time, until the dial has ended. */
static void answer_raw(struct node *n, int listener, const uint8_t *bytes, size_t len)
{
	uint32_t gones = n->gones;

	while (n->gones == gones) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		int fd;

		turn(n);
		now += FAR_MS / 60 * NSEC_PER_MSEC;
		if (!poll(&p, 1, 0))
			continue;
		fd = accept_raw(n, listener);
		for (size_t i = 0; i < len; i++) {
			send(fd, bytes + i, 1, MSG_NOSIGNAL);
			turn(n);
		}
		shutdown(fd, SHUT_WR);
		turn(n);
		close(fd);
	}
}

/* Stores a valid greeting and result in @bytes. The greeting is that of a dial whose connection
 * this thread accepts. */
static void take_greeting(struct node n[2], uint8_t bytes[144])
{
	int listener, fd;

	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), false, 2);
	fd = accept_raw(&n[0], listener);
	while (recv(fd, bytes, 128, MSG_DONTWAIT | MSG_PEEK) < 128)
		turn(&n[0]);
	CHECK_EQ(recv(fd, bytes, 128, MSG_DONTWAIT), 128);
	memset(bytes + 128, 0, 16);
	memcpy(bytes + 128, "CPRPCRES", 8);
	CHECK_EQ(copyrpc_dial_cancel(n[0].ctx, 2), 1);
	turn(&n[0]);
	CHECK_EQ(n[0].gone.status, -ECANCELED);
	CHECK_EQ(recv(fd, bytes, 1, MSG_DONTWAIT), 0); /* the socket was closed */
	bytes[0] = 'C';
	close(fd);
	close(listener);
}

TEST(answers_are_checked)
{
	static const struct {
		int at, len, with, status;
		bool single;
	} wrong[] = {{0, 144, 0x40, -EPROTO, false}, {7, 144, 0x40, -EPROTO, false},
		{8, 144, 1, -EPROTONOSUPPORT, false}, {10, 144, 1, -EPROTO, false},
		{12, 144, 2, -EPROTO, false}, {24, 144, 1, -EINVAL, false},
		{32, 144, 1, -EPROTONOSUPPORT, false}, {128, 144, 1, -EPROTO, false},
		{140, 144, 1, -EPROTO, false}, {136, 144, EIO, -ECONNREFUSED, false},
		{136, 144, EISCONN, -ECONNREFUSED, false}, {136, 144, EISCONN, -ETIMEDOUT, true},
		{136, 144, EMFILE, -ECONNRESET, false}, {0, 143, 0, -ECONNRESET, false},
		{0, 0, 0, -ECONNRESET, false}};
	uint8_t right[144], bytes[144];
	NODES n[2];
	AT_END(end_close_fd) int listener;

	open_nodes(n);
	take_greeting(n, right);
	right[120] ^= 1; /* another context */
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		printf("  byte %d, %d bytes\n", wrong[i].at, wrong[i].len);
		memcpy(bytes, right, sizeof(bytes));
		bytes[wrong[i].at] ^= wrong[i].with;
		dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), wrong[i].single, 100 + i);
		answer_raw(&n[0], listener, bytes, (size_t)wrong[i].len);
		CHECK_EQ(n[0].gone.status, wrong[i].status);
		CHECK_EQ(n[0].gone.token, 100 + i);
		CHECK(!n[0].gone.ep);
		CHECK_EQ(alive(&n[0]), 0);
	}
	memcpy(bytes, right, sizeof(bytes));
	memset(bytes + 24, 0, 96); /* a refusal without a reason */
	dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), false, 5);
	answer_raw(&n[0], listener, bytes, sizeof(bytes));
	CHECK_EQ(n[0].gone.status, -EPROTO);
	CHECK_EQ(n[0].ups, 0);
}

/* An endpoint that fails before the peer's result arrives does not come up. */
TEST(failed_in_the_handshake)
{
	uint8_t answer[144];
	NODES n[2];
	AT_END(end_close_fd) int listener;
	uint32_t gones;
	int fd;

	open_nodes(n);
	take_greeting(n, answer);
	answer[120] ^= 1; /* another context */
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), false, 3);
	gones = n[0].gones;
	fd = accept_raw(&n[0], listener);
	CHECK_EQ(send(fd, answer, 128, MSG_NOSIGNAL), 128);
	while (!n[0].ctx->eps || n[0].ctx->eps->ch.status)
		turn(&n[0]);
	ep_break(n[0].ctx->eps, -EIO);
	CHECK_EQ(send(fd, answer + 128, 16, MSG_NOSIGNAL), 16);
	while (!n[0].ups && n[0].gones == gones) {
		turn(&n[0]);
		now += FAR_MS / 60 * NSEC_PER_MSEC;
	}
	CHECK_EQ(n[0].ups, 0);
	CHECK_EQ(alive(&n[0]), 0);
	close(fd);
}

/* An accepting side that refuses the version of the blob sends its own version. */
TEST(both_sides_know_the_versions)
{
	AT_END(end_close_fd) int fd = -1;
	uint8_t bytes[144];
	char line[128];
	NODES n[2];

	open_nodes(n);
	take_greeting(n, bytes);
	bytes[32]--;
	fd = stranger_connect(n[1].port);
	CHECK_EQ(send(fd, bytes, 128, 0), 128);
	while (recv(fd, bytes, 144, MSG_DONTWAIT | MSG_PEEK) < 144)
		turn(&n[1]);
	CHECK_EQ(recv(fd, bytes, 144, 0), 144);
	CHECK(!memcmp(bytes + 24, "CPRPCINF\5", 9) && bytes[136] == EPROTONOSUPPORT);
	copyrpc_ctx_versions(n[1].ctx, line, sizeof(line));
	CHECK(strstr(line, "has version 4 of the connection blob"));
}

TEST(nobody_is_there)
{
	NODES n[2];
	int listener, keeps;

	open_nodes(n);
	CHECK_EQ(copyrpc_dial(n[0].ctx, NULL, "no host.invalid", 1, 0, 1), -EADDRNOTAVAIL);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	/* A process listens, but does not accept. */
	dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), false, 4);
	for (int i = 0; i < 10; i++)
		turn(&n[0]);
	CHECK_EQ(n[0].gones, 0);
	now += FAR_MS * NSEC_PER_MSEC;
	turn(&n[0]);
	CHECK_EQ(n[0].gones, 1);
	CHECK_EQ(n[0].gone.status, -ETIMEDOUT);
	/* No process listens: the dial is tried again, and succeeds when one listens. */
	close(listener);
	copyrpc_unlisten(n[1].ctx, n[1].listener);
	close(n[1].listener);
	keeps = refusing_port(&n[1].port);
	dial(&n[0], n[1].port, false, 5);
	for (int i = 0; i < 100; i++)
		turn(&n[0]);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", n[1].port, &n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 1), 0);
	while (!n[0].ups)
		turn_both(n);
	CHECK_EQ(copyrpc_unlisten(n[1].ctx, n[1].listener), 0);
	close(n[1].listener);
	dial(&n[0], n[1].port, false, 6);
	turn(&n[0]);
	now += FAR_MS * NSEC_PER_MSEC;
	while (n[0].gones < 2)
		turn(&n[0]);
	CHECK_EQ(n[0].gone.status, -ECONNREFUSED);
	n[1].listener = -1;
	dial(&n[0], n[1].port, false, 6); /* ends with the context */
	close(keeps);
}

/* The library refuses descriptors, ring sizes and paths with which no endpoint can be connected. */
TEST(no_listener)
{
	const struct copyrpc_ep_attr odd = {.ring_size = 5000};
	const struct copyrpc_listen_attr listen = {.ep = &odd};
	const struct copyrpc_dial_attr dials = {.ep = &odd};
	static const struct copyrpc_path wrong = {.sl = 16};
	const struct copyrpc_ep_attr wrong_way = {.path = &wrong};
	const struct copyrpc_listen_attr listen_wrong = {.ep = &wrong_way};
	int fd[] = {socket(AF_INET, SOCK_STREAM, 0), socket(AF_INET, SOCK_DGRAM, 0), -1, -1};
	const int want[] = {-EINVAL, -EINVAL, -ENOTSOCK, -EBADF};
	struct copyrpc_ep *ep;
	NODES n[2];

	open_nodes(n);
	fd[2] = copyrpc_ctx_fd(n[0].ctx);
	for (int i = 0; i < 4; i++) {
		CHECK_EQ(copyrpc_listen(n[0].ctx, NULL, fd[i], 0), want[i]);
		CHECK_EQ(copyrpc_accept(n[0].ctx, NULL, fd[i], 0, &ep), want[i]);
	}
	close(fd[0]);
	close(fd[1]);
	CHECK_EQ(copyrpc_unlisten(n[1].ctx, n[1].listener), 0);
	CHECK_EQ(copyrpc_listen(n[1].ctx, &listen, n[1].listener, 0), -EINVAL);
	CHECK_EQ(copyrpc_listen(n[1].ctx, &listen_wrong, n[1].listener, 0), -EINVAL);
	n[1].ctx->path = wrong; /* as if it was an attribute of the context */
	CHECK_EQ(copyrpc_listen(n[1].ctx, NULL, n[1].listener, 0), -EINVAL);
	CHECK_EQ(copyrpc_accept(n[1].ctx, NULL, n[1].listener, 0, &ep), -EINVAL);
	CHECK_EQ(copyrpc_dial(n[0].ctx, &dials, "127.0.0.1", n[1].port, FAR_MS, 0), -EINVAL);
}

/* A dial that gets no random number ends, and keeps no endpoint. */
TEST(no_number)
{
	NODES n[2];

	open_nodes(n);
	no_random = true;
	dial(&n[0], n[1].port, false, 5);
	while (!n[0].gones)
		turn(&n[0]);
	no_random = false;
	CHECK_EQ(n[0].gone.status, -ENOSYS);
	CHECK(!n[0].ctx->eps);
}

/* While the server has no room for an endpoint, the dial is tried again. */
TEST(full_server)
{
	NODES n[2];

	open_node(&n[0], 16, NULL);
	open_node(&n[1], 1, NULL);
	dial(&n[0], n[1].port, false, 1);
	dial(&n[0], n[1].port, false, 2);
	for (int i = 0; i < 200 || n[1].ups < 1; i++)
		turn_both(n);
	CHECK_EQ(n[0].ups, 1);
	CHECK_EQ(n[0].gones, 0);
	copyrpc_ep_destroy(n[1].up.ep);
	while (n[0].ups < 2)
		turn_both(n);
}

/* ------------------------------------------------------------------ strangers */

/* Strangers that send nothing or a part of a greeting, then an honest client; at most four
 * connections are in progress. The only endpoint is left for the client. The strangers are closed
 * when their time is over. */
TEST(strangers_hold_sockets)
{
	const struct copyrpc_listen_attr attr = {.max_guests = 4, .patience_ms = 100};
	int open = 0, fd[100];
	NODES n[2];

	open_node(&n[0], 1, NULL);
	open_node(&n[1], 1, &attr);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		fd[i] = stranger_connect(n[1].port);
		if (i % 2)
			stranger_say(fd[i], "CPRPCTCP\2\0\200\0", 12);
	}
	for (int i = 0; i < 50; i++)
		turn(&n[1]);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		open += !closed_by_peer(fd[i]);
	CHECK_EQ(open, 4);
	CHECK_EQ(copyrpc_ctx_arm(n[1].ctx), 0);
	CHECK(copyrpc_ctx_timeout(n[1].ctx) > 0 && copyrpc_ctx_timeout(n[1].ctx) <= 100);
	dial(&n[0], n[1].port, false, 1);
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	call_both(n);
	now += 100 * NSEC_PER_MSEC;
	turn(&n[1]);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		CHECK(closed_by_peer(fd[i]));
		if (fd[i] != fileno(stdout))
			close(fd[i]);
	}
	CHECK_EQ(n[1].ups, 1);
}

/* All descriptors below a lowered limit are in use, until give_descriptors() is called. */
struct shortage {
	struct rlimit limit;
	int fd[256], n;
};

static void take_descriptors(struct shortage *s, int fd)
{
	struct rlimit few;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &s->limit), 0);
	few = (struct rlimit){ARRAY_SIZE(s->fd), s->limit.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	s->n = 0;
	while ((s->fd[s->n] = dup(fd)) >= 0)
		s->n++;
	CHECK_EQ(errno, EMFILE);
}

static void give_descriptors(struct shortage *s)
{
	while (s->n)
		close(s->fd[--s->n]);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &s->limit), 0);
}

/* While no descriptor is free, the context ignores the listener for a while, and does not spin. If
 * a stranger is connected, the context closes that connection instead. */
TEST(no_descriptor_is_free)
{
	int stranger[2];
	struct shortage s;
	NODES n[2];

	open_nodes(n);
	turn_both(n);
	stranger[0] = stranger_connect(n[1].port);
	take_descriptors(&s, n[1].listener);
	turn(&n[1]);
	CHECK(copyrpc_ctx_timeout(n[1].ctx) > 0);
	CHECK_EQ(copyrpc_ctx_arm(n[1].ctx), 0);
	CHECK_EQ(readable(n[1].ctx, 0), 0);
	give_descriptors(&s);
	for (int i = 0; i < 100; i++)
		turn(&n[1]);
	stranger[1] = stranger_connect(n[1].port);
	take_descriptors(&s, n[1].listener);
	turn(&n[1]);
	CHECK(closed_by_peer(stranger[0]));
	CHECK(!closed_by_peer(stranger[1]));
	give_descriptors(&s);
	dial(&n[0], n[1].port, false, 1);
	while (!n[0].ups)
		turn_both(n);
	close(stranger[0]);
	close(stranger[1]);
}
