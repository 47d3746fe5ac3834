/* SPDX-License-Identifier: MIT */
/*
 * Receives the packets of a fabric. Each member with a QP on the wire (xport/wired.h) has a thread
 * that waits for a lock on byte PUMP_BYTE of the fabric's lock file. The holder of the lock has the
 * sockets of UDP port 4791, executes packets for the QPs of all members, and serves the timers of
 * these QPs. When the holder dies, the kernel grants the lock to the next thread that waits. While
 * the holder is stopped, nobody receives, because it keeps the lock.
 */
#ifndef SOFTHCA_PUMP_PUMP_H
#define SOFTHCA_PUMP_PUMP_H

/*
 * Starts this process's thread, unless it runs already. When the function returns, this process or
 * another one receives packets. Returns 0 or -errno. The caller must not hold the mutex (see
 * sys/thread.h).
 */
int pump_start(void);

/*
 * Closes the sockets and releases the lock when the process is about to leave the fabric. The
 * process may exist for some time after that, and another member or fabric needs the port.
 */
void pump_stop(void);

/* Must be called in a child after fork(), because thread and sockets belong to the parent. */
void pump_forget(void);

#endif
