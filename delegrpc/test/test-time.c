/* SPDX-License-Identifier: MIT */
/* The times that delegrpc's manual promises, with a clock that only the test moves. */
#include <signal.h>
#include <sys/wait.h>

#include "support/fakeclock.h"
#include "solo.h"

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
		server_new(4, 0, 16);
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

static void kill_server(pid_t pid)
{
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Polls, so far apart, until the server's death is seen; after how many nanoseconds. */
static uint64_t death_seen_after(struct delegrpc_client *c, uint64_t apart_ns)
{
	struct seen seen = {0};
	uint64_t start = fake.ns;
	int n;

	do {
		fake.ns += apart_ns;
		n = delegrpc_client_poll(c, note, &seen);
		CHECK(fake.ns - start <= 60 * NSEC_PER_SEC);
	} while (n == 0);
	CHECK_EQ(n, -EPIPE);
	return fake.ns - start;
}

/* The same, of a client that has polled for a while, so far apart. */
static uint64_t death_seen(uint64_t before_ns, uint64_t after_ns)
{
	pid_t pid = server_process();
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	uint64_t ns;

	call(c, 1);
	for (uint32_t k = 0; k < 1000; k++) {
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		fake.ns += before_ns;
	}
	kill_server(pid);
	ns = death_seen_after(c, after_ns);
	delegrpc_client_disconnect(c);
	return ns;
}

/* However often the client polls, and has polled before. */
static void death_is_seen_in_time(void)
{
	static const uint64_t apart[] = {50, 20 * NSEC_PER_USEC, NSEC_PER_MSEC, 20 * NSEC_PER_MSEC,
		50 * NSEC_PER_MSEC};

	for (size_t i = 0; i < ARRAY_SIZE(apart); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(apart); k++)
			CHECK(death_seen(apart[i], apart[k]) < NSEC_PER_SEC);
		CHECK(death_seen(apart[i], apart[i]) <= 120 * NSEC_PER_MSEC + apart[i]);
	}
	CHECK(death_seen(NSEC_PER_SEC, NSEC_PER_SEC) <= NSEC_PER_SEC);
}

/* Right behind a response, too. */
static void death_behind_a_response_is_seen_in_time(void)
{
	struct delegrpc_server *s = server_new(4, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};

	for (uint32_t k = 0; k < 100; k++) {
		call(c, k);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		CHECK_EQ(serve(s), 1);
		fake.ns += 50 * NSEC_PER_MSEC;
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
	}
	delegrpc_server_destroy(s);
	CHECK(death_seen_after(c, 50 * NSEC_PER_MSEC) < NSEC_PER_SEC);
	delegrpc_client_disconnect(c);
}

/* A loop that polls in vain all the time looks at the clock at each sixteenth poll. */
static void hot_polls_look_seldom_at_the_clock(void)
{
	struct delegrpc_server *s = server_new(4, 0, 16);
	struct delegrpc_client *c = client_new();
	struct seen seen = {0};
	uint64_t looks;

	for (uint32_t k = 0; k < 100; k++)
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	looks = fake.looks;
	for (uint32_t k = 0; k < 16000; k++) {
		fake.ns += 30;
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
	}
	CHECK(fake.looks - looks <= 1000);
	/* With responses that are there at the eighth poll: not at all. */
	for (uint32_t k = 0; k < 100; k++) {
		call(c, k);
		delegrpc_client_flush(c);
		CHECK_EQ(serve(s), 1);
		CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
		looks = fake.looks;
		for (uint32_t i = 0; i < 7; i++)
			CHECK_EQ(delegrpc_client_poll(c, note, &seen), 0);
		CHECK_EQ(fake.looks, looks);
		seen.n = 0;
	}
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

/*
 * A server that always finds work gives its core away every 150 us, if a client waits;
 * in between it looks at the clock now and then.
 */
static void busy_server_yields(void)
{
	struct delegrpc_server *s = server_new(4, 0, 16);
	struct delegrpc_client *c = client_new();
	struct delegrpc_server_stats st;
	struct seen seen = {0};
	uint64_t yields, looks, ns;
	struct raw raw;

	raw_open(name, &raw);
	for (uint32_t waits = 0; waits < 2; waits++) {
		yields = fake.yields;
		looks = fake.looks;
		for (uint32_t k = 0; k < 150000; k++) {
			raw.lines[0].state = waits ? DELEGRPC_WAITING : DELEGRPC_RUNNING;
			call(c, 1);
			delegrpc_client_flush(c);
			fake.ns += 100;
			CHECK_EQ(serve(s), 1);
			CHECK_EQ(delegrpc_client_poll(c, note, &seen), 1);
			seen.n = 0;
		}
		/* 15 ms. */
		ns = 15 * NSEC_PER_MSEC;
		yields = fake.yields - yields;
		CHECK(waits ? yields >= ns / (300 * NSEC_PER_USEC) : !yields);
		CHECK(yields <= ns / (150 * NSEC_PER_USEC) + 1);
		CHECK(fake.looks - looks <= ns / (75 * NSEC_PER_USEC) + 20);
	}
	delegrpc_server_get_stats(s, &st, sizeof(st));
	CHECK_EQ(st.yields, yields);
	raw_close(&raw);
	delegrpc_client_disconnect(c);
	delegrpc_server_destroy(s);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(death_is_seen_in_time),
		TEST(death_behind_a_response_is_seen_in_time),
		TEST(hot_polls_look_seldom_at_the_clock),
		TEST(busy_server_yields),
	};

	fake.ns = NSEC_PER_SEC;
	snprintf(name, sizeof(name), "time.%d", (int)getpid());
	return test_main(tests, ARRAY_SIZE(tests), argc, argv);
}
