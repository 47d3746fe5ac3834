/* SPDX-License-Identifier: MIT */
/*
 * A door is the end of a device file, where its doorbell pages are. While a door is open, the
 * thread beside the program (sched.h) reads the pages. While the door is shut, the file ends before
 * these pages: a store of the program raises SIGBUS, and the handler executes the store, like
 * every store in trap mode.
 *
 *	shut -> the handler executes a store and calls doors_knock() -> the thread opens the door
 *	open -> nothing was rung for a while -> the thread shuts the door, and then checks all
 *	queues once more
 *
 * A door changes the size of the file, not the protection of the program's pages, because the
 * program may unmap a page at any time, and other memory may then have its address.
 *
 * Only the thread reads pages, and only while it is awake. It opens a door after a call of
 * doors_knock() (a knock), and shuts all doors before it sleeps. The door of a legacy context
 * (SOFTHCA_UAR=legacy) stays open: in its file the page of the clock is after the doorbell pages,
 * so the file cannot be made shorter.
 */
#ifndef SOFTHCA_SCHED_DOORS_H
#define SOFTHCA_SCHED_DOORS_H

#include <stdbool.h>
#include <stdint.h>

#define DOORS 1024u
#define DOOR_NONE UINT32_MAX

/*
 * Makes door @i of a new device file of @size bytes, whose doorbell pages begin at @start. The file
 * must be mapped where the thread reads it. The door stays open if this process has no free
 * descriptor.
 */
void doors_add(uint32_t i, int fd, uint64_t start, uint64_t size);

/* Opens door @i, which stays open from then on. */
void doors_fix(uint32_t i);

/* To be called when the device file is closed. */
void doors_remove(uint32_t i);

/*
 * To be called after a store has trapped: wakes the thread, which then opens the door. Signal safe.
 */
void doors_knock(uint32_t i);

/*
 * Opens the door at once, for a store that the handler cannot execute. Returns false if that fails
 * because the program has closed the door's descriptor. Signal safe.
 */
bool doors_open_now(uint32_t i);

/* Returns true if there were knocks that the thread has not taken. */
bool doors_knocked(void);

/*
 * Takes the knocks and, if @opens is true, opens their doors. Returns true if any door is open; the
 * thread must shut it before it sleeps. This function and the next three are for the thread.
 */
bool doors_take_knocks(bool opens);

/*
 * Shuts all doors. After that, each doorbell that did not trap is in the doorbell record of its
 * queue. Returns false if a door cannot be shut.
 */
bool doors_shut(void);

/* Returns true if a door stays open, so that the thread must not sleep. */
bool doors_stay_open(void);

/* Returns true if the thread may read the pages of door @i. */
bool doors_is_open(uint32_t i);

/* Must be called in a forked child. Closes the inherited descriptors. */
void doors_forget(void);

#endif
