/* SPDX-License-Identifier: MIT */
#include "sys/quota.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

#define TEXT 4096
#define MILLI 1000u

static bool read_below(const char *dir, const char *name, char text[TEXT])
{
	char path[PATH_MAX + 64];

	return snprintf(path, sizeof(path), "%s/%s", dir, name) < (int)sizeof(path) &&
	       sys_read_text(path, text, TEXT);
}

/*
 * Returns the share of @time in @period in 1/1000 of a core. Rounds up, because 0 means "no limit".
 */
static uint32_t share(long long time, long long period)
{
	unsigned long long milli;

	if (time <= 0 || period <= 0 || time > LLONG_MAX / MILLI)
		return 0;
	milli = ((unsigned long long)time * MILLI + (unsigned long long)period - 1) /
		(unsigned long long)period;
	return milli > UINT32_MAX ? 0 : (uint32_t)milli;
}

/*
 * Reads the limit of a cgroup of version 2: one file has both numbers; without a limit, the first
 * is "max".
 */
static uint32_t limit_v2(const char *dir)
{
	char text[TEXT], *end;
	long long time;

	if (!read_below(dir, "cpu.max", text) || text[0] == 'm')
		return 0;
	time = strtoll(text, &end, 10);
	return share(time, strtoll(end, NULL, 10));
}

/*
 * Reads the limit of a cgroup of version 1: each number has a file; without a limit, the time is
 * -1.
 */
static uint32_t limit_v1(const char *dir)
{
	char time[TEXT], period[TEXT];

	if (!read_below(dir, "cpu.cfs_quota_us", time) ||
		!read_below(dir, "cpu.cfs_period_us", period))
		return 0;
	return share(atoll(time), atoll(period));
}

/* Returns the smallest limit of the cgroup @path below @root and of the cgroups above it. */
static uint32_t smallest(const char *root, const char *path, uint32_t (*limit)(const char *dir))
{
	char dir[PATH_MAX];
	uint32_t least = 0, n;
	size_t top = strlen(root);

	if (snprintf(dir, sizeof(dir), "%s%s", root, path) >= (int)sizeof(dir))
		return 0;
	for (;;) {
		n = limit(dir);
		if (n && (!least || n < least))
			least = n;
		if (strlen(dir) <= top)
			return least;
		*strrchr(dir, '/') = '\0';
	}
}

/* Returns true if the comma-separated @list contains "cpu". */
static bool has_cpu(char *list)
{
	char *rest, *name = strtok_r(list, ",", &rest);

	while (name && strcmp(name, "cpu"))
		name = strtok_r(NULL, ",", &rest);
	return name;
}

/*
 * Returns the limit of the cgroup in a line "number:controllers:path". In version 2 the list of
 * controllers is empty.
 */
static uint32_t limit_of(char *line, const char *root)
{
	char *controllers = strchr(line, ':'), *path, below[PATH_MAX];
	uint32_t n;

	path = controllers ? strchr(++controllers, ':') : NULL;
	if (!path || path[1] != '/')
		return 0;
	*path++ = '\0';
	if (!*controllers) {
		n = smallest(root, path, limit_v2);
		snprintf(below, sizeof(below), "%s/unified", root);
		return n ? n : smallest(below, path, limit_v2);
	}
	snprintf(below, sizeof(below), "%s/%s", root, controllers);
	return has_cpu(controllers) ? smallest(below, path, limit_v1) : 0;
}

uint32_t quota_read(const char *cgroups, const char *root)
{
	char text[TEXT], *rest, *line;
	uint32_t least = 0, n;

	if (!sys_read_text(cgroups, text, TEXT))
		return 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		n = limit_of(line, root);
		if (n && (!least || n < least))
			least = n;
	}
	return least;
}

uint32_t quota_get(void)
{
	return quota_read("/proc/self/cgroup", "/sys/fs/cgroup");
}
