/* SPDX-License-Identifier: MIT */
#include "base/underhca.h"

#include <errno.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SELF_MAX 4096
#define RUNNER "softhca-run"
#define SHM_LEAST (1u << 20) /* bytes: enough for the software HCA and two small programs */
#define MARK "WORKSPACE_UNDER_SOFTHCA" /* set for the second execution */

bool underhca_is_software(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "libsofthca");
}

/* Finds the runner in the directory of this program, at @built relative to it, or in PATH. */
static void find_runner(const char *self, const char *built, char *path, size_t size)
{
	const char *const places[] = {RUNNER, built};
	char dir[SELF_MAX];

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(dir, sizeof(dir), "%s", self);
		if (!places[i][0])
			continue;
		snprintf(path, size, "%s/%s", dirname(dir), places[i]);
		if (!access(path, X_OK))
			return;
	}
	snprintf(path, size, "%s", RUNNER); /* execvp() searches PATH for it */
}

/*
 * The software HCA allocates its memory page by page. Access to a page for which /dev/shm has no
 * room would be a bus error.
 */
static int check_room(char *why, int size)
{
	struct statvfs fs;

	if (statvfs("/dev/shm", &fs) || (uint64_t)fs.f_bavail * fs.f_frsize >= SHM_LEAST)
		return 0;
	snprintf(why, (size_t)size,
		"the software HCA needs 1 MiB of /dev/shm: remove files there, or give it a "
		"larger size");
	return -ENOSPC;
}

int underhca_again(char **argv, const char *built, char *why, int size)
{
	char self[SELF_MAX], runner[2 * SELF_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	size_t argc = 0;
	char **args;
	int err;

	if (len < 0) {
		err = -errno;
		snprintf(why, (size_t)size, "/proc/self/exe: %s", strerror(-err));
		return err;
	}
	self[len] = 0;
	if (getenv(MARK)) {
		snprintf(why, (size_t)size, "the software HCA shows no device");
		return -ENODEV;
	}
	if (check_room(why, size))
		return -ENOSPC;
	find_runner(self, built, runner, sizeof(runner));
	while (argv[argc])
		argc++;
	args = calloc(argc + 2, sizeof(char *));
	if (!args) {
		snprintf(why, (size_t)size, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	args[0] = runner;
	args[1] = self;
	for (size_t i = 1; i < argc; i++)
		args[i + 1] = argv[i];
	setenv(MARK, "1", 1);
	execvp(runner, args);
	err = -errno;
	unsetenv(MARK);
	free((void *)args);
	snprintf(why, (size_t)size,
		"no mlx5 device, and the software HCA (" RUNNER ") is neither beside this "
		"program nor in PATH: build or install it");
	return err;
}
