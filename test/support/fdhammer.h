/* SPDX-License-Identifier: MIT */
/*
 * Searches for lost wake-ups of sleepers on a descriptor. One server and some clients, threads or
 * processes, sleep in epoll as often as they can, without a timeout. Their epoll sets also hold a
 * pipe, to which another process writes; this ends every second sleep. In the other sleeps a lost
 * wake-up causes a hang, which the time limit of the test program ends.
 *
 * The last client sleeps in the layer's wait. It makes half as many calls as the others, because in
 * delegrpc and shmipc a client that waits wakes the server again after 100 ms.
 *
 * Link the static library with --wrap of timerfd_settime, sendto and eventfd_write: the wrappers
 * below disable timers and delay wake-ups. Only one file of a program may include this header,
 * because it defines main(). The program's first argument is the number of calls that each client
 * but the last one makes in each run.
 */
#ifndef SUPPORT_FDHAMMER_H
#define SUPPORT_FDHAMMER_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "support/test.h"

#define FDHAMMER_CLIENTS 3 /* the last one sleeps without a descriptor */
#define FDHAMMER_BURST 12
#define FDHAMMER_PAUSE 16 /* bursts between two pauses, on average */

/* The state of a client, which is passed to the layer's functions. */
struct fdhammer_client {
	void *c; /* the layer's client */
	uint32_t index, calls, made, got;
	uint32_t burst; /* calls that it still makes before it waits for all responses */
	uint64_t rand;
};

struct fdhammer_layer {
	/*
	 * Creates the server, with this name if it needs one. *fd_p: the descriptor it sleeps on.
	 */
	void *(*create)(const char *name, int *fd_p);
	void (*destroy)(void *s);
	/* Returns 0 or -EAGAIN. The request consists of the token. */
	int (*call)(void *c, uint64_t token);
	/* Calls fdhammer_answer() for each response. Returns the number of responses. */
	int (*poll)(void *c, struct fdhammer_client *client);
	int (*fd)(void *c);
	int (*arm)(void *c);
	int (*wait)(void *c); /* without a descriptor */
	void *(*connect)(const char *name, uint32_t index);
	void (*disconnect)(void *c);
	/* Answers each waiting request with its complement. Returns the number of requests. */
	int (*serve)(void *s);
	int (*server_arm)(void *s);
};

/*
 * Defines those functions of struct fdhammer_layer that only call a function of the layer. @prefix:
 * the beginning of the names of these functions of the layer.
 */
#define FDHAMMER_CLIENT(prefix)                                                                    \
	static int hammer_poll(void *c, struct fdhammer_client *t)                                 \
	{                                                                                          \
		return prefix##_poll(c, fdhammer_answer, t);                                       \
	}                                                                                          \
	static int hammer_fd(void *c)                                                              \
	{                                                                                          \
		return prefix##_fd(c);                                                             \
	}                                                                                          \
	static int hammer_arm(void *c)                                                             \
	{                                                                                          \
		return prefix##_arm(c);                                                            \
	}                                                                                          \
	static int hammer_wait(void *c)                                                            \
	{                                                                                          \
		return prefix##_wait(c, NSEC_PER_SEC);                                             \
	}

/* Defines the table of these functions and of those that the layer's test defines itself. */
#define FDHAMMER_LAYER                                                                             \
	static const struct fdhammer_layer layer = {                                               \
		.create = hammer_create,                                                           \
		.destroy = hammer_destroy,                                                         \
		.call = hammer_call,                                                               \
		.poll = hammer_poll,                                                               \
		.fd = hammer_fd,                                                                   \
		.arm = hammer_arm,                                                                 \
		.wait = hammer_wait,                                                               \
		.connect = hammer_connect,                                                         \
		.disconnect = hammer_disconnect,                                                   \
		.serve = hammer_serve,                                                             \
		.server_arm = hammer_server_arm,                                                   \
	}

/* One run. Each client that is a process has a copy of this struct. */
struct fdhammer {
	const struct fdhammer_layer *layer;
	uint32_t calls; /* of each client but the last one */
	int pipe[FDHAMMER_CLIENTS + 1][2]; /* the last one is the server's */
};

struct fdhammer_thread {
	pthread_t thread;
	struct fdhammer *h;
	uint32_t index;
};

ssize_t __real_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
	socklen_t len);
ssize_t __wrap_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
	socklen_t len);
int __real_eventfd_write(int fd, eventfd_t n);
int __wrap_eventfd_write(int fd, eventfd_t n);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when,
	struct itimerspec *old);

/*
 * Delays the wake-up, so that other threads run between the reset of the sleep word (base/wakefd.h)
 * and the wake-up.
 */
ssize_t __wrap_sendto(int fd, const void *buf, size_t n, int flags, const struct sockaddr *to,
	socklen_t len)
{
	sched_yield();
	return __real_sendto(fd, buf, n, flags, to, len);
}

int __wrap_eventfd_write(int fd, eventfd_t n)
{
	sched_yield();
	return __real_eventfd_write(fd, n);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *old)
{
	return 0;
}

static inline void fdhammer_answer(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	struct fdhammer_client *t = arg;
	uint64_t got;

	CHECK(resp);
	CHECK_EQ(len, sizeof(got));
	memcpy(&got, resp, sizeof(got));
	CHECK(got == ~token);
	CHECK_EQ(token >> 32, t->index);
	t->got++;
}

/* Makes calls and polls. Returns the number of calls and responses. */
static inline int fdhammer_work(struct fdhammer *h, struct fdhammer_client *t)
{
	int n = 0;

	if (!t->burst && t->got == t->made)
		t->burst = 1 + (uint32_t)(test_rand(&t->rand) % FDHAMMER_BURST);
	for (; t->burst && t->made < t->calls; t->burst--, n++) {
		if (h->layer->call(t->c, (uint64_t)t->index << 32 | t->made))
			break;
		t->made++;
	}
	if (t->made == t->calls)
		t->burst = 0;
	return n + h->layer->poll(t->c, t);
}

/* Checks the result of an arm. Returns true if there is something to poll for. */
static inline int fdhammer_busy(int armed)
{
	CHECK(armed >= 0);
	return armed;
}

/*
 * Sleeps until the layer's descriptor is readable, or, if by_pipe, until one of the set is. Returns
 * 1 if it had to wait, otherwise 0.
 */
static inline uint32_t fdhammer_sleep(int set, int pipe, bool by_pipe)
{
	struct epoll_event ev[2];
	char c[64];
	int n = epoll_wait(set, ev, 2, 0);
	uint32_t slept = n == 0;
	bool awake = false;

	while (!awake) {
		for (; n > 0; n--) {
			awake |= by_pipe || ev[n - 1].data.fd != pipe;
			if (ev[n - 1].data.fd == pipe)
				CHECK(read(pipe, c, sizeof(c)) > 0);
		}
		if (!awake)
			n = epoll_wait(set, ev, 2, -1);
	}
	return slept;
}

/* Sleeps until the pipe is readable, so that the server has nothing to do meanwhile. */
static inline void fdhammer_pause(int pipe)
{
	struct pollfd p = {.fd = pipe, .events = POLLIN};
	char c[64];

	while (poll(&p, 1, -1) != 1)
		;
	CHECK(read(pipe, c, sizeof(c)) > 0);
}

static inline int fdhammer_set(int fd, int pipe)
{
	struct epoll_event ev[] = {{.events = EPOLLIN, .data.fd = fd},
		{.events = EPOLLIN, .data.fd = pipe}};
	int set = epoll_create1(EPOLL_CLOEXEC);

	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev[0]), 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, pipe, &ev[1]), 0);
	return set;
}

/* Returns the number of calls that this client makes. */
static inline uint32_t fdhammer_share(const struct fdhammer *h, uint32_t index)
{
	return index == FDHAMMER_CLIENTS - 1 ? h->calls / 2 : h->calls;
}

static inline void fdhammer_client(struct fdhammer *h, uint32_t index)
{
	const struct fdhammer_layer *l = h->layer;
	struct fdhammer_client t = {.c = l->connect(test_name, index),
		.index = index,
		.calls = fdhammer_share(h, index),
		.rand = index + 1};
	int set = -1;

	if (index != FDHAMMER_CLIENTS - 1)
		set = fdhammer_set(l->fd(t.c), h->pipe[index][0]);
	while (t.got < t.calls) {
		if (t.got == t.made && test_rand(&t.rand) % FDHAMMER_PAUSE == 0)
			fdhammer_pause(h->pipe[index][0]);
		if (fdhammer_work(h, &t))
			continue;
		if (set < 0)
			CHECK(l->wait(t.c) >= 0);
		else if (!fdhammer_busy(l->arm(t.c))) /* a first call may need the disabled timer */
			fdhammer_sleep(set, h->pipe[index][0], !t.got || test_rand(&t.rand) % 2);
	}
	if (set >= 0)
		close(set);
	l->disconnect(t.c);
}

static inline void fdhammer_server(struct fdhammer *h, void *s, int fd)
{
	uint32_t left = 0, slept = 0;
	uint64_t rand = FDHAMMER_CLIENTS + 1;
	int pipe = h->pipe[FDHAMMER_CLIENTS][0], set = fdhammer_set(fd, pipe), n;

	for (uint32_t i = 0; i < FDHAMMER_CLIENTS; i++)
		left += fdhammer_share(h, i);
	while (left) {
		n = h->layer->serve(s);
		CHECK(n >= 0 && (uint32_t)n <= left);
		left -= (uint32_t)n;
		if (!n && !fdhammer_busy(h->layer->server_arm(s)))
			slept += fdhammer_sleep(set, pipe, test_rand(&rand) % 2);
	}
	printf("the server slept %" PRIu32 " times\n", slept);
	CHECK(slept);
	h->layer->server_arm(s); /* publishes the last answers and wakes the clients */
	close(set);
}

static inline void *fdhammer_thread(void *arg)
{
	struct fdhammer_thread *t = arg;

	fdhammer_client(t->h, t->index);
	return NULL;
}

/* Starts a process that wakes the server and the clients by writing to their pipes. */
static inline pid_t fdhammer_ticker(struct fdhammer *h)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	uint64_t rand = 1;
	pid_t pid = test_fork();

	if (pid)
		return pid;
	alarm(1200); /* ends this process if the test is killed */
	for (;;) {
		uint32_t i = (uint32_t)(test_rand(&rand) % ARRAY_SIZE(h->pipe));

		if (write(h->pipe[i][1], "t", 1) != 1 && errno != EAGAIN)
			_exit(1);
		nanosleep(&nap, NULL);
	}
}

static inline pid_t fdhammer_process(struct fdhammer *h, uint32_t index)
{
	pid_t pid = test_fork();

	if (pid)
		return pid;
	alarm(1200);
	fdhammer_client(h, index);
	_exit(0);
}

static inline void fdhammer_threads(struct fdhammer *h, void *s, int fd)
{
	struct fdhammer_thread t[FDHAMMER_CLIENTS];

	for (uint32_t i = 0; i < FDHAMMER_CLIENTS; i++) {
		t[i] = (struct fdhammer_thread){.h = h, .index = i};
		CHECK_EQ(pthread_create(&t[i].thread, NULL, fdhammer_thread, &t[i]), 0);
	}
	fdhammer_server(h, s, fd);
	for (uint32_t i = 0; i < FDHAMMER_CLIENTS; i++)
		CHECK_EQ(pthread_join(t[i].thread, NULL), 0);
}

static inline void fdhammer_processes(struct fdhammer *h, void *s, int fd)
{
	pid_t pid[FDHAMMER_CLIENTS];

	for (uint32_t i = 0; i < FDHAMMER_CLIENTS; i++)
		pid[i] = fdhammer_process(h, i);
	fdhammer_server(h, s, fd);
	for (uint32_t i = 0; i < FDHAMMER_CLIENTS; i++) {
		CHECK_EQ(test_reap(pid[i]), 0);
	}
}

static const struct fdhammer_layer layer;
static uint32_t fdhammer_calls; /* of each client but the last one, in each run */

static inline void fdhammer(void (*run)(struct fdhammer *h, void *s, int fd))
{
	struct fdhammer h = {.layer = &layer, .calls = fdhammer_calls};
	pid_t ticker;
	int fd;
	void *s = h.layer->create(test_name, &fd);

	CHECK(fd >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(h.pipe); i++)
		CHECK_EQ(pipe2(h.pipe[i], O_NONBLOCK | O_CLOEXEC), 0);
	ticker = fdhammer_ticker(&h);
	run(&h, s, fd);
	test_kill(ticker);
	for (size_t i = 0; i < ARRAY_SIZE(h.pipe); i++) {
		close(h.pipe[i][0]);
		close(h.pipe[i][1]);
	}
	h.layer->destroy(s);
}

TEST_WITH(threads, fdhammer, fdhammer_threads);

#ifndef FDHAMMER_THREADS_ONLY
TEST_WITH(processes, fdhammer, fdhammer_processes);
#endif

int main(int argc, char **argv)
{
	fdhammer_calls = (uint32_t)test_number(&argc, argv, 10000);
	return test_main(argc, argv);
}

#endif
