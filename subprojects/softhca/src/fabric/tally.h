/* SPDX-License-Identifier: MIT */
/*
 * Each lane has counts of its own, for its process and for all ports: they count the messages that
 * the lane's threads execute. The counters of a process or port are sums over lanes. A thread that
 * executes a message adds to the counts of its lane, which no other thread uses at that time.
 * Completions and receives are counted in the CQ and in the receive queue, whose latches the thread
 * holds. The caller of the functions in tally.c must hold the mutex.
 */
#ifndef SOFTHCA_FABRIC_TALLY_H
#define SOFTHCA_FABRIC_TALLY_H

#include "fabric/fabric.h"

/* Returns the counts of this thread's lane. The thread must hold the mutex or the lane. */
static inline struct tally *tally(void)
{
	return fabric_thread.tally;
}

/* Sum up the counters of the process of @slot, or of the port of @rail, over all lanes. */
void tally_process(uint32_t slot, struct softhca_counters *out);
void tally_port(uint32_t rail, struct port_counts *out);

#endif
