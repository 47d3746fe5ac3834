/* SPDX-License-Identifier: MIT */
/*
 * Each lane has counts of its own: the part of the messages of its threads in the counters of their
 * process and of all ports. A thread that executes a message adds to those of its lane, which no
 * other thread uses then. Completions and receives of the responder's process are counted in the CQ
 * and in the receive queue, whose latches the thread has. The caller of the functions in tally.c must
 * hold the mutex.
 */
#ifndef SOFTHCA_FABRIC_TALLY_H
#define SOFTHCA_FABRIC_TALLY_H

#include "fabric/fabric.h"

/* The counts of this thread, which holds the mutex or its lane. */
static inline struct tally *tally(void)
{
	return fabric_thread.tally;
}

/* Gets the counters of the process of @slot, or of the port of @rail, with all their parts. */
void tally_process(uint32_t slot, struct softhca_counters *out);
void tally_port(uint32_t rail, struct port_counts *out);

#endif
