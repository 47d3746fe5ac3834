/* SPDX-License-Identifier: MIT */
/* Which paths are the emulated adapters'. */
#ifndef SOFTHCA_SHIM_PATH_H
#define SOFTHCA_SHIM_PATH_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

/*
 * The path to use instead of @path: under the fabric's tree for /sys/class/infiniband*,
 * else @path itself. @buf: PATH_MAX bytes. Joins the fabric when it must.
 */
const char *path_map(const char *path, char *buf);

/* N of /dev/infiniband/uverbsN if such a device is emulated, else -1. */
int path_device(const char *path);

/* What stat() and statx() say of device @n. */
void path_device_stat(int n, struct stat *st);
void path_device_statx(int n, struct statx *stx);

#endif
