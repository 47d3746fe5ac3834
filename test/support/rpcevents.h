/* SPDX-License-Identifier: MIT */
/*
 * Cases of delegrpc and shmipc: the events that a server gets about its clients. The server reads a
 * client's pid from the client's introduction, a message with a descriptor that holds the lock of
 * the client's index (base/wakefd.h). A program first includes the layer's test/rpc.h and
 * test/map.h, and is linked with -Wl,--wrap=sendmsg,--wrap=recvmsg,--wrap=socket. RPC_EVENT(CAME)
 * is the layer's constant.
 */
#ifndef SUPPORT_RPCEVENTS_H
#define SUPPORT_RPCEVENTS_H

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "support/fdtest.h"
#include "support/intro.h"
#include "support/rpcecho.h"
#include "support/rpcmap.h"
#include "support/spawn.h"

#define rpc_event RPC(event)
#define EVENTS_NONE UINT32_MAX /* the kind if there is no event */

static inline struct rpc_server *events_server(uint32_t clients)
{
	const struct rpc_attr attr = {.size = sizeof(attr), .max_clients = clients, .events = 1};

	return server_with(&attr);
}

/* Makes and publishes a call. */
static inline void events_call(struct rpc_client *c)
{
	uint64_t word = 5;

	CHECK_EQ(RPC(client_call)(c, &word, sizeof(word), 1), 0);
	RPC(client_flush)(c);
}

/* Polls and takes an event; its kind is EVENTS_NONE if there is none. */
static inline struct rpc_event events_take(struct rpc_server *s)
{
	struct rpc_event e = {.kind = EVENTS_NONE};

	CHECK(RPC(server_poll)(s) >= 0);
	CHECK_EQ(RPC(server_event)(s, &e, sizeof(e)), e.kind != EVENTS_NONE);
	return e;
}

/* Takes the next event, and checks its kind, its index and its process. */
static inline void events_next(struct rpc_server *s, uint32_t kind, uint32_t index, pid_t pid)
{
	struct rpc_event e;

	do
		e = events_take(s);
	while (e.kind == EVENTS_NONE);
	CHECK_EQ(e.kind, kind);
	CHECK_EQ(e.index, index);
	CHECK_EQ(e.pid, pid);
	CHECK_EQ(e.uid, pid ? getuid() : UINT32_MAX);
	CHECK_EQ(e.gid, pid ? getgid() : UINT32_MAX);
}

TEST(events_need_the_attribute)
{
	SERVER *s = server_with(NULL);
	struct rpc_event e;

	CHECK_EQ(RPC(server_event)(s, &e, sizeof(e)), -EINVAL);
}

/* The server gets a client's arrival, request and end in this order. Events name the process. */
TEST(events_come_in_order)
{
	SERVER *s = events_server(2);
	struct rpc_event shorter = {.pid = 77};
	struct rpc_client *c;
	struct rpc_req r;

	CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	for (int i = 0; i < 3; i++) {
		c = client_new();
		events_call(c);
		CHECK(RPC(server_poll)(s) > 0);
		if (i < 2)
			events_next(s, RPC_EVENT(CAME), 0, getpid());
		else /* as a program whose struct has no pid */
			CHECK_EQ(RPC(server_event)(s, &shorter, offsetof(struct rpc_event, pid)),
				1);
		CHECK_EQ(shorter.pid, 77);
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
		CHECK_EQ(rpc_recv(s, &r), 1);
		if (i)
			CHECK_EQ(RPC(server_reply)(s, r.client, r.id, r.payload, r.len), 0);
		rpc_taken(s);
		RPC(client_disconnect)(c);
		events_next(s, RPC_EVENT(LEFT), 0, getpid());
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	}
}

static inline void events_answer(void *arg, const struct RPC(req) * req, const void *payload)
{
	CHECK_EQ(RPC(server_reply)((struct rpc_server *)arg, req->client, req->id, payload, 8), 0);
}

/* server_serve() handles a client's requests only after the client's event CAME was taken. */
TEST(events_come_before_what_is_served)
{
	SERVER *s = events_server(2);
	struct rpc_client *c;
	struct rpc_event e;

	for (int i = 0; i < 3; i++) {
		c = client_new();
		events_call(c);
		for (int k = 0; k < 3; k++)
			CHECK_EQ(RPC(server_serve)(s, events_answer, s, 9), 0);
		CHECK_EQ(RPC(server_wait)(s, UINT64_MAX), 1);
		CHECK_EQ(RPC(server_event)(s, &e, sizeof(e)), 1);
		CHECK_EQ(e.kind, RPC_EVENT(CAME));
		CHECK_EQ(RPC(server_serve)(s, events_answer, s, 9), 1);
		RPC(client_disconnect)(c);
		events_next(s, RPC_EVENT(LEFT), 0, getpid());
		CHECK_EQ(RPC(server_serve)(s, events_answer, s, 9), 0);
	}
}

/* An index is used again when the event of its client's end has been taken, and not before. */
TEST(events_keep_the_index)
{
	SERVER *s = events_server(1);
	struct rpc_client *c = client_new(), *late = NULL;
	struct rpc_event e;

	CHECK_EQ(RPC(client_index)(c), 0);
	CHECK(RPC(server_poll)(s) >= 0);
	RPC(client_disconnect)(c);
	CHECK(RPC(server_poll)(s) >= 0);
	CHECK(RPC(client_connect)(test_name, NULL, &late) < 0);
	CHECK_EQ(RPC(server_event)(s, &e, sizeof(e)), 1);
	CHECK_EQ(e.kind, RPC_EVENT(CAME));
	CHECK(RPC(server_poll)(s) >= 0);
	CHECK(RPC(client_connect)(test_name, NULL, &late) < 0);
	events_next(s, RPC_EVENT(LEFT), 0, getpid());
	c = client_new();
	events_next(s, RPC_EVENT(CAME), 0, getpid());
	RPC(client_disconnect)(c);
}

static int events_calls;

static inline void events_connect_and_call(void)
{
	struct rpc_client *c = client_new();
	uint64_t word = 5;

	for (int i = 0; i < events_calls; i++)
		CHECK_EQ(RPC(client_call)(c, &word, sizeof(word), 1), 0);
	RPC(client_flush)(c);
}

/* Starts a process that connects, makes @calls calls, and sleeps until it is killed. */
static inline pid_t events_victim(int calls)
{
	events_calls = calls;
	return spawn(events_connect_and_call);
}

TEST(events_tell_deaths)
{
	SERVER *s = events_server(2);
	CLIENT *c = client_new();
	struct rpc_event e;
	pid_t pid;

	events_next(s, RPC_EVENT(CAME), 0, getpid());
	for (int i = 0; i < 3; i++) {
		pid = events_victim(i);
		if (i < 2) { /* the third one is dead before the server polls */
			events_next(s, RPC_EVENT(CAME), 1, pid);
			CHECK_EQ(rpc_echo(s), i);
		}
		test_kill(pid);
		if (i == 2)
			events_next(s, RPC_EVENT(CAME), 1, pid);
		do {
			rpc_echo(s);
			e = events_take(s);
		} while (e.kind == EVENTS_NONE);
		CHECK_EQ(e.kind, RPC_EVENT(DIED));
		CHECK_EQ(e.index, 1);
		CHECK_EQ(e.pid, pid);
	}
}

/* A server that sleeps is woken when clients come, leave and die. */
TEST(events_end_sleeps)
{
	SERVER *s = events_server(2);
	struct rpc_client *c;
	int fd = RPC(server_fd)(s);
	pid_t pid;

	CHECK(fd >= 0);
	CHECK_EQ(RPC(server_arm)(s), 0);
	CHECK(fdtest_sleeps(fd));
	c = client_new();
	CHECK(fdtest_readable(fd));
	CHECK_EQ(RPC(server_arm)(s), 1); /* as long as the event is not taken */
	CHECK_EQ(RPC(server_wait)(s, UINT64_MAX), 1);
	events_next(s, RPC_EVENT(CAME), 0, getpid());
	CHECK_EQ(RPC(server_arm)(s), 0);
	RPC(client_disconnect)(c);
	CHECK(fdtest_readable(fd));
	CHECK_EQ(RPC(server_wait)(s, UINT64_MAX), 1);
	events_next(s, RPC_EVENT(LEFT), 0, getpid());
	pid = events_victim(0);
	events_next(s, RPC_EVENT(CAME), 0, pid);
	CHECK_EQ(RPC(server_arm)(s), 0);
	test_kill(pid);
	do
		CHECK(fdtest_readable_within(fd, -1)); /* woken by the timer, not by a client */
	while (!RPC(server_arm)(s));
	events_next(s, RPC_EVENT(DIED), 0, pid);
	pid = events_victim(0);
	events_next(s, RPC_EVENT(CAME), 0, pid);
	test_kill(pid);
	CHECK_EQ(RPC(server_wait)(s, UINT64_MAX), 1);
	events_next(s, RPC_EVENT(DIED), 0, pid);
}

/* If net.unix.max_dgram_qlen is 10, not all introductions fit into the socket's queue. */
TEST(events_of_many)
{
	enum { MANY = 40 };
	SERVER *s = events_server(MANY);
	bool seen[MANY] = {false};
	struct rpc_client *c[MANY];
	int n = 0, go[2];
	char byte;
	pid_t pid;

	CHECK_EQ(pipe(go), 0);
	pid = test_fork();
	if (!pid) {
		for (int i = 0; i < MANY; i++)
			c[i] = client_new();
		CHECK_EQ(read(go[0], &byte, 1), 1);
		for (int i = 0; i < MANY; i++)
			RPC(client_disconnect)(c[i]);
		_exit(0);
	}
	while (n < 2 * MANY) {
		struct rpc_event e = events_take(s);

		if (e.kind == EVENTS_NONE)
			continue;
		CHECK_EQ(e.pid, pid);
		CHECK_EQ(e.kind, seen[e.index] ? RPC_EVENT(LEFT) : RPC_EVENT(CAME));
		seen[e.index] = true;
		if (++n == MANY)
			CHECK_EQ(write(go[1], "", 1), 1);
	}
	close(go[0]);
	close(go[1]);
	CHECK_EQ(test_reap(pid), 0);
}

/* ---- hostile introductions ---- */

/*
 * The server does not trust introductions: it reports the process that sent one only if the
 * descriptor holds the lock of the claimed index. A false introduction leaves no descriptor open,
 * and does not keep the server from accepting that of an honest client.
 */
TEST(events_believe_no_client)
{
	SERVER *s = events_server(3);
	CLIENT *own = client_new();
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), open_before;
	const uint32_t beyond = 1u << 28; /* an array element of this index is beyond any heap */
	struct rpc_client *c;
	struct rpc_map m;
	uint64_t cookie;
	pid_t pid;

	events_next(s, RPC_EVENT(CAME), 0, getpid());
	map_region(test_name, &m);
	CHECK_EQ(shm_lock(&m.region, 1 + beyond), 0);
	open_before = fdtest_open();
	cookie = m.door->cookie;
	for (int round = 0; round < 2; round++) {
		/* The introduction of the first client is ignored, that of the second is not. */
		m.door->cookie = round ? cookie : cookie ^ 1;
		pid = events_victim(0);
		m.door->cookie = cookie;
		intro_send(m.door, 1, m.region.fd, 1, 16, 0); /* without the lock */
		intro_send(m.door, 1, null, 1, 16, 0); /* another file */
		intro_send(m.door, 1, null, 0, 16, 0); /* no descriptor */
		intro_send(m.door, 1, m.region.fd, INTRO_MANY, 16, 0); /* too many */
		intro_send(m.door, 3, m.region.fd, 1, 16, 0); /* no such index */
		intro_send(m.door, beyond, m.region.fd, 1, 16, 0); /* with this index's lock */
		intro_send(m.door, 1, m.region.fd, 1, 12, 0); /* short */
		intro_send(m.door, 1, m.region.fd, 1, 16, 1); /* wrong cookie */
		events_next(s, RPC_EVENT(CAME), 1, round ? pid : 0);
		test_kill(pid);
		events_next(s, RPC_EVENT(DIED), 1, round ? pid : 0);
		CHECK_EQ(fdtest_open(), open_before);
	}
	/* Later introductions of others do not replace that of the lock's holder. */
	c = client_new();
	intro_send(m.door, RPC(client_index)(c), m.region.fd, 1, 16, 0);
	events_next(s, RPC_EVENT(CAME), 1, getpid());
	RPC(client_disconnect)(c);
	events_next(s, RPC_EVENT(LEFT), 1, getpid());
	shm_close(&m.region);
	close(null);
}

/*
 * An introduction for an index that no client has is not kept for the next client with that index.
 */
TEST(events_believe_no_early_claim)
{
	SERVER *s = events_server(2);
	struct rpc_client *first = client_new(), *c[2];
	uint64_t cookie;
	struct rpc_map m;

	map_region(test_name, &m);
	cookie = m.door->cookie;
	events_next(s, RPC_EVENT(CAME), 0, getpid());
	RPC(client_disconnect)(first);
	intro_send(m.door, 1, m.region.fd, 1, 16, 0);
	events_next(s, RPC_EVENT(LEFT), 0, getpid()); /* receives the false introduction, too */
	m.door->cookie ^= 1; /* the next clients' introductions are ignored */
	for (uint32_t i = 0; i < 2; i++) {
		c[i] = client_new();
		events_next(s, RPC_EVENT(CAME), i, 0);
	}
	m.door->cookie = cookie;
	for (uint32_t i = 0; i < 2; i++)
		RPC(client_disconnect)(c[i]);
	shm_close(&m.region);
}

static bool events_fatal; /* this process is killed when it has sent a message */

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	ssize_t n = __real_sendmsg(fd, m, flags);

	if (events_fatal)
		kill(getpid(), SIGKILL);
	return n;
}

/*
 * Connects in a child. With @dies, the child is killed as soon as it has sent its introduction;
 * otherwise it stays connected until the test kills it.
 */
static inline pid_t events_comer(bool dies)
{
	const struct rpc_attr patient = {.size = sizeof(patient), .connect_ms = 60000};
	struct rpc_client *c;
	pid_t pid = test_fork();

	if (pid)
		return pid;
	events_fatal = dies;
	CHECK_EQ(RPC(client_connect)(test_name, &patient, &c), 0);
	for (;;)
		pause();
}

/* The pid of a client that died right after its introduction is not reported for the next one. */
TEST(events_forget_who_died_early)
{
	SERVER *s = events_server(1);
	struct rpc_map m;
	pid_t pid;

	map_region(test_name, &m);
	CHECK_EQ(waitpid(events_comer(true), NULL, 0) > 0, 1);
	CHECK_EQ(shm_locked(&m.region, 1), 1); /* by the descriptor in the introduction */
	while (shm_locked(&m.region, 1))
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	m.door->cookie ^= 1; /* the next client's introduction is ignored */
	pid = events_comer(false);
	events_next(s, RPC_EVENT(CAME), 0, 0);
	test_kill(pid);
	events_next(s, RPC_EVENT(DIED), 0, 0);
	shm_close(&m.region);
}

/*
 * If a client dies before it wakes a sleeping server, others can get its place, even if the client
 * has reset the server's sleep word.
 */
static inline void events_next_comer(bool took)
{
	SERVER *s = events_server(1);
	struct rpc_event e = {.kind = EVENTS_NONE};
	int fd = RPC(server_fd)(s);
	struct rpc_map m;
	pid_t pid;

	CHECK_EQ(RPC(server_arm)(s), 0);
	CHECK(waitpid(events_comer(true), NULL, 0) > 0);
	map_region(test_name, &m);
	if (took)
		__atomic_store_n(m.server_state, SLEEP_RUNNING, __ATOMIC_RELAXED);
	shm_close(&m.region);
	CHECK(!fdtest_readable(fd));
	pid = events_comer(false);
	/* The server is not armed before this wait, because arming would receive introductions. */
	CHECK(fdtest_readable_within(fd, -1));
	while (e.kind == EVENTS_NONE) {
		while (!RPC(server_arm)(s))
			CHECK(fdtest_readable_within(fd, -1));
		e = events_take(s);
	}
	CHECK_EQ(e.kind, RPC_EVENT(CAME));
	CHECK_EQ(e.pid, pid);
	test_kill(pid);
	events_next(s, RPC_EVENT(DIED), 0, pid);
}

TEST_WITH(events_wake_for_the_next_comer, events_next_comer, false);
TEST_WITH(events_wake_despite_the_word, events_next_comer, true);

/* Unless NULL: if recvmsg(2) finds no introduction, a new client is stored in *events_comes. */
static struct rpc_client **events_comes;

ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);

ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = __real_recvmsg(fd, m, flags);
	struct rpc_client **comes = events_comes;

	if (n < 0 && comes) {
		events_comes = NULL;
		*comes = client_new();
		errno = EAGAIN;
	}
	return n;
}

/*
 * A client's pid is reported even if the client connects during a poll of the server, just after
 * the poll has received the introductions.
 */
TEST(events_know_who_comes_meanwhile)
{
	SERVER *s = events_server(2);
	struct rpc_client *first = client_new();
	CLIENT *c = NULL;
	uint32_t n = 0;
	struct rpc_event e;

	events_next(s, RPC_EVENT(CAME), 0, getpid());
	RPC(client_disconnect)(first);
	events_comes = &c;
	while (n < 2) {
		CHECK(RPC(server_poll)(s) >= 0);
		while (RPC(server_event)(s, &e, sizeof(e)) > 0) {
			CHECK_EQ(e.pid, getpid());
			n++;
		}
	}
}

/* A client's death is reported once, even if others connect before the event is taken. */
TEST(events_of_the_dead_once)
{
	SERVER *s = events_server(2);
	pid_t pid = events_victim(0);

	events_next(s, RPC_EVENT(CAME), 0, pid);
	test_kill(pid);
	CHECK_EQ(RPC(server_wait)(s, UINT64_MAX), 1); /* the server notices the death */
	{
		CLIENT *c = client_new();

		CHECK_EQ(RPC(client_index)(c), 1);
		CHECK(RPC(server_poll)(s) >= 0);
		events_next(s, RPC_EVENT(DIED), 0, pid);
		events_next(s, RPC_EVENT(CAME), 1, getpid());
		CHECK_EQ(events_take(s).kind, EVENTS_NONE);
	}
}

static inline void events_in_child(void *arg)
{
	RPC(server_destroy)((struct rpc_server *)arg);
}

/* A server whose attempt to get a descriptor fails still reports the pids of its clients. */
TEST(events_without_a_descriptor)
{
	SERVER *s = events_server(2);
	CLIENT *far = client_new(), *c = NULL;
	struct rpc_map m;

	events_next(s, RPC_EVENT(CAME), 0, getpid());
	map_region(test_name, &m);
	m.client_addr->netns++;
	CHECK_EQ(RPC(server_fd)(s), -ENETUNREACH);
	m.client_addr->netns--;
	c = client_new();
	events_next(s, RPC_EVENT(CAME), 1, getpid());
	CHECK(RPC(server_fd)(s) >= 0);
	shm_close(&m.region);
}

static bool events_no_socket; /* this process can make no socket */

int __real_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol);

int __wrap_socket(int domain, int type, int protocol)
{
	if (!events_no_socket)
		return __real_socket(domain, type, protocol);
	errno = EMFILE;
	return -1;
}

static inline void events_nothing(void *arg)
{
}

/* If a server cannot be created for lack of a socket, a later fork() does not use freed memory. */
static inline void events_no_door(void *arg)
{
	const struct rpc_attr attr = {.size = sizeof(attr), .max_clients = 1, .events = 1};
	struct rpc_server *s = NULL;
	int open = fdtest_open();

	mallopt(M_PERTURB, 0x55); /* overwrites freed memory; a sanitizer reports its use anyway */
	events_no_socket = true;
	CHECK_EQ(RPC(server_create)(test_name, &attr, &s), -EMFILE);
	events_no_socket = false;
	fdtest_in_child(events_nothing, NULL);
	CHECK_EQ(fdtest_open(), open);
}

TEST_WITH(events_without_a_door, fdtest_in_child, events_no_door, NULL);

/* A forked child that destroys its copy of the server receives no introductions. */
TEST(events_after_fork)
{
	SERVER *s = events_server(1);
	CLIENT *c = client_new();

	fdtest_in_child(events_in_child, s);
	events_next(s, RPC_EVENT(CAME), 0, getpid());
}

#endif
