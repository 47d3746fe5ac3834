/* SPDX-License-Identifier: MIT */
/* The example counter with a client that begins when the server has seen the others end. */
#include <sys/wait.h>
#include <unistd.h>

int counter_main(int argc, char **argv);
static pid_t late_fork(void);
static pid_t late_waitpid(pid_t pid, int *status, int options);

#define main counter_main
#define fork late_fork
#define waitpid late_waitpid
#define wait(status) late_waitpid(-1, status, 0)
#include "../examples/counter.c"
#undef main
#undef fork
#undef waitpid
#undef wait

#include "support/test.h"

static int ended[2]; /* a pipe; the server writes a byte for each client whose end it has seen */

/* The last client waits until the server has seen the ends of all others. */
static pid_t late_fork(void)
{
	static int n;
	pid_t pid;

	if (!n)
		CHECK_EQ(pipe(ended), 0);
	pid = fork();
	if (pid) {
		n++;
		return pid;
	}
	for (int left = n == CLIENTS - 1 ? n : 0; left; left--) {
		char c;

		CHECK_EQ(read(ended[0], &c, 1), 1);
	}
	return 0;
}

static pid_t late_waitpid(pid_t pid, int *status, int options)
{
	pid_t found = waitpid(pid, status, options);

	if (found > 0)
		CHECK_EQ(write(ended[1], "", 1), 1);
	return found;
}

TEST(a_client_is_late)
{
	char *argv[] = {"counter", "1000", NULL};

	CHECK_EQ(counter_main(2, argv), 0);
}
