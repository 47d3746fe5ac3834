/* SPDX-License-Identifier: MIT */
/* The times that shmipc's manual promises, with a clock that only the test moves. */
#include <signal.h>
#include <sys/wait.h>

#include "support/fakeclock.h"
#include "common.h"

static const char *name;

/* A server in a process of its own. */
static pid_t server_process(void)
{
	int up[2];
	char c;
	pid_t pid;

	CHECK_EQ(pipe(up), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct shmipc_server *s;

		CHECK_EQ(shmipc_server_create(name, &msg_attr, &s), 0);
		if (write(up[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	CHECK_EQ(read(up[0], &c, 1), 1);
	close(up[0]);
	close(up[1]);
	return pid;
}

static void ignore(void *arg, uint64_t token, const void *resp, uint32_t len)
{
}

/*
 * Polls for a while, so far apart, then differently; after how many nanoseconds it sees that
 * the server has been killed in between.
 */
static uint64_t death_seen(uint64_t before_ns, uint64_t after_ns)
{
	pid_t pid = server_process();
	struct shmipc_client *c;
	uint64_t start;
	int n;

	CHECK_EQ(shmipc_client_connect(name, NULL, &c), 0);
	CHECK_EQ(call_tag(c, 1), 0);
	for (uint32_t k = 0; k < 1000; k++) {
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
		fake.ns += before_ns;
	}
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	start = fake.ns;
	do {
		fake.ns += after_ns;
		n = shmipc_client_poll(c, ignore, NULL);
		CHECK(fake.ns - start <= 60 * NSEC_PER_SEC);
	} while (n == 0);
	CHECK_EQ(n, -EPIPE);
	shmipc_client_disconnect(c);
	return fake.ns - start;
}

/* However often the client polls, and has polled before. */
static void death_is_seen_in_time(void)
{
	static const uint64_t apart[] = {50, 20 * NSEC_PER_USEC, NSEC_PER_MSEC, 20 * NSEC_PER_MSEC,
		50 * NSEC_PER_MSEC};

	for (size_t i = 0; i < ARRAY_SIZE(apart); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(apart); k++)
			CHECK(death_seen(apart[i], apart[k]) < NSEC_PER_SEC);
		CHECK(death_seen(apart[i], apart[i]) <= 30 * NSEC_PER_MSEC + apart[i]);
	}
	CHECK(death_seen(NSEC_PER_SEC, NSEC_PER_SEC) <= NSEC_PER_SEC);
}

/* A loop that polls in vain all the time looks at the clock at each sixteenth poll. */
static void hot_polls_look_seldom_at_the_clock(void)
{
	struct shmipc_server *s = test_serve("time", &msg_attr);
	struct shmipc_client *c = test_join("time");
	uint64_t looks;

	for (uint32_t k = 0; k < 100; k++)
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
	looks = fake.looks;
	for (uint32_t k = 0; k < 16000; k++) {
		fake.ns += 30;
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
	}
	CHECK(fake.looks - looks <= 1000);
	/* With responses that are there at the eighth poll: not at all. */
	for (uint32_t k = 0; k < 100; k++) {
		CHECK_EQ(call_tag(c, k), 0);
		CHECK_EQ(serve_once(s), 1);
		CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
		looks = fake.looks;
		for (uint32_t i = 0; i < 7; i++)
			CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
		CHECK_EQ(fake.looks, looks);
	}
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/*
 * A server that always finds work gives its core away about every 150 us while a client
 * waits: looks at the clock come with each 2048 requests and polls.
 */
static void busy_server_yields(void)
{
	struct shmipc_server *s = test_serve("time", &msg_attr);
	struct shmipc_client *c = test_join("time");
	struct shmipc_server_stats st;
	uint64_t ns = 15 * NSEC_PER_MSEC, yields, end;

	for (uint32_t waits = 0; waits < 2; waits++) {
		yields = fake.yields;
		for (end = fake.ns + ns; fake.ns < end; fake.ns += 30) {
			CHECK_EQ(call_tag(c, 1), 0);
			for (uint32_t i = 0; waits && i < 3 * SHMIPC_IDLE_POLLS; i++)
				CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 0);
			CHECK_EQ(serve_once(s), 1);
			shmipc_server_flush(s);
			CHECK_EQ(shmipc_client_poll(c, ignore, NULL), 1);
		}
		yields = fake.yields - yields;
		CHECK(waits ? yields >= ns / (250 * NSEC_PER_USEC) : !yields);
		CHECK(yields <= ns / (150 * NSEC_PER_USEC) + 1);
	}
	shmipc_server_get_stats(s, &st, sizeof(st));
	CHECK_EQ(st.yields, yields);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

/* A place that its client left and that the server does not clean: a second, then no more. */
static void connect_waits_a_second(void)
{
	struct shmipc_attr one = {.max_clients = 1};
	struct shmipc_server *s = test_serve("time", &one);
	struct shmipc_client *c = test_join("time");
	uint64_t start = fake.ns;

	shmipc_client_disconnect(c);
	fake.step_ns = 5 * NSEC_PER_MSEC;
	CHECK_EQ(shmipc_client_connect(name, NULL, &c), -EAGAIN);
	fake.step_ns = 0;
	CHECK(fake.ns - start >= NSEC_PER_SEC && fake.ns - start < NSEC_PER_SEC * 11 / 10);
	CHECK_EQ(shmipc_server_poll(s), 0);
	CHECK_EQ(shmipc_client_connect(name, NULL, &c), 0);
	shmipc_client_disconnect(c);
	shmipc_server_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(death_is_seen_in_time),
		TEST(hot_polls_look_seldom_at_the_clock),
		TEST(busy_server_yields),
		TEST(connect_waits_a_second),
	};

	fake.ns = NSEC_PER_SEC;
	name = test_name("time");
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
