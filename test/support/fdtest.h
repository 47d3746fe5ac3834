/* SPDX-License-Identifier: MIT */
/* For tests of descriptors that become readable, and of leaks of descriptors, threads, mappings. */
#ifndef SUPPORT_FDTEST_H
#define SUPPORT_FDTEST_H

#include <dirent.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/test.h"

/* Returns true if the descriptor is readable now or becomes so within timeout_ms. */
static inline int fdtest_readable_within(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, timeout_ms);
	while (n < 0);
	CHECK(!n || p.revents == POLLIN);
	return n;
}

static inline int fdtest_readable(int fd)
{
	return fdtest_readable_within(fd, 0);
}

/* Counts the entries of a directory, of which /proc/self/task has one for each thread. */
static inline int fdtest_entries(const char *directory)
{
	DIR *d = opendir(directory);
	int n = 0;

	CHECK(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

/* Counts the open descriptors, without the one that this function needs itself. */
static inline int fdtest_open(void)
{
	return fdtest_entries("/proc/self/fd") - 1;
}

/* Counts the mappings of this process whose name contains the text. */
static inline int fdtest_mappings(const char *text)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];
	int n = 0;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, text) != NULL;
	fclose(f);
	return n;
}

/*
 * Counts the timerfds of this process that have expired and were neither read nor set again since
 * then; with @run, also those that are armed.
 */
static inline int fdtest_count_timers(bool run)
{
	char path[64], line[256];
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		bool set = false;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f)) {
			set |= !strncmp(line, "ticks:", 6) && strcmp(line, "ticks: 0\n");
			set |= run && !strncmp(line, "it_value:", 9) &&
			       strcmp(line, "it_value: (0, 0)\n");
		}
		n += set;
		if (f)
			fclose(f);
	}
	return n;
}

static inline int fdtest_timers(void)
{
	return fdtest_count_timers(true);
}

/*
 * Returns true if the sleeper's descriptor is not readable, or if a timer has expired, for example
 * while this process was not scheduled: the timer makes the descriptor readable, too.
 */
static inline bool fdtest_sleeps(int fd)
{
	return !fdtest_readable(fd) || fdtest_count_timers(false);
}

/* Opens descriptors until their numbers have no gaps. */
static inline void fdtest_fill_gaps(void)
{
	int fd;

	do {
		fd = dup(STDERR_FILENO);
		CHECK(fd >= 0);
	} while (fdtest_open() != fd + 1);
}

/*
 * Lets the process open @more more descriptors, and no others. The numbers of the open ones must
 * have no gaps. Returns the old limit.
 */
static inline struct rlimit fdtest_limit(int more)
{
	struct rlimit old, now;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
	now = old;
	now.rlim_cur = (rlim_t)(fdtest_open() + more);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
	return old;
}

/* Runs fn in a child process. The test fails unless fn returns. */
static inline void fdtest_in_child(void (*fn)(void *arg), void *arg)
{
	pid_t pid = test_fork();

	if (!pid) {
		fn(arg);
		_exit(0);
	}
	CHECK_EQ(test_reap(pid), 0);
}

#endif
