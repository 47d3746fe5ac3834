/* SPDX-License-Identifier: MIT */
/*
 * Lets a test act as several users.
 *
 *	int main(int argc, char **argv)
 *	{
 *		int skip = users_begin(argv);           // 0: this process can act as any user
 *		return skip ? skip : test_main(...);
 *	}
 *
 *	users_act(&owner);                              // until users_act(&users_root)
 *	pid = users_spawn(&member, f, arg);             // f(arg) as that user, in a child
 *	while (!users_ended(pid)) ...                   // until the child has ended, with status 0
 */
#ifndef SUPPORT_USERS_H
#define SUPPORT_USERS_H

#include <errno.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test.h"

#define USERS_SKIP 77 /* meson's exit status of a skipped test */
#define USERS_PROBE "unshare --user --map-root-user --map-auto true"

/* An identity: a uid, which is also the primary group, and an additional group if that is not 0. */
struct users_who {
	uid_t uid;
	gid_t group;
};

/*
 * Returns 0 for root. For another user it executes the program again as root of a user namespace
 * with the user's subordinate ids (newuidmap), or returns USERS_SKIP if there are none.
 */
static inline int users_begin(char **argv)
{
	char *args[16] = {(char *)"unshare", (char *)"--user", (char *)"--map-root-user",
		(char *)"--map-auto"};
	size_t n = 4;

	if (geteuid() == 0 && setgroups(0, NULL) == 0)
		return 0;
	if (geteuid() != 0 && system(USERS_PROBE) == 0) {
		for (; *argv && n + 1 < ARRAY_SIZE(args); argv++)
			args[n++] = *argv;
		execvp(args[0], args);
	}
	printf("skipped: neither root nor a user namespace with subordinate ids\n");
	return USERS_SKIP;
}

static const struct users_who users_root = {0, 0};

/* Makes the process act as that user, with its permissions; new files belong to the user. */
static inline void users_act(const struct users_who *who)
{
	CHECK_EQ(seteuid(0), 0);
	CHECK_EQ(setgroups(who->group != 0, &who->group), 0);
	CHECK_EQ(setegid(who->uid), 0);
	CHECK_EQ(seteuid(who->uid), 0);
}

static inline pid_t users_spawn(const struct users_who *who, void (*f)(void *arg), void *arg)
{
	pid_t pid = test_fork();

	if (pid)
		return pid;
	alarm(300);
	CHECK_EQ(seteuid(0), 0);
	CHECK_EQ(setgroups(who->group != 0, &who->group), 0);
	CHECK_EQ(setgid(who->uid), 0);
	CHECK_EQ(setuid(who->uid), 0);
	f(arg);
	_exit(0);
}

static inline int users_ended(pid_t pid)
{
	int status;
	pid_t done = waitpid(pid, &status, WNOHANG);

	if (!done)
		return 0;
	CHECK_EQ(done, pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
	return 1;
}

#endif
