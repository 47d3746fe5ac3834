/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_CHILD_H
#define SOFTHCA_TEST_CHILD_H

/* Child processes of a case. A failure ends the test. */

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cases.h"

/* The child is killed when the thread that called this function ends. */
static inline pid_t test_fork(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) /* even a stopped child does not outlive a test that is killed */
		CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	return pid;
}

/*
 * Waits for the end of a child. Returns its exit status, or 128 plus the number of the signal that
 * ended it.
 */
static inline int test_reap(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/*
 * Returns true in a new child, and false in its parent after the child has ended with status 0.
 */
static inline bool test_in_child(void)
{
	pid_t pid = test_fork();

	if (pid)
		CHECK_EQ(test_reap(pid), 0);
	return !pid;
}

/* Waits until a child, or a thread that is traced, stops. Returns the signal. */
static inline int test_stopped(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, WUNTRACED | __WALL), pid);
	CHECK(WIFSTOPPED(status));
	return WSTOPSIG(status);
}

/*
 * test_load() and test_store() access a word that processes share. Acquire and release: a process
 * that reads a word sees the other process's earlier stores.
 */
static inline uint32_t test_load(const uint32_t *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline void test_store(uint32_t *p, uint32_t value)
{
	__atomic_store_n(p, value, __ATOMIC_RELEASE);
}

/* Kills a child, which must not have ended. */
static inline void test_kill(pid_t pid)
{
	CHECK(!kill(pid, SIGKILL));
	CHECK_EQ(test_reap(pid), 128 + SIGKILL);
}

/* Returns true if this thread of the process waits in a system call. */
static inline bool test_thread_waits(pid_t tid)
{
	char path[64], text[256] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	CHECK(!close(fd));
	return strstr(text, ") S ");
}

/* Returns a descriptor of this process whose file's path contains @text, but not @except, or -1. */
static inline int test_descriptor(const char *text, int except)
{
	char path[32], file[256];
	ssize_t n;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, file, sizeof(file) - 1);
		file[n < 0 ? 0 : n] = 0;
		if (fd != except && strstr(file, text))
			return fd;
	}
	return -1;
}

#endif
