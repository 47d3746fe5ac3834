/* SPDX-License-Identifier: MIT */
/* Names and paths of fabrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/fabric.h"
#include "fabric/lockfile.h"

void fabric_fifo_path(uint64_t id, char *path, size_t size)
{
	snprintf(path, size, "%s/fifo/%llu", fabric_self.dir, (unsigned long long)id);
}

static bool in_a_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("._-", c));
}

bool fabric_name_ok(const char *name)
{
	size_t n = 0;

	while (in_a_name(name[n]))
		n++;
	return n && n <= FABRIC_NAME_MAX && !name[n];
}

/*
 * Characters of a job's name that are not valid in a fabric's name are replaced; those after the
 * first FABRIC_NAME_MAX are omitted.
 */
void fabric_name(char clean[FABRIC_NAME_MAX + 1])
{
	const char *name = getenv("SOFTHCA_FABRIC");
	size_t i;

	if (!name || !*name)
		name = getenv("PMIX_NAMESPACE");
	if (!name || !*name)
		name = "default";
	for (i = 0; name[i] && i < FABRIC_NAME_MAX; i++)
		clean[i] = in_a_name(name[i]) ? name[i] : '_';
	clean[i] = '\0';
}

void fabric_dir(char *dir, size_t size)
{
	char clean[FABRIC_NAME_MAX + 1];

	fabric_name(clean);
	snprintf(dir, size, "/dev/shm/softhca-%u-%s", (unsigned)geteuid(), clean);
}
