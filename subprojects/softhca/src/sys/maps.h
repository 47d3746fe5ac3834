/* SPDX-License-Identifier: MIT */
/* The mappings of this process, as /proc/self/maps shows them. */
#ifndef SOFTHCA_SYS_MAPS_H
#define SOFTHCA_SYS_MAPS_H

#include <stdint.h>
#include <sys/types.h>

struct mapping {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	int prot; /* PROT_* */
	int shared; /* not 0: mapped with MAP_SHARED */
	dev_t dev;
	ino_t ino;
};

typedef int maps_fn(const struct mapping *m, void *arg);

/*
 * Calls @each for each mapping that ends after @from, in the order of addresses, until it
 * returns a value other than 0. Returns the last value that @each has returned, or -errno if the
 * mappings cannot be read. Not safe in signal handlers.
 */
int maps_each(uint64_t from, maps_fn *each, void *arg);

/*
 * Does the same as maps_each(0, ...), but need not call @each for mappings that are private,
 * without a file or not writable. Most mappings of a large program are such mappings, and the
 * kernel skips one in a small part of the time that it takes to return one.
 */
int maps_each_shared(maps_fn *each, void *arg);

/* Does the same as maps_each() by reading /proc/self/maps, for kernels before 6.11. */
int maps_each_line(uint64_t from, maps_fn *each, void *arg);

#endif
