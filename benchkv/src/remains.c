/* SPDX-License-Identifier: MIT */
#include "remains.h"

#include <dirent.h>
#include <string.h>

#include "base/compiler.h"
#include "base/shm.h"

/* The layers whose regions a rank creates: prefixes of file names, before node_region_name(). */
static const char *const layers[] = {"shmipc", "delegrpc"};
#define OURS "benchkv."

/* Removes a region without a living server, unless it is just being created; see shm.h. */
static void remove_if_stale(const char *layer, const char *file)
{
	size_t n = strlen(layer);

	if (strncmp(file, layer, n) || file[n] != '.' || strncmp(file + n + 1, OURS, strlen(OURS)))
		return;
	shm_remove_remains(layer, file + n + 1, 0);
}

void remains_remove(void)
{
	DIR *dir = opendir("/dev/shm");
	const struct dirent *e;

	if (!dir)
		return;
	while ((e = readdir(dir))) {
		for (size_t i = 0; i < ARRAY_SIZE(layers); i++)
			remove_if_stale(layers[i], e->d_name);
	}
	closedir(dir);
}
