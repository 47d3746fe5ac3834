/* SPDX-License-Identifier: MIT */
/* Valid and invalid messages on a control connection. The engine must survive all of them. */
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "support/stranger.h"
#include "conns.h"
#include "engine.h"
#include "host.h"
#include "tcplink.h"

static void is_not_welcome(struct ctl_msg m)
{
	GUEST c = host_call();

	CHECK_EQ(host_exchange(&c, m, CTL_WELCOME).status, EACCES);
	host_disconnects(&c);
}

TEST(who_does_not_know_the_key)
{
	struct ctl_msg m = host_hello(1);

	m.key[15] ^= 1;
	is_not_welcome(m);
	is_not_welcome(host_hello(0));
	is_not_welcome(host_hello(TENT_MAX_RAILS + 1));
	host_sends_away(host_call(), (struct ctl_msg){.type = CTL_CONNECT});
	host_sends_away(host_call(), (struct ctl_msg){.type = CTL_FENCE});
	host_sends_away(host_call(), (struct ctl_msg){.type = CTL_FENCE, .pair = TENT_MAX_RAILS});
}

TEST(who_speaks_another_language)
{
	static const uint32_t others[] = {CTL_MAGIC + 1, CTL_MAGIC + (1u << 24),
		CTL_MAGIC - (1u << 24)};
	struct ctl_msg m = host_hello(1);
	struct ctl c;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) { /* the last two are other versions */
		c = host_call();
		m.magic = others[i]; /* ctl_send() would set it */
		CHECK_EQ(write(c.fd, &m, sizeof(m)), sizeof(m));
		host_disconnects(&c);
		ctl_close(&c);
	}
	c = host_call();
	CHECK_EQ(write(c.fd, &m, 10), 10);
	ctl_close(&c);
	host_sends_away(host_guest(), (struct ctl_msg){.type = 99});
	host_sends_away(host_guest(), host_hello(1));
	host_sends_away(host_guest(), (struct ctl_msg){.type = CTL_WELCOME});
}

TEST(who_names_pairs_that_are_not)
{
	static const uint32_t pairs[] = {1, TENT_MAX_RAILS - 1, CONN_LINKS, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		host_sends_away(host_guest(),
			(struct ctl_msg){.type = CTL_CONNECT, .pair = pairs[i]});
		host_sends_away(host_guest(),
			(struct ctl_msg){.type = CTL_FENCE, .pair = pairs[i]});
	}
	host_sends_away(host_guest(), (struct ctl_msg){.type = CTL_CONNECT, .rail = desc.n_rails});
	host_sends_away(host_guest(), (struct ctl_msg){.type = CTL_CONNECT, .rail = UINT32_MAX});
}

/* A fence of a pair without a link is confirmed too. */
TEST(a_fence_of_nothing)
{
	struct ctl_msg m = {.type = CTL_FENCE, .pair = CONN_LINKS - 1, .epoch = 7};
	GUEST c = host_guest();

	CHECK_EQ(host_exchange(&c, m, CTL_FENCED).epoch, 7);
}

/* Marks in messages are accepted only if links carry none. */
TEST(marks_by_message)
{
	const struct notice_mark mark = {.lap = 1, .value = 5, .positions = 1};
	struct ctl_msg m = {.type = CTL_NOTICE}, answer;
	uint16_t value = 0;
	GUEST c = {.fd = -1};

	m.mark = mark;
	if (!duo_shm_rails()) {
		host_sends_away(host_guest(), m);
		CHECK_EQ(tent_notice(host, &value), -EAGAIN);
		return;
	}
	c = host_guest();
	answer = host_exchange(&c, m, CTL_TAKEN);
	CHECK(answer.mark.lap == mark.lap && answer.mark.slot == mark.slot);
	CHECK_EQ(tent_notice(host, &value), 0);
	CHECK_EQ(value, 5);
}

/* A guest sends notices in all slots, with values from @first on, and leaves. */
static void notifies(uint32_t first)
{
	struct ctl_msg m[NOTICE_SLOTS] = {{0}}, answer;
	GUEST c = host_guest();

	for (uint32_t i = 0; i < NOTICE_SLOTS; i++) {
		m[i].type = CTL_NOTICE;
		m[i].mark = (struct notice_mark){.lap = 1,
			.value = (uint16_t)(first + i),
			.slot = (uint8_t)i,
			.positions = 1};
	}
	CHECK_EQ(ctl_send_all(&c, m, NOTICE_SLOTS), 0);
	ctl_end(&c);
	while (!ctl_await(&c, ANSWER_MS, &answer))
		;
}

/* Guests leave before the program takes their notices, which are more than the ring holds. */
TEST(notices_of_the_departed)
{
	const uint32_t n = NOTICE_RING + 4 * NOTICE_SLOTS;
	uint16_t value = 0;

	if (!duo_shm_rails())
		return; /* other rails carry the marks of notices */
	for (uint32_t i = 0; i < n; i += NOTICE_SLOTS)
		notifies(i);
	for (uint32_t i = 0; i < n; i++) {
		CHECK_EQ(tent_notice(host, &value), 0);
		CHECK_EQ(value, i);
	}
	CHECK_EQ(tent_notice(host, &value), -EAGAIN);
}

/* Returns how many of the silent strangers the host has disconnected. */
static int sent_away(const struct strangers *s)
{
	int n = 0;

	for (int i = 0; i < s->n; i++)
		n += recv(s->fd[i], &(char){0}, 1, MSG_DONTWAIT) == 0;
	return n;
}

/* A peer is served while strangers are connected, of which at most MAX_STRANGERS stay. */
TEST(who_says_nothing)
{
	struct ctl_msg m = host_hello(1);

	m.magic = CTL_MAGIC;
	for (unsigned kind = 0; kind < STRANGERS; kind++) {
		AT_END(strangers_leave)
		struct strangers s = strangers_come(kind, desc.port, &m, sizeof(m));
		struct ctl_msg fence = {.type = CTL_FENCE, .epoch = kind};
		GUEST c = host_guest();

		strangers_drip(&s);
		CHECK_EQ(host_exchange(&c, fence, CTL_FENCED).epoch, kind);
		if (kind == STRANGER_MANY)
			CHECK(sent_away(&s) >= STRANGERS_MANY - MAX_STRANGERS);
	}
}

/* ---- many peers at the same time ---- */

static struct ctl guests[3 * MAX_STRANGERS];

/* Waits until the engine has closed all connections, so that no descriptor becomes free later. */
static void all_have_left(void)
{
	while (host_connections())
		sched_yield();
}

/* @n peers connect and present the key. Returns with the engine's lock, so none is accepted yet. */
static void come_together(uint32_t n)
{
	strangers_need_descriptors();
	all_have_left();
	pthread_mutex_lock(&host->lock);
	for (uint32_t i = 0; i < n; i++) {
		guests[i] = host_call();
		host_send(&guests[i], host_hello(1));
	}
}

static void are_welcome(uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++) {
		CHECK_EQ(host_await(&guests[i], CTL_WELCOME).status, 0);
		ctl_close(&guests[i]);
	}
}

/* Each connection is read before it may be closed. */
TEST(many_come_together)
{
	come_together(ARRAY_SIZE(guests));
	pthread_mutex_unlock(&host->lock);
	are_welcome(0, ARRAY_SIZE(guests));
}

/* The process can open no more descriptors than @n. Returns the limit of before. */
static struct rlimit allow(rlim_t n)
{
	struct rlimit r;
	int fd = dup(0); /* the lowest one that is free */

	CHECK(fd >= 0);
	close(fd);
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)fd + n, r.rlim_max}), 0);
	return r;
}

/* Waits until a set has no event, so that the engine's thread can sleep. */
static void has_peace(int set)
{
	while (poll(&(struct pollfd){.fd = set, .events = POLLIN}, 1, 0))
		sched_yield();
}

/* If the engine has no descriptor for a peer, the peer waits. */
TEST(many_wait_for_a_descriptor)
{
	const uint32_t n = 20;
	struct rlimit r;

	if (!duo_shm_rails())
		return; /* it does not depend on the rails */
	come_together(n);
	r = allow(2);
	pthread_mutex_unlock(&host->lock);
	CHECK_EQ(host_await(&guests[0], CTL_WELCOME).status, 0);
	CHECK_EQ(host_await(&guests[1], CTL_WELCOME).status, 0);
	has_peace(host->ctls);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	ctl_close(&guests[0]);
	ctl_close(&guests[1]);
	are_welcome(2, n);
	/* The engine watches the listener again. */
	CHECK_EQ(epoll_ctl(host->ctls, EPOLL_CTL_ADD, host->listener, &(struct epoll_event){0}),
		-1);
	CHECK_EQ(errno, EEXIST);
	has_peace(host->ctls);
	guests[0] = host_guest();
	ctl_close(&guests[0]);
}

/* ---- connections that carry data ---- */

/* Returns the port at which the engine's rail over TCP listens. Nobody is connected then. */
static uint16_t data_port(void)
{
	struct ctl c = host_guest();
	struct ctl_msg answer =
		host_exchange(&c, (struct ctl_msg){.type = CTL_CONNECT}, CTL_CONNECTED);
	struct tcp_end end;

	memcpy(&end, answer.end.bytes, sizeof(end));
	ctl_close(&c);
	all_have_left();
	return end.port;
}

/* The engine accepts the connection, and closes it when it has read the bytes. */
static void is_refused(int fd)
{
	char garbage[sizeof(struct greeting)] = {0};

	stranger_say(fd, garbage, sizeof(garbage));
	CHECK(recv(fd, garbage, 1, 0) <= 0);
	close(fd);
}

TEST(data_waits_for_a_descriptor)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rlimit r;
	int fd;

	if (!duo_rails("tcp:"))
		return;
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0);
	a.sin_port = htons(data_port());
	r = allow(0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	has_peace(host->ports[0]->fd);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	is_refused(fd);
	is_refused(stranger_connect(ntohs(a.sin_port))); /* the engine listens again */
}

static bool (*progress)(struct tent *t, uint64_t now, bool all);
static atomic_uint rounds;

static bool progress_without_end(struct tent *t, uint64_t now, bool all)
{
	progress(t, now, all);
	atomic_fetch_add(&rounds, 1); /* read by data_comes_during_work() */
	return true;
}

static void set_progress(bool (*fn)(struct tent *t, uint64_t now, bool all))
{
	pthread_mutex_lock(&host->lock);
	progress = host->progress;
	host->progress = fn;
	loop_wake(host, 0);
	pthread_mutex_unlock(&host->lock);
}

/* An engine that always has work accepts connections, too. */
TEST(data_comes_during_work)
{
	uint16_t port;

	if (!duo_rails("tcp:"))
		return;
	port = data_port();
	set_progress(progress_without_end);
	while (atomic_load(&rounds) < 2) /* then the thread does not look for events any more */
		sched_yield();
	is_refused(stranger_connect(port));
	set_progress(progress);
}

int main(int argc, char **argv)
{
	int failed;

	host_open();
	failed = test_main(argc, argv);
	host_close();
	return failed;
}
