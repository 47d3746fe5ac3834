/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits for the end of the processes at the other end of this one's connections, and
 * then destroys their objects, which is the cause of events. There is none before the first
 * connection. The fabric's mutex is held in both calls.
 */
#ifndef SOFTHCA_UCMA_WATCH_H
#define SOFTHCA_UCMA_WATCH_H

#include <stdint.h>

/*
 * From now on the end of the process of slot @slot is noticed; if it has ended already, its objects
 * are destroyed now. NO_SLOT and the own slot are ignored. On a kernel without pidfds (before
 * 5.3) nobody waits.
 */
void watch(uint32_t slot);

/* In a forked child, which has no such thread. The mutex is not held. */
void watch_forget(void);

#endif
