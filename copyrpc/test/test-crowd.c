/* SPDX-License-Identifier: MIT */
/* A poll never waits, and its work for connections is bounded, so that calls continue. */
#include <poll.h>
#include <sys/epoll.h>

#include "support/stranger.h"
#include "dial.h"

static uint32_t system_calls, set_ups; /* set_ups: queue pairs created or connected */
static int poll_error; /* the error of poll(2); 0: it works */

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
	errno = poll_error;
	return poll_error ? -1 : __real_poll(fds, n, timeout);
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

/* A function that waits returns the error of poll(2), and leaves no endpoint. */
TEST(no_waiting_without_poll)
{
	struct copyrpc_ep *ep;
	NODES n[2];

	open_nodes(n);
	n[0].ctx->clock = clock_ns;
	poll_error = ENOMEM;
	CHECK_EQ(copyrpc_connect(n[0].ctx, NULL, "127.0.0.1", n[1].port, 100, &ep), -ENOMEM);
	poll_error = 0;
	CHECK_EQ(alive(&n[0]), 0);
	CHECK_EQ(copyrpc_dial_cancel(n[0].ctx, 0), 0);
}

int __real_epoll_ctl(int fd, int op, int of, struct epoll_event *event);
int __wrap_epoll_ctl(int fd, int op, int of, struct epoll_event *event);
int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);
int __real_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr *addr, socklen_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

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

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	system_calls++;
	return __real_setsockopt(fd, level, name, value, len);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	system_calls++;
	return __real_getsockopt(fd, level, name, value, len);
}

/* A stranger is a connection that never completes a greeting. Between two polls another stranger
 * comes, and each stranger sends a byte. Each call of a client is answered by the server's next
 * poll, and no poll makes more than a fixed number of system calls. */
TEST(calls_go_on)
{
	static const uint8_t greeting[128] = "CPRPCTCP\2\0\200"; /* is never complete */
	const struct copyrpc_listen_attr attr = {.max_guests = 100};
	uint32_t most = 0;
	NODES n[2];
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
}

/* The client calls and the server polls once, @times times. Each call is answered by that poll,
 * which makes a bounded number of system calls and creates few queue pairs. */
static void call_meanwhile(struct node n[2], int times)
{
	uint32_t most = 0;

	while (times--) {
		uint32_t ok = n[0].heard.ok;

		CHECK_EQ(copyrpc_call(n[0].up.ep, "x", 1, 1, 0), 0);
		copyrpc_flush(n[0].ctx);
		system_calls = set_ups = 0;
		turn(&n[1]);
		most = system_calls > most ? system_calls : most;
		CHECK(set_ups <= 4);
		copyrpc_flush(n[1].ctx);
		turn(&n[0]);
		CHECK_EQ(n[0].heard.ok, ok + 1);
	}
	printf("  at most %u system calls in a poll\n", most);
	CHECK(most <= 120);
}

static int open_sockets(const int fd[], int n)
{
	int open = 0;

	while (n--)
		open += !closed_by_peer(fd[n]);
	return open;
}

/* Many strangers come at once, and time out at once; then many dials start at once, which are
 * refused or get no answer, and time out at once. */
TEST(crowds_delay_no_call)
{
	const struct copyrpc_listen_attr attr = {.max_guests = 200, .patience_ms = 1000};
	uint16_t closed, silent;
	AT_END(end_close_fd) int refuses = refusing_port(&closed);
	int fd[200], listener;
	NODES n[2];

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
	now += FAR_MS * NSEC_PER_MSEC;
	call_meanwhile(n, 100);
	CHECK_EQ(n[1].gones, ARRAY_SIZE(fd));
	close(listener);
}

int __real_mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p);
int __wrap_mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p);
int __real_mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer,
	size_t size);
int __wrap_mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer,
	size_t size);

int __wrap_mlx5dvl_qp_create(struct mlx5dvl_ctx *ctx, const struct mlx5dvl_qp_attr *attr,
	struct mlx5dvl_qp **qp_p)
{
	set_ups++;
	return __real_mlx5dvl_qp_create(ctx, attr, qp_p);
}

int __wrap_mlx5dvl_qp_connect(struct mlx5dvl_qp *qp, const struct mlx5dvl_qp_info *peer,
	size_t size)
{
	set_ups++;
	return __real_mlx5dvl_qp_connect(qp, peer, size);
}

#define MANY 40

/* Many dials begin at once. Later all their endpoints lose their connections at once; they are
 * connected again, which takes longer because the port of the listening side is down for a while.
 * No poll creates, replaces or connects more than a few queue pairs. */
TEST(many_connect_at_once)
{
	uint32_t most_calls = 0, most = 0, down = 1000;
	NODES n[2];

	for (int i = 0; i < 2; i++) {
		open_node(&n[i], MANY + 1, NULL);
		n[i].ctx->attr.reconnect_ms = FAR_MS;
	}
	for (int i = 0; i < MANY; i++)
		dial(&n[0], n[1].port, false, 7);
	for (bool lost = false; !lost || returns(&n[0]) + returns(&n[1]) < (uint64_t)2 * MANY;) {
		for (int i = 0; i < 2; i++) {
			system_calls = set_ups = 0;
			turn(&n[i]);
			most_calls = system_calls > most_calls ? system_calls : most_calls;
			most = set_ups > most ? set_ups : most;
		}
		n[1].ctx->port_down = lost && down && down--;
		if (lost || n[0].ups + n[1].ups < 2 * MANY)
			continue;
		lost = true;
		for (int i = 0; i < 2; i++)
			for (struct copyrpc_ep *ep = n[i].ctx->eps; ep; ep = ep->next)
				ep_leave(ep, -ECONNRESET);
	}
	printf("  at most %u queue pairs and %u system calls in a poll\n", most, most_calls);
	CHECK(most <= 4 && most_calls <= 120);
}

/* More dials are refused than the polls of a millisecond can retry, so the dials take turns. */
TEST(refused_dials_take_turns)
{
	uint16_t closed, port;
	AT_END(end_close_fd) int refuses = refusing_port(&closed);
	AT_END(end_close_fd) int keeps = refusing_port(&port);
	NODES n[2];
	AT_END(end_close_fd) int listener;

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
}

/* Two programs poll only when their descriptors are readable or their time-outs have ended. */
TEST(sleepers_connect)
{
	NODES n[2];

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
}
