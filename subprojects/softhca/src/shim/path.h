/* SPDX-License-Identifier: MIT */
/* Paths of the emulated adapters. */
#ifndef SOFTHCA_SHIM_PATH_H
#define SOFTHCA_SHIM_PATH_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>

#include "topo/topo.h"

/*
 * The path to use instead of @path: a path of the fabric's tree for /sys/class/infiniband*, for
 * which the process joins the fabric; else @path itself. @buf: PATH_MAX bytes.
 */
const char *path_map(const char *path, char *buf);

/* The number of /dev/infiniband/rdma_cm; uverbsN has number N. */
#define PATH_CM SOFTHCA_RAILS_MAX

/* The number of the emulated device @path, else -1. */
int path_device(const char *path);

/* The results of stat() and statx() for device @n. */
void path_device_stat(int n, struct stat *st);
void path_device_statx(int n, struct statx *stx);

#endif
