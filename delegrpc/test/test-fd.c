/* SPDX-License-Identifier: MIT */
/* Servers and clients that sleep on descriptors: what makes them readable, and what does not. */
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>

#include "support/fdtest.h"
#include "solo.h"

#define FOR_EVER (-1) /* the guard of the test program ends it */

/* Armed, and asleep if it polled now. */
static void server_sleeps(struct delegrpc_server *s)
{
	CHECK_EQ(delegrpc_server_arm(s), 0);
	CHECK(!fdtest_readable(delegrpc_server_fd(s)));
}

static void client_sleeps(struct delegrpc_client *c)
{
	CHECK_EQ(delegrpc_client_arm(c), 0);
	CHECK(!fdtest_readable(delegrpc_client_fd(c)));
}

/* A client that connected before the descriptor was made, and one that did after it. */
static void server_is_woken_by_calls(void)
{
	struct delegrpc_server *s = server_new(2, 0, 16);
	struct delegrpc_client *c[2] = {client_new()};
	struct seen seen = {0};

	CHECK_EQ(delegrpc_server_arm(s), -EBADF);
	CHECK(delegrpc_server_fd(s) >= 0);
	CHECK_EQ(delegrpc_server_fd(s), delegrpc_server_fd(s));
	c[1] = client_new();
	for (int i = 0; i < 10; i++) {
		server_sleeps(s);
		call(c[i % 2], 1);
		CHECK(!fdtest_readable(delegrpc_server_fd(s))); /* staged */
		CHECK_EQ(delegrpc_client_flush(c[i % 2]), 0);
		CHECK(fdtest_readable(delegrpc_server_fd(s)));
		CHECK_EQ(delegrpc_server_arm(s), 1);
		CHECK_EQ(delegrpc_server_poll(s), 1);
		CHECK_EQ(delegrpc_server_arm(s), 1); /* found, and not received */
		CHECK_EQ(serve(s), 1);
		server_sleeps(s);
		CHECK_EQ(delegrpc_client_poll(c[i % 2], note, &seen), 1);
	}
	delegrpc_client_disconnect(c[0]);
	delegrpc_client_disconnect(c[1]);
	delegrpc_server_destroy(s);
}

/* Each side may have a descriptor or none. */
static void client_is_woken_by_replies(void)
{
	struct delegrpc_server *s = server_new(2, 0, 16);
	struct delegrpc_client *c = client_new(), *other = client_new();
	struct delegrpc_client_stats st;
	struct delegrpc_req r;
	struct seen seen = {0};

	CHECK_EQ(delegrpc_client_arm(c), -EBADF);
	CHECK(delegrpc_client_fd(c) >= 0);
	CHECK_EQ(delegrpc_client_fd(c), delegrpc_client_fd(c));
	CHECK(delegrpc_client_fd(c) != delegrpc_client_fd(other));
	for (uint32_t i = 0; i < 10; i++) {
		call(c, i);
		client_sleeps(c); /* and publishes */
		CHECK_EQ(delegrpc_server_poll(s), 1);
		r = take(s, i);
		answer(s, &r, i + 1000);
		CHECK(!fdtest_readable(delegrpc_client_fd(c)));
		delegrpc_server_flush(s);
		CHECK(fdtest_readable(delegrpc_client_fd(c)));
		CHECK(!fdtest_readable(delegrpc_client_fd(other)));
		CHECK_EQ(delegrpc_client_arm(c), 1);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
		CHECK_EQ(seen.value[i], i + 1000);
		client_sleeps(c);
	}
	delegrpc_client_get_stats(c, &st, sizeof(st));
	CHECK_EQ(st.sleeps, 20);
	delegrpc_client_disconnect(c);
	delegrpc_client_disconnect(other);
	delegrpc_server_destroy(s);
}

/* Arming a server publishes the collected replies and wakes the clients first. */
static void arming_lets_the_others_go_on(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct delegrpc_req r;

	CHECK(delegrpc_server_fd(s) >= 0 && delegrpc_client_fd(c) >= 0);
	for (uint32_t i = 0; i < 12; i++)
		call(c, i);
	client_sleeps(c);
	CHECK_EQ(delegrpc_server_poll(s), 12);
	for (uint32_t i = 0; i < 12; i++) {
		r = take(s, i);
		if (!i)
			answer(s, &r, i);
	}
	server_sleeps(s);
	CHECK(fdtest_readable(delegrpc_client_fd(c)));
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/* No timer runs when no side waits for anything. */
static void idle_ones_have_no_timer(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};

	CHECK(delegrpc_server_fd(s) >= 0 && delegrpc_client_fd(c) >= 0);
	server_sleeps(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
	call(c, 1);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 1); /* its server might die */
	CHECK_EQ(serve(s), 1);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	server_sleeps(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

static void server_that_goes_wakes_its_clients(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};

	CHECK(delegrpc_client_fd(c) >= 0);
	client_sleeps(c);
	delegrpc_server_destroy(s);
	CHECK(fdtest_readable(delegrpc_client_fd(c)));
	CHECK_EQ(delegrpc_client_arm(c), 1);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), -EPIPE);
	delegrpc_client_disconnect(c);
}

/* A server in a process of its own, which is killed. */
static void killed_server_is_noticed(void)
{
	struct delegrpc_client *c;
	struct seen seen = {0};
	int up[2], n, polls = 0;
	char ready;
	pid_t pid;

	CHECK_EQ(pipe(up), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		server_new(1, 0, 16);
		ready = write(up[1], "x", 1) == 1;
		for (;;)
			pause();
	}
	CHECK_EQ(read(up[0], &ready, 1), 1);
	c = client_new();
	CHECK(delegrpc_client_fd(c) >= 0);
	call(c, 1);
	CHECK_EQ(delegrpc_client_arm(c), 0);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	while ((n = delegrpc_client_poll(c, note, &seen)) == 0) {
		if (!delegrpc_client_arm(c))
			fdtest_readable_within(delegrpc_client_fd(c), FOR_EVER);
		polls++;
	}
	CHECK_EQ(n, -EPIPE);
	CHECK(polls <= 3); /* each a tenth of a second */
	delegrpc_client_disconnect(c);
	close(up[0]);
	close(up[1]);
}

/* The server sleeps while a client has reserved slots; the client dies before it fills them. */
static void server_looks_for_holes(void)
{
	struct delegrpc_server *s = server_new(2, 256, 16);
	struct delegrpc_client *c = client_new();
	struct delegrpc_server_stats st;
	struct raw raw;

	CHECK(delegrpc_server_fd(s) >= 0);
	raw_open(name, &raw);
	raw_reserve(&raw, 1, 3);
	server_sleeps(s);
	CHECK_EQ(fdtest_timers(), 1);
	call(c, 7);
	CHECK_EQ(delegrpc_client_flush(c), 0);
	CHECK(fdtest_readable(delegrpc_server_fd(s)));
	CHECK_EQ(serve(s), 0);
	server_sleeps(s);
	raw_close(&raw);
	CHECK(fdtest_readable_within(delegrpc_server_fd(s), FOR_EVER));
	while (!serve(s))
		CHECK_EQ(delegrpc_server_arm(s), 1);
	delegrpc_server_get_stats(s, &st, sizeof(st));
	CHECK_EQ(st.holes, 3);
	server_sleeps(s);
	CHECK_EQ(fdtest_timers(), 0);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/* The ring is full, and there is no wake-up when it has room again. */
static void client_that_waits_for_room_tries_again(void)
{
	struct delegrpc_server *s = server_new(1, 16, 64);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	uint32_t made = 0;

	CHECK(delegrpc_client_fd(c) >= 0);
	while (!delegrpc_client_call(c, &made, sizeof(made), made))
		made++;
	CHECK(made > 16);
	while (seen.n < made) {
		CHECK_EQ(delegrpc_client_arm(c), 0);
		CHECK_EQ(fdtest_timers(), 1);
		serve(s);
		CHECK(fdtest_readable_within(delegrpc_client_fd(c), FOR_EVER));
		CHECK(delegrpc_client_poll(c, note, &seen) >= 0);
		while (delegrpc_client_poll(c, note, &seen) > 0)
			;
	}
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/* The process has no descriptor for waking: it wakes no sleeper, and tries again later. */
static void wake_without_descriptors(void *arg)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	struct rlimit old;

	CHECK(delegrpc_server_fd(s) >= 0 && delegrpc_client_fd(c) >= 0);
	fdtest_fill_gaps();
	server_sleeps(s);
	call(c, 1);
	old = fdtest_limit(0);
	CHECK_EQ(delegrpc_client_arm(c), -EMFILE);
	CHECK(!fdtest_readable(delegrpc_server_fd(s)));
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), -EMFILE);
	CHECK_EQ(delegrpc_client_flush(c), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	CHECK(fdtest_readable(delegrpc_server_fd(s)));
	fdtest_fill_gaps();
	client_sleeps(c);
	old = fdtest_limit(0);
	CHECK_EQ(serve(s), 1);
	server_sleeps(s);
	CHECK(!fdtest_readable(delegrpc_client_fd(c)));
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	server_sleeps(s);
	CHECK(fdtest_readable(delegrpc_client_fd(c)));
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

static void waker_without_descriptors_tries_again(void)
{
	fdtest_in_child(wake_without_descriptors, NULL);
}

static void fail_to_make_one(void *arg)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct rlimit old;

	fdtest_fill_gaps();
	old = fdtest_limit(2);
	CHECK_EQ(delegrpc_server_fd(s), -EMFILE);
	CHECK_EQ(delegrpc_client_fd(c), -EMFILE);
	CHECK_EQ(delegrpc_server_arm(s), -EBADF);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK(delegrpc_server_fd(s) >= 0 && delegrpc_client_fd(c) >= 0);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

static void no_descriptor_is_left_for_it(void)
{
	fdtest_in_child(fail_to_make_one, NULL);
}

struct both {
	struct delegrpc_server *s;
	struct delegrpc_client *c;
};

static void use_in_child(void *arg)
{
	struct both *b = arg;

	CHECK_EQ(delegrpc_server_fd(b->s), -EBADF);
	CHECK_EQ(delegrpc_client_fd(b->c), -EBADF);
	CHECK_EQ(delegrpc_server_arm(b->s), -EBADF);
	CHECK_EQ(delegrpc_client_arm(b->c), -EBADF);
	delegrpc_client_disconnect(b->c);
	delegrpc_server_destroy(b->s);
}

static void child_has_no_descriptors(void)
{
	struct both b = {server_new(1, 0, 16), client_new()};

	CHECK(delegrpc_server_fd(b.s) >= 0 && delegrpc_client_fd(b.c) >= 0);
	server_sleeps(b.s);
	fdtest_in_child(use_in_child, &b);
	call(b.c, 1);
	client_sleeps(b.c);
	CHECK(fdtest_readable(delegrpc_server_fd(b.s)));
	CHECK_EQ(serve(b.s), 1);
	delegrpc_server_flush(b.s);
	CHECK(fdtest_readable(delegrpc_client_fd(b.c)));
	delegrpc_client_disconnect(b.c);
	delegrpc_server_destroy(b.s);
}

static void *come_and_go(void *arg)
{
	for (int i = 0; i < 8; i++)
		delegrpc_client_disconnect(client_new());
	return NULL;
}

/* A client that is just connecting does not look like one of another namespace. */
static void connecting_clients_are_no_obstacle(void)
{
	for (int i = 0; i < 200; i++) {
		struct delegrpc_server *s = server_new(2, 0, 16);
		pthread_t thread;

		CHECK_EQ(pthread_create(&thread, NULL, come_and_go, NULL), 0);
		for (int k = 0; k < i; k++) /* at another moment each time */
			delegrpc_server_poll(s);
		CHECK(delegrpc_server_fd(s) >= 0);
		CHECK_EQ(pthread_join(thread, NULL), 0);
		delegrpc_server_destroy(s);
	}
}

/* The namespaces are forged in the region; test-wakefd.c uses real ones. */
static void other_namespaces_are_refused(void)
{
	struct delegrpc_server *s = server_new(2, 0, 16);
	struct delegrpc_client *c = client_new(), *late;
	struct raw raw;

	raw_open(name, &raw);
	CHECK(raw.header->server_address.netns);
	CHECK_EQ(raw.lines[0].address.netns, raw.header->server_address.netns);
	/* A client there when the server asks; none in the way once it has gone. */
	raw.lines[0].address.netns++;
	CHECK_EQ(delegrpc_server_fd(s), -ENETUNREACH);
	CHECK_EQ(raw.header->server_address.name, 0);
	CHECK_EQ(delegrpc_client_connect(name, NULL, &late), 0);
	delegrpc_client_disconnect(late);
	raw.lines[0].address.netns--;
	CHECK(delegrpc_server_fd(s) >= 0);
	/* The server there when a client comes, or asks. */
	raw.header->server_address.netns++;
	CHECK_EQ(delegrpc_client_connect(name, NULL, &late), -ENETUNREACH);
	CHECK_EQ(delegrpc_client_fd(c), -ENETUNREACH);
	raw.header->server_address.netns--;
	late = client_new();
	CHECK_EQ(delegrpc_client_index(late), 1);
	CHECK(delegrpc_client_fd(c) >= 0);
	raw_close(&raw);
	delegrpc_client_disconnect(late);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/* Only a client that is there counts. */
static void dead_client_elsewhere_is_no_obstacle(void)
{
	struct delegrpc_server *s = server_new(2, 0, 16);
	struct raw raw;

	raw_open(name, &raw);
	raw.lines[1].taken = 1;
	raw.lines[1].address.netns = 1;
	CHECK(delegrpc_server_fd(s) >= 0);
	raw_close(&raw);
	delegrpc_server_destroy(s);
}

/* A client says that it sleeps, at an address of its own making. */
static void forged_address_does_no_harm(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	struct raw raw;

	raw_open(name, &raw);
	for (uint32_t i = 0; i < 10; i++) {
		call(c, i);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		raw.lines[0].address.name = i ? test_rand(&raw.lines[0].address.cookie) : 0;
		raw.lines[0].state = DELEGRPC_ON_FD + i % 2;
		CHECK_EQ(serve(s), 1);
		delegrpc_server_flush(s);
		CHECK_EQ(raw.lines[0].state, DELEGRPC_RUNNING);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	}
	raw_close(&raw);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/* The next one with that id has another address, and starts awake. */
static void ids_are_reused(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	uint64_t address;
	struct raw raw;

	raw_open(name, &raw);
	CHECK(delegrpc_client_fd(c) >= 0);
	address = raw.lines[0].address.name;
	client_sleeps(c);
	delegrpc_client_disconnect(c);
	c = client_new();
	CHECK_EQ(raw.lines[0].state, DELEGRPC_RUNNING);
	CHECK_EQ(delegrpc_client_arm(c), -EBADF);
	CHECK(delegrpc_client_fd(c) >= 0);
	CHECK(raw.lines[0].address.name != address);
	call(c, 1);
	client_sleeps(c);
	CHECK_EQ(serve(s), 1);
	delegrpc_server_flush(s);
	CHECK(fdtest_readable(delegrpc_client_fd(c)));
	CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	raw_close(&raw);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

static void nothing_is_left_open(void)
{
	struct delegrpc_server *s = server_new(1, 0, 16);
	struct delegrpc_client *c;
	int before;

	CHECK(delegrpc_server_fd(s) >= 0);
	before = fdtest_open();
	for (uint32_t i = 0; i < 10000; i++) {
		c = client_new();
		if (i % 2)
			CHECK(delegrpc_client_fd(c) >= 0);
		CHECK_EQ(delegrpc_server_arm(s), 0);
		call(c, i);
		CHECK_EQ(delegrpc_client_arm(c), i % 2 ? 0 : -EBADF);
		CHECK_EQ(delegrpc_client_flush(c), 0);
		CHECK_EQ(serve(s), 1);
		delegrpc_server_flush(s);
		delegrpc_client_disconnect(c);
	}
	CHECK_EQ(fdtest_open(), before + 1); /* the descriptor with which the server wakes */
	delegrpc_server_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(server_is_woken_by_calls),
		TEST(client_is_woken_by_replies),
		TEST(arming_lets_the_others_go_on),
		TEST(idle_ones_have_no_timer),
		TEST(server_that_goes_wakes_its_clients),
		TEST(killed_server_is_noticed),
		TEST(server_looks_for_holes),
		TEST(client_that_waits_for_room_tries_again),
		TEST(waker_without_descriptors_tries_again),
		TEST(no_descriptor_is_left_for_it),
		TEST(child_has_no_descriptors),
		TEST(other_namespaces_are_refused),
		TEST(dead_client_elsewhere_is_no_obstacle),
		TEST(connecting_clients_are_no_obstacle),
		TEST(forged_address_does_no_harm),
		TEST(ids_are_reused),
		TEST(nothing_is_left_open),
	};

	snprintf(name, sizeof(name), "fd.%d", (int)getpid());
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
