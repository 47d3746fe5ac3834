/* SPDX-License-Identifier: MIT */
/* Connecting inside polls: one thread serves all sides, so nothing may wait. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/stranger.h"
#include "copyrpc_tcp.h"
#include "timed.h"

#define LIMIT_MS 60000 /* of the stopped clock */
#define SECOND NSEC_PER_SEC

/* A context that listens, and what its events have said. */
struct node {
	struct copyrpc_ctx *ctx;
	int listener;
	uint16_t port;
	uint32_t ups, downs, gones;
	struct copyrpc_event last, up, gone;
	struct heard heard;
};

static void open_node(struct node *n, uint32_t endpoints, const struct copyrpc_listen_attr *attr)
{
	const struct copyrpc_ctx_attr a = {.max_endpoints = endpoints, .ring_size = 4096};

	memset(n, 0, sizeof(*n));
	CHECK_EQ(copyrpc_ctx_create(&a, &n->ctx), 0);
	stop_clock(n->ctx);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &n->listener), 0);
	n->port = (uint16_t)copyrpc_tcp_port(n->listener);
	CHECK_EQ(copyrpc_listen(n->ctx, attr, n->listener, 1), 0);
}

static void close_node(struct node *n)
{
	copyrpc_ctx_destroy(n->ctx);
	close(n->listener);
}

static void open_nodes(struct node n[2])
{
	open_node(&n[0], 16, NULL);
	open_node(&n[1], 16, NULL);
}

static void close_nodes(struct node n[2])
{
	close_node(&n[0]);
	close_node(&n[1]);
}

/* Polls once, a millisecond later, and takes all events and requests. */
static void turn(struct node *n)
{
	const uint32_t most = n->ctx->n_eps + (n->ctx->armed ? 2 : 1);

	now += NSEC_PER_MSEC;
	copyrpc_poll(n->ctx, hear, &n->heard);
	CHECK(n->ctx->n_eps <= most);
	while (copyrpc_event_recv(n->ctx, &n->last, sizeof(n->last))) {
		n->ups += n->last.kind == COPYRPC_UP && !n->last.status;
		n->downs += n->last.kind == COPYRPC_DOWN;
		n->gones += n->last.kind == COPYRPC_GONE;
		if (n->last.kind == COPYRPC_UP)
			n->up = n->last;
		if (n->last.kind == COPYRPC_GONE)
			n->gone = n->last;
	}
	echo_all(n->ctx);
}

static void turn_both(struct node n[2])
{
	turn(&n[0]);
	turn(&n[1]);
}

static void dial(struct node *from, uint16_t port, bool single, uint64_t token)
{
	const struct copyrpc_dial_attr a = {.single = single};

	CHECK_EQ(copyrpc_dial(from->ctx, &a, "127.0.0.1", port, LIMIT_MS, token), 0);
}

/* Endpoints that can be used. */
static uint32_t alive(const struct node *n)
{
	uint32_t count = 0;

	for (const struct copyrpc_ep *ep = n->ctx->eps; ep; ep = ep->next)
		count += ep->qp && !ep->ch.status;
	return count;
}

/* A call in each direction over the only connection. */
static void call_both(struct node n[2])
{
	for (int i = 0; i < 2; i++) {
		uint32_t ok = n[i].heard.ok;

		CHECK_EQ(copyrpc_call(n[i].up.ep, "x", 1, 1, 0), 0);
		while (n[i].heard.ok == ok)
			turn_both(n);
		CHECK_EQ(n[i].heard.failed, 0);
	}
}

TEST(up_and_down)
{
	struct copyrpc_ep_attr ep = {.user = &ep, .name = "the server"};
	const struct copyrpc_dial_attr a = {.ep = &ep};
	struct node n[2];
	char line[256];

	open_nodes(n);
	CHECK_EQ(copyrpc_dial(n[0].ctx, &a, "127.0.0.1", n[1].port, LIMIT_MS, 7), 0);
	memset(&ep, 0, sizeof(ep)); /* was copied */
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	CHECK_EQ(n[0].up.token, 7);
	CHECK_EQ(n[1].up.token, 1);
	CHECK(copyrpc_ep_user(n[0].up.ep) == &ep);
	copyrpc_ep_describe(n[0].up.ep, line, sizeof(line));
	CHECK(strstr(line, "(the server): connected"));
	copyrpc_ep_describe(n[1].up.ep, line, sizeof(line));
	CHECK(strstr(line, "(127.0.0.1:"));
	call_both(n);
	copyrpc_ep_destroy(n[0].up.ep);
	CHECK_EQ(copyrpc_call(n[1].up.ep, "x", 1, 1, 0), 0);
	while (!n[1].downs)
		turn_both(n);
	CHECK(n[1].last.ep == n[1].up.ep && n[1].last.token == 1);
	CHECK(n[1].last.status < 0); /* that of a reset, or of the probe, whose clock runs faster */
	CHECK_EQ(n[0].downs, 0);
	close_nodes(n);
}

/* The functions that wait, in a context that also listens, let others in meanwhile. */
TEST(waiting_and_listening)
{
	struct copyrpc_ep *ep;
	struct node n[2];

	open_nodes(n);
	n[0].ctx->clock = clock_ns;
	dial(&n[1], n[0].port, false, 3);
	CHECK_EQ(copyrpc_accept(n[0].ctx, NULL, n[0].listener, 0, &ep), -EBUSY);
	CHECK_EQ(copyrpc_listen(n[0].ctx, NULL, n[0].listener, 0), -EBUSY);
	CHECK_EQ(copyrpc_unlisten(n[0].ctx, n[1].listener), -ENOENT);
	/* Nobody answers, because the thread waits here. */
	CHECK_EQ(copyrpc_connect(n[0].ctx, NULL, "127.0.0.1", n[1].port, 100, &ep), -ETIMEDOUT);
	n[0].ctx->clock = stopped_clock;
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	CHECK_EQ(n[0].ups, 1);
	close_nodes(n);
}

/* The first request arrives before the result over TCP, and the program destroys the endpoint. */
TEST(destroyed_before_up)
{
	struct copyrpc_req *req;
	struct node n[2];

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
	close_nodes(n);
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

/* One connection results from any order of the steps, and both dials name its endpoint. */
TEST(both_dial)
{
	uint64_t seed = test_seed();
	uint32_t refused = 0;

	for (int round = 0; round < 40; round++) {
		struct node n[2];

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
		close_nodes(n);
	}
	CHECK_EQ(refused, 40);
}

/* Without `single`, and to itself, each dial gives a connection. */
TEST(several_connections)
{
	struct node n[2];

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
	close_nodes(n);
}

/* A second dial gets the same endpoint. When one side has destroyed it, a dial of either makes a
 * new connection, and the other side's old endpoint fails. */
TEST(single_again)
{
	for (int i = 0; i < 4; i++) {
		const int who = i % 2, calls = i / 2;
		struct copyrpc_ep *first;
		struct node n[2];

		open_nodes(n);
		dial(&n[0], n[1].port, true, 7);
		while (n[0].ups + n[1].ups < 2)
			turn_both(n);
		first = n[who].up.ep;
		dial(&n[who], n[!who].port, true, 8);
		while (n[who].up.token != 8)
			turn_both(n);
		CHECK(n[who].up.ep == first && n[who].up.status == -EISCONN);
		copyrpc_ep_destroy(n[calls].up.ep);
		n[calls].up.ep = NULL;
		dial(&n[calls], n[!calls].port, true, 9);
		while (n[calls].up.token != 9 || n[!calls].ups < 2 || alive(&n[0]) != 1 ||
			alive(&n[1]) != 1)
			turn_both(n);
		CHECK_EQ(n[!calls].downs, 1);
		CHECK_EQ(n[calls].downs, 0);
		call_both(n);
		close_nodes(n);
	}
}

/* ------------------------------------------------------------------ peers that do wrong */

/* Waits, without a limit of the stopped clock, for a connection. */
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

/* Answers dials with these bytes, one at a time, until the dial has ended. */
static void answer_raw(struct node *n, int listener, const uint8_t *bytes, size_t len)
{
	uint32_t gones = n->gones;

	while (n->gones == gones) {
		struct pollfd p = {.fd = listener, .events = POLLIN};
		int fd;

		turn(n);
		now += SECOND;
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

/* The greeting and the result that a server sends, by a dial to this thread. */
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
		{128, 144, 1, -EPROTO, false}, {140, 144, 1, -EPROTO, false},
		{136, 144, EIO, -ECONNREFUSED, false}, {136, 144, EISCONN, -ECONNREFUSED, false},
		{136, 144, EISCONN, -ETIMEDOUT, true}, {136, 144, EMFILE, -ECONNRESET, false},
		{0, 143, 0, -ECONNRESET, false}, {0, 0, 0, -ECONNRESET, false}};
	uint8_t right[144], bytes[144];
	struct node n[2];
	int listener;

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
	close(listener);
	close_nodes(n);
}

TEST(nobody_is_there)
{
	struct node n[2];
	int listener;

	open_nodes(n);
	CHECK_EQ(copyrpc_dial(n[0].ctx, NULL, "no host.invalid", 1, 0, 1), -EADDRNOTAVAIL);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	/* A process that does not accept. */
	dial(&n[0], (uint16_t)copyrpc_tcp_port(listener), false, 4);
	for (int i = 0; i < 10; i++)
		turn(&n[0]);
	CHECK_EQ(n[0].gones, 0);
	now += LIMIT_MS * NSEC_PER_MSEC;
	turn(&n[0]);
	CHECK_EQ(n[0].gones, 1);
	CHECK_EQ(n[0].gone.status, -ETIMEDOUT);
	/* None that listens: the dial is tried again, and succeeds when there is one. */
	close(listener);
	copyrpc_unlisten(n[1].ctx, n[1].listener);
	close(n[1].listener);
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
	now += LIMIT_MS * NSEC_PER_MSEC;
	while (n[0].gones < 2)
		turn(&n[0]);
	CHECK_EQ(n[0].gone.status, -ECONNREFUSED);
	n[1].listener = -1;
	dial(&n[0], n[1].port, false, 6); /* ends with the context */
	close_nodes(n);
}

/* A server without room: the dial waits for it. */
TEST(full_server)
{
	struct node n[2];

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
	close_nodes(n);
}

/* ------------------------------------------------------------------ strangers */

static bool closed_by_peer(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* Silent strangers, then an honest client; at most four connections are in progress. The strangers
 * get no endpoint, since there is room for one only, and are closed when their time is over. */
TEST(strangers_hold_sockets)
{
	const struct copyrpc_listen_attr attr = {.max_guests = 4, .patience_ms = 100};
	int open = 0, fd[100];
	struct node n[2];

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
	dial(&n[0], n[1].port, false, 1);
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	call_both(n);
	CHECK_EQ(copyrpc_ctx_arm(n[1].ctx), 0);
	CHECK(copyrpc_ctx_timeout(n[1].ctx) <= 100);
	now += 100 * NSEC_PER_MSEC;
	turn(&n[1]);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		CHECK(closed_by_peer(fd[i]));
		close(fd[i]);
	}
	CHECK_EQ(n[1].ups, 1);
	close_nodes(n);
}

/* Takes all descriptors up to a limit, which may then be raised again. */
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

/* While no descriptor is free the listener is left alone for a while, and nothing spins; if there
 * is a stranger, it is closed instead. */
TEST(no_descriptor_is_free)
{
	int stranger[2];
	struct shortage s;
	struct node n[2];

	open_nodes(n);
	turn_both(n);
	stranger[0] = stranger_connect(n[1].port);
	take_descriptors(&s, n[1].listener);
	turn(&n[1]);
	CHECK(copyrpc_ctx_timeout(n[1].ctx) > 0);
	CHECK_EQ(copyrpc_ctx_arm(n[1].ctx), 0);
	CHECK_EQ(poll(&(struct pollfd){.fd = copyrpc_ctx_fd(n[1].ctx), .events = POLLIN}, 1, 0), 0);
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
	close_nodes(n);
}

/* ------------------------------------------------------------------ polls do not wait */

static uint32_t system_calls;

int __real_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
ssize_t __real_recv(int fd, void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
	system_calls++;
	CHECK_EQ(timeout, 0);
	return __real_epoll_wait(fd, events, most, timeout);
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	system_calls++;
	return __real_poll(fds, n, timeout);
}

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	system_calls++;
	return __real_accept4(fd, addr, len, flags);
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	system_calls++;
	CHECK(flags & MSG_DONTWAIT);
	return __real_recv(fd, buf, len, flags);
}

int __real_epoll_ctl(int fd, int op, int of, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *event);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
	system_calls++;
	return __real_epoll_ctl(fd, op, of, event);
}

int __wrap_socket(int domain, int type, int protocol)
{
	system_calls++;
	return __real_socket(domain, type, protocol);
}

int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	system_calls++;
	return __real_connect(fd, addr, len);
}

int __wrap_close(int fd)
{
	system_calls++;
	return __real_close(fd);
}

/* Strangers come and send a byte each between any two polls. Each call of a client is answered by
 * the server's next poll, and no poll makes more than a fixed number of system calls. */
TEST(calls_go_on)
{
	static const uint8_t greeting[128] = "CPRPCTCP\2\0\200"; /* is never complete */
	const struct copyrpc_listen_attr attr = {.max_guests = 100};
	uint32_t most = 0;
	struct node n[2];
	int fd[300];

	open_node(&n[0], 4, NULL);
	open_node(&n[1], 4, &attr);
	dial(&n[0], n[1].port, false, 1);
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		uint32_t ok = n[0].heard.ok;

		fd[i] = stranger_connect(n[1].port);
		for (size_t k = 0; k <= i; k++) {
			ssize_t rc = send(fd[k], greeting + (i - k) % 127, 1, MSG_NOSIGNAL);

			CHECK(rc == 1 || errno == EPIPE || errno == ECONNRESET);
		}
		CHECK_EQ(copyrpc_call(n[0].up.ep, "x", 1, 1, 0), 0);
		turn(&n[0]);
		system_calls = 0;
		turn(&n[1]);
		most = system_calls > most ? system_calls : most;
		copyrpc_flush(n[1].ctx);
		turn(&n[0]);
		CHECK_EQ(n[0].heard.ok, ok + 1);
	}
	printf("  at most %u system calls in a poll\n", most);
	CHECK(most > 8 && most <= 100);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		close(fd[i]);
	close_nodes(n);
}

/* The client calls and the server polls once, @times times. Each call is answered by that poll, which
 * makes a bounded number of system calls and creates one endpoint at most. */
static void call_meanwhile(struct node n[2], int times)
{
	uint32_t most = 0;

	while (times--) {
		uint32_t ok = n[0].heard.ok, made;

		CHECK_EQ(copyrpc_call(n[0].up.ep, "x", 1, 1, 0), 0);
		copyrpc_flush(n[0].ctx);
		made = n[1].ctx->made;
		system_calls = 0;
		turn(&n[1]);
		most = system_calls > most ? system_calls : most;
		CHECK(n[1].ctx->made - made <= 1);
		copyrpc_flush(n[1].ctx);
		turn(&n[0]);
		CHECK_EQ(n[0].heard.ok, ok + 1);
	}
	printf("  at most %u system calls in a poll\n", most);
	CHECK(most <= 120);
}

static uint16_t free_port(void)
{
	int listener, port;

	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	port = copyrpc_tcp_port(listener);
	close(listener);
	return (uint16_t)port;
}

static int open_sockets(const int fd[], int n)
{
	int open = 0;

	while (n--)
		open += !closed_by_peer(fd[n]);
	return open;
}

/* Each crowd comes, and its time ends, all at once: strangers, dials that are refused, and dials
 * that nobody answers. */
TEST(crowds_delay_no_call)
{
	const struct copyrpc_listen_attr attr = {.max_guests = 200, .patience_ms = 1000};
	uint16_t closed = free_port(), silent;
	int fd[200], listener;
	struct node n[2];

	open_node(&n[0], 4, NULL);
	open_node(&n[1], 4, &attr);
	dial(&n[0], n[1].port, false, 1);
	while (!n[0].ups || !n[1].ups)
		turn_both(n);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++)
		fd[i] = stranger_connect(n[1].port);
	call_meanwhile(n, 100);
	CHECK_EQ(open_sockets(fd, ARRAY_SIZE(fd)), ARRAY_SIZE(fd));
	now += SECOND;
	call_meanwhile(n, 100);
	CHECK_EQ(open_sockets(fd, ARRAY_SIZE(fd)), 0);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", 0, &listener), 0);
	silent = (uint16_t)copyrpc_tcp_port(listener);
	for (size_t i = 0; i < ARRAY_SIZE(fd); i++) {
		close(fd[i]);
		dial(&n[1], i % 2 ? closed : silent, false, 2);
	}
	call_meanwhile(n, 400);
	CHECK_EQ(n[1].gones, 0);
	now += LIMIT_MS * NSEC_PER_MSEC;
	call_meanwhile(n, 100);
	CHECK_EQ(n[1].gones, ARRAY_SIZE(fd));
	close(listener);
	close_nodes(n);
}

/* More dials are refused than a millisecond of polls can try again: each is tried now and then. */
TEST(refused_dials_take_turns)
{
	uint16_t closed = free_port(), port = free_port();
	struct node n[2];
	int listener;

	open_nodes(n);
	dial(&n[1], port, false, 1);
	for (int i = 0; i < 200; i++)
		dial(&n[1], closed, false, 2);
	for (int i = 0; i < 100; i++)
		turn(&n[1]);
	CHECK_EQ(copyrpc_tcp_listen("127.0.0.1", port, &listener), 0);
	CHECK_EQ(copyrpc_listen(n[0].ctx, NULL, listener, 1), 0);
	for (int i = 0; i < 1000 && !n[1].ups; i++)
		turn_both(n);
	CHECK_EQ(n[1].up.token, 1);
	close_nodes(n);
	close(listener);
}

/* Two programs that poll only when their descriptors or their times say so. */
TEST(sleepers_connect)
{
	struct node n[2];

	open_nodes(n);
	for (int i = 0; i < 2; i++) {
		n[i].ctx->clock = clock_ns;
		n[i].ctx->look_always = false;
		dial(&n[i], n[!i].port, true, 7);
	}
	while (n[0].up.token != 7 || n[1].up.token != 7) {
		struct pollfd p[2];

		for (int i = 0; i < 2; i++) {
			bool ready = copyrpc_ctx_arm(n[i].ctx);

			p[i] = (struct pollfd){.fd = copyrpc_ctx_fd(n[i].ctx), .events = POLLIN};
			if (ready || !copyrpc_ctx_timeout(n[i].ctx) || __real_poll(&p[i], 1, 0))
				turn(&n[i]);
		}
	}
	close_nodes(n);
}
