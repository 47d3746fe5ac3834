/* SPDX-License-Identifier: MIT */
/* Events at one end of a connection when the process of the other end is killed. */
#include <fcntl.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include "ends.h"

static void die_as_client(int fd)
{
	uint32_t id;

	cch = raw_open(0);
	id = request(RDMA_PS_TCP, CLIENT, server_port);
	if (last_stage >= ACCEPTED)
		raw_expect(cch, CONNECT_RESPONSE, CLIENT);
	if (last_stage >= CONNECTED)
		CHECK_EQ(raw_accept(cch, id, 0, NULL), 0);
	if (last_stage == DYING)
		CHECK_EQ(raw_disconnect(cch, id), 0);
	await_death(fd);
}

static void die_as_server(int fd)
{
	uint32_t listener;

	sch = raw_open(0);
	server_port = raw_listener(sch, SERVER, LOOP, 0, &listener);
	test_put(fd, &server_port, sizeof(server_port));
	if (last_stage >= READ_REQUEST)
		raw_expect(sch, CONNECT_REQUEST, SERVER);
	await_death(fd);
}

static pid_t start(void (*fn)(int fd), int stage, int *fd_p)
{
	last_stage = stage;
	return test_peer(fn, fd_p);
}

static pid_t start_server(int stage, int *fd_p)
{
	pid_t pid;

	open_channels();
	pid = start(die_as_server, stage, fd_p);
	test_get(*fd_p, &server_port, sizeof(server_port));
	return pid;
}

static void end(pid_t pid, int fd)
{
	test_get(fd, &(char){0}, 1);
	test_kill(pid);
	close(fd);
}

/* As programs do that close all descriptors that they do not know. */
static void close_others(int peer)
{
	for (int fd = 3; fd < 256; fd++)
		if (fd != sch && fd != cch && fd != peer)
			close(fd);
}

/* @closes: the server has called close_others(). */
static void client_dies(int stage, bool closes)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t listener, child = 0;
	pid_t pid;
	int fd;

	server_port = serve(&listener);
	pid = start(die_as_client, stage, &fd);
	if (stage >= READ_REQUEST) {
		CHECK(raw_readable(sch, 60000));
		child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	}
	if (stage >= ACCEPTED)
		CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	if (closes)
		close_others(fd);
	end(pid, fd);
	if (stage >= CONNECTED)
		raw_expect(sch, ESTABLISHED, CHILD);
	if (stage == ACCEPTED)
		raw_expect(sch, REJECTED, CHILD);
	if (stage >= CONNECTED) {
		CHECK(raw_readable(sch, 60000));
		raw_expect(sch, DISCONNECTED, CHILD);
		CHECK_EQ(raw_disconnect(sch, child), 0);
		raw_expect(sch, TIMEWAIT_EXIT, CHILD);
	}
	if (stage == READ_REQUEST)
		raw_accept(sch, child, CHILD, &p); /* fails if the HCA has noticed the death */
	if (child)
		CHECK(raw_destroy(sch, child) >= 0);
	CHECK(raw_destroy(sch, listener) >= 0);
	none_left();
}

TEST_WITH(client_dies_asked, client_dies, ASKED, false);
TEST_WITH(client_dies_after_request, client_dies, READ_REQUEST, false);
TEST_WITH(client_dies_accepted, client_dies, ACCEPTED, false);
TEST_WITH(client_dies_connected, client_dies, CONNECTED, false);
TEST_WITH(client_dies_unknown_descriptors_closed, client_dies, CONNECTED, true);
TEST_WITH(client_dies_dying, client_dies, DYING, false);

/* Returns a number that is one less when a thread of this process has ended. */
static uint64_t threads(void)
{
	struct stat st;

	CHECK(!stat("/proc/self/task", &st));
	return st.st_nlink;
}

/* Returns the descriptor of the library's epoll. */
static int hidden_epoll(void)
{
	int fd = test_descriptor("eventpoll", -1);

	CHECK(fd >= 0);
	return fd;
}

/* Returns a file, or an epoll with an event that is always ready. */
static int file_of_program(bool is_epoll)
{
	struct epoll_event e = {.events = EPOLLOUT, .data.u64 = 3};
	int fd = is_epoll ? epoll_create1(EPOLL_CLOEXEC) : open("/dev/null", O_RDWR | O_CLOEXEC);
	int fds[2];

	CHECK(fd >= 0 && !pipe(fds));
	CHECK(!is_epoll || !epoll_ctl(fd, EPOLL_CTL_ADD, fds[1], &e));
	return fd;
}

/*
 * By a system call of its own, the program replaces the library's epoll. The thread that waits for
 * the ends of other processes ends.
 */
static void epoll_replaced(bool by_epoll)
{
	struct rdma_ucm_conn_param p = raw_param(2, NULL);
	uint32_t listener, child;
	uint64_t before;
	pid_t pid;
	int fd, file;

	if (!test_in_child())
		return;
	alarm(60); /* ends a process that waits for ever */
	sch = cch = 0; /* the parent's */
	server_port = serve(&listener);
	pid = start(die_as_client, CONNECTED, &fd);
	CHECK(raw_readable(sch, GUARD_MS));
	child = raw_expect(sch, CONNECT_REQUEST, SERVER).id;
	CHECK_EQ(raw_accept(sch, child, CHILD, &p), 0);
	raw_expect(sch, ESTABLISHED, CHILD);
	before = threads();
	file = hidden_epoll();
	CHECK_EQ(syscall(SYS_dup2, file_of_program(by_epoll), file), file);
	end(pid, fd);
	while (threads() == before)
		sched_yield();
	exit(0);
}

TEST_WITH(epoll_replaced_by_file, epoll_replaced, false);
TEST_WITH(epoll_replaced_by_epoll, epoll_replaced, true);

/* No id listens at the port. */
static void refused(void)
{
	uint32_t client = request(RDMA_PS_TCP, CLIENT, server_port);

	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, NO_SERVICE);
	CHECK_EQ(raw_destroy(cch, client), 3);
	none_left();
}

/* The server is killed before it has read the request, or before it has accepted it. */
static void server_dies(int stage)
{
	int fd;
	pid_t pid = start_server(stage, &fd);
	uint32_t client = request(RDMA_PS_TCP, CLIENT, server_port);

	end(pid, fd);
	CHECK(raw_readable(cch, 60000));
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	refused();
}

TEST_WITH(server_dies_asked, server_dies, ASKED);
TEST_WITH(server_dies_after_request, server_dies, READ_REQUEST);

/* The first request to a listener, if it comes after the listener's death, is refused, too. */
TEST(dead_listener)
{
	int fd;
	pid_t pid = start_server(ASKED, &fd);

	end(pid, fd);
	refused();
}

/* Destroys its id before the server has read the request. */
static void withdraw_when_told(int fd)
{
	uint32_t id;

	cch = raw_open(0);
	id = request(RDMA_PS_TCP, CLIENT, server_port);
	test_put(fd, "x", 1);
	test_get(fd, &(char){0}, 1);
	raw_destroy(cch, id);
	await_death(fd);
}

/*
 * A client is killed while it withdraws its request, at the first byte that it writes anywhere. The
 * server still gets the event of another connection.
 */
TEST(client_dies_withdrawing)
{
	uint32_t listener, client;
	pid_t pid;
	int fd;

	server_port = serve(&listener);
	client = request(RDMA_PS_TCP, CLIENT, server_port);
	CHECK(raw_readable(sch, GUARD_MS));
	pid = test_peer(withdraw_when_told, &fd);
	kill_at_write(pid, fd);
	CHECK(raw_readable(sch, 0));
	CHECK_EQ(raw_destroy(sch, raw_expect(sch, CONNECT_REQUEST, SERVER).id), 0);
	CHECK_EQ(raw_expect(cch, REJECTED, CLIENT).status, CONSUMER);
	CHECK_EQ(raw_destroy(cch, client), 3);
	CHECK_EQ(raw_destroy(sch, listener), 1);
	none_left();
}

int main(int argc, char **argv)
{
	test_fabric("deaths");
	return test_main(argc, argv);
}
