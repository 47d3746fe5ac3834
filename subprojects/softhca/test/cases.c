/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cases.h"

static struct test *tests; /* in the order of their places */

void test_add(struct test *t)
{
	struct test **at = &tests;

	while (*at && (*at)->place < t->place)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
}

uint64_t test_number(int *argc, char **argv, uint64_t otherwise)
{
	uint64_t n;

	if (*argc < 2 || !isdigit(argv[1][0]))
		return otherwise;
	n = strtoull(argv[1], NULL, 0);
	for (int i = 1; i < *argc; i++)
		argv[i] = argv[i + 1];
	--*argc;
	return n;
}

/* Functions that test_end() calls, the last one first; NULL after them. */
static void (*closers[4 + 1])(void);

void test_now(void (*fn)(void))
{
	for (int i = 0; closers[i]; i++) {
		if (closers[i] == fn) {
			memmove(&closers[i], &closers[i + 1], (size_t)(4 - i) * sizeof(closers[0]));
			fn();
			return;
		}
	}
}

void test_finally(void (*fn)(void))
{
	int i = 0;

	test_now(fn);
	while (closers[i])
		i++;
	CHECK(i < 4);
	closers[i] = fn;
}

void test_end(void)
{
	for (int i = 3; i >= 0; i--)
		if (closers[i])
			test_now(closers[i]);
}

static bool wanted(const struct test *t, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strstr(t->name, argv[i]))
			return true;
	return argc < 2;
}

int test_main(int argc, char **argv)
{
	size_t run = 0;

	for (const struct test *t = tests; t; t = t->next) {
		if (!wanted(t, argc, argv))
			continue;
		printf("%s\n", t->name);
		fflush(stdout);
		alarm(7200); /* guard against hanging, after the time limit of any test */
		t->fn();
		test_end();
		run++;
	}
	if (!run) {
		fprintf(stderr, "no test has a name that contains one of these texts\n");
		return 2;
	}
	printf("%zu passed, 0 failed\n", run);
	return 0;
}

/* A program may define another main(), which replaces this one. */
__attribute__((weak)) int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
