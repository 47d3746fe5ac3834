/* SPDX-License-Identifier: MIT */
/*
 * Windows: memory regions of other processes that this process has mapped too. That is possible if
 * all of the region is one shared mapping of a file (a memfd, a file of /dev/shm) of which the
 * owner has a descriptor. No memory is moved to make a window, and every thread sees the stores of
 * all others, as with an adapter. If the owner makes the file shorter, an access beyond its end
 * fails like an access by a system call.
 *
 * A window is made when a message uses the region for the first time, while this thread holds the
 * mutex. Windows of regions that do not exist any more are closed when another one is made.
 */
#ifndef SOFTHCA_DMA_WINDOW_H
#define SOFTHCA_DMA_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "fabric/arena.h"

/* The part of a file that a region's memory maps. */
struct region_file {
	uint64_t ino; /* 0: the region is not of a file */
	uint64_t offset; /* of the region in the file */
	int32_t fd; /* a descriptor of the region's owner */
};

struct mapping;

/* Describes the memory at @addr, which is in the mapping, for other processes. */
struct region_file window_describe(const struct mapping *m, uint64_t addr);

/*
 * Finds the address here of @len bytes at @addr of region @index, which is of another process.
 * Returns 0; -ENOENT: the bytes must be accessed by system calls; -EAGAIN: the caller must take the
 * mutex instead of its lane, and try again.
 */
int window_find(uint32_t index, uint64_t addr, uint64_t len, uint8_t **at_p);

/* Unmaps all windows. The caller must hold the mutex. */
void window_close_all(void);

/* Must be called in a forked child, which does not inherit the mappings. */
void window_forget(void);

#endif
