/* SPDX-License-Identifier: MIT */
#include "remains.h"

#include <dirent.h>
#include <string.h>

#include "base/compiler.h"
#include "base/shm.h"

/* The prefixes of the layers whose regions a rank makes, and what node.c calls these. */
static const char *const layers[] = {"shmipc", "delegrpc"};
#define OURS "benchkv."

/* A region that has a living server stays, as does one that is being made; see shm.h. */
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
