/* SPDX-License-Identifier: MIT */
/* Servers and clients that sleep on descriptors: what makes them readable, and what does not. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "support/fdtest.h"
#include "common.h"
#include "layout.h"

#define FOR_EVER (-1) /* the guard of the test program ends it */

static const struct shmipc_attr one_client = {
	.max_clients = 1,
	.depth = 32,
	.req_size = sizeof(struct msg),
	.resp_size = sizeof(struct msg),
};

/* Armed, and asleep if it polled now. */
static void server_sleeps(struct shmipc_server *s)
{
	CHECK_EQ(shmipc_server_arm(s), 0);
	CHECK(!fdtest_readable(shmipc_server_fd(s)));
}

static void client_sleeps(struct shmipc_client *c)
{
	CHECK_EQ(shmipc_client_arm(c), 0);
	CHECK(!fdtest_readable(shmipc_client_fd(c)));
}

/* A server that has noticed a connect or disconnect sleeps; otherwise its arm returns 1. */
static void settle(struct shmipc_server *s)
{
	CHECK_EQ(serve_once(s), 0);
	server_sleeps(s);
}

static void ignore(void *arg, uint64_t token, const void *resp, uint32_t len)
{
	CHECK(resp);
}

/* The region of the tests' only server, as bytes. */
static struct shmipc_header *region_map(const char *what, size_t *size_p)
{
	char path[96];
	struct stat st;
	void *map;
	int fd;

	snprintf(path, sizeof(path), "/dev/shm/shmipc.%s", test_name(what));
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(fstat(fd, &st), 0);
	*size_p = (size_t)st.st_size;
	map = mmap(NULL, *size_p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(map != MAP_FAILED);
	close(fd);
	return map;
}

/* A client that connected before the descriptor was made, and one that did after it. */
static void server_is_woken_by_calls(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c[2] = {test_join("fd")};

	CHECK_EQ(shmipc_server_arm(s), -EBADF);
	CHECK(shmipc_server_fd(s) >= 0);
	CHECK_EQ(shmipc_server_fd(s), shmipc_server_fd(s));
	settle(s);
	c[1] = test_join("fd");
	CHECK(fdtest_readable(shmipc_server_fd(s))); /* a client has connected */
	for (uint64_t i = 0; i < 10; i++) {
		settle(s);
		CHECK_EQ(call_tag(c[i % 2], i), 0);
		shmipc_client_flush(c[i % 2]);
		CHECK(fdtest_readable(shmipc_server_fd(s)));
		CHECK_EQ(shmipc_server_arm(s), 1);
		CHECK_EQ(serve_once(s), 1);
		settle(s);
		CHECK_EQ(shmipc_client_poll(c[i % 2], ignore, NULL), 1);
	}
	shmipc_client_disconnect(c[0]);
	CHECK(fdtest_readable(shmipc_server_fd(s))); /* a client has disconnected */
	settle(s);
	shmipc_client_disconnect(c[1]);
	shmipc_server_destroy(s);
}

/* Each side may have a descriptor or none. */
static void client_is_woken_by_replies(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd"), *other = test_join("fd");
	struct shmipc_client_stats st;

	CHECK_EQ(shmipc_client_arm(c), -EBADF);
	CHECK(shmipc_client_fd(c) >= 0);
	CHECK_EQ(shmipc_client_fd(c), shmipc_client_fd(c));
	CHECK(shmipc_client_fd(c) != shmipc_client_fd(other));
	CHECK_EQ(serve_once(s), 0);
	for (uint64_t i = 0; i < 10; i++) {
		CHECK_EQ(call_tag(c, i), 0);
		client_sleeps(c);
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
		CHECK(fdtest_readable(shmipc_client_fd(c)));
		CHECK(!fdtest_readable(shmipc_client_fd(other)));
		CHECK_EQ(shmipc_client_arm(c), 1);
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
		client_sleeps(c);
	}
	shmipc_client_get_stats(c, &st, sizeof(st));
	CHECK_EQ(st.sleeps, 20);
	shmipc_client_disconnect(c);
	shmipc_client_disconnect(other);
	shmipc_server_destroy(s);
}

/* A client that polls in vain says that it yields; that may not hide that it sleeps. */
static void client_sleeps_after_many_polls(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");

	CHECK(shmipc_client_fd(c) >= 0);
	for (uint64_t polls = 0; polls < 100; polls++) {
		CHECK_EQ(call_tag(c, polls), 0);
		for (uint64_t i = 0; i < polls; i++)
			CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
		client_sleeps(c);
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
		CHECK(fdtest_readable(shmipc_client_fd(c)));
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
	}
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* Arming publishes collected messages, on both sides. */
static void arming_lets_the_others_go_on(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");
	struct shmipc_req r[12];
	struct msg q;

	CHECK(shmipc_server_fd(s) >= 0 && shmipc_client_fd(c) >= 0);
	settle(s);
	for (uint64_t i = 0; i < 12; i++)
		CHECK_EQ(call_tag(c, i), 0);
	client_sleeps(c);
	CHECK(fdtest_readable(shmipc_server_fd(s)));
	for (int n = 0; n < 12;) {
		CHECK_EQ(shmipc_server_poll(s), 1);
		while (shmipc_server_recv(s, &r[n], &q, sizeof(q)) == 1)
			n++;
	}
	CHECK_EQ(shmipc_server_reply(s, r[0].client, r[0].id, &q, sizeof(q)), 0);
	server_sleeps(s);
	CHECK(fdtest_readable(shmipc_client_fd(c)));
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* No timer runs when no side waits for anything. */
static void idle_ones_have_no_timer(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");

	CHECK(shmipc_server_fd(s) >= 0 && shmipc_client_fd(c) >= 0);
	settle(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
	CHECK_EQ(call_tag(c, 1), 0);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 1); /* its server might die */
	CHECK_EQ(serve_once(s), 1);
	CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
	settle(s);
	client_sleeps(c);
	CHECK_EQ(fdtest_timers(), 0);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void server_that_goes_wakes_its_clients(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");

	CHECK(shmipc_client_fd(c) >= 0);
	CHECK_EQ(serve_once(s), 0);
	client_sleeps(c);
	shmipc_server_destroy(s);
	CHECK(fdtest_readable(shmipc_client_fd(c)));
	CHECK_EQ(shmipc_client_arm(c), 1);
	CHECK_EQ(shmipc_client_poll(c, ignore, NULL), -EPIPE);
	CHECK_EQ(shmipc_client_arm(c), 1);
	shmipc_client_disconnect(c);
}

/* A server in a process of its own, which is killed. */
static void killed_server_is_noticed(void)
{
	const char *name = test_name("fd");
	struct shmipc_client *c;
	struct shmipc_server *s;
	int up[2], n, polls = 0;
	char ready;
	pid_t pid;

	CHECK_EQ(pipe(up), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK_EQ(shmipc_server_create(name, &msg_attr, &s), 0);
		ready = write(up[1], "x", 1) == 1;
		for (;;)
			pause();
	}
	CHECK_EQ(read(up[0], &ready, 1), 1);
	c = test_join("fd");
	CHECK(shmipc_client_fd(c) >= 0);
	CHECK_EQ(call_tag(c, 1), 0);
	CHECK_EQ(shmipc_client_arm(c), 0);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	while ((n = shmipc_client_poll(c, ignore, NULL)) == 0) {
		if (!shmipc_client_arm(c))
			fdtest_readable_within(shmipc_client_fd(c), FOR_EVER);
		polls++;
	}
	CHECK_EQ(n, -EPIPE);
	CHECK(polls <= 3); /* each a tenth of a second */
	shmipc_client_disconnect(c);
	close(up[0]);
	close(up[1]);
}

static void connect_and_die(void *arg)
{
	struct shmipc_client *c;

	CHECK_EQ(shmipc_client_connect(arg, NULL, &c), 0);
	CHECK_EQ(call_tag(c, 1), 0);
	shmipc_client_flush(c);
}

static void *connect_thread(void *arg)
{
	struct shmipc_client *c;
	int err;

	do
		err = shmipc_client_connect(arg, NULL, &c);
	while (err == -EAGAIN);
	CHECK_EQ(err, 0);
	CHECK_EQ(call_tag(c, 2), 0);
	shmipc_client_flush(c);
	while (shmipc_client_poll(c, ignore, NULL) == 0)
		CHECK(shmipc_client_wait(c, NSEC_PER_SEC) >= 0);
	shmipc_client_disconnect(c);
	return NULL;
}

/* The only place is a dead client's; a client that wants it wakes the server. */
static void sleeping_server_cleans_places(void)
{
	struct shmipc_server *s = test_serve("fd", &one_client);
	pthread_t thread;

	CHECK(shmipc_server_fd(s) >= 0);
	fdtest_in_child(connect_and_die, (void *)test_name("fd"));
	while (serve_once(s) || shmipc_server_arm(s))
		;
	CHECK_EQ(pthread_create(&thread, NULL, connect_thread, (void *)test_name("fd")), 0);
	while (!serve_once(s))
		if (!shmipc_server_arm(s))
			fdtest_readable_within(shmipc_server_fd(s), FOR_EVER);
	shmipc_server_flush(s);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	shmipc_server_destroy(s);
}

/* The process has no descriptor for waking: it wakes no sleeper, and tries again later. */
static void wake_without_descriptors(void *arg)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");
	struct rlimit old;

	CHECK(shmipc_server_fd(s) >= 0 && shmipc_client_fd(c) >= 0);
	settle(s);
	fdtest_fill_gaps();
	CHECK_EQ(call_tag(c, 1), 0);
	old = fdtest_limit(0);
	CHECK_EQ(shmipc_client_arm(c), -EMFILE);
	CHECK(!fdtest_readable(shmipc_server_fd(s)));
	CHECK_EQ(shmipc_client_poll(c, ignore, NULL), -EMFILE);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	shmipc_client_flush(c);
	CHECK(fdtest_readable(shmipc_server_fd(s)));
	client_sleeps(c);
	fdtest_fill_gaps();
	old = fdtest_limit(0);
	CHECK_EQ(serve_once(s), 1);
	server_sleeps(s);
	CHECK(!fdtest_readable(shmipc_client_fd(c)));
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
	CHECK_EQ(fdtest_timers(), 2); /* both will try again */
	server_sleeps(s);
	CHECK(fdtest_readable(shmipc_client_fd(c)));
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void waker_without_descriptors_tries_again(void)
{
	fdtest_in_child(wake_without_descriptors, NULL);
}

struct both {
	struct shmipc_server *s;
	struct shmipc_client *c;
};

static void use_in_child(void *arg)
{
	struct both *b = arg;

	CHECK_EQ(shmipc_server_fd(b->s), -EBADF);
	CHECK_EQ(shmipc_client_fd(b->c), -EBADF);
	CHECK_EQ(shmipc_server_arm(b->s), -EBADF);
	CHECK_EQ(shmipc_client_arm(b->c), -EBADF);
	shmipc_client_disconnect(b->c);
	shmipc_server_destroy(b->s);
}

static void child_has_no_descriptors(void)
{
	struct both b = {test_serve("fd", &msg_attr), test_join("fd")};

	CHECK(shmipc_server_fd(b.s) >= 0 && shmipc_client_fd(b.c) >= 0);
	settle(b.s);
	fdtest_in_child(use_in_child, &b);
	CHECK_EQ(call_tag(b.c, 1), 0);
	client_sleeps(b.c);
	CHECK(fdtest_readable(shmipc_server_fd(b.s)));
	CHECK_EQ(serve_once(b.s), 1);
	shmipc_server_flush(b.s);
	CHECK(fdtest_readable(shmipc_client_fd(b.c)));
	shmipc_client_disconnect(b.c);
	shmipc_server_destroy(b.s);
}

/* The namespaces are forged in the region; test-wakefd.c uses real ones. */
static void other_namespaces_are_refused(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd"), *late;
	struct shmipc_header *h;
	struct shmipc_place *place;
	size_t size;

	h = region_map("fd", &size);
	place = (struct shmipc_place *)(h + 1); /* the first one's */
	CHECK(h->server_addr.netns);
	CHECK_EQ(place->client_addr.netns, h->server_addr.netns);
	place->client_addr.netns++;
	CHECK_EQ(shmipc_server_fd(s), -ENETUNREACH);
	CHECK_EQ(h->server_addr.name, 0);
	late = test_join("fd");
	shmipc_client_disconnect(late);
	place->client_addr.netns--;
	CHECK(shmipc_server_fd(s) >= 0);
	h->server_addr.netns++;
	CHECK_EQ(shmipc_client_connect(test_name("fd"), NULL, &late), -ENETUNREACH);
	CHECK_EQ(shmipc_client_fd(c), -ENETUNREACH);
	h->server_addr.netns--;
	serve_once(s);
	CHECK_EQ(h->active[0], 1); /* the refused client has left */
	CHECK(shmipc_client_fd(c) >= 0);
	munmap(h, size);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* A client says that it sleeps, at an address of its own making. */
static void forged_address_does_no_harm(void)
{
	struct shmipc_server *s = test_serve("fd", &msg_attr);
	struct shmipc_client *c = test_join("fd");
	struct shmipc_header *h;
	struct shmipc_place *place;
	size_t size;

	h = region_map("fd", &size);
	place = (struct shmipc_place *)(h + 1);
	serve_once(s);
	for (uint64_t i = 0; i < 10; i++) {
		CHECK_EQ(call_tag(c, i), 0);
		shmipc_client_flush(c);
		place->client_addr.name = i * 0x9e3779b97f4a7c15ull;
		place->client_state = SLEEP_ON_FD + i % 2;
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
		CHECK_EQ(place->client_state, SLEEP_RUNNING);
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
	}
	munmap(h, size);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* The next one in that place starts awake, without a descriptor. */
static void places_are_reused(void)
{
	struct shmipc_server *s = test_serve("fd", &one_client);
	struct shmipc_client *c = test_join("fd");

	serve_once(s);
	CHECK(shmipc_client_fd(c) >= 0);
	client_sleeps(c);
	shmipc_client_disconnect(c);
	serve_once(s);
	c = test_join("fd");
	serve_once(s);
	CHECK_EQ(shmipc_client_arm(c), -EBADF);
	CHECK(shmipc_client_fd(c) >= 0);
	CHECK_EQ(call_tag(c, 1), 0);
	client_sleeps(c);
	CHECK_EQ(serve_once(s), 1);
	shmipc_server_flush(s);
	CHECK(fdtest_readable(shmipc_client_fd(c)));
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

static void nothing_is_left_open(void)
{
	struct shmipc_server *s = test_serve("fd", &one_client);
	struct shmipc_client *c;
	int before;

	CHECK(shmipc_server_fd(s) >= 0);
	before = fdtest_open();
	for (uint64_t i = 0; i < 10000; i++) {
		c = test_join("fd");
		if (i % 2)
			CHECK(shmipc_client_fd(c) >= 0);
		settle(s);
		CHECK_EQ(call_tag(c, i), 0);
		CHECK_EQ(shmipc_client_arm(c), i % 2 ? 0 : -EBADF);
		shmipc_client_flush(c);
		CHECK_EQ(serve_once(s), 1);
		shmipc_server_flush(s);
		shmipc_client_disconnect(c);
		serve_once(s);
	}
	CHECK_EQ(fdtest_open(), before + 1); /* the descriptor with which the server wakes */
	shmipc_server_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(server_is_woken_by_calls),
		TEST(client_is_woken_by_replies),
		TEST(client_sleeps_after_many_polls),
		TEST(arming_lets_the_others_go_on),
		TEST(idle_ones_have_no_timer),
		TEST(server_that_goes_wakes_its_clients),
		TEST(killed_server_is_noticed),
		TEST(sleeping_server_cleans_places),
		TEST(waker_without_descriptors_tries_again),
		TEST(child_has_no_descriptors),
		TEST(other_namespaces_are_refused),
		TEST(forged_address_does_no_harm),
		TEST(places_are_reused),
		TEST(nothing_is_left_open),
	};

	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
