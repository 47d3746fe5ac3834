/* SPDX-License-Identifier: MIT */
/*
 * Counts the completion events that the program reads, for each CQ of this process.
 *
 * When a CQ is destroyed, libibverbs waits until the program has acknowledged as many events as the
 * answer to the command reports. The kernel counts the events that were read. The HCA counts those
 * that it has written, and subtracts the unread ones: a thread may have read an event and not yet
 * returned from read(), so a count of returns may be too low. But the count of written events is
 * unknown if a process was killed while it wrote one. Then the count of returns is used.
 */
#ifndef SOFTHCA_UVERBS_READS_H
#define SOFTHCA_UVERBS_READS_H

#include <stddef.h>
#include <stdint.h>

/* @cq: index of a new CQ. @handle: reported in its events. The caller must hold the mutex. */
void reads_begin(uint32_t cq, uint64_t handle);

/* Must be called when the CQ is destroyed, with the mutex. */
void reads_end(uint32_t cq);

uint32_t reads_count(uint32_t cq);

/* Counts the events in the first @len bytes of @events, which were read from a channel. */
void reads_add(const void *events, size_t len);

/* Must be called in a forked child, which has no CQs. */
void reads_forget(void);

#endif
