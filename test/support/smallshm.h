/* SPDX-License-Identifier: MIT */
/* Gives the process a small /dev/shm of its own. */
#ifndef SUPPORT_SMALLSHM_H
#define SUPPORT_SMALLSHM_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#define SMALLSHM_SKIP 77 /* meson's exit status of a skipped test */

/* Needs root. Returns 0, or SMALLSHM_SKIP after it has printed the reason. */
static inline int smallshm_mount(size_t bytes)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%zu,mode=1777", bytes);
	if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0)
		return 0;
	printf("skipped: no /dev/shm of its own: %s\n", strerror(errno));
	return SMALLSHM_SKIP;
}

#endif
