/* SPDX-License-Identifier: MIT */
/* Peers of an engine that are many, or that die, stop to read, leave early, or fork. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include "engine.h"
#include "conns.h"
#include "ending.h"

#define IMPORTERS 4096

static struct ctl importers[IMPORTERS];
static uint64_t reads; /* of control connections */

int __real_tcp_read(int fd, void *to, size_t n, size_t *done_p);
int __wrap_tcp_read(int fd, void *to, size_t n, size_t *done_p);

int __wrap_tcp_read(int fd, void *to, size_t n, size_t *done_p)
{
	__atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
	return __real_tcp_read(fd, to, n, done_p);
}

static void importers_leave(void)
{
	for (size_t i = 0; i < IMPORTERS; i++)
		ctl_close(&importers[i]);
	host_close();
}

/*
 * Connects as many importers as an engine accepts. Both ends of the connections are in this
 * process.
 */
static void importers_come(void)
{
	struct rlimit files;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
	test_finally(importers_leave);
	host_open();
	for (size_t i = 0; i < IMPORTERS; i++)
		importers[i] = host_guest();
}

/* Connections that have not sent the description's key do not count as importers. */
TEST(importers_have_a_limit)
{
	static struct ctl strangers[100];
	struct tent *t;
	AT_END(end_free) char *text = NULL;
	GUEST more = {.fd = -1};
	int status;

	if (!duo_shm_rails())
		return; /* one kind of rails is enough */
	importers_come();
	t = duo_create(NULL, 0, 0);
	CHECK_EQ(tent_export(host, &text), 0);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++)
		strangers[i] = host_call();
	duo_not_imported(t, text, -EUSERS, "release one");
	ctl_close(&importers[7]);
	do {
		ctl_close(&more);
		more = host_call();
		status = host_exchange(&more, host_hello(1), CTL_WELCOME).status;
	} while (status == EUSERS);
	CHECK_EQ(status, 0);
	for (size_t i = 0; i < ARRAY_SIZE(strangers); i++)
		ctl_close(&strangers[i]);
	tent_destroy(t);
}

/*
 * Silent importers do not slow down the others. All importers learn of the end of a registration.
 */
TEST(importers_are_many)
{
	struct ctl_msg m = {.type = CTL_FENCE};
	uint8_t *more = test_shared(HOST_LEN);

	if (!duo_shm_rails())
		return;
	importers_come();
	__atomic_store_n(&reads, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < 10; i++)
		host_exchange(&importers[i], m, CTL_FENCED);
	CHECK(__atomic_load_n(&reads, __ATOMIC_RELAXED) < IMPORTERS);
	CHECK_EQ(tent_register(host, more, HOST_LEN, NULL, NULL), 0);
	begin_end(host, more, HOST_LEN);
	m = (struct ctl_msg){.type = CTL_UNREGISTERED, .rail = 2};
	for (size_t i = 0; i < IMPORTERS; i++) {
		CHECK_EQ(host_await(&importers[i], CTL_GREW).rail, 2);
		host_is_told(&importers[i], 2);
		CHECK(!end_is_over());
		host_send(&importers[i], m);
	}
	CHECK_EQ(await_end(), 0);
	munmap(more, HOST_LEN);
}

/* Returns the number of the engine's sockets, which are in this process. Stores one in *fd_p. */
static uint32_t served(int *fd_p)
{
	uint32_t n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in own, peer;
		socklen_t a = sizeof(own), b = sizeof(peer), len = sizeof(int);
		int on = 0, idle = 0, interval = 0, count = 0;

		if (getsockname(fd, (struct sockaddr *)&own, &a) || own.sin_family != AF_INET ||
			ntohs(own.sin_port) != desc.port ||
			getpeername(fd, (struct sockaddr *)&peer, &b))
			continue;
		CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
		CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &len), 0);
		CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, &len), 0);
		CHECK_EQ(getsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, &len), 0);
		CHECK(on && idle + interval * count <= 20);
		*fd_p = fd;
		n++;
	}
	return n;
}

/* The peer's host is lost: a socket in repair mode is closed without a packet. */
TEST(the_dead_free_their_places)
{
	struct pollfd p = {.events = POLLIN};
	struct ctl a;

	host_begin();
	a = host_guest();
	CHECK_EQ(served(&p.fd), 1);
	if (setsockopt(a.fd, IPPROTO_TCP, TCP_REPAIR, &(int){1}, sizeof(int))) {
		CHECK_EQ(errno, EPERM); /* only root may set TCP_REPAIR */
		ctl_close(&a);
		return;
	}
	close(a.fd);
	/* The kernel's timers end the connection. The first one is made shorter, to save time. */
	CHECK_EQ(setsockopt(p.fd, IPPROTO_TCP, TCP_KEEPIDLE, &(int){1}, sizeof(int)), 0);
	CHECK_EQ(poll(&p, 1, ANSWER_MS), 1);
	while (served(&p.fd))
		sched_yield();
}

/*
 * Sends messages to the only peer until its socket, which is @fd, is full. Returns the number of
 * messages that were sent completely. The caller has the lock.
 */
static int fill_socket(int fd)
{
	int n = 0;

	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)), 0);
	for (; !host->conns->err; n++)
		serve_port(host, 0, true);
	return n - 1;
}

/*
 * A peer that gets more messages than its socket has room for is disconnected. After the message
 * that had no room it gets no other.
 */
TEST(a_peer_stops_reading)
{
	struct pollfd p = {.events = POLLOUT};
	struct ctl_msg m;
	GUEST c = {.fd = -1};

	host_begin();
	c = host_guest();
	CHECK_EQ(served(&p.fd), 1);
	pthread_mutex_lock(&host->lock);
	for (int n = fill_socket(p.fd); n; n--)
		host_await(&c, CTL_RAIL_UP);
	CHECK_EQ(poll(&p, 1, ANSWER_MS), 1); /* the socket has room again */
	serve_port(host, 0, true);
	CHECK_EQ(grow_asked(host, host->conns, 0), 0);
	pthread_mutex_unlock(&host->lock);
	CHECK_EQ(ctl_await(&c, ANSWER_MS, &m), -ECONNRESET);
}

/* A peer whose socket is full may copy as well, so its connection is not ended at once. */
TEST(who_stops_reading_may_copy)
{
	GUEST a = {.fd = -1}, b = {.fd = -1};
	int fd;

	if (!duo_shm_rails())
		return; /* other rails need no help of the peer to end its accesses */
	host_begin();
	a = host_guest();
	CHECK_EQ(served(&fd), 1);
	pthread_mutex_lock(&host->lock);
	fill_socket(fd);
	revoke_cut(host->conns); /* as tent_destroy() does */
	pthread_mutex_unlock(&host->lock);
	b = host_guest();
	host_exchange(&b, (struct ctl_msg){.type = CTL_FENCE}, CTL_FENCED);
	CHECK_EQ(host_connections(), 2);
}

/* A peer closes the connection before the engine has answered. Its notice counts. */
TEST(who_leaves_early_notifies)
{
	const uint16_t types[] = {CTL_CONNECT, CTL_FENCE, CTL_MORE};
	struct ctl_msg m = {.type = CTL_NOTICE,
		.mark = {.lap = 1, .value = 9, .positions = 1, .len = 1}};

	host_begin();
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct pollfd unread = {.events = POLLIN}, gone = {0};
		struct ctl c = host_guest();
		uint16_t value = 0;

		unread.fd = c.fd;
		host_send(&c, (struct ctl_msg){.type = CTL_FENCE});
		CHECK_EQ(poll(&unread, 1, ANSWER_MS), 1); /* so the close resets the connection */
		CHECK_EQ(served(&gone.fd), 1);
		pthread_mutex_lock(&host->lock);
		notice_count(&host->conns->counter, &m.mark); /* as if it came over a link */
		host_send(&c, (struct ctl_msg){.type = types[i]});
		host_send(&c, m);
		ctl_close(&c);
		CHECK_EQ(poll(&gone, 1, ANSWER_MS), 1);
		pthread_mutex_unlock(&host->lock);
		while (host_connections())
			sched_yield();
		CHECK_EQ(tent_notice(host, &value), 0);
		CHECK_EQ(value, 9);
	}
}

/* Waits until the set has no event. */
static void await_quiet(int epoll)
{
	while (poll(&(struct pollfd){.fd = epoll, .events = POLLIN}, 1, 0))
		sched_yield();
}

/*
 * A child that was forked keeps the sockets open: they cause no events after the engine has closed
 * them.
 */
TEST(a_forked_child_has_the_sockets)
{
	struct ctl a;
	pid_t child;

	host_begin();
	a = host_guest();
	child = test_fork();
	if (!child)
		for (;;)
			pause();
	ctl_end(&a);
	while (host_connections())
		sched_yield();
	ctl_close(&a);
	await_quiet(host->ctls);
	test_kill(child);
}

/* Imports from @host, then forks a child that keeps the sockets of both engines. */
static struct tent_segment *import_and_fork(struct tent **importer_p, pid_t *child_p)
{
	AT_END(end_free) char *text = NULL;
	struct tent_segment *s;

	host_begin();
	CHECK_EQ(tent_export(host, &text), 0);
	*importer_p = duo_create(NULL, 0, 0);
	s = duo_import(*importer_p, text);
	*child_p = test_fork();
	if (!*child_p)
		for (;;)
			pause();
	return s;
}

/*
 * A peer notices that a segment was released although a forked child still has the sockets. The
 * descriptors that the two engines have closed cause no events.
 */
TEST(a_forked_child_keeps_no_connection)
{
	struct tent *importer;
	pid_t child;
	struct tent_segment *s = import_and_fork(&importer, &child);

	CHECK_EQ(tent_release(s), 0);
	while (host_connections())
		sched_yield();
	await_quiet(host->epoll);
	await_quiet(importer->epoll);
	tent_destroy(importer);
	test_kill(child);
}

/* The same when the connection is lost: the importer has closed its socket, which the child keeps. */
TEST(a_forked_child_keeps_a_lost_connection)
{
	struct tent *importer;
	pid_t child;
	struct tent_segment *s = import_and_fork(&importer, &child);
	int lost = 0;

	pthread_mutex_lock(&host->lock);
	ctl_end(&host->conns->ctl);
	pthread_mutex_unlock(&host->lock);
	while (!lost) {
		pthread_mutex_lock(&importer->lock);
		lost = s->lost;
		pthread_mutex_unlock(&importer->lock);
	}
	await_quiet(importer->epoll);
	CHECK_EQ(tent_release(s), 0);
	tent_destroy(importer);
	test_kill(child);
}

int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
