/* SPDX-License-Identifier: MIT */
/*
 * Tests that time limits hold, that a guest does not delay others, and that a shortage of
 * descriptors does no lasting harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "support/stranger.h"
#include "base/tcp.h"

#define PAST 0
#define SHORT_MS 20
#define GREETING "a greeting of 24 bytes.."
#define GREETING_LEN 24

static int listener;
static uint16_t port;

static void open_listener(const char *host)
{
	CHECK_EQ(tcp_listen(host, 0, &listener), 0);
	port = (uint16_t)tcp_port(listener);
}

static int dial(const char *host)
{
	int fd;

	CHECK_EQ(tcp_connect(host, port, false, TCP_FOREVER, &fd), 0);
	return fd;
}

static int taken(void)
{
	int fd;

	CHECK_EQ(tcp_accept(listener, TCP_FOREVER, &fd), 0);
	return fd;
}

TEST(limits)
{
	CHECK_EQ(tcp_limit(-1), TCP_FOREVER);
	CHECK_EQ(tcp_left_ms(TCP_FOREVER), -1);
	CHECK_EQ(tcp_left_ms(PAST), 0);
	CHECK(tcp_left_ms(tcp_limit(3600000)) > 3000000);
	CHECK_EQ(tcp_left_ms(TCP_FOREVER - 1), INT32_MAX);
}

static bool has_ipv6(void)
{
	return !access("/proc/sys/net/ipv6/conf/lo", F_OK);
}

/* Listens at addresses of both families. Also tests the name of the peer. */
TEST(addresses)
{
	static const struct {
		const char *listen, *connect, *name;
	} hosts[] = {{NULL, "127.0.0.1", "127.0.0.1:"}, {NULL, "::1", "[::1]:"},
		{"127.0.0.1", "localhost", "127.0.0.1:"}, {"::1", "::1", "[::1]:"},
		{"localhost", "localhost", "127.0.0.1:"}};
	char name[TCP_NAME_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		int here, there;

		if (!has_ipv6() && strchr(hosts[i].connect, ':'))
			continue;
		open_listener(hosts[i].listen);
		there = dial(hosts[i].connect);
		here = taken();
		strcpy(name, "?");
		tcp_peer(here, name, sizeof(name));
		CHECK_EQ(strncmp(name, hosts[i].name, strlen(hosts[i].name)), 0);
		CHECK(fcntl(here, F_GETFD) & FD_CLOEXEC && fcntl(there, F_GETFD) & FD_CLOEXEC);
		CHECK(fcntl(here, F_GETFL) & O_NONBLOCK && fcntl(there, F_GETFL) & O_NONBLOCK);
		close(here);
		close(there);
		close(listener);
	}
	tcp_peer(0, name, sizeof(name));
	CHECK_EQ(strncmp(name, "127.0.0.1:", 10), 0); /* unchanged */
}

TEST(what_cannot_be)
{
	AT_END(end_close_fd) int held = refusing_port(&port);
	int fd;

	CHECK_EQ(tcp_listen("no host.invalid", 0, &fd), -EADDRNOTAVAIL);
	CHECK_EQ(tcp_connect("no host.invalid", 1, true, TCP_FOREVER, &fd), -EADDRNOTAVAIL);
	open_listener(NULL);
	CHECK_EQ(tcp_listen(NULL, port, &fd), -EADDRINUSE);
	CHECK_EQ(tcp_take(listener, &fd), -EAGAIN);
	CHECK_EQ(fcntl(listener, F_SETFL, 0), 0); /* a user's listener may be a blocking one */
	CHECK_EQ(tcp_take(listener, &fd), -EAGAIN);
	CHECK_EQ(tcp_accept(listener, PAST, &fd), -ETIMEDOUT);
	CHECK_EQ(tcp_accept(listener, tcp_limit(SHORT_MS), &fd), -ETIMEDOUT);
	close(listener);
	port = (uint16_t)tcp_port(held);
	CHECK_EQ(tcp_connect("127.0.0.1", port, false, TCP_FOREVER, &fd), -ECONNREFUSED);
	CHECK_EQ(tcp_connect("127.0.0.1", port, true, tcp_limit(SHORT_MS), &fd), -ECONNREFUSED);
	CHECK_EQ(tcp_accept(listener, TCP_FOREVER, &fd), -EBADF);
	CHECK_EQ(tcp_port(listener), -EBADF);
}

/* Returns a socket that is connected to itself, and writes its port to `port`. */
static int dial_itself(const char *host)
{
	struct addrinfo *a = tcp_resolve(host, 0);
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	int fd = socket(a->ai_family, SOCK_STREAM, 0);

	CHECK(fd >= 0 && !bind(fd, a->ai_addr, a->ai_addrlen));
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&own, &len), 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&own, len), 0);
	freeaddrinfo(a);
	port = (uint16_t)tcp_port(fd);
	return fd;
}

/* If nobody listens at a port, the kernel may choose that port for the socket that dials it, and
 * connect the socket to itself. Afterwards the server must get its port. */
TEST(nobody_meets_itself)
{
	static const char *const hosts[] = {"127.0.0.1", "::1"};

	for (size_t i = 0; i < (has_ipv6() ? 2 : 1); i++) {
		int fd = dial_itself(hosts[i]);

		CHECK_EQ(tcp_connect_end(fd), -ECONNREFUSED);
		tcp_end(fd);
		CHECK_EQ(tcp_listen(hosts[i], port, &listener), 0);
		close(listener);
	}
}

static atomic_int dialing; /* thread id of dial_patiently() */

static void *dial_patiently(void *arg)
{
	int *fd_p = arg;

	/* Pairs with the load in the test a_server_may_come_later. */
	atomic_store_explicit(&dialing, gettid(), memory_order_release);
	CHECK_EQ(tcp_connect("127.0.0.1", port, true, TCP_FOREVER, fd_p), 0);
	return NULL;
}

TEST(a_server_may_come_later)
{
	AT_END(end_close_fd) int held = refusing_port(&port);
	pthread_t thread;
	int fd;

	CHECK_EQ(pthread_create(&thread, NULL, dial_patiently, &fd), 0);
	/* Pairs with the store of dial_patiently(), which sleeps after it has been refused. */
	while (!test_blocked(atomic_load_explicit(&dialing, memory_order_acquire)))
		;
	CHECK_EQ(tcp_listen("127.0.0.1", port, &listener), 0);
	close(taken());
	CHECK_EQ(pthread_join(thread, NULL), 0);
	close(fd);
	close(listener);
}

static void *drain(void *arg)
{
	static char big[1 << 22];
	const int *fd = arg;

	CHECK_EQ(tcp_get(*fd, big, sizeof(big), TCP_FOREVER), 0);
	test_filled(big, sizeof(big), 7);
	return NULL;
}

/* Sends more bytes than a socket buffer holds, then tests limits both ways and a closed peer. */
TEST(bytes)
{
	static char big[1 << 22];
	size_t done = 0;
	pthread_t thread;
	int here, there;
	char byte;

	open_listener("127.0.0.1");
	there = dial("127.0.0.1");
	here = taken();
	test_fill(big, sizeof(big), 7);
	CHECK_EQ(pthread_create(&thread, NULL, drain, &there), 0);
	CHECK_EQ(tcp_put(here, big, sizeof(big), TCP_FOREVER), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(tcp_read(there, &byte, 1, &done), -EAGAIN);
	CHECK_EQ(tcp_read(there, &byte, 0, &done), 0);
	CHECK_EQ(tcp_get(there, &byte, 1, PAST), -ETIMEDOUT);
	while (!tcp_put(here, big, sizeof(big), PAST))
		;
	CHECK_EQ(tcp_put(here, big, sizeof(big), tcp_limit(SHORT_MS)), -ETIMEDOUT);
	close(there);
	CHECK_EQ(tcp_put(here, big, 1, TCP_FOREVER), -ECONNRESET);
	close(here);
	there = dial("127.0.0.1");
	here = taken();
	CHECK_EQ(tcp_put(there, "x", 1, PAST), 0);
	close(there);
	CHECK_EQ(tcp_get(here, big, 2, TCP_FOREVER), -ECONNRESET);
	close(here);
	close(listener);
}

static void on_signal(int number)
{
}

/* Signals that arrive continuously do not end a wait, and cause no error. */
TEST(signals)
{
	struct sigaction act = {.sa_handler = on_signal};
	const struct itimerspec often = {{0, 2000000}, {0, 2000000}};
	timer_t timer;
	int fd;

	CHECK_EQ(sigaction(SIGALRM, &act, NULL), 0);
	CHECK_EQ(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
	CHECK_EQ(timer_settime(timer, 0, &often, NULL), 0);
	open_listener("127.0.0.1");
	CHECK_EQ(tcp_accept(listener, tcp_limit(SHORT_MS), &fd), -ETIMEDOUT);
	fd = dial("127.0.0.1");
	CHECK_EQ(tcp_get(fd, &port, 1, tcp_limit(SHORT_MS)), -ETIMEDOUT);
	close(fd);
	close(listener);
	timer_delete(timer);
	signal(SIGALRM, SIG_DFL);
}

/* ---- a crowd ---- */

struct guest {
	struct tcp_guest g;
	char said[GREETING_LEN];
	size_t have;
};

static int guest_step(void *arg, struct tcp_guest *tcp)
{
	struct guest *g = container_of(tcp, struct guest, g);
	int err = tcp_read(tcp->fd, g->said, GREETING_LEN, &g->have);

	if (g->have && memcmp(g->said, GREETING, g->have))
		return -EPROTO;
	return err;
}

static uint32_t guests_of(const struct tcp_crowd *c)
{
	uint32_t n = 0;

	for (const struct tcp_guest *g = c->guests; g; g = g->next)
		n++;
	return n;
}

static struct tcp_crowd crowd_of(uint32_t most)
{
	return (struct tcp_crowd){.size = sizeof(struct guest), .step = guest_step, .most = most};
}

/* Returns the descriptor of the next guest with a complete message. Adds the number of guests with
 * a wrong message to *wrong_p. */
static int next(struct tcp_crowd *c, struct strangers *s, int *wrong_p)
{
	struct tcp_guest *g;

	for (;;) {
		int err = tcp_crowd_next(c, listener, 8, clock_ns(), &g), fd;

		if (!err) {
			fd = g->fd;
			free(g);
			return fd;
		}
		CHECK(err == -EAGAIN || err == -EPROTO);
		*wrong_p += err == -EPROTO;
		strangers_drip(s);
		if (err == -EAGAIN)
			CHECK_EQ(tcp_crowd_wait(c, listener, clock_ns(), TCP_FOREVER), 0);
	}
}

/* There is no time limit: if a stranger delayed the honest peer, the test would not end. */
TEST(strangers)
{
	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		struct tcp_crowd c = crowd_of(64);
		struct strangers s;
		int honest[3], wrong = 0;

		printf("  kind %u\n", kind);
		open_listener(NULL);
		s = strangers_come(kind, port, GREETING, GREETING_LEN);
		for (int i = 0; i < 3; i++) {
			honest[i] = dial("127.0.0.1");
			CHECK_EQ(tcp_put(honest[i], GREETING, GREETING_LEN, PAST), 0);
		}
		for (int i = 0; i < 3; i++)
			close(next(&c, &s, &wrong));
		CHECK_EQ(wrong, kind == STRANGER_GARBAGE);
		CHECK_EQ(c.n, guests_of(&c));
		if (kind == STRANGER_MANY)
			CHECK(c.n > 60 && c.n <= 64);
		else
			CHECK_EQ(c.n, kind != STRANGER_GARBAGE);
		tcp_crowd_fini(&c);
		CHECK_EQ(guests_of(&c), 0);
		strangers_leave(&s);
		for (int i = 0; i < 3; i++)
			close(honest[i]);
		close(listener);
	}
}

/* The test advances the clock: a guest that is too old is closed, a younger one stays. */
TEST(patience)
{
	struct tcp_crowd c = crowd_of(4);
	struct tcp_guest *g;
	int old, young;
	char byte;

	c.patience_ns = 100;
	open_listener(NULL);
	old = dial("127.0.0.1");
	CHECK_EQ(tcp_wait(listener, POLLIN, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 1, 1000, &g), -EAGAIN);
	young = dial("127.0.0.1");
	CHECK_EQ(tcp_wait(listener, POLLIN, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 1, 1050, &g), -EAGAIN);
	CHECK_EQ(tcp_crowd_next(&c, listener, 1, 1099, &g), -EAGAIN);
	CHECK_EQ(c.n, 2);
	/* The wait ends when the oldest guest must be closed. That time is long past. */
	CHECK_EQ(tcp_crowd_wait(&c, listener, 1099, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 1, 1100, &g), -EAGAIN);
	CHECK_EQ(c.n, 1);
	CHECK_EQ(tcp_get(old, &byte, 1, TCP_FOREVER), -ECONNRESET);
	CHECK_EQ(tcp_get(young, &byte, 1, PAST), -ETIMEDOUT);
	CHECK_EQ(tcp_crowd_wait(&c, listener, 1100, PAST), -ETIMEDOUT);
	tcp_crowd_fini(&c);
	close(old);
	close(young);
	close(listener);
}

/*
 * If no descriptor is free, the crowd closes a stranger. If there is no stranger, it accepts the
 * next connection when a descriptor is free.
 */
TEST(few_descriptors)
{
	struct tcp_crowd c = crowd_of(64);
	struct rlimit all, few;
	struct strangers s;
	struct tcp_guest *g;
	int fds[4096], n = 0, wrong = 0, honest;

	open_listener(NULL);
	s = strangers_come(STRANGER_SILENT, port, "", 0);
	CHECK_EQ(tcp_wait(listener, POLLIN, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 8, clock_ns(), &g), -EAGAIN);
	CHECK_EQ(c.n, 1);
	honest = dial("127.0.0.1");
	CHECK_EQ(tcp_put(honest, GREETING, GREETING_LEN, PAST), 0);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = (struct rlimit){64, all.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fds[n] = dup(0)) >= 0)
		n++;
	close(next(&c, &s, &wrong));
	CHECK_EQ(c.n, 0);
	close(honest);
	/* Two descriptors are free again: for the client's end and for the crowd's. */
	honest = dial("127.0.0.1");
	CHECK_EQ(tcp_put(honest, GREETING, 1, PAST), 0);
	CHECK_EQ(tcp_wait(listener, POLLIN, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 8, clock_ns(), &g), -EAGAIN);
	CHECK_EQ(c.n, 1);
	CHECK_EQ(tcp_put(honest, &GREETING[1], GREETING_LEN - 1, PAST), 0);
	close(next(&c, &s, &wrong));
	/* Now there is no guest to close. */
	CHECK((fds[n] = dup(0)) >= 0);
	n++;
	close(honest);
	honest = dial("127.0.0.1");
	CHECK_EQ(tcp_put(honest, GREETING, GREETING_LEN, PAST), 0);
	CHECK_EQ(tcp_wait(listener, POLLIN, TCP_FOREVER), 0);
	CHECK_EQ(tcp_crowd_next(&c, listener, 8, clock_ns(), &g), -EAGAIN);
	CHECK(c.starved);
	/* The crowd pauses, although the listener is readable. */
	CHECK_EQ(tcp_crowd_wait(&c, listener, clock_ns(), PAST), -ETIMEDOUT);
	CHECK_EQ(tcp_crowd_wait(&c, listener, clock_ns(), TCP_FOREVER), 0);
	CHECK_EQ(tcp_accept(listener, tcp_limit(SHORT_MS), &fds[n]), -EMFILE);
	close(fds[--n]);
	close(next(&c, &s, &wrong));
	CHECK(!c.starved);
	while (n)
		close(fds[--n]);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
	close(honest);
	strangers_leave(&s);
	close(listener);
}
