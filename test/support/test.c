/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

char test_name[64];
static struct test *tests; /* in the order of their places */

static __attribute__((constructor)) void name_process(void)
{
	snprintf(test_name, sizeof(test_name), "%s.%d", program_invocation_short_name,
		(int)getpid());
}

const char *test_file(const char *prefix)
{
	static char path[128];

	snprintf(path, sizeof(path), "/dev/shm/%s.%s", prefix, test_name);
	return path;
}

void test_add(struct test *t)
{
	struct test **at = &tests;

	while (*at && (*at)->place < t->place)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
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
		alarm(300); /* guard against hanging */
		t->fn();
		run++;
	}
	if (!run) {
		fprintf(stderr, "no test has a name that contains one of these texts\n");
		return 2;
	}
	printf("%zu passed, 0 failed\n", run);
	return 0;
}

/* A program with a main() of its own has that one. */
__attribute__((weak)) int main(int argc, char **argv)
{
	return test_main(argc, argv);
}
