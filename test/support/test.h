/* SPDX-License-Identifier: MIT */
/*
 * A test program is a table of named functions. A failed CHECK prints the place and the values,
 * and ends the program with status 1.
 *
 *	static void adds(void) { CHECK_EQ(1 + 1, 2); }
 *	int main(int argc, char **argv)
 *	{
 *		static const struct test tests[] = { TEST(adds) };
 *		return test_main(tests, ARRAY_SIZE(tests), argc, argv);
 *	}
 *
 * With an argument, only tests whose names contain it are run.
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
	void (*with)(const void *arg); /* instead of fn */
	const void *arg;
};

#define TEST(f) ((struct test){.name = #f, .fn = f})

/* A test that calls f(arg), for tests that differ only in numbers. If the argument points to a
 * compound literal, the table must not be static. */
#define TEST_WITH(n, f, ...) ((struct test){.name = #n, .with = f, .arg = __VA_ARGS__})

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

static inline int test_main(const struct test *tests, size_t n, int argc, char **argv)
{
	size_t run = 0;

	alarm(300); /* guard against hanging */
	for (size_t i = 0; i < n; i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			continue;
		printf("%s\n", tests[i].name);
		fflush(stdout);
		if (tests[i].with)
			tests[i].with(tests[i].arg);
		else
			tests[i].fn();
		run++;
	}
	if (!run) {
		fprintf(stderr, "no test has a name that contains this text\n");
		return 2;
	}
	printf("%zu passed, 0 failed\n", run);
	return 0;
}

#endif
