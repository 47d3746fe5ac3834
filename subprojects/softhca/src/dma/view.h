/* SPDX-License-Identifier: MIT */
/*
 * Views: this process's mappings of the pools (dma/pool.h) of other processes. A page that is
 * mapped here stays valid when its owner ends.
 *
 * Views change only while the mutex is held, so that no thread that holds a lane is using one.
 */
#ifndef SOFTHCA_DMA_VIEW_H
#define SOFTHCA_DMA_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/pool.h"
#include "fabric/fabric.h"

struct view {
	uint8_t *at;
	uint64_t size;
	uint32_t life; /* `life` of the slot when mapping the pool was last tried; 0: never */
	uint32_t refused; /* number of pages that the pool had when mapping it failed, plus 1 */
};

extern struct view views[MAX_PROCS + 1];

/*
 * Maps the pages that the pool of the process in @slot has now, and unmaps the pools of processes
 * that have ended. If the pool cannot be mapped, its memory is accessed by system calls. The caller
 * must hold the mutex.
 */
void view_open(uint32_t slot);

/* Unmaps all views. The caller must hold the mutex. */
void view_close_all(void);

/*
 * For view_find(): opens the view if this thread holds the mutex. Returns the same as
 * view_mapped().
 */
uint8_t *view_late(uint32_t slot, uint64_t offset, size_t len) __attribute__((cold));

/* Returns the address here of @len bytes at @offset of the pool, or NULL if they are not mapped. */
static inline uint8_t *view_mapped(uint32_t slot, uint64_t offset, size_t len)
{
	const struct view *v = &views[slot];

	/* The offset comes from the arena, so it may have any value. */
	if (v->life != arena()->procs[slot].life || offset > v->size || len > v->size - offset)
		return NULL;
	return v->at + offset;
}

/*
 * Returns the address here of @len bytes at @offset of the pool of the process of @slot, or NULL.
 * The caller must hold the mutex or a lane.
 */
static inline uint8_t *view_find(uint32_t slot, uint64_t offset, size_t len)
{
	uint8_t *p = view_mapped(slot, offset, len);

	return p ? p : view_late(slot, offset, len);
}

/*
 * The next functions are also used for other files. Opens the file to which the descriptor
 * @fd of the process @pid refers. Returns a descriptor of this process, or -errno.
 */
int view_open_file(int32_t pid, int32_t fd);

/* Returns true if the file has this inode number, and at least @size bytes. */
bool view_is_file(int fd, uint64_t ino, uint64_t size);

/* Maps a part of a file. Returns NULL if that is not possible. */
uint8_t *view_map(int fd, uint64_t offset, uint64_t size);

/* Must be called in a forked child, which does not inherit the mappings. */
void view_forget(void);

#endif
