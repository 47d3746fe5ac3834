/* SPDX-License-Identifier: MIT */
/* Paths of the emulated adapters. */
#ifndef SOFTHCA_SHIM_PATH_H
#define SOFTHCA_SHIM_PATH_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "topo/topo.h"

/*
 * Returns the path to use instead of @path. For /sys/class/infiniband* and
 * /sys/class/misc/rdma_cm*, the process joins the fabric, and the result is a path in the fabric's
 * directory, or, if that path has PATH_MAX bytes or more, one that the kernel refuses with
 * ENAMETOOLONG. For other paths, and if the process cannot join, it is @path itself. @buf: PATH_MAX
 * bytes.
 */
const char *path_map(const char *path, char *buf);

/*
 * Does the same for a path that is opened, relative to the directory @dir. If it is the file of a
 * port's counter, whatever path leads to it, first writes the current values of the port's
 * counters.
 */
const char *path_open(int dir, const char *path, char *buf);

/* The number of the device /dev/infiniband/rdma_cm in these functions; uverbsN has number N. */
#define PATH_CM SOFTHCA_RAILS_MAX

/* Returns the number of the emulated device @path, or -1. For a device, joins the fabric. */
int path_device(const char *path);

/* Fill in the results of stat() and statx() for device @n. */
void path_device_stat(int n, struct stat *st);
void path_device_statx(int n, struct statx *stx);

#endif
