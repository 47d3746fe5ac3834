/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "run/preload.h"

#define LIBRARY "libsofthca.so.0"
#define ROOM (PATH_MAX + 256)

/*
 * Gets the directory of this program, without symbolic links. Returns false if /proc cannot be
 * read.
 */
static bool own_directory(char dir[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", dir, PATH_MAX - 1);
	char *slash;

	if (n <= 0)
		return false;
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return true;
}

/*
 * Finds the installed library. This program is in <prefix>/SOFTHCA_BINDIR, and the library is below
 * the same prefix.
 */
static bool find_installed(const char *dir, char path[ROOM])
{
	size_t n = strlen(dir), bin = strlen(SOFTHCA_BINDIR);

	if (SOFTHCA_LIBDIR[0] == '/')
		snprintf(path, ROOM, "%s/" LIBRARY, SOFTHCA_LIBDIR);
	else if (n > bin && dir[n - bin - 1] == '/' && !strcmp(dir + n - bin, SOFTHCA_BINDIR))
		snprintf(path, ROOM, "%.*s/%s/" LIBRARY, (int)(n - bin - 1), dir, SOFTHCA_LIBDIR);
	else
		return false;
	return !access(path, R_OK);
}

/*
 * Finds the library in the build directory, where this program is in src/run/ and the library in
 * src/.
 */
static bool find_built(const char *dir, char path[ROOM])
{
	const char *slash = strrchr(dir, '/');

	if (!slash)
		return false;
	snprintf(path, ROOM, "%.*s/" LIBRARY, (int)(slash - dir), dir);
	return !access(path, R_OK);
}

/*
 * LD_PRELOAD is a list, which is split at colons and blanks. A library whose path contains a colon
 * or blank is preloaded through a link in the fabric's directory, whose path contains none. The
 * link is removed with the fabric.
 */
static int avoid_separators(char path[ROOM], char *err, size_t errlen)
{
	char link[ROOM], there[ROOM];
	ssize_t n;

	if (!strpbrk(path, ": \t\n"))
		return 0;
	snprintf(link, sizeof(link), "%s/" LIBRARY, fabric_self.dir);
	if (symlink(path, link) && errno != EEXIST) {
		snprintf(err, errlen, "%s: %s", link, strerror(errno));
		return -errno;
	}
	n = readlink(link, there, sizeof(there));
	if (n != (ssize_t)strlen(path) || memcmp(there, path, (size_t)n) != 0) {
		snprintf(err, errlen,
			"%s: LD_PRELOAD cannot contain this path, and the fabric has a link to "
			"another library: give --fabric another name",
			path);
		return -EINVAL;
	}
	strcpy(path, link);
	return 0;
}

int preload_softhca(char *err, size_t errlen)
{
	const char *before = getenv("LD_PRELOAD");
	char dir[PATH_MAX], path[ROOM], *value;
	int r;

	if (before && strstr(before, "libsofthca"))
		return 0; /* preloaded already, by another softhca-run or by the user */
	if (!own_directory(dir) || (!find_installed(dir, path) && !find_built(dir, path))) {
		snprintf(err, errlen,
			LIBRARY " is not beside this program: install softhca, or "
				"run the softhca-run of its build directory");
		return -ENOENT;
	}
	r = avoid_separators(path, err, errlen);
	if (r)
		return r;
	if (asprintf(&value, "%s%s%s", before ? before : "", before && *before ? ":" : "", path) <
		0) {
		snprintf(err, errlen, "LD_PRELOAD: %s", strerror(ENOMEM));
		return -ENOMEM;
	}
	setenv("LD_PRELOAD", value, 1);
	free(value);
	return 0;
}
