/* SPDX-License-Identifier: MIT */
/*
 * A test program is a file of cases. A failed CHECK prints the place and the values, and ends the
 * program with status 1.
 *
 *	TEST(adds)
 *	{
 *		CHECK_EQ(1 + 1, 2);
 *	}
 *
 * The cases of the program run in the order of the file, those of the headers that it includes at
 * their place. With arguments, only cases whose names contain one of them are run. A program that
 * has to prepare something has a main() of its own, which calls test_main().
 */
#ifndef SUPPORT_TEST_H
#define SUPPORT_TEST_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/rand.h"

struct test {
	const char *name;
	void (*fn)(void);
	int place; /* in the translation unit */
	struct test *next;
};

/* A name that no other process uses. A forked child has its parent's. */
extern char test_name[64];

/* Returns the path of the shared memory with this prefix and that name. */
const char *test_file(const char *prefix);

void test_add(struct test *t);
int test_main(int argc, char **argv);

/* Defines a case. */
#define TEST(f)                                                                                    \
	static void f(void);                                                                       \
	static struct test test_of_##f = {.name = #f, .fn = f, .place = __COUNTER__};              \
	static __attribute__((constructor)) void test_add_##f(void)                                \
	{                                                                                          \
		test_add(&test_of_##f);                                                            \
	}                                                                                          \
	static void f(void)

/* A case that calls f with these arguments. A semicolon follows it. */
#define TEST_WITH(n, f, ...)                                                                       \
	TEST(n)                                                                                    \
	{                                                                                          \
		f(__VA_ARGS__);                                                                    \
	}                                                                                          \
	struct test

#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (unlikely(!(cond))) {                                                           \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (unlikely(a_ != b_)) {                                                          \
			fprintf(stderr, "%s:%d: %s: %s = %lld, not %s = %lld\n", __FILE__,         \
				__LINE__, __func__, #a, a_, #b, b_);                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

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
