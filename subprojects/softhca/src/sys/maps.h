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
	dev_t dev;
	ino_t ino;
};

/*
 * Calls @each for each mapping in the order of addresses until it returns a value other
 * than 0. Returns the last value, or -errno if the mappings cannot be read. Not safe in
 * signal handlers.
 */
int maps_each(int (*each)(const struct mapping *m, void *arg), void *arg);

#endif
