/* SPDX-License-Identifier: MIT */
/* Tests that outputs are complete, and that no command outlives its limits. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/process.h"
#include "base/tcp.h"
#include "support/test.h"

#define PAST 0
#define MOST 1000000

static void start(struct process *p, const char *script)
{
	process_start(p, (const char *[]){"sh", "-c", script, NULL}, true);
	CHECK_EQ(p->err, 0);
}

static void await_text_or_end(const struct process *p)
{
	struct pollfd polled = {.fd = p->fd, .events = POLLIN};

	CHECK_EQ(poll(&polled, 1, -1), 1);
}

/* The process has been killed and reaped. */
static void is_gone(const struct process *p)
{
	CHECK(p->fd < 0 && WIFSIGNALED(p->status));
	CHECK_EQ(WTERMSIG(p->status), SIGKILL);
	CHECK(kill(p->pid, 0) && errno == ESRCH);
}

TEST(outputs)
{
	struct process p[3];

	start(&p[0], "printf one; exec >&-; exit 3");
	start(&p[1], "printf two");
	start(&p[2], "head -c 200000 /dev/zero");
	process_wait(p, 3, MOST, TCP_FOREVER);
	for (int i = 0; i < 3; i++)
		CHECK_EQ(p[i].err, 0);
	CHECK(p[0].len == 3 && !memcmp(p[0].out, "one", 3));
	CHECK(!process_is_good(&p[0]) && WEXITSTATUS(p[0].status) == 3);
	CHECK(p[1].len == 3 && !memcmp(p[1].out, "two", 3) && process_is_good(&p[1]));
	CHECK(p[2].len == 200000 && process_is_good(&p[2]));
	for (int i = 0; i < 3; i++)
		free(p[i].out);
}

TEST(deadline)
{
	struct process p;

	start(&p, "printf x; exec tail -f /dev/null");
	await_text_or_end(&p);
	process_wait(&p, 1, MOST, PAST);
	CHECK_EQ(p.err, -ETIMEDOUT);
	CHECK(p.len <= 1);
	is_gone(&p);
	free(p.out);
}

/* The deadline also ends a process that has closed the standard output it was started with. Its new one
 * is /dev/null, because `tail` ends if it has none. */
TEST(closed_output)
{
	struct process p;

	start(&p, "exec >/dev/null; exec tail -f /dev/null");
	await_text_or_end(&p);
	process_wait(&p, 1, MOST, PAST);
	CHECK_EQ(p.err, -ETIMEDOUT);
	is_gone(&p);
	free(p.out);
}

TEST(too_much)
{
	struct process p;

	start(&p, "printf 123456789; exec tail -f /dev/null");
	process_wait(&p, 1, 8, TCP_FOREVER);
	CHECK_EQ(p.err, -EMSGSIZE);
	is_gone(&p);
	free(p.out);
}

/* poll() fails, because the process may have fewer descriptors than it would wait for. */
TEST(no_poll)
{
	struct rlimit limit, none = {0};
	struct process p[2];

	for (int i = 0; i < 2; i++)
		start(&p[i], "exec tail -f /dev/null");
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none.rlim_max = limit.rlim_max;
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	process_wait(p, 2, MOST, TCP_FOREVER);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(p[i].err, -EINVAL);
		is_gone(&p[i]);
	}
}

TEST(no_command)
{
	struct process p;

	process_start(&p, (const char *[]){"/nonexistent/command", NULL}, true);
	process_wait(&p, 1, MOST, TCP_FOREVER);
	CHECK_EQ(p.err, 0);
	CHECK_EQ(WEXITSTATUS(p.status), 127);
	CHECK(!process_is_good(&p));
	free(p.out);
}

/* The pipe and /dev/null get the numbers 0 to 2, which this program may have closed. */
TEST(no_standard_descriptors)
{
	pid_t pid = test_fork();
	struct process p;

	if (!pid) {
		for (int fd = 0; fd < 3; fd++)
			close(fd);
		start(&p, "printf x >&2 && printf y");
		process_wait(&p, 1, MOST, TCP_FOREVER);
		_exit(!process_is_good(&p) || p.len != 1 || *p.out != 'y');
	}
	CHECK_EQ(test_reap(pid), 0);
}
