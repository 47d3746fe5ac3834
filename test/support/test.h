/* SPDX-License-Identifier: MIT */
/* Includes the software HCA's cases.h and child.h (child processes), and has functions for cases. */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../subprojects/softhca/test/child.h"
#include "base/clock.h"
#include "base/compiler.h"
#include "base/rand.h"

/* A name that no other test program uses. A forked child has the name of its parent. */
extern char test_name[64];

/* Returns the path of the shared memory with this prefix and the name test_name. */
const char *test_file(const char *prefix);

static inline uint64_t test_rand(uint64_t *state)
{
	return rand_next(state);
}

/*
 * Returns the seed in TEST_SEED, else a new one, and prints it, so that a failure can be repeated.
 */
static inline uint64_t test_seed(void)
{
	const char *env = getenv("TEST_SEED");
	uint64_t seed = env ? strtoull(env, NULL, 0) : clock_ns() ^ (uint64_t)getpid() << 32;

	printf("TEST_SEED=%" PRIu64 "\n", seed);
	fflush(stdout);
	return seed;
}

/* Functions for AT_END (cases.h). */
static inline void end_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void end_close_fd(int *fd)
{
	close(*fd);
}

static inline void end_file(FILE **f)
{
	fclose(*f);
}

/* Returns memory that is shared with later children, filled with 0. */
static inline void *test_shared(size_t len)
{
	void *m = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(m != MAP_FAILED);
	return m;
}

/* Fills n bytes with the low byte of value. */
static inline void test_fill(void *bytes, size_t n, uint64_t value)
{
	memset(bytes, (int)(value & 255), n);
}

static inline void test_filled(const void *bytes, size_t n, uint64_t value)
{
	const unsigned char *b = (const unsigned char *)bytes;

	for (size_t i = 0; i < n; i++)
		CHECK_EQ(b[i], value & 255);
}

/* Returns 1 if this thread of the process is blocked in the kernel. */
static inline int test_blocked(pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

#endif
