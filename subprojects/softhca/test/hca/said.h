/* SPDX-License-Identifier: MIT */
/* For tests of strict mode: compares the lines that the HCA prints. */
#ifndef SOFTHCA_TEST_SAID_H
#define SOFTHCA_TEST_SAID_H

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"

/*
 * Standard error, to which the HCA prints its lines, goes to a file. Whenever the process ends, the
 * lines that said_verdict() and said_forget() have not removed from the file are written to the true
 * standard error. A case that fails ends the process.
 */
static int said, standard_error;

static inline void said_show(void)
{
	char text[4096];
	ssize_t n = pread(said, text, sizeof(text), 0);

	if (n > 0)
		CHECK_EQ(write(standard_error, text, (size_t)n), n);
}

static inline void said_listen(void)
{
	said = memfd_create("said", MFD_CLOEXEC);
	standard_error = fcntl(2, F_DUPFD_CLOEXEC, 10);
	CHECK(said >= 0 && standard_error >= 0);
	CHECK_EQ(dup2(said, 2), 2);
	CHECK(!atexit(said_show));
}

static inline uint64_t said_violations(void)
{
	return rig_counters().violations;
}

static inline void said_forget(void)
{
	CHECK(!ftruncate(said, 0));
	CHECK_EQ(lseek(said, 0, SEEK_SET), 0);
}

/* Checks that the HCA has printed exactly one line, with @what in it; NULL: no line. */
static inline void said_verdict(const char *what)
{
	static uint64_t before;
	char text[4096] = "";
	ssize_t n = pread(said, text, sizeof(text) - 1, 0);
	CHECK(n >= 0);
	CHECK_EQ(said_violations() - before, what ? 1 : 0);
	CHECK_EQ(n != 0, what != NULL);
	if (what) {
		CHECK(!strncmp(text, "softhca: strict: ", 17));
		CHECK(strchr(text, '\n') == text + n - 1);
		CHECK(strstr(text, what));
	}
	before = said_violations();
	said_forget();
}

#endif
