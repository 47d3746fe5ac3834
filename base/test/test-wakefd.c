/* SPDX-License-Identifier: MIT */
/* Sleeping on a descriptor, and waking: base/wakefd.h. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "support/fdtest.h"
#include "support/intro.h"
#include "base/wakefd.h"

#define FOR_EVER (-1) /* the time limit of the test program ends a wait that hangs */

/* A sleeper, and what it shares with its wakers. */
struct sleeper {
	struct wakefd w;
	struct wakefd_addr addr;
	uint32_t word;
};

static void sleeper_open(struct sleeper *s)
{
	*s = (struct sleeper){.w = WAKEFD_NONE};
	CHECK_EQ(wakefd_open(&s->w, &s->addr), 0);
}

static void sleeper_close(struct sleeper *s)
{
	wakefd_close(&s->w);
}

/* A SLEEPER or a WAKER is closed at the end of its block. */
#define SLEEPER AT_END(sleeper_close) struct sleeper
#define WAKER AT_END(wakefd_close) struct wakefd

static int wake(struct wakefd *waker, struct sleeper *s)
{
	sleep_fence();
	return wakefd_wake(waker, &s->word, &s->addr);
}

TEST(one_sleep_is_one_wakeup)
{
	WAKER waker = WAKEFD_NONE;
	SLEEPER s;

	sleeper_open(&s);
	CHECK_EQ(wake(&waker, &s), 0);
	CHECK_EQ(waker.sender, -1); /* a waker without a sleeper opens no descriptor */
	for (int i = 0; i < 100; i++) {
		wakefd_prepare(&s.w, &s.word);
		CHECK_EQ(s.word, SLEEP_ON_FD);
		CHECK(fdtest_sleeps(s.w.fd));
		CHECK_EQ(wake(&waker, &s), 1);
		CHECK_EQ(s.word, SLEEP_RUNNING);
		CHECK_EQ(wake(&waker, &s), 0);
		CHECK(fdtest_readable(s.w.fd));
	}
	sleep_cancel(&s.word);
	CHECK_EQ(wake(&waker, &s), 0);
	s.word = SLEEP_ASLEEP; /* it sleeps on the futex */
	CHECK_EQ(wake(&waker, &s), 1);
	s.word = 77; /* an invalid value */
	CHECK_EQ(wake(&waker, &s), 0);
}

TEST(thread_is_woken_by_its_eventfd)
{
	WAKER w = WAKEFD_NONE;
	uint32_t word = SLEEP_RUNNING;

	CHECK_EQ(wakefd_open_event(&w), 0);
	CHECK(!wakefd_post(&w, &word));
	for (int i = 0; i < 100; i++) {
		wakefd_prepare(&w, &word);
		CHECK(fdtest_sleeps(w.fd));
		CHECK(wakefd_post(&w, &word));
		CHECK(!wakefd_post(&w, &word));
		CHECK(fdtest_readable(w.fd));
	}
	word = SLEEP_ASLEEP;
	CHECK(wakefd_post(&w, &word));
}

/* A late wake-up of an earlier sleep and a wake-up for this sleep arrive together. */
TEST(several_wakeups_are_taken_together)
{
	WAKER waker = WAKEFD_NONE;
	SLEEPER s;

	sleeper_open(&s);
	for (int i = 0; i < 3; i++) {
		s.word = SLEEP_ON_FD;
		CHECK_EQ(wake(&waker, &s), 1);
	}
	wakefd_prepare(&s.w, &s.word);
	CHECK(fdtest_sleeps(s.w.fd));
}

/*
 * Writes the name of the socket to *sa, and returns the length of the address. /proc/net/unix shows
 * the name to every user.
 */
static socklen_t public_name(const struct sleeper *s, struct sockaddr_un *sa)
{
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)sprintf(sa->sun_path + 1, "wakefd.%016" PRIx64, s->addr.name));
}

TEST(strangers_neither_wake_nor_fill_the_queue)
{
	WAKER waker = WAKEFD_NONE;
	struct sockaddr_un sa;
	SLEEPER s;
	uint64_t wrong[2];
	socklen_t len;
	AT_END(end_close_fd) int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	sleeper_open(&s);
	len = public_name(&s, &sa);
	for (int i = 0; i < 64; i++) {
		wrong[0] = wrong[1] = s.addr.cookie ^ 1ull << i;
		for (size_t n = 0; n <= sizeof(wrong); n++)
			CHECK(sendto(sock, wrong, n, MSG_DONTWAIT, (struct sockaddr *)&sa, len) >=
				0);
	}
	/* Datagrams with only a part of the cookie are dropped as well. */
	CHECK_EQ(connect(sock, (struct sockaddr *)&sa, len), 0);
	for (size_t n = 0; n < sizeof(s.addr.cookie); n++)
		CHECK(send(sock, &s.addr.cookie, n, MSG_DONTWAIT) >= 0);
	CHECK(fdtest_sleeps(s.w.fd));
	wakefd_prepare(&s.w, &s.word);
	CHECK_EQ(wake(&waker, &s), 1);
	CHECK(fdtest_readable(s.w.fd));
}

/* Each process that can read the shared memory can fill the socket's queue; each sleep still ends. */
TEST(full_queue_is_readable)
{
	WAKER waker = WAKEFD_NONE;
	struct sockaddr_un sa;
	SLEEPER s;
	socklen_t len;
	AT_END(end_close_fd) int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	sleeper_open(&s);
	len = public_name(&s, &sa);
	for (int i = 0; i < 3; i++) {
		wakefd_prepare(&s.w, &s.word);
		while (sendto(sock, &s.addr.cookie, sizeof(s.addr.cookie), MSG_DONTWAIT,
			       (struct sockaddr *)&sa, len) > 0)
			;
		CHECK_EQ(errno, EAGAIN);
		CHECK_EQ(wake(&waker, &s), 1);
		CHECK(fdtest_readable(s.w.fd));
	}
	/* A sleep reads only some of the datagrams if net.unix.max_dgram_qlen is large. */
	do
		wakefd_prepare(&s.w, &s.word);
	while (!fdtest_sleeps(s.w.fd));
}

/* Datagrams that are not read take space in the send buffer of the waker, which is small here. */
TEST(many_sleepers_take_nothing_and_all_are_woken)
{
	enum { N = 100 };
	static struct sleeper s[N];
	WAKER waker = WAKEFD_NONE;
	int none = 0;

	for (int i = 0; i < N; i++) {
		sleeper_open(&s[i]);
		wakefd_prepare(&s[i].w, &s[i].word);
		CHECK_EQ(wake(&waker, &s[i]), 1);
		CHECK_EQ(setsockopt(waker.sender, SOL_SOCKET, SO_SNDBUF, &none, sizeof(none)), 0);
	}
	for (int i = 0; i < N; i++) {
		CHECK(fdtest_readable(s[i].w.fd));
		wakefd_close(&s[i].w);
	}
}

/* No sleeper is woken if it has gone, or if a peer has written a wrong address. */
TEST(nobody_is_woken_by_a_wrong_address)
{
	static const uint64_t names[] = {0, 1, UINT64_MAX};
	WAKER waker = WAKEFD_NONE;
	struct sleeper s;

	sleeper_open(&s);
	s.addr.netns = wakefd_netns();
	wakefd_prepare(&s.w, &s.word);
	wakefd_close(&s.w);
	CHECK_EQ(wake(&waker, &s), 0);
	CHECK_EQ(s.word, SLEEP_RUNNING);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		s.addr.name = names[i];
		s.word = SLEEP_ON_FD;
		CHECK_EQ(wake(&waker, &s), 0);
	}
}

static void wake_without_descriptors(void *arg)
{
	struct sleeper *s = arg;
	struct wakefd waker = WAKEFD_NONE;
	struct rlimit old;

	fdtest_fill_gaps();
	sleeper_open(s);
	wakefd_prepare(&s->w, &s->word);
	old = fdtest_limit(0);
	CHECK_EQ(wake(&waker, s), -EMFILE);
	CHECK_EQ(s->word, SLEEP_ON_FD); /* so that another waker can try */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(wake(&waker, s), 1);
	CHECK(fdtest_readable(s->w.fd));
}

TEST(waker_without_descriptors_tries_again)
{
	struct sleeper s;

	fdtest_in_child(wake_without_descriptors, &s);
}

/* The waker's thread returns from a network namespace in which it has woken another sleeper. */
static void wake_after_a_journey(void *arg)
{
	int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	WAKER waker = WAKEFD_NONE;
	struct sleeper s, there;

	sleeper_open(&s);
	if (unshare(CLONE_NEWNET)) {
		printf("  not here: network namespaces\n");
		fflush(stdout);
		return;
	}
	sleeper_open(&there);
	there.addr.netns = wakefd_netns();
	wakefd_prepare(&there.w, &there.word);
	CHECK_EQ(wake(&waker, &there), 1);
	CHECK_EQ(setns(home, CLONE_NEWNET), 0);
	s.addr.netns = wakefd_netns();
	wakefd_prepare(&s.w, &s.word);
	CHECK_EQ(wake(&waker, &s), 1);
	CHECK(fdtest_readable(s.w.fd));
	/* The sleeper in the other namespace cannot be reached from here, and still sleeps. */
	wakefd_prepare(&there.w, &there.word);
	CHECK_EQ(wake(&waker, &there), -ENETUNREACH);
	CHECK_EQ(there.word, SLEEP_ON_FD);
}

TEST_WITH(waker_comes_home, fdtest_in_child, wake_after_a_journey, NULL);

static void open_without_descriptors(void *arg)
{
	int before;

	fdtest_fill_gaps();
	before = fdtest_open();
	for (int more = 0; more <= 3; more++) {
		struct sleeper s = {.w = WAKEFD_NONE};
		struct rlimit old = fdtest_limit(more);
		int err = wakefd_open(&s.w, &s.addr);

		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
		CHECK_EQ(err, more < 3 ? -EMFILE : 0);
		CHECK_EQ(s.addr.name != 0, more == 3);
		CHECK_EQ(fdtest_open(), before + (more < 3 ? 0 : 3));
		CHECK_EQ(s.w.listed, more == 3); /* the list of open wakefds has no failed one */
		wakefd_close(&s.w);
	}
	CHECK_EQ(fdtest_open(), before);
}

TEST_WITH(open_fails_and_leaves_nothing, fdtest_in_child, open_without_descriptors, NULL);

TEST(timer_makes_it_readable)
{
	SLEEPER s;

	sleeper_open(&s);
	for (int i = 0; i < 3; i++) {
		wakefd_prepare(&s.w, &s.word);
		wakefd_timer(&s.w, 1000);
		CHECK(fdtest_readable_within(s.w.fd, FOR_EVER));
		CHECK_EQ(s.word, SLEEP_ON_FD);
		wakefd_prepare(&s.w, &s.word);
		wakefd_timer(&s.w, 0);
		CHECK(!fdtest_readable(s.w.fd));
	}
	wakefd_prepare(&s.w, &s.word);
	wakefd_timer(&s.w, 1000);
	CHECK(fdtest_readable_within(s.w.fd, FOR_EVER));
	/* Setting a later time cancels the earlier one. */
	wakefd_prepare(&s.w, &s.word);
	wakefd_timer(&s.w, 3600 * NSEC_PER_SEC);
	CHECK(!fdtest_readable(s.w.fd));
}

TEST(all_is_closed_by_exec)
{
	WAKER event = WAKEFD_NONE;
	WAKER waker = WAKEFD_NONE;
	SLEEPER s;

	sleeper_open(&s);
	wakefd_prepare(&s.w, &s.word);
	CHECK_EQ(wake(&waker, &s), 1);
	CHECK_EQ(wakefd_open_event(&event), 0);
	for (int fd = 3; fd < 64; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (fd == s.w.fd || fd == s.w.queue || fd == s.w.timer || fd == waker.sender ||
			fd == event.fd)
			CHECK_EQ(flags, FD_CLOEXEC);
	}
	CHECK(s.w.fd < 64 && s.w.queue < 64 && s.w.timer < 64 && waker.sender < 64 &&
		event.fd < 64);
}

/* Starts a child that stays alive, with all descriptors that the fork handler has not closed. */
static pid_t child_that_waits(int *end_p)
{
	int end[2], up[2];
	pid_t pid;
	char c;

	CHECK_EQ(pipe(end), 0);
	CHECK_EQ(pipe(up), 0);
	pid = test_fork();
	if (!pid) {
		close(end[1]);
		close(up[1]);
		_exit(read(end[0], &c, 1) != 0);
	}
	close(end[0]);
	close(up[1]);
	CHECK_EQ(read(up[0], &c, 1), 0); /* the child's fork handlers have run */
	close(up[0]);
	*end_p = end[1];
	return pid;
}

/*
 * If a child kept a copy of a readable descriptor, the parent's epoll set would report the
 * descriptor for ever, although the parent has closed it.
 */
TEST(forked_child_keeps_nothing_open)
{
	int set = epoll_create1(EPOLL_CLOEXEC), end;
	struct epoll_event ev = {.events = EPOLLIN};
	struct wakefd waker = WAKEFD_NONE, event = WAKEFD_NONE;
	uint32_t word = SLEEP_ON_FD;
	struct sleeper s;
	pid_t pid;

	sleeper_open(&s);
	CHECK_EQ(wakefd_open_event(&event), 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, s.w.fd, &ev), 0);
	CHECK_EQ(epoll_ctl(set, EPOLL_CTL_ADD, event.fd, &ev), 0);
	wakefd_prepare(&s.w, &s.word);
	CHECK_EQ(wake(&waker, &s), 1);
	CHECK(wakefd_post(&event, &word));
	pid = child_that_waits(&end);
	CHECK(fdtest_readable(set));
	wakefd_close(&s.w);
	CHECK(fdtest_readable(set));
	wakefd_close(&event);
	wakefd_close(&waker);
	CHECK_EQ(epoll_wait(set, &ev, 1, 0), 0);
	close(end);
	CHECK_EQ(test_reap(pid), 0);
	close(set);
}

TEST(nothing_is_left_open)
{
	int before = fdtest_open();

	for (int i = 0; i < 10000; i++) {
		struct wakefd waker = WAKEFD_NONE;
		struct sleeper s;

		sleeper_open(&s);
		wakefd_prepare(&s.w, &s.word);
		CHECK_EQ(wake(&waker, &s), 1);
		wakefd_close(i & 1 ? &waker : &s.w);
		wakefd_close(i & 1 ? &s.w : &waker);
	}
	CHECK_EQ(fdtest_open(), before);
}

TEST(namespaces_are_told_apart)
{
	CHECK(wakefd_netns());
	CHECK(wakefd_reaches(wakefd_netns(), wakefd_netns()));
	CHECK(!wakefd_reaches(wakefd_netns(), wakefd_netns() + 1));
	CHECK(!wakefd_reaches(0, 0)); /* both are unknown */
}

static uint32_t met; /* calls of meet() */

static void door_without_descriptors(void *arg)
{
	struct wakefd w = WAKEFD_NONE;
	struct wakefd_addr door = {0};
	struct rlimit old;

	fdtest_fill_gaps();
	old = fdtest_limit(0);
	CHECK_EQ(wakefd_door(&w, &door), -EMFILE);
	CHECK_EQ(wakefd_open_event(&w), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(!w.listed && !door.name);
	CHECK_EQ(wakefd_door(&w, &door), 0);
	CHECK(w.listed);
	wakefd_close(&w);
	CHECK(!w.listed);
}

TEST_WITH(door_fails_and_leaves_nothing, fdtest_in_child, door_without_descriptors, NULL);

static void meet(void *arg, const struct wakefd_intro *in)
{
	CHECK_EQ(in->index, *(uint32_t *)arg);
	CHECK_EQ(in->pid, getpid());
	CHECK_EQ(in->uid, getuid());
	CHECK_EQ(in->gid, getgid());
	CHECK(fcntl(in->fd, F_GETFD) & FD_CLOEXEC);
	met++;
}

TEST(introductions_are_checked)
{
	static const struct {
		size_t len;
		int fds;
		uint32_t met;
	} t[] = {{16, 1, 1}, {12, 1, 0}, {8, 1, 0}, {16, 0, 0}, {16, 2, 1}, {16, INTRO_MANY, 1}};
	struct wakefd w = WAKEFD_NONE;
	struct wakefd_addr door = {0};
	uint32_t index = 7;
	int open;

	CHECK_EQ(wakefd_door(&w, &door), 0);
	open = fdtest_open();
	CHECK_EQ(wakefd_introduce(&door, index, STDERR_FILENO), 0);
	wakefd_meet(&w, meet, &index);
	CHECK_EQ(met, 1);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		met = 0;
		intro_send(&door, index, STDERR_FILENO, t[i].fds, t[i].len, 0);
		wakefd_meet(&w, meet, &index);
		CHECK_EQ(met, t[i].met);
		CHECK_EQ(fdtest_open(), open);
	}
	met = 0;
	while (wakefd_introduce(&door, index, STDERR_FILENO) == 0)
		index = 7; /* until the queue is full */
	wakefd_meet(&w, meet, &index);
	CHECK(met > 0);
	CHECK_EQ(wakefd_introduce(&door, index, STDERR_FILENO), 0);
	wakefd_close(&w);
	CHECK(wakefd_introduce(&door, index, STDERR_FILENO) < 0);
	CHECK_EQ(fdtest_open(), open - 1);
}

/* After wakefd_close_waiting() an object still wakes others, and receives introductions. */
TEST(only_the_waiting_ends)
{
	struct sleeper s, other;
	struct wakefd_addr door = {0};
	uint32_t index = 3;
	int open = fdtest_open();

	sleeper_open(&s);
	sleeper_open(&other);
	CHECK_EQ(wakefd_door(&s.w, &door), 0);
	for (int i = 0; i < 2; i++) {
		wakefd_prepare(&other.w, &other.word);
		CHECK_EQ(wake(&s.w, &other), 1);
		CHECK(fdtest_readable(other.w.fd));
		met = 0;
		CHECK_EQ(wakefd_introduce(&door, index, STDERR_FILENO), 0);
		wakefd_meet(&s.w, meet, &index);
		CHECK_EQ(met, 1);
		wakefd_close_waiting(&s.w);
		CHECK(s.w.fd == -1 && s.w.queue == -1 && s.w.timer == -1);
	}
	CHECK_EQ(wakefd_open(&s.w, &s.addr), 0);
	wakefd_close(&s.w);
	wakefd_close(&other.w);
	CHECK_EQ(fdtest_open(), open);
}
