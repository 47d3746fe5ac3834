/* SPDX-License-Identifier: MIT */
/* The identity of this host's kernel, which changes with each boot. */
#ifndef TENT_BOOT_H
#define TENT_BOOT_H

#define BOOT_LEN 40

void boot_id(char id_p[BOOT_LEN]);

#endif
