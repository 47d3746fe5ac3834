/* SPDX-License-Identifier: MIT */
/*
 * Receives the packets of a fabric. Each member with a QP on the wire has a thread that waits for
 * the byte PUMP_BYTE of the fabric's lock file. Its holder has the sockets of port 4791, executes
 * what arrives for QPs of all members, and serves their timers. When it dies, the kernel gives
 * the lock to the next one.
 */
#ifndef SOFTHCA_PUMP_PUMP_H
#define SOFTHCA_PUMP_PUMP_H

/*
 * Starts this process's thread, unless it runs already. When it returns, packets are received, by
 * this process or another one. The caller must hold the mutex.
 */
int pump_start(void);

/* In a child after fork(): thread and sockets are the parent's. */
void pump_forget(void);

#endif
