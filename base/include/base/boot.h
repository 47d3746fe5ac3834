/* SPDX-License-Identifier: MIT */
/* The identity of this host's kernel, which changes with each boot. */
#ifndef BASE_BOOT_H
#define BASE_BOOT_H

#include <stdio.h>
#include <string.h>

#define BOOT_LEN 40

static inline void boot_id(char id_p[BOOT_LEN])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f || fscanf(f, "%39s", id_p) != 1)
		strcpy(id_p, "unknown");
	if (f)
		fclose(f);
}

#endif
