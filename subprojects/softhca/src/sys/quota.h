/* SPDX-License-Identifier: MIT */
#ifndef SOFTHCA_SYS_QUOTA_H
#define SOFTHCA_SYS_QUOTA_H

#include <stdint.h>

/*
 * Returns the CPU time that the cgroup of this process and those above it allow, in 1/1000 of a
 * core; 0: there is no limit, or it is not known. quota_get() reads the files of this process.
 * @cgroups: a file like /proc/self/cgroup. @root: the directory where cgroups are mounted.
 */
uint32_t quota_read(const char *cgroups, const char *root);
uint32_t quota_get(void);

#endif
