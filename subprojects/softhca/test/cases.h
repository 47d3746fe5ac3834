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
 * The cases run in the order of the file; the cases of a header run at the place of its #include.
 * With arguments, only cases whose names contain one of them are run. A program that has to prepare
 * something has a main() of its own, which calls test_main().
 */
#ifndef SOFTHCA_TEST_CASES_H
#define SOFTHCA_TEST_CASES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct test {
	const char *name;
	void (*fn)(void);
	int place; /* in the translation unit */
	struct test *next;
};

void test_add(struct test *t);
int test_main(int argc, char **argv);

/*
 * For programs with a seed or a count: takes a number off the front of main()'s arguments. Returns
 * it, or @otherwise if they do not begin with a number.
 */
uint64_t test_number(int *argc, char **argv, uint64_t otherwise);

/*
 * Registers a function that is called at the end of the case; the last registered one is called
 * first. If the function is already registered, it is also called now: the caller is about to open
 * an object again, and the function closes the old one.
 */
void test_finally(void (*fn)(void));
/* If fn is registered, calls it now instead of at the end. */
void test_now(void (*fn)(void));
/* Calls all registered functions now. A child that ends regularly calls this. */
void test_end(void);

/* Attribute of a variable: fn(&variable) is called at the end of the variable's block. */
#define AT_END(fn) __attribute__((cleanup(fn), unused)) /* unused: for clang */

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
		if (__builtin_expect(!(cond), 0)) {                                                \
			fprintf(stderr, "%s:%d: %s: not so: %s\n", __FILE__, __LINE__, __func__,   \
				#cond);                                                            \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                             \
	do {                                                                                       \
		long long a_ = (long long)(a), b_ = (long long)(b);                                \
		if (__builtin_expect(a_ != b_, 0)) {                                               \
			fprintf(stderr, "%s:%d: %s: %s = %lld, not %s = %lld\n", __FILE__,         \
				__LINE__, __func__, #a, a_, #b, b_);                               \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#endif
