/* SPDX-License-Identifier: MIT */
#include "boot.h"

#include <stdio.h>
#include <string.h>

void boot_id(char id_p[BOOT_LEN])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!f || fscanf(f, "%39s", id_p) != 1)
		strcpy(id_p, "unknown");
	if (f)
		fclose(f);
}
