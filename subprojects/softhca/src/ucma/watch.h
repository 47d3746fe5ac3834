/* SPDX-License-Identifier: MIT */
/*
 * A thread that waits until a process at the other end of a connection ends, and then destroys that
 * process's objects, which causes events here. The thread starts with the first connection. The
 * caller must not hold the fabric's mutex.
 */
#ifndef SOFTHCA_UCMA_WATCH_H
#define SOFTHCA_UCMA_WATCH_H

#include <stdint.h>

/*
 * Watches the process of slot @slot; if it has ended already, destroys its objects now. NO_SLOT and
 * this process's slot are ignored. On a kernel without pidfds (before 5.3) no process is watched.
 */
void watch(uint32_t slot);

/* Must be called in a forked child, which has no such thread. */
void watch_forget(void);

#endif
