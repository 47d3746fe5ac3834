/* SPDX-License-Identifier: MIT */
/* The example counter with a client that begins when the server has seen the others end. */
#include <unistd.h>

int counter_main(int argc, char **argv);
static pid_t late_fork(void);

#define main counter_main
#define fork late_fork
#include "../examples/counter.c"
#undef main
#undef fork

#include "support/test.h"

/* The last client waits until its siblings are no processes any more: client_failed() has seen each of them. */
static pid_t late_fork(void)
{
	static pid_t siblings[CLIENTS];
	static int n;
	pid_t pid = fork();

	if (pid) {
		siblings[n++] = pid;
		return pid;
	}
	for (int i = 0; n == CLIENTS - 1 && i < n; i++) {
		while (!kill(siblings[i], 0))
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return 0;
}

TEST(a_client_is_late)
{
	char *argv[] = {"counter", "1000", NULL};

	CHECK_EQ(counter_main(2, argv), 0);
}
