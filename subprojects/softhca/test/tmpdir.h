/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_TMPDIR_H
#define SOFTHCA_TEST_TMPDIR_H

/*
 * A directory of the test's own, which is removed when the process that made it ends, even after a
 * failed check.
 */

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static char tmpdir[64] = "/tmp/softhca-test-XXXXXX";
static pid_t tmpdir_owner;

static int tmpdir_remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void tmpdir_remove(void)
{
	if (getpid() == tmpdir_owner)
		nftw(tmpdir, tmpdir_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Makes the directory if it does not exist yet. */
static inline void tmpdir_make(void)
{
	if (tmpdir_owner)
		return;
	CHECK(mkdtemp(tmpdir));
	tmpdir_owner = getpid();
	atexit(tmpdir_remove);
}

/* Makes the directory, and writes the topology of the test's fabric into a file in it. */
static inline void __attribute__((format(printf, 1, 2))) tmpdir_topology(const char *format, ...)
{
	char path[128];
	va_list args;
	FILE *f;

	tmpdir_make();
	snprintf(path, sizeof(path), "%s/topology", tmpdir);
	f = fopen(path, "w");
	va_start(args, format);
	CHECK(f && vfprintf(f, format, args) >= 0 && !fclose(f));
	va_end(args);
	CHECK(!setenv("SOFTHCA_TOPOLOGY", path, 1));
}

/*
 * Returns loopback address @n, 1 to 3, of this program and its children. Programs that run at the
 * same time have other ones. Must be called before the children are made.
 */
static inline const char *loopback(int n)
{
	static char ip[4][16];
	static unsigned pid;

	pid = pid ? pid : (unsigned)getpid();
	snprintf(ip[n], sizeof(ip[n]), "127.%u.%u.%d", 64 + pid / 256 % 64, pid % 256, n);
	return ip[n];
}

#endif
