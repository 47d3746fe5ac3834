/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_TEST_TMPDIR_H
#define SOFTHCA_TEST_TMPDIR_H

/* A directory of the test's own, which is removed when the test ends, even after a failed check. */

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

static char tmpdir[64] = "/tmp/softhca-test-XXXXXX";

static int tmpdir_remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void tmpdir_remove(void)
{
	nftw(tmpdir, tmpdir_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline void tmpdir_make(void)
{
	CHECK(mkdtemp(tmpdir));
	atexit(tmpdir_remove);
}

/* Writes the topology of the test's fabric into a file of that directory. */
static inline void tmpdir_topology(const char *text)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/topology", tmpdir);
	f = fopen(path, "w");
	CHECK(f && fputs(text, f) >= 0 && !fclose(f));
	CHECK(!setenv("SOFTHCA_TOPOLOGY", path, 1));
}

#endif
