/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <unistd.h>

#include "support/test.h"

#include "../../subprojects/softhca/test/cases.c"

char test_name[64];

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
