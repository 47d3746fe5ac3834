/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_CHECK_H
#define SOFTHCA_TEST_CHECK_H

/* Functions for cases. A function that fails ends the test. */

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "child.h"

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define CHECK_STR(a, b)                                                                            \
	do {                                                                                       \
		const char *a_ = (a), *b_ = (b);                                                   \
		if (strcmp(a_, b_)) {                                                              \
			fprintf(stderr, "%s:%d: %s: %s = \"%s\", not \"%s\"\n", __FILE__,          \
				__LINE__, __func__, #a, a_, b_);                                   \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Selects a fabric that only this test uses. Must be called before the HCA is used. */
static inline void test_fabric(const char *name)
{
	char fabric[64];

	snprintf(fabric, sizeof(fabric), "test-%s-%d", name, (int)getpid());
	CHECK(!setenv("SOFTHCA_FABRIC", fabric, 1));
	alarm(600); /* so a test that hangs fails */
}

/*
 * The main() of a program in a fabric of its own. @name is followed by variables of the environment,
 * "NAME=value".
 */
#define FABRIC_MAIN(name, ...)                                                                     \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static char env[][64] = {"TEST=" name, ##__VA_ARGS__};                             \
                                                                                                   \
		test_fabric(name);                                                                 \
		for (size_t i = 0; i < ARRAY_SIZE(env); i++)                                       \
			CHECK(!putenv(env[i]));                                                    \
		return test_main(argc, argv);                                                      \
	}                                                                                          \
	struct test

static inline uint64_t test_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline int test_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median; sorts the values. */
static inline double test_median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), test_compare);
	return values[n / 2];
}

/* Returns new pages. @sharing: MAP_PRIVATE, or MAP_SHARED to share them with children. */
static inline void *test_map(size_t len, int prot, int sharing)
{
	void *p = mmap(NULL, len, prot, sharing | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static inline void test_put(int fd, const void *p, size_t n)
{
	CHECK_EQ(write(fd, p, n), (ssize_t)n);
}

static inline void test_get(int fd, void *p, size_t n)
{
	CHECK_EQ(recv(fd, p, n, MSG_WAITALL), (ssize_t)n);
}

/* Sends a byte to the process at the other end of the socket, and waits for one. */
static inline void test_meet(int fd)
{
	char byte = 0;

	test_put(fd, &byte, 1);
	test_get(fd, &byte, 1);
}

/* Runs @fn like a case in a child, with an end of a socket pair. Returns the child; *fd_p is the other end. */
static inline pid_t test_peer(void (*fn)(int fd), int *fd_p)
{
	int fds[2];
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	pid = test_fork();
	if (!pid) {
		alarm(600);
		close(fds[0]);
		fn(fds[1]);
		test_end();
		exit(0);
	}
	close(fds[1]);
	*fd_p = fds[0];
	return pid;
}

/* Waits until a peer has ended, with status 0, and closes the socket to it. */
static inline void test_peer_ends(pid_t pid, int fd)
{
	CHECK_EQ(test_reap(pid), 0);
	close(fd);
}

#endif
